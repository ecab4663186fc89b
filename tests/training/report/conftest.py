"""The commands of `training/report`, run in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import typer
from typer.testing import CliRunner

from training.report.commands import projection, report

app = typer.Typer()
for function in (projection, report):
    app.command(function.__name__.replace("_", "-"))(function)


@pytest.fixture
def command() -> Callable[[str, Sequence[str]], str]:
    """Run a command and return what it prints; its errors are raised."""

    def run(name: str, arguments: Sequence[str]) -> str:
        result = CliRunner().invoke(app, [name, *arguments], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    return run
