"""`concept_matcher`, a component that finds names of the knowledge base in a text."""
