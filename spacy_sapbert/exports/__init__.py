"""Write linked notes in the formats of other tools and standards, one module for each format. Nothing is linked here."""
