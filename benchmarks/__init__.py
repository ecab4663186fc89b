"""Measure the figures of the documentation: `python -m benchmarks SECTION --data FOLDER`. `--help` lists the sections.

Each comparison is measured in one run on one machine. Its protocol is printed with it, and all results are also written to
`metrics/benchmarks.json`. The linkers and indexes that it builds are kept in `artifacts/benchmarks/`, and later runs use them again.
"""
