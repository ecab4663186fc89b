"""The exports of a review, checked by hand: gold annotations, tables, names, the report, and the names in a linker."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.tokens import DocBin
from typer.testing import CliRunner

from spacy_sapbert.build import default_linkers
from spacy_sapbert.cli import app
from spacy_sapbert.corpus.pipeline import load
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.render.records import name_of
from spacy_sapbert.review import gold, tables
from spacy_sapbert.review.linker import AppliedNames, add_docs, state_of
from spacy_sapbert.review.report import BIASED, in_words, report
from spacy_sapbert.review.store import ReviewStore

pytestmark = pytest.mark.usefixtures("one_thread")

NOTE = "Fever and a cold.\nHypertension, =asthma."


@pytest.fixture
def nlp(tiny_linker: Path) -> Any:
    return load(str(tiny_linker))


@pytest.fixture
def review(nlp: Any, tmp_path: Path) -> ReviewStore:
    store = ReviewStore(tmp_path / "review.sqlite")
    linker = nlp.get_pipe("sapbert_linker")
    assert add_docs(store, linker, [(nlp(NOTE), "n/1"), (nlp("No fever."), "n/2")]) == 2
    assert add_docs(store, linker, [(nlp(NOTE), "n/1")]) == 0
    return store


@pytest.fixture
def number(review: ReviewStore) -> Callable[[str], int]:
    found = {mention.record["mention"]: mention.number for mention in review.mentions(review.note("n/1"))}
    return lambda mention: found[mention]


@pytest.fixture
def decided(review: ReviewStore, number: Callable[[str], int]) -> ReviewStore:
    """A review: Fever is right, cold gets another concept, hypertension is rejected and its span moved, asthma is open; "Hyper" is added."""
    review.record("Ann", {"kind": "accept", "mention": number("Fever"), "cui": "C9100027"})
    review.record("Ann", {"kind": "choose", "mention": number("cold"), "cui": "C9100010"})
    review.record("Ann", {"kind": "reject", "mention": number("Hypertension"), "cui": "C9100009"})
    review.record("Ann", {"kind": "add", "note": "n/1", "start": 18, "end": 23, "cui": "NIL"})
    review.record("Ann", {"kind": "name", "cui": "C9100009", "name": "the squeeze"})
    return review


def test_gold_is_what_was_decided(decided: ReviewStore) -> None:
    found, whole = gold.gold_of(decided, decided.note("n/1"))
    assert not whole  # asthma is open
    assert [(each.text, each.start, each.cui, each.proposed) for each in found] == [
        ("Fever", 0, "C9100027", "C9100027"),
        ("cold", 12, "C9100010", "C9100020"),
        ("Hypertension", 18, "NIL", "C9100009"),  # rejected without another concept
        ("Hyper", 18, "NIL", ""),
    ]
    (line,) = map(json.loads, gold.to_jsonl(decided))
    assert line["id"] == "n/1"
    assert line["complete"] is False
    assert [line["text"][each["start"] : each["end"]] for each in line["mentions"]] == ["Fever", "cold", "Hypertension", "Hyper"]


def test_a_docbin_says_what_is_missing_and_calibrate_reads_it(decided: ReviewStore, number: Callable[[str], int], nlp: Any) -> None:
    def read() -> Any:
        raw = gold.to_docbin(decided, spacy.blank("en")).to_bytes()
        (doc,) = DocBin().from_bytes(raw).get_docs(spacy.blank("en").vocab)
        return doc

    doc = read()
    assert doc.text == NOTE
    assert [(ent.text, ent.kb_id_) for ent in doc.ents] == [("Fever", "C9100027"), ("cold", "C9100010"), ("Hypertension", "NIL")]
    assert doc[1].ent_iob_ == ""  # missing
    observed = nlp.get_pipe("sapbert_linker").observe([doc])
    assert [each.right for each in observed] == [True, False, False]
    decided.record("Ann", {"kind": "nil", "mention": number("asthma")})
    assert read()[1].ent_iob_ == "O"


def test_tables(decided: ReviewStore, tiny_kb: KnowledgeBase) -> None:
    decided.record("=Bo", {"kind": "accept", "mention": decided.mentions(decided.note("n/2"))[0].number, "cui": "C9100027"})
    stream = io.StringIO(newline="")
    assert tables.write_usagi(decided, lambda cui: name_of(tiny_kb, cui), stream) == 4
    rows = list(csv.DictReader(io.StringIO(stream.getvalue())))
    assert [(row["sourceName"], row["sourceFrequency"], row["conceptId"], row["conceptName"], row["mappingStatus"]) for row in rows] == [
        ("Fever", "2", "C9100027", name_of(tiny_kb, "C9100027"), "APPROVED"),
        ("cold", "1", "C9100010", "pneumonia", "APPROVED"),
        ("Hyper", "1", "", "", "INVALID_TARGET"),
        ("Hypertension", "1", "", "", "INVALID_TARGET"),
    ]
    assert rows[0]["statusSetBy"] == "'=Bo"  # not a formula
    stream = io.StringIO()
    assert tables.write_sssom(decided, lambda cui: name_of(tiny_kb, cui), stream) == 4
    lines = stream.getvalue().splitlines()
    assert lines[2].split("\t") == list(tables.SSSOM)
    assert lines[3].split("\t")[:5] == ["Fever", "rdfs literal", "skos:exactMatch", "UMLS:C9100027", name_of(tiny_kb, "C9100027")]
    assert {line.split("\t")[3] for line in lines[5:]} == {"sssom:NoTermFound"}
    names = io.StringIO()
    assert tables.write_names(decided, names) == 1
    assert names.getvalue().splitlines()[1].split("\t")[:5] == ["C9100009", "the squeeze", "en", "ADDED", "SY"]


def test_names_are_the_linkers_at_once_and_go_when_undone(decided: ReviewStore, nlp: Any) -> None:
    linker = nlp.get_pipe("sapbert_linker")
    applied, before = AppliedNames(linker), state_of(linker)
    found = [(ent.text, ent.kb_id_) for ent in nlp("She has the squeeze.").ents]
    assert all(kb_id == "" for _, kb_id in found)  # the recogniser may mark it, but it is no name
    assert applied.apply(decided.log())
    assert not applied.apply(decided.log())
    assert [(ent.text, ent.kb_id_) for ent in nlp("She has the squeeze.").ents] == [("the squeeze", "C9100009")]
    assert state_of(linker) != before
    event = next(event for event in decided.events() if event.said.kind == "name")
    decided.record("Ann", {"kind": "undo", "event": event.number})
    assert applied.apply(decided.log())
    assert [(ent.text, ent.kb_id_) for ent in nlp("She has the squeeze.").ents] == found
    assert state_of(linker) == before


def test_the_state_of_a_linker_has_the_types_of_added_concepts(nlp: Any) -> None:
    linker, states = nlp.get_pipe("sapbert_linker"), []
    for types in (["T184"], ["T047"], ["T184"]):
        linker.add_concept("C9990001", ["morning grumpiness"], types=types)
        states.append(state_of(linker))
        linker.remove_alias("C9990001", "morning grumpiness")
    assert states[0] == states[2] != states[1]


def test_removed_names_are_not_linked_and_come_back_when_undone(decided: ReviewStore, nlp: Any) -> None:
    linker = nlp.get_pipe("sapbert_linker")
    text = "Fever, hypertension and asthma."
    applied, before = AppliedNames(linker), state_of(linker)
    links = [(ent.text, ent.kb_id_) for ent in nlp(text).ents]
    assert links == [("Fever", "C9100027"), ("hypertension", "C9100009"), ("asthma", "C9100013")]
    decided.record("Bo", {"kind": "stop", "name": "fever"})
    stopped = decided.record("Bo", {"kind": "stop", "cui": "C9100009", "name": "Hypertension"})
    decided.record("Bo", {"kind": "stop", "cui": "C0000000", "name": "asthma"})  # a concept of another linker
    assert applied.apply(decided.log())
    assert not applied.apply(decided.log())
    assert [(ent.text, ent.kb_id_) for ent in nlp(text).ents if ent.kb_id_] == [("asthma", "C9100013")]
    now = state_of(linker)
    assert now != before
    decided.record("Bo", {"kind": "undo", "event": stopped.number})
    assert applied.apply(decided.log())
    assert [(ent.text, ent.kb_id_) for ent in nlp(text).ents if ent.kb_id_] == links[1:]
    assert state_of(linker) not in (before, now)
    decided.record("Ann", {"kind": "name", "cui": "C9100027", "name": "fever"})  # later than the stop, so it counts
    applied.apply(decided.log())
    assert [(ent.text, ent.kb_id_) for ent in nlp(text).ents] == links


def test_applied_to_a_folder_they_are_saved(decided: ReviewStore, tiny_linker: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_linker, tmp_path / "linker"))
    decided.record("Bo", {"kind": "stop", "name": "fever"})
    for expected in ("1 name added to", "0 names added to"):
        done = CliRunner().invoke(app, ["review", "apply", str(decided.path), str(folder)])
        assert done.exit_code == 0, done.output
        assert expected in done.output
    linked = [(ent.text, ent.kb_id_) for ent in load(str(folder))("Fever and the squeeze.").ents if ent.kb_id_]
    assert linked == [("the squeeze", "C9100009")]


def test_a_shared_linker_is_changed_only_if_asked(decided: ReviewStore, tiny_linker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    shared = Path(shutil.copytree(tiny_linker, cache / "linker"))
    monkeypatch.setenv(default_linkers.CACHE_VARIABLE, str(cache))
    monkeypatch.setattr(default_linkers, "find_linker", lambda name: shared if name == "open" else Path(name))
    command, before = ["review", "apply", str(decided.path)], {path: path.read_bytes() for path in shared.rglob("*") if path.is_file()}

    def invoke(*more: str) -> Any:
        return CliRunner().invoke(app, [*command, *more])

    for name in ("open", str(shared)):
        refused = invoke(name)
        assert refused.exit_code == 1
        assert "[E034]" in refused.stderr
        assert all(option in refused.stderr for option in ("--out", "--shared"))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "one.txt").write_text("a note")
    assert "[E002]" in invoke("open", "--out", str(tmp_path / "notes")).stderr  # it would be replaced
    assert "[E002]" in invoke("open", "--out", str(tmp_path / "own"), "--shared").stderr
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["one.txt"]
    done = invoke("open", "--out", str(tmp_path / "own"))
    assert done.stdout == f"1 name added to {tmp_path / 'own'}, 0 names removed from it\n"
    assert {path: path.read_bytes() for path in shared.rglob("*") if path.is_file()} == before
    assert [ent.kb_id_ for ent in load(str(tmp_path / "own"))("She has the squeeze.").ents] == ["C9100009"]
    again = invoke("open", "--out", str(tmp_path / "own"))  # a linker may be replaced
    assert again.exit_code == 0, again.output
    assert invoke("open", "--shared").exit_code == 0
    assert [ent.kb_id_ for ent in load(str(shared))("She has the squeeze.").ents] == ["C9100009"]


def test_a_copy_is_not_left_behind_by_an_error(tiny_linker: Path, tmp_path: Path) -> None:
    (tmp_path / "r.sqlite").write_bytes(b"no review")
    failed = CliRunner().invoke(app, ["review", "apply", str(tmp_path / "r.sqlite"), str(tiny_linker), "--out", str(tmp_path / "own")])
    assert "[E080]" in failed.stderr
    (tmp_path / "gold.spacy").write_bytes(DocBin().to_bytes())
    failed = CliRunner().invoke(app, ["calibrate", str(tiny_linker), str(tmp_path / "gold.spacy"), "--out", str(tmp_path / "own")])
    assert failed.exit_code == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gold.spacy", "r.sqlite"]


def test_the_report(decided: ReviewStore) -> None:
    figures = report(decided, 0.9)
    first = figures["precision"][0]
    assert (first["right"], first["reviewed"]) == (1, 3)  # the mention that a reviewer added is not a link of the linker
    assert first["low"] == pytest.approx(0.0615, abs=1e-4)  # Wilson, by hand: (1/3 + z²/6 - z √(2/27 + z²/36)) / (1 + z²/3)
    words = in_words(figures)
    assert "all links: 1 of 3 right, 33.3% (95% interval 6.1% to 79.2%)" in words
    assert BIASED in words


def test_commands(tiny_linker: Path, tmp_path: Path) -> None:
    notes, review = tmp_path / "notes.jsonl", tmp_path / "r.sqlite"
    notes.write_text('{"id": "a", "text": "Fever."}\n{"id": "b", "text": "Asthma."}\n', encoding="utf-8")
    run = CliRunner()
    done = run.invoke(app, ["review", "add", str(review), str(notes), "--linker-name", str(tiny_linker)])
    assert done.exit_code == 0, done.output
    assert "2 notes added" in done.output
    assert "has 2 notes with 2 mentions" in done.output
    assert review.stat().st_mode & 0o777 == 0o600
    store = ReviewStore(review)
    store.record("Ann", {"kind": "accept", "mention": store.mentions(store.note("a"))[0].number, "cui": "C9100027"})
    assert "all links: 1 of 1 right" in run.invoke(app, ["review", "report", str(review)]).output
    assert json.loads(run.invoke(app, ["review", "report", str(review), "--json"]).output)["notes"] == 2
    out = tmp_path / "gold.spacy"
    assert run.invoke(app, ["review", "export", str(review), "--out", str(out)]).exit_code == 0
    assert len(DocBin().from_disk(out)) == 1
    line = json.loads(run.invoke(app, ["review", "export", str(review), "--format", "jsonl"]).output)
    assert line["mentions"][0]["cui"] == "C9100027"
    missing = run.invoke(app, ["review", "report", str(tmp_path / "none")])
    assert missing.exit_code == 1
    assert "E401" in missing.output
