"""The commands of `training/data`, run in this process."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import typer
from typer.testing import CliRunner

from training.data import commands


@pytest.fixture(scope="session")
def command() -> Callable[..., str]:
    """Run one command and return what it printed; an error of the package is raised."""
    app = typer.Typer(pretty_exceptions_enable=False)
    for function in (commands.assets, commands.pairs, commands.mentions, commands.definitions):
        app.command()(function)
    app.add_typer(commands.translations_app, name="translations")

    def run(*arguments: object) -> str:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if result.exception is not None:
            raise result.exception
        return result.stdout

    return run
