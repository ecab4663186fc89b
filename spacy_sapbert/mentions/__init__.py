"""Find mentions of problems, drugs, tests, treatments and anatomy with a small model that comes with this package."""
