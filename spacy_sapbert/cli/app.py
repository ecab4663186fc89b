"""The typer apps, how commands show errors, and the options that several commands share."""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Any, ParamSpec

import typer

from ..errors import SapbertError, SapbertWarning, fail, logger
from ..files import unusable, valid_text
from ..signals import describe_interrupt, raise_on_signals

app = typer.Typer(help="Link mentions of clinical text to UMLS concepts.", no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
kb_app = typer.Typer(help="Build and inspect knowledge bases.", no_args_is_help=True)
app.add_typer(kb_app, name="kb")
review_app = typer.Typer(help="Review links: put notes into a review, and write out the decisions of the reviewers.", no_args_is_help=True)
app.add_typer(review_app, name="review")


P = ParamSpec("P")

# options of several commands
LINKER_NAME = typer.Option(None, help="A registered linker (open, hpo, hpo-fast), or the folder of a linker; default: open.")
ENCODER = typer.Option(None, help="'fast': the shipped static encoder, about 70 times as fast and a little less accurate.")
PIPELINE = typer.Option(
    None, help="A spaCy pipeline whose entities are linked; default: a blank pipeline with clinical_mentions and concept_matcher."
)
THRESHOLD = typer.Option(None, help="Score that a link must be above.")
TYPES = typer.Option("", help="Semantic types or groups to keep, separated by commas.")
VOCABULARIES = typer.Option("", help="Vocabularies to keep, separated by commas.")
EXTENSIONS = typer.Option(
    "", help="Span extensions to write into the output, separated by commas (is_negated). Any component of the pipeline may have set them."
)
TARGET_PRECISION = typer.Option(
    None, help="Set the threshold by the linker's calibration, so that this share of links is right (0 to 1); use it instead of --threshold."
)
RERANK = typer.Option(
    None,
    help="Rerank close calls: names (only with the default encoder, as in hpo), or with a cross-encoder, which takes longer: cross_encoder, or context (it also reads the text around).",
)
CODE = typer.Option(None, help="Python file to run first; it registers components that the --pipeline needs.")
TEXT_FIELD = typer.Option("text", help="Field or column with the text.")
ID_FIELD = typer.Option(None, help="Field or column with the id of the note; default: 'id' if there is one, else file and line.")
ATHENA = typer.Option(
    None, help="For the format omop: folder with CONCEPT.csv and CONCEPT_RELATIONSHIP.csv from Athena, or its zip archive, for concept ids."
)
SENTENCES = typer.Option(False, "--sentences", help="For jsonl, csv and parquet: also write the text of the sentence of each mention.")
ABBREVIATIONS = typer.Option(True, help="Resolve abbreviations that the text defines; with scispacy installed, more of them are found.")


def command(where: typer.Typer, name: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Register a function as a command. An error with a code, or of the operating system, is shown as one message, and the exit code is 1.

    If a signal ends the command, what it had begun is removed, and the exit code is 128 and the number of the signal.

    Args:
        where: the app that the command belongs to.
        name: name of the command.
    """

    def decorate(function: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            _show_log()
            try:
                with raise_on_signals(), _plain_warnings():
                    function(*args, **kwargs)
            except KeyboardInterrupt as interrupt:
                what, code = describe_interrupt(interrupt)
                typer.secho(str(fail("E058", what=what)), fg=typer.colors.RED, err=True)
                raise typer.Exit(code) from interrupt
            except SapbertError as error:
                typer.secho(valid_text(error), fg=typer.colors.RED, err=True)
                raise typer.Exit(1) from error
            except BrokenPipeError:  # the program that reads the output has ended
                raise
            except OSError as error:
                typer.secho(str(unusable(error)), fg=typer.colors.RED, err=True)
                raise typer.Exit(1) from error
            except UnicodeEncodeError as error:
                if (path := _not_utf8(kwargs)) is None:
                    raise
                typer.secho(str(fail("E053", path=path, error="its name is not valid UTF-8")), fg=typer.colors.RED, err=True)
                raise typer.Exit(1) from error

        return where.command(name)(run)

    return decorate


def _not_utf8(given: dict[str, Any]) -> str | None:
    """Return the first argument of a command that is not valid UTF-8, such as the name of a folder in Latin-1, with its bytes escaped; None if all are."""
    for value in given.values():
        for each in value if isinstance(value, list | tuple) else [value]:
            if isinstance(each, str | PathLike) and valid_text(each) != str(each):
                return valid_text(each)
    return None


class _OnStandardError(logging.Handler):
    """Prints the log of the library."""

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(self.format(record), err=True)


def _show_log() -> None:
    """Print the log of the library, such as the estimate of resources, on standard error."""
    if not any(isinstance(handler, _OnStandardError) for handler in logger.handlers):
        logger.addHandler(_OnStandardError())
        logger.setLevel(logging.INFO)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Print the warnings of the library as their messages, without the line of Python code that caused them."""
    before: Any = warnings.formatwarning

    def plain(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> str:
        return f"{message}\n" if issubclass(category, SapbertWarning) else str(before(message, category, *where, **more))

    warnings.formatwarning = plain
    try:
        yield
    finally:
        warnings.formatwarning = before


def split_list(text: str) -> list[str]:
    """Return the parts of a text between commas, without empty ones."""
    return [part.strip() for part in text.split(",") if part.strip()]


def progress(docs: Any, total: int) -> Any:
    """Return an iterable with a progress bar of notes, which appears after three seconds."""
    from tqdm import tqdm

    return tqdm(docs, total=total, desc="linking", unit="note", delay=3.0)
