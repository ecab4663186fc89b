"""Review of links by people: a store of notes, proposed links and decisions, and the reports and exports from it. Nothing is linked here."""
