"""Check the uri of a server, and whether a folder may lead to it, and find the certificates for the connection."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from ...errors import MissingFile, fail

SERVERS = ("http://", "https://", "tcp://", "unix:")
HERE = ("localhost", "127.0.0.1", "::1")
TRUSTED = "MILVUS_URI"  # environment variable with the uri of a server that a folder may lead to
# environment variables with PEM files: of the authority that signed the server's certificate, of the client's own certificate, and of its key
AUTHORITY, CERTIFICATE, KEY = "MILVUS_CA_FILE", "MILVUS_CLIENT_CERTIFICATE", "MILVUS_CLIENT_KEY"
SERVER_NAME = "MILVUS_SERVER_NAME"  # environment variable with the name in the server's certificate, if it differs from the uri


def check_uri(uri: str) -> None:
    """Refuse a text that is not a uri of Milvus, and a uri with a password.

    Raises:
        SapbertError: E002, the uri is refused.
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
    """Refuse a server on another machine, if only the folder names it and the user does not.

    Args:
        path: the folder, for the message.
        uri: the uri in the folder.

    Raises:
        SapbertError: E237, the server is refused.
    """
    host = urlsplit(uri).hostname or ""
    if not uri.startswith("unix:") and host not in HERE and os.environ.get(TRUSTED) != uri:
        raise fail("E237", path=path, uri=uri, env=TRUSTED)


def tls_options(uri: str) -> dict[str, str]:
    """Return the certificates for the connection to a server, as options of pymilvus. A server at http:// needs none.

    Returns:
        The options; {} if the system's own authorities are used.

    Raises:
        SapbertError: E002, a certificate has no key or no authority, or a key has no certificate; E401, a file is missing.
    """
    if not uri.startswith("https://"):
        return {}
    given = {name: os.environ.get(name, "") for name in (AUTHORITY, CERTIFICATE, KEY)}
    for path in filter(None, given.values()):
        if not Path(path).is_file():
            raise fail("E401", MissingFile, path=path)
    if bool(given[CERTIFICATE]) != bool(given[KEY]) or (given[KEY] and not given[AUTHORITY]):
        missing = ", ".join(name for name, path in given.items() if not path)
        why = f"a certificate of the client needs its key and the authority of the server's certificate: name them in {missing}, too."
        raise fail("E002", setting=next(name for name in (CERTIFICATE, KEY) if given[name]), component="MilvusIndex", value="…", why=why)
    if given[KEY]:
        options = {"ca_pem_path": given[AUTHORITY], "client_pem_path": given[CERTIFICATE], "client_key_path": given[KEY]}
    else:
        options = {"server_pem_path": given[AUTHORITY]} if given[AUTHORITY] else {}
    name = os.environ.get(SERVER_NAME, "")
    return {**options, "server_name": name} if name else options
