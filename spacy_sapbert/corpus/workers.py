"""Settings of all engines. An engine is a function that takes (settings, out, partitions, workers, …), runs workers, and yields outcomes."""

TRIES = 3  # number of times that a partition is tried if it fails or its worker dies
