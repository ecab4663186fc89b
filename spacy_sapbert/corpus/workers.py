"""Who annotates partitions. An engine: (settings, out, partitions, workers, …) -> outcomes, as they come."""

TRIES = 3  # of a partition whose worker dies
