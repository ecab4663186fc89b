"""Review of links by people: a store of notes, proposals and decisions, what follows from them, and what comes out. It makes no links."""
