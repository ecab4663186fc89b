"""The knowledge base: concepts, their names, the files that hold them, and what a user adds."""
