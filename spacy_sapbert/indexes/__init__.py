"""Vector indexes. Each engine has one file and at most one optional library. setup.py registers them under `sapbert_indexes`."""
