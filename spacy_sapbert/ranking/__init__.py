"""Which of the concepts that a search found is meant: a learned ranking by more than the nearest name."""
