"""The knowledge base: concepts, their names, the files that hold them, and the additions of a user."""
