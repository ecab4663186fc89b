"""What all engines that run workers share. An engine takes (settings, out, partitions, workers, …) and yields outcomes as they come."""

TRIES = 3  # times that a partition is tried when its worker dies
