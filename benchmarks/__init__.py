"""Measure the figures of the documentation: `python -m benchmarks [linking|throughput|load|kb|umls|engines|encoders|size|status|gold|all] --data FOLDER`.

Each comparison is measured in one run on one machine. Its protocol is printed with it, and everything is also written to
`metrics/benchmarks.json`. Linkers and indexes that are built for it are kept in `artifacts/benchmarks/` and used again.
"""
