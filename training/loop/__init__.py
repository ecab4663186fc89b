"""The training loop: batches, losses, mining, the trainer, what is saved."""
