"""The ranker: order the concepts that a search found by more features than the nearest name."""
