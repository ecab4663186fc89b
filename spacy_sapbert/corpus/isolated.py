"""Run a pipeline over texts so that one that makes a component fail does not take the others with it."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import SapbertError, ServerError
from ..types import Loadable

Texts = Sequence[str | None]


class Isolated:
    """A loaded pipeline whose failures stay with the text that caused them.

    Args:
        nlp: the pipeline. What it needs is loaded here, so that what is missing is no failure of a text.

    Raises:
        SapbertError: something cannot be loaded.
    """

    def __init__(self, nlp: Any) -> None:
        self.nlp = nlp
        self._alone = False  # a text is tried alone; then the error it raises is the reason why it failed
        for _, component in nlp.pipeline:
            if isinstance(component, Loadable):
                component.load()
        nlp.set_error_handler(self._on_error)

    def run(self, texts: Texts, take: Callable[[int, Any], None], shown: Callable[[Iterator[Any]], Iterator[Any]] = iter) -> dict[int, str]:
        """Run the pipeline: all texts together, then those that failed one by one.

        Args:
            texts: the texts; None is left out.
            take: takes the place of a text and its Doc; what it raises is a failure of this text.
            shown: shows the progress of an iterator.

        Returns:
            Why a text failed, without any of its words, by its place.

        Raises:
            ServerError: a server that the pipeline needs does not answer: no text is at fault.
        """
        done = set()
        try:
            for doc, i in shown(self.nlp.pipe(self._docs(texts), as_tuples=True)):
                take(i, doc)
                done.add(i)
        except ServerError:
            raise
        except Exception:  # a component without an error handler raised; the texts that are missing are tried alone below
            pass
        reasons: dict[int, str] = {}
        for i, text in enumerate(texts):
            if text is not None and i not in done:
                self._alone = True
                try:
                    take(i, self.nlp(text))
                except ServerError:
                    raise
                except Exception as error:
                    reasons[i] = describe(error)
                finally:
                    self._alone = False
        return reasons

    def _docs(self, texts: Texts) -> Iterator[tuple[Any, int]]:
        for i, text in enumerate(texts):
            with suppress(Exception):  # the tokenizer has no error handler; the text is tried alone later
                if text is not None:
                    yield self.nlp.make_doc(text), i

    def _on_error(self, name: str, component: Any, docs: list[Any], error: Exception) -> None:
        if self._alone or isinstance(error, ServerError):  # waiting for the server again with each batch would take for ever
            raise error


def describe(error: BaseException) -> str:
    """Return the reason of a failure without any text of the note.

    Messages of other libraries may quote the note, so only their type, spaCy's code and the place in the code are given.
    """
    if isinstance(error, SapbertError):
        return str(error)
    if isinstance(error, OSError) and error.errno:
        return f"{type(error).__name__}: {os.strerror(error.errno)}"
    frames = traceback.extract_tb(error.__traceback__)
    code = re.match(r"\[[EW]\d+\]", str(error))
    place = f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}, {frames[-1].name}" if frames else ""
    return f"{type(error).__name__}{' ' + code[0] if code else ''}{place}"
