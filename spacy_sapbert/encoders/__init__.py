"""Encoders, which turn names into vectors. Each kind of encoder has one file."""
