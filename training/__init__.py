"""How a model is made: pairs, losses, the training loop, evaluation. In the repository, never in the wheel."""
