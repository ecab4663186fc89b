"""Annotate a corpus of notes: read it, run workers, write Parquet files."""
