"""The settings of the service: its address, its API key, what a request may change, and its limits."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import fail, warn

KEY_VARIABLE = "SPACY_SAPBERT_API_KEY"
# settings of `sapbert_linker` that a request may change
CHANGEABLE = ("threshold", "new_words", "max_entities_per_mention", "target_precision", "coverage", "types", "vocabularies", "languages")
MAX_PORT = 65535


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """The settings of the service. They are checked when an object is created.

    Args:
        host: address to listen on. With 127.0.0.1 only this machine can reach the service.
        port: port to listen on; 0: any free port.
        api_key: key that a request must send as `Authorization: Bearer KEY` or `X-API-Key: KEY`; "": no key is required.
        allow: settings of the linker that a request may change, out of `CHANGEABLE`.
        cors_origins: origins whose pages may call the service, such as https://notes.example.org; empty: CORS is off.
        max_body_bytes: maximum number of bytes in the body of a request.
        max_texts: maximum number of texts or mentions in one request.
        max_characters: maximum number of characters in one text.
        max_queue: maximum number of texts that wait; when the queue is full, a request is refused with status 429.
        batch_size: maximum number of texts that are linked in one batch; they may come from several requests.
        timeout: maximum duration of a request in seconds, including its time in the queue.
        athena: folder with Athena's files, for the concept ids of `/link?format=omop`; None: they are 0.
        review: file of a review, for the review page at `/` and the routes below `/review`; None: the service has no review.

    Raises:
        SapbertError: E002, a setting has a wrong value.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    api_key: str = ""
    allow: Sequence[str] = CHANGEABLE
    cors_origins: Sequence[str] = ()
    max_body_bytes: int = 8_000_000
    max_texts: int = 100
    max_characters: int = 1_000_000
    max_queue: int = 256
    batch_size: int = 16
    timeout: float = 60.0
    athena: Path | None = None
    review: Path | None = None

    def __post_init__(self) -> None:
        def require(setting: str, condition: bool, why: str) -> None:
            if not condition:
                raise fail("E002", setting=setting, component="serve", value=getattr(self, setting), why=why)

        require("port", 0 <= self.port <= MAX_PORT, f"it must be from 0 to {MAX_PORT}.")
        for setting in ("max_body_bytes", "max_texts", "max_characters", "max_queue", "batch_size"):
            require(setting, getattr(self, setting) >= 1, "it must be at least 1.")
        require("timeout", self.timeout > 0, "it must be more than 0 seconds.")
        require("max_queue", self.max_queue >= self.max_texts, f"a request of max_texts={self.max_texts} texts would always be refused.")
        unknown = sorted(set(self.allow) - set(CHANGEABLE))
        require("allow", not unknown, f"a request can change {', '.join(CHANGEABLE)}.")

    @property
    def local(self) -> bool:
        """True if only this machine can reach the service."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def check_reach(self) -> None:
        """Warn with W020 if other machines can reach the service and it requires no API key.

        Raises:
            SapbertError: E086, the same, for a service with a review: other machines could read its notes.
        """
        if not self.local and not self.api_key and self.review is not None:
            raise fail("E086", host=self.host, env=KEY_VARIABLE)
        if not self.local and not self.api_key:
            warn("W020", host=self.host, env=KEY_VARIABLE)


def key_of_environment() -> str:
    """Return the API key from the environment variable `KEY_VARIABLE`, "" if it is not set."""
    return os.environ.get(KEY_VARIABLE, "").strip()
