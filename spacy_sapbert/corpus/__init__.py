"""Annotate many notes: read a corpus, run workers, write Parquet files."""
