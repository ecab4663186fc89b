import sys

try:
    from .cli import app
except KeyboardInterrupt:
    sys.exit(130)  # Ctrl-C before anything was begun

app(prog_name="python -m spacy_sapbert")
