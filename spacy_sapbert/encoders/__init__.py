"""Names to vectors: one kind of encoder, one file."""
