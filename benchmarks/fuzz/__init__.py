"""Fuzzing: give mutated files to every reader and to everything that opens a saved artefact. `python -m benchmarks fuzz`."""

from .command import run as run
