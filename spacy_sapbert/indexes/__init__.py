"""Vector indexes: one engine, one file, one optional import. Registered under `sapbert_indexes` in setup.py."""
