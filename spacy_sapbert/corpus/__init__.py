"""Annotating many notes: what is read, who works, what is written."""
