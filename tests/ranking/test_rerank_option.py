"""The option `--rerank` of the commands: it reaches the linker, and a calibration and a run of `annotate` record it."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import spacy
from spacy.tokens import DocBin, Span
from typer.testing import CliRunner

from spacy_sapbert.build.linker import build_linker, read_source
from spacy_sapbert.calibration import read_calibration
from spacy_sapbert.cli import app
from spacy_sapbert.corpus.annotate import annotate
from spacy_sapbert.corpus.annotator import AnnotationSettings
from spacy_sapbert.encoders.static import StaticEncoder
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.indexes.exact import ExactIndex
from spacy_sapbert.kb.knowledge_base import KnowledgeBase

pytestmark = pytest.mark.usefixtures("one_thread")
DATA = Path(__file__).parents[1] / "data"
CLOSE = ["diabetes", "disorder of the mitral valve", "disease of the heart", "venous thrombosis in the leg"]  # no names; some are close calls
TEXT = f"He has {', '.join(CLOSE)}."
VECTORS = ("nearest_name", "canonical_name")  # features of "names"


@pytest.fixture(autouse=True)
def keep_filters() -> Iterator[None]:
    with warnings.catch_warnings():
        yield


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline that finds CLOSE, without a linker."""
    nlp = spacy.blank("en")
    ruler: Any = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "PROBLEM", "pattern": text} for text in CLOSE])
    nlp.to_disk(folder := tmp_path_factory.mktemp("pipelines") / "plain")
    return folder


