"""What prints the figures that README claims: `python -m benchmarks [linking|throughput|load|kb|umls|engines|all] --data FOLDER`.

Every comparison is measured in one run on one machine, with the protocol in words beside the number; all of it also goes to
`metrics/benchmarks.json`. What is built on the way lies in `artifacts/benchmarks/` and is used again.
"""
