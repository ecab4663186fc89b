"""The command line, `python -m spacy_sapbert`: a file for each group of commands."""

from . import kb, index, fit, link, annotate, review, serve, cache  # noqa: I001  (the order of the commands in --help)
from .app import app
from .inputs import read_notes
from .kb import kb_info
from .link import lookup

__all__ = ["annotate", "app", "cache", "fit", "index", "kb", "kb_info", "link", "lookup", "read_notes", "review", "serve"]
