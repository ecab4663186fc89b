"""`python -m training COMMAND`."""

import os
import sys

from .cli import app

if sys.dont_write_bytecode:  # python -B: the processes that a training starts write none either
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
app()
