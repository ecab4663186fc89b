"""`python -m training COMMAND`."""

import os
import sys

from spacy_sapbert.errors import SapbertError

from .devices import choose

if sys.dont_write_bytecode:  # python -B: the processes that a training starts write no bytecode either
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
try:
    choose(sys.argv[1:])  # must come before the import of spaCy or PyTorch
except SapbertError as error:
    sys.exit(str(error))

try:
    from .cli import app
except KeyboardInterrupt:
    sys.exit(130)  # Ctrl-C before anything was begun

app()
