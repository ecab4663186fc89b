"""What clinical abbreviations mean: their meanings, contexts of them, and the model that chooses."""
