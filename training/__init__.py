"""Train and evaluate models: pairs, losses, the training loop, evaluation. Part of the repository, not of the wheel."""
