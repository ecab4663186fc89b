"""Fuzzing: mutated files go through every reader and through everything that opens a saved artefact. `python -m benchmarks fuzz`."""

from .command import run as run
