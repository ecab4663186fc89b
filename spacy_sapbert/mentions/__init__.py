"""Find mentions of problems, drugs, tests, treatments and anatomy with a small trained model, which is part of this package."""
