"""The commands of `python -m training`, with one way to report errors.

Each subpackage has a module `commands` with its commands. Their functions import the other modules only when they are called, so `--help` is fast.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import typer

from spacy_sapbert.errors import SapbertError, fail
from spacy_sapbert.signals import describe_interrupt, raise_on_signals

from . import commands
from .data import commands as data
from .evaluation import commands as evaluation
from .launcher import hand_over, parent_says
from .loop import commands as loop
from .mentions import commands as mentions
from .report import commands as report
from .senses import commands as senses
from .vocabulary import commands as vocabulary

app = typer.Typer(
    name="python -m training",
    help="Train, evaluate and package an encoder.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def guarded(command: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a command so that a `SapbertError` ends it with the message on stderr and exit code 1, and a signal with a message and 128 + its number."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            with raise_on_signals():
                command(*arguments, **options)
        except KeyboardInterrupt as interrupt:
            what, code = describe_interrupt(interrupt)
            if not parent_says():
                typer.echo(fail("E058", what=what), err=True)
            raise typer.Exit(code) from None
        except SapbertError as error:
            if not hand_over(error):
                typer.echo(error, err=True)
            raise typer.Exit(1) from None

    return run


def _guard_all(group: typer.Typer) -> typer.Typer:
    """Return a new group with the same commands, each wrapped by `guarded`."""
    guarded_group = typer.Typer(help=group.info.help, no_args_is_help=True)
    for info in group.registered_commands:
        assert info.callback is not None
        guarded_group.command(info.name, help=info.help)(guarded(info.callback))
    return guarded_group


app.command("assets")(guarded(data.assets))
app.command("base")(guarded(data.base))
app.command("pairs")(guarded(data.pairs))
app.command("mentions")(guarded(data.mentions))
app.command("definitions")(guarded(data.definitions))
app.add_typer(_guard_all(data.translations_app), name="translations")
app.add_typer(_guard_all(mentions.recogniser_app), name="recogniser")
app.command("check")(guarded(commands.check))
app.command("train", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(guarded(commands.train))
app.command("plan", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(guarded(commands.plan))
app.command("finetune", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(guarded(commands.finetune))
app.command("soup")(guarded(commands.soup))
app.command("compress")(guarded(commands.compress))
app.command("static")(guarded(loop.static))
app.command("compare")(guarded(commands.compare))
app.command("evaluate")(guarded(evaluation.evaluate))
app.command("ranker")(guarded(evaluation.ranker))
app.command("reranker")(guarded(evaluation.reranker))
app.command("close-calls")(guarded(evaluation.close_calls))
app.command("calibrate")(guarded(evaluation.calibrate))
app.command("end-to-end")(guarded(evaluation.end_to_end))
app.command("cross-lingual")(guarded(evaluation.cross_lingual))
app.command("senses")(guarded(senses.senses))
app.command("projection")(guarded(report.projection))
app.command("report")(guarded(report.report))
app.add_typer(_guard_all(vocabulary.app), name="vocabulary")
