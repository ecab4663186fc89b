"""Which uri names a server, and to which servers a folder may lead."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from ...errors import fail

SERVERS = ("http://", "https://", "tcp://", "unix:")
HERE = ("localhost", "127.0.0.1", "::1")
TRUSTED = "MILVUS_URI"  # the environment variable that names a server to which a folder may lead


def check_uri(uri: str) -> None:
    """Refuse what is no uri of Milvus, and one that holds a password.

    Raises:
        SapbertError: E002.
    """
    why = ""
    if not uri.endswith(".db") and ("@" in uri or "?" in uri or "#" in uri):
        why = "a uri is written to files: put user and password, as 'user:password', into the environment variable that token_env names."
        uri = "…@" + uri.rpartition("@")[2].partition("?")[0].partition("#")[0] if "@" in uri else re.split(r"[?#]", uri)[0] + " …"
    elif uri.startswith(SERVERS):
        pass
    elif uri and not uri.endswith(".db"):
        why = "give http://HOST:19530 or https://… of a server, a local file that ends in '.db', or nothing for a file in the index's folder."
    if why:
        raise fail("E002", setting="uri", component="MilvusIndex", value=uri, why=why)


def check_trusted(path: Path, uri: str) -> None:
    """Refuse a server elsewhere to which only the folder leads, and which the reader did not name.

    Raises:
        SapbertError: E237.
    """
    host = urlsplit(uri).hostname or ""
    if not uri.startswith("unix:") and host not in HERE and os.environ.get(TRUSTED) != uri:
        raise fail("E237", path=path, uri=uri, env=TRUSTED)
