"""Every code block of README and docs/ is executed, and must print the text block after it.

Commands that take hours, or that need the reader's own files, are only parsed.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import re
import shlex
import shutil
import warnings
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import srsly
import typer
from confection import Config
from spacy.util import registry
from typer.testing import CliRunner

from spacy_sapbert.cli import app
from spacy_sapbert.service.schemas import LinkRequest

from .pages import ROOT, Block, blocks, commands, is_example, name_of, pages

README = ROOT / "README.md"
KINDS = {"bash", "dockerfile", "ini", "python", "mermaid"}
PATTERN = re.compile(r"(/tmp\b|/work\b|\.\./shared)")


def runs(page: Path) -> bool:
    """Say whether a page has blocks that are executed; other pages are only parsed."""
    return any(block.language == "python" for block in blocks(page)) or any(
        words[:3] == ["python", "-m", "spacy_sapbert"] and not is_example(words) for words in commands(page)
    )


def lines(text: str) -> list[str]:
    """Return the lines of a text without spaces at their ends."""
    return [line.rstrip() for line in text.strip("\n").splitlines()]


# -- contents of pages --------------------------------------------------------------------------------------------------


def test_readme_is_a_poster() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    top = "\n".join(text.splitlines()[:40])
    assert "make run" in top
    assert "make test" in top
    assert top.count("```") == 6


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_block_is_of_a_kind_that_is_checked(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert {block.language for block in blocks(page)} <= KINDS
    assert len(re.findall("^```", text, re.MULTILINE)) == 2 * len(re.findall(r"^```\w+$", text, re.MULTILINE))
    assert all(block.output for block in blocks(page) if block.language == "python")


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_no_page_names_a_path_of_one_machine(page: Path) -> None:
    assert not PATTERN.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [*pages(), *sorted((ROOT / "docs" / "figures").glob("*.md"))], ids=name_of)
def test_links_to_files_of_the_repository_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_pictures_are_used_and_small() -> None:
    pictures = {path.name: path.stat().st_size for path in (ROOT / "docs" / "images").iterdir()}
    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))
    assert [name for name in pictures if f"images/{name})" not in text] == []
    assert {name: size for name, size in pictures.items() if size >= 150_000} == {}


def test_what_a_user_looks_for_is_two_clicks_away() -> None:
    menu = srsly.yaml_loads(re.sub(r"!!python/name:\S+", "null", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))["nav"]
    first = {name: inside for entry in menu if isinstance(entry, dict) for name, inside in entry.items()}
    second = {
        tab: [name for entry in inside if isinstance(entry, dict) for name in entry] for tab, inside in first.items() if isinstance(inside, list)
    }
    assert {"Install", "First note", "From scispaCy"} <= set(second["Start"])
    assert {"Your own vocabulary", "UMLS", "Corpora and Ray", "Deployment and licences"} <= set(second["Guides"])
    assert "Train with the project" in second["Training"]


# -- blocks that run ----------------------------------------------------------------------------------------------------


def nightly_if_slow(page: Path) -> object:
    """Return the page as a test parameter, marked `nightly` if it builds the linker `hpo`, which takes minutes."""
    slow = any(block.language == "python" and '"linker_name": "hpo"' in block.code for block in blocks(page))
    return pytest.param(page, marks=pytest.mark.nightly) if slow else page


@pytest.mark.e2e
@pytest.mark.parametrize("page", [nightly_if_slow(page) for page in pages() if runs(page)], ids=name_of)
def test_blocks_print_what_the_page_says(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "100")
    for block in blocks(page):
        if block.language == "python":
            assert lines(run_python(block, page)) == lines(block.output)
        elif block.language == "bash":
            printed = "".join(run_command(words) for words in commands_to_run(block))
            assert not block.output or lines(printed) == lines(block.output)


def commands_to_run(block: Block) -> list[list[str]]:
    """Return those commands of a block that are run here, each as a list of words."""
    found = [shlex.split(line, comments=True) for line in block.code.splitlines()]
    ours = [words for words in found if words[:3] == ["python", "-m", "spacy_sapbert"] and not is_example(words)]
    return [words for words in ours if words[3] != "serve"]  # `serve` does not end; tests/service runs it


def run_python(block: Block, page: Path) -> str:
    """Run a block as a separate script, which must not give any of our warnings."""
    printed = io.StringIO()
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(printed):
        warnings.simplefilter("always")
        exec(compile(block.code, name_of(page), "exec"), {"__name__": "docs"})
    assert [str(warning.message) for warning in caught if re.match(r"\[W\d{3}\]", str(warning.message))] == []
    return printed.getvalue()


def run_command(words: list[str]) -> str:
    """Run one of our commands in this process, and check that it wrote its output."""
    if words[3] == "annotate":  # a folder of an earlier version would be refused
        shutil.rmtree(ROOT / words[5], ignore_errors=True)
    result = CliRunner().invoke(app, words[3:], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    if words[3] == "annotate":
        assert (ROOT / words[5] / "_summary.json").is_file()
    if "--out" in words:
        assert (ROOT / words[words.index("--out") + 1]).exists()
    return result.stdout


# -- blocks that are parsed ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [page for page in pages() if commands(page)], ids=name_of)
def test_commands_have_the_options_that_pages_give_them(page: Path) -> None:
    for words in commands(page):
        check_command(words)


def check_command(words: list[str]) -> None:
    """Fail unless a command exists and takes these arguments and options."""
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert {word for word in words[1:] if "=" not in word} <= set(targets), words
    elif words[0] in ("cd", "source"):
        assert words[1] in ("spacy-sapbert", ".venv/bin/activate")
    elif words[:2] == ["pip", "install"]:
        extras = re.findall(r"\[([\w,]+)\]", " ".join(words))
        known = importlib.metadata.metadata("spacy-sapbert").get_all("Provides-Extra") or []
        assert {extra for named in extras for extra in named.split(",")} <= set(known), words
    elif words[0] == "curl":
        check_request(words)
    elif words[0] == "git":
        assert words[1] == "clone"
    elif words[0] == "pre-commit":
        assert (ROOT / ".pre-commit-config.yaml").is_file()
    elif words[:4] == ["python", "-m", "spacy", "project"]:
        check_project(words)
    elif words[:3] == ["python", "-m", "pytest"]:
        assert all((ROOT / word).exists() for word in words[3:] if word.startswith("tests"))
    elif words[:3] == ["python", "-m", "spacy_sapbert"]:
        parse(typer.main.get_command(app), words[3:])
    elif words[:3] == ["python", "-m", "benchmarks"]:
        from benchmarks.__main__ import app as benchmarks_app

        parse(typer.main.get_command(benchmarks_app), words[3:])
    else:
        assert words[:3] == ["python", "-m", "training"], words
        from training.cli import app as training_app

        parse(typer.main.get_command(training_app), words[3:])
        if words[3] == "train":
            check_recipe(words)


def check_request(words: list[str]) -> None:
    """Fail unless the service has the route, and it takes this body."""
    import spacy_sapbert
    from spacy_sapbert.service.app import create_app

    url = urlsplit(words[-1])
    methods = create_app(spacy_sapbert.load).openapi()["paths"][url.path]
    if "--json" in words:
        assert "post" in methods
        LinkRequest.model_validate_json(words[words.index("--json") + 1])
    else:
        assert set(parse_qs(url.query)) <= {parameter["name"] for parameter in methods["get"]["parameters"]}


def parse(command: Any, words: list[str]) -> None:
    """Let a command parse its words without running it; click raises an error for wrong ones."""
    while hasattr(command, "commands"):
        assert words[0] in command.commands, words
        command, words = command.commands[words[0]], words[1:]
    command.make_context(command.name, list(words))


def check_project(words: list[str]) -> None:
    """Fail unless project.yml has the workflow or command, and the variables."""
    project = srsly.read_yaml(ROOT / "project.yml")
    known = {*project["workflows"], *(command["name"].replace("${vars.variant}", "") for command in project["commands"])}
    assert words[4] == "run"
    assert words[5] in known
    assert {word.removeprefix("--vars.") for word in words[6:] if word.startswith("--vars.")} <= set(project["vars"])
    assert all((ROOT / word).is_file() for word in words if word.endswith(".cfg"))


def check_recipe(words: list[str]) -> None:
    """Fail unless the recipe exists and has the sections of the given options."""
    recipe = Config().from_disk(ROOT / words[4], interpolate=False)
    sections = {word.removeprefix("--").split(".")[0] for word in words[5:] if word.startswith("--")}
    assert sections <= set(recipe)


@pytest.mark.parametrize(("page", "code"), [(page, block.code) for page in pages() for block in blocks(page) if block.language == "ini"])
def test_configs_name_what_is_registered(page: Path, code: str) -> None:
    heading = re.search(r"\[(.*?)\]", code)
    assert heading is not None
    names = heading[1].split(".")
    parents = "".join(f"[{'.'.join(names[:depth])}]\n\n" for depth in range(1, len(names)))
    section = Config().from_str(parents + code)
    for name in names[:-1]:
        section = section[name]
    inside = section[names[-1]]
    if "factory" in inside:
        import spacy

        settings = {key: value for key, value in inside.items() if key != "factory"}
        assert spacy.blank("en").add_pipe(inside["factory"], config=settings)
    else:
        assert registry.resolve({names[-1]: inside})[names[-1]] is not None
