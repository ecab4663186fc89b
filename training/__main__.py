"""`python -m training COMMAND`."""

from .cli import app

app()
