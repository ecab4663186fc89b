"""Run a pipeline over texts so that a text that makes a component fail does not affect the other texts."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import SapbertError, ServerError
from .pipeline import load_components

Texts = Sequence[str | None]


class Isolated:
    """A loaded pipeline in which an error only affects the text that caused it.

    Args:
        nlp: the pipeline. Its components are loaded here, so that a missing file is not taken for the failure of a text.

    Raises:
        SapbertError: something cannot be loaded.
    """

    def __init__(self, nlp: Any) -> None:
        self.nlp = nlp
        self._alone = False  # True while a text is tried alone; then the error handler raises the error, which is the reason of the failure
        load_components(nlp)
        nlp.set_error_handler(self._on_error)

    def run(self, texts: Texts, take: Callable[[int, Any], None], shown: Callable[[Iterator[Any]], Iterator[Any]] = iter) -> dict[int, str]:
        """Run the pipeline over all texts together, then over each failed text alone.

        Args:
            texts: the texts; None is skipped.
            take: called with the index of a text and its Doc. If it raises an error, this text has failed.
            shown: wraps an iterator to show its progress.

        Returns:
            Index of a failed text -> reason, which holds no word of the text.

        Raises:
            ServerError: a server that the pipeline needs does not answer, so no text is at fault.
        """
        done = set()
        try:
            for doc, i in shown(self.nlp.pipe(self._docs(texts), as_tuples=True)):
                take(i, doc)
                done.add(i)
        except ServerError:
            raise
        except Exception:  # a component does not use the error handler; texts without a Doc are tried alone below
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
        if self._alone or isinstance(error, ServerError):  # otherwise each batch would wait for the server again
            raise error


def describe(error: BaseException) -> str:
    """Return the reason of a failure, without any text of the note.

    Messages of other libraries may quote the note. So only the type of their error, spaCy's error code and the place in the code are returned.
    """
    if isinstance(error, SapbertError):
        return str(error)
    if isinstance(error, OSError) and error.errno:
        return f"{type(error).__name__}: {os.strerror(error.errno)}"
    frames = traceback.extract_tb(error.__traceback__)
    code = re.match(r"\[[EW]\d+\]", str(error))
    place = f" in {Path(frames[-1].filename).name}, line {frames[-1].lineno}, {frames[-1].name}" if frames else ""
    return f"{type(error).__name__}{' ' + code[0] if code else ''}{place}"
