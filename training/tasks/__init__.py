"""The kinds of training, called tasks. Each module defines one task."""
