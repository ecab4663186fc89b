"""Kinds of training: one task, one file."""
