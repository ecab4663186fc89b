"""Benchmarks, systems, metrics, and the significance of the figures."""