@pytest.fixture(scope="module")
def tiny_linker(tiny_linker: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny linker without a ranker, because `rerank="names"` is for linkers without one."""
    folder = tmp_path_factory.mktemp("unranked") / "linker"
    shutil.copytree(tiny_linker, folder)
    (folder / "ranker.json").unlink()
    return folder


@pytest.fixture(scope="module")
def gold(tmp_path_factory: pytest.TempPathFactory, tiny_linker: Path) -> Path:
    """Annotated notes: each concept by its canonical name and one more word, and CLOSE as mentions of no concept."""
    blank, docs = spacy.blank("en"), []
    names = [(f"{name} today", concept_id) for _, concept_id, name in KnowledgeBase(tiny_linker / "kb").canonical_names()]
    for text, concept_id in [*names, *((text, "NIL") for text in CLOSE)]:
        doc = blank.make_doc(text)
        doc.ents = [Span(doc, 0, len(doc), label="PROBLEM", kb_id=concept_id)]
        docs.append(doc)
    path = tmp_path_factory.mktemp("gold") / "gold.spacy"
    DocBin(docs=docs).to_disk(path)
    return path


def run(*args: Any, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def refused(*args: Any) -> str:
    return str(run(*args, code=1).stderr.strip().splitlines()[-1])


def expected(linker: Path, rerank: str | None) -> list[dict[str, Any] | None]:
    """Return what a linker in Python says about CLOSE: which shares decided, None for a mention that was not reranked."""
    component: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(linker), "threshold": 0.0, "rerank": rerank})
    return [found.answer.explain.get("rerank") for found in component.search.find([(text, None) for text in CLOSE])]


@pytest.mark.parametrize(("rerank", "features"), [("names", VECTORS), ("cross_encoder", (*VECTORS, "agreement"))])
def test_link_reranks(tiny_linker: Path, pipeline: Path, rerank: str, features: tuple[str, ...]) -> None:
    given = ["link", TEXT, "--format", "jsonl", "--pipeline", pipeline, "--linker-name", tiny_linker, "--threshold", "0"]
    without, found = (
        [json.loads(line)["explain"].get("rerank") for line in run(*given, *more).stdout.splitlines()] for more in ([], ["--rerank", rerank])
    )
    assert without == [None] * len(CLOSE)
    assert found == expected(tiny_linker, rerank)
    reranked = [shares for shares in found if shares]
    assert reranked
    assert all(set(shares) == {"score", "first", *features} for shares in reranked)


def test_wrong_values(tiny_linker: Path, pipeline: Path, gold: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text(TEXT)
    fast = build_linker([read_source(DATA / "tiny_clinic.tsv")], tmp_path / "fast", model=StaticEncoder(), index=ExactIndex(), progress=False)
    own = spacy.load(pipeline)
    own.add_pipe("sapbert_linker", config={"linker_name": str(fast)})
    own.to_disk(tmp_path / "own")
    for command in (["link", TEXT], ["review", "add", tmp_path / "review.sqlite", TEXT], ["annotate", tmp_path / "notes.txt", tmp_path / "out"]):
        assert refused(*command, "--linker-name", tiny_linker, "--rerank", "all").startswith("[E002] Setting 'rerank' of 'sapbert_linker' is 'all'")
        assert refused(*command, "--linker-name", fast, "--rerank", "names").startswith("[E056]")
        assert refused(*command, "--pipeline", tmp_path / "own", "--rerank", "names").startswith("[E002] Setting 'rerank'")
    assert not (tmp_path / "out").exists()
    before = {path: path.read_bytes() for path in fast.glob("*.json")}
    assert refused("calibrate", fast, gold, "--rerank", "all", "--out", tmp_path / "copy").startswith("[E002] Setting 'rerank'")
    assert refused("calibrate", fast, gold, "--rerank", "names", "--out", tmp_path / "copy").startswith("[E056]")
    assert refused("calibrate", fast, gold, "--rerank", "names").startswith("[E056]")
    assert not (tmp_path / "copy").exists()
    assert {path: path.read_bytes() for path in fast.glob("*.json")} == before


def test_a_calibration_records_the_order_that_it_was_fit_for(tiny_linker: Path, pipeline: Path, gold: Path, tmp_path: Path) -> None:
    folder = tmp_path / "linker"
    shutil.copytree(tiny_linker, folder)

    def told(*args: Any) -> list[str]:
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            run(*args)
        return [str(each.message) for each in given if "[W004]" in str(each.message)]

    link = ["link", TEXT, "--format", "jsonl", "--pipeline", pipeline, "--linker-name", folder]
    made = []
    for rerank, other in ((None, "names"), ("names", None)):
        options, others = ([] if value is None else ["--rerank", value] for value in (rerank, other))
        assert told("calibrate", folder, gold, *options) == []  # also when the calibration that is replaced was fit without
        made.append(read_calibration(folder / "calibration.json"))
        assert made[-1].settings.get("rerank") == rerank
        assert told(*link, *options) == []
        (message,) = told(*link, *others)
        assert f"(rerank={rerank!r}, not {other!r})" in message
    assert made[0].probabilities != made[1].probabilities  # of mentions with another margin


@pytest.mark.e2e
def test_workers_read_the_cross_encoder_and_a_run_is_resumed_with_it_only(tiny_linker: Path, pipeline: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes.jsonl"
    notes.write_text("".join(json.dumps({"id": f"n{i}", "text": f"He has {text}."}) + "\n" for i, text in enumerate(CLOSE)))
    settings = AnnotationSettings(str(tiny_linker), str(pipeline), 0.0, format="jsonl", rerank="cross_encoder")
    for workers, out in ((1, tmp_path / "one"), (2, tmp_path / "two")):
        annotate(notes, out, settings, workers=workers, partition_size=1, progress=False)
    parts = {path.name: path.read_bytes() for path in (tmp_path / "one").glob("part-*")}
    assert len(parts) == len(CLOSE)
    assert {path.name: path.read_bytes() for path in (tmp_path / "two").glob("part-*")} == parts
    rows = [json.loads(content) for _, content in sorted(parts.items())]
    assert [row["explain"].get("rerank") for row in rows] == expected(tiny_linker, "cross_encoder")
    assert any("agreement" in row["explain"].get("rerank", {}) for row in rows)
    (tmp_path / "one" / "part-00000.jsonl").unlink()
    for rerank, shown in ((None, "null"), ("names", '"names"')):
        with pytest.raises(SapbertError, match=rf'\[E017\].* input: settings rerank: was "cross_encoder", is {shown}\. Give'):
            annotate(
                notes, tmp_path / "one", AnnotationSettings(str(tiny_linker), str(pipeline), 0.0, format="jsonl", rerank=rerank), partition_size=1
            )
    assert annotate(notes, tmp_path / "one", settings, partition_size=1, progress=False).kept == len(CLOSE) - 1


def test_serve_and_review_add_rerank(tiny_linker: Path, pipeline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import spacy_sapbert.cli.review as reviews
    from spacy_sapbert.service import run as service

    made: list[Any] = []
    monkeypatch.setattr(service, "serve", lambda make, *_: made.append(make()))
    add = reviews.make_pipeline
    monkeypatch.setattr(reviews, "make_pipeline", lambda *args, **options: made.append(add(*args, **options)) or made[-1])
    given = ["--pipeline", pipeline, "--linker-name", tiny_linker, "--rerank", "names"]
    run("serve", *given)
    run("review", "add", tmp_path / "review.sqlite", TEXT, *given)
    assert [nlp.get_pipe("sapbert_linker").rerank for nlp in made] == ["names", "names"]
