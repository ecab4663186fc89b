"""The training loop: batches, losses, mining, the trainer, and saving."""
