"""`concept_matcher`: finds names of the knowledge base in a text."""
