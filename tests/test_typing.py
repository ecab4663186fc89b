"""The public classes and the commands have types that pass `mypy --strict` in the program of a user."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[1]
PROGRAM = """\
import spacy
from spacy_sapbert import ConceptMatcher, KnowledgeBase, SapBertLinker, build_linker, cli
from spacy_sapbert.errors import fail, warn

kb = KnowledgeBase("kb")
reveal_type(kb)
reveal_type(kb.find(["fever"]))
reveal_type(kb.cui_to_entity["C0015967"])
reveal_type(kb.name_table)
nlp = spacy.blank("en")
linker = nlp.add_pipe("sapbert_linker")
assert isinstance(linker, SapBertLinker)
reveal_type(linker)
reveal_type(linker.kb)
reveal_type(linker(nlp("He has fever.")))
linker.threshold = 0.7
reveal_type(linker.threshold)
reveal_type(linker.rules)
reveal_type(linker.add_alias)
reveal_type(linker.export_additions("added.tsv"))
reveal_type(ConceptMatcher(nlp).predict([nlp("fever")]))
reveal_type(cli.read_notes(["a fever"]))
reveal_type(cli.kb_info)
reveal_type(cli.lookup)
reveal_type(fail("E001"))
reveal_type(warn)
KnowledgeBase(3)
linker.k = "7"
linker.add_alias(5)
cli.kb_info(path="kb")
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the errors of mypy for the program; the package itself is checked elsewhere."""
    program = tmp_path_factory.mktemp("user") / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800, cwd=ROOT, env={**os.environ, "MYPYPATH": str(ROOT)})
    return [line for line in done.stdout.splitlines() if Path(line.partition(":")[0]).name == program.name]


def test_what_a_user_sees_is_typed(output: list[str]) -> None:
    revealed = [found[1] for line in output if (found := re.search(r'Revealed type is "(.*)"', line))]
    assert revealed == [
        "spacy_sapbert.kb.knowledge_base.KnowledgeBase",
        "dict[str, int]",
        "tuple[str, str, list[str], list[str], str | None, fallback=spacy_sapbert.kb.knowledge_base.Entity]",
        "spacy_sapbert.kb.name_table.NameTable",
        "spacy_sapbert.linker.SapBertLinker",
        "spacy_sapbert.kb.knowledge_base.KnowledgeBase",
        "spacy.tokens.doc.Doc",
        "float",
        "spacy_sapbert.candidates.Rules",
        "def (concept_id: str, *names: str)",
        "int",
        "list[list[tuple[int, int, str, str | None, bool, bool, tuple[int, ...], Any, fallback=spacy_sapbert.matcher.joining.Match]]]",
        "typing.Iterator[tuple[str, str]]",
        "def (path: pathlib.Path =, verify: bool =)",
        "def (names: list[str] =, k: int =, linker_name: str | None =, encoder: str | None =)",
        "spacy_sapbert.errors.SapbertError",
        "def (code: str, **values: Any)",
    ]


def test_wrong_calls_are_found(output: list[str]) -> None:
    last = PROGRAM.count("\n")
    wrong = [(int(line.split(":")[1]), re.search(r"\[([a-z-]+)\]$", line)) for line in output if "error:" in line]
    assert [(number, code and code[1]) for number, code in wrong] == [
        (last - 3, "arg-type"),
        (last - 2, "assignment"),
        (last - 1, "arg-type"),
        (last, "arg-type"),
    ]
