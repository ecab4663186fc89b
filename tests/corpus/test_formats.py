"""Annotate corpora into formats other than Parquet: each format is read back; runs are resumed; files that were cut short are made again."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from spacy_sapbert.build import default_linkers
from spacy_sapbert.cli import app, outputs
from spacy_sapbert.cli.annotate import PartFormat
from spacy_sapbert.corpus.annotate import annotate
from spacy_sapbert.corpus.annotator import AnnotationSettings
from spacy_sapbert.corpus.parts import COUNTS, ENDINGS, FAILED, read_counts, unwritable_as_error
from spacy_sapbert.errors import MissingFile, SapbertError, fail
from spacy_sapbert.exports import athena
from spacy_sapbert.exports.names import FORMATS
from spacy_sapbert.service.app import AnswerFormat
from training.corpora.brat import read_brat

pytestmark = pytest.mark.usefixtures("one_thread")

TEXTS = ["No fever. Takes aspirin.", "Hypertension.", "Nothing.", None, "Fever and hypertension, aspirin."]
MENTIONS = [("n0", "fever"), ("n0", "aspirin"), ("n1", "Hypertension"), ("n4", "Fever"), ("n4", "hypertension"), ("n4", "aspirin")]
NAMES = ["part-00000", "part-00001", "part-00002"]
FEVER, ASPIRIN, HYPERTENSION = "C9100027", "C9100053", "C9100009"
EXPORTS = [name for name in ENDINGS if name != "parquet"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five notes, of which the fourth has no text."""
    path = tmp_path_factory.mktemp("corpus") / "notes.jsonl"
    path.write_text("".join(json.dumps({"id": f"n{i}", "text": text, "ward": f"w{i}"}) + "\n" for i, text in enumerate(TEXTS)))
    return path


@pytest.fixture(scope="module")
def settings(tiny_linker: Path) -> AnnotationSettings:
    return AnnotationSettings(str(tiny_linker))


@pytest.fixture(scope="module")
def outs(corpus: Path, settings: AnnotationSettings, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The corpus in every format, in three partitions. Do not write into it."""
    folder = tmp_path_factory.mktemp("outs")
    for name in EXPORTS:
        report = annotate(corpus, folder / name, replace(settings, format=name), partition_size=2, progress=False)
        assert report.counts._asdict() == {"notes": 5, "mentions": 6, "linked": 6, "failed": 1}
    return {name: folder / name for name in EXPORTS}


def lines(out: Path) -> list[Any]:
    return [json.loads(line) for path in sorted(out.glob("part-*")) for line in path.read_text(encoding="utf-8").splitlines()]


def table(out: Path) -> list[dict[str, str]]:
    parts = [io.StringIO(path.read_text(encoding="utf-8"), newline="") for path in sorted(out.glob("part-*"))]
    return [row for part in parts for row in csv.DictReader(part)]


def content(out: Path) -> dict[str, bytes]:
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("name", EXPORTS)
def test_the_files_of_every_format(outs: dict[str, Path], name: str) -> None:
    out = outs[name]
    assert sorted(path.name for path in out.iterdir()) == [
        *(COUNTS, FAILED, "_manifest.json", "_summary.json"),
        *(f"{part}{ENDINGS[name]}" for part in NAMES),
    ]
    assert [path.name for path in (out / FAILED).iterdir()] == ["part-00001.jsonl"]
    counts = [read_counts(out, number, name) for number in range(3)]
    assert [each and tuple(each) for each in counts] == [(2, 3, 3, 0), (2, 0, 0, 1), (1, 3, 3, 0)]


def test_fhir_is_a_bundle_on_each_line(outs: dict[str, Path]) -> None:
    library = pytest.importorskip("fhir.resources.R4B.bundle")
    bundles = [library.Bundle.model_validate(line) for line in lines(outs["fhir"])]
    found = [[entry.resource.get_resource_type() for entry in bundle.entry] for bundle in bundles]
    assert found == [
        ["DocumentReference", "Condition", "MedicationStatement", "Provenance"],
        ["DocumentReference", "Condition", "Provenance"],
        ["DocumentReference"],
        ["DocumentReference", "Condition", "Condition", "MedicationStatement", "Provenance"],
    ]
    assert [bundle.entry[0].resource.identifier[0].value for bundle in bundles] == ["n0", "n1", "n2", "n4"]
    assert bundles[0].entry[1].resource.verificationStatus.coding[0].code == "refuted"
    started = json.loads((outs["fhir"] / "_manifest.json").read_text())["started"]
    assert {bundle.timestamp.isoformat() for bundle in bundles} == {started}


def test_omop_counts_through_all_parts(outs: dict[str, Path]) -> None:
    rows = table(outs["omop"])
    assert [int(row["note_nlp_id"]) for row in rows] == [1, 2, 3, 4, 5, 6]
    assert [int(row["note_id"]) for row in rows] == [1, 1, 2, 5, 5, 5]  # the number of the note in the corpus; its id is in term_modifiers
    assert [(row["term_modifiers"].rpartition("note=")[2], row["lexical_variant"]) for row in rows] == MENTIONS


def test_the_other_formats_hold_the_same_links(outs: dict[str, Path]) -> None:
    ids = [FEVER, ASPIRIN, HYPERTENSION, FEVER, HYPERTENSION, ASPIRIN]
    records = lines(outs["jsonl"])
    assert [(row["note"], row["mention"]) for row in records] == MENTIONS
    assert [row["cui"] for row in records] == ids
    assert [(row["note"], row["mention"]) for row in table(outs["csv"])] == MENTIONS
    assert [packet["subject"]["id"] for packet in lines(outs["phenopackets"])] == ["n0", "n1", "n2", "n4"]
    drugs = [[entity["Text"] for entity in line["InferRxNorm"]["Entities"]] for line in lines(outs["comprehend"])]
    assert drugs == [["aspirin"], [], [], ["aspirin"]]
    infons = [e for part in NAMES for e in ElementTree.parse(outs["bioc"] / f"{part}.xml").iter("infon")]
    assert [infon.text for infon in infons if infon.get("key") == "identifier"] == ids
    gold = [mention.gold for part in NAMES for mention in read_brat(outs["brat"] / part).mentions]
    assert Counter(str(each[0]) for each in gold) == Counter(str((cui,)) for cui in ids)


def test_jsonl_has_the_records_of_link(outs: dict[str, Path], tiny_linker: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "n0.txt").write_text(str(TEXTS[0]))
    done = CliRunner().invoke(app, ["link", str(notes), "--format", "jsonl", "--linker-name", str(tiny_linker)])
    wanted = [json.loads(line) for line in done.stdout.splitlines()]
    for row in wanted:
        del row["explain"]["cached"]
    assert lines(outs["jsonl"])[:2] == wanted


@pytest.mark.parametrize("name", ["jsonl", "csv"])
def test_further_columns(corpus: Path, settings: AnnotationSettings, tmp_path: Path, name: str) -> None:
    annotate(corpus, tmp_path / "out", replace(settings, format=name, keep_columns=["ward"], sentences=True), progress=False)
    rows = lines(tmp_path / "out") if name == "jsonl" else table(tmp_path / "out")
    assert [row["columns"]["ward"] if name == "jsonl" else row["ward"] for row in rows] == ["w0", "w0", "w1", "w4", "w4", "w4"]
    assert [row["sentence"] for row in rows] == ["No fever.", "Takes aspirin.", "Hypertension.", *["Fever and hypertension, aspirin."] * 3]


@pytest.mark.parametrize("name", EXPORTS)
def test_a_run_is_resumed_and_what_is_damaged_is_made_again(
    corpus: Path, settings: AnnotationSettings, outs: dict[str, Path], tmp_path: Path, name: str
) -> None:
    out, settings = tmp_path / "out", replace(settings, format=name)
    shutil.copytree(outs[name], out)
    before = content(out)
    last = out / f"part-00002{ENDINGS[name]}"
    if last.is_dir():
        (out / COUNTS / "part-00002.json").unlink()  # a worker was killed before it had written the counts
        (last / "annotation.conf").unlink()
        (out / ".part-00000.x.tmp").mkdir()
    else:
        last.write_bytes(last.read_bytes()[:-3])
        (out / f".part-00000{ENDINGS[name]}.host.1.tmp").write_text("cut")
    report = annotate(corpus, out, settings, partition_size=2, progress=False)
    assert (report.partitions, report.kept) == (3, 2)
    assert content(out) == before
    assert annotate(corpus, out, settings, partition_size=2, progress=False).kept == 3
    assert content(out) == before
    with pytest.raises(SapbertError, match=r"E017.*format: was .*, is \"parquet\""):
        annotate(corpus, out, replace(settings, format="parquet"), partition_size=2, progress=False)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(13, "Permission denied"), "[E009] 'out' can't be written (Permission denied)."),
        (OSError("no number"), "[E009] 'out' can't be written (no number)."),
        (OSError(28, "No space left on device"), "[E019] No room left to write 'out' (No space left on device)."),
        (fail("E008", path="x", error="full", env="X"), "[E019] No room left to write 'out' ([E008] "),
        (fail("E401", MissingFile, path="CONCEPT.csv"), "[E401] "),  # it is also an OSError
        (fail("E018", path="out", lock="lock"), "[E018] "),
    ],
)
def test_what_cannot_be_written_has_a_code(error: Exception, said: str) -> None:
    with pytest.raises(SapbertError) as info, unwritable_as_error(Path("out")):
        raise error
    assert str(info.value).startswith(said)


def test_omop_with_athenas_files(corpus: Path, settings: AnnotationSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPACY_SAPBERT_CACHE", str(tmp_path / "cache"))
    head = "concept_id\tconcept_name\tvocabulary_id\tstandard_concept\tconcept_code\tinvalid_reason\n"
    concepts = '35205502\t"Essential" hypertension\tICD10CM\t\tI10\t\n1112807\taspirin\tRxNorm\tS\t1191\t\n'
    (tmp_path / athena.CONCEPT).write_text(head + concepts)
    (tmp_path / athena.RELATIONSHIP).write_text("concept_id_1\tconcept_id_2\trelationship_id\tinvalid_reason\n35205502\t320128\tMaps to\t\n")
    given = replace(settings, format="omop", athena=str(tmp_path))
    annotate(corpus, tmp_path / "out", given, partition_size=2, progress=False)
    found = {row["lexical_variant"].lower(): (row["note_nlp_concept_id"], row["note_nlp_source_concept_id"]) for row in table(tmp_path / "out")}
    assert found == {"fever": ("0", "0"), "aspirin": ("1112807", "1112807"), "hypertension": ("320128", "35205502")}
    with open(tmp_path / athena.CONCEPT, "a") as file:
        file.write("1\tx\tSNOMED\tS\t2\t\n")
    with pytest.raises(SapbertError, match=r"E017.*athena"):
        annotate(corpus, tmp_path / "out", given, partition_size=2, progress=False)


def test_every_format_is_known_to_commands_and_service() -> None:
    assert [each.value for each in PartFormat] == list(ENDINGS)
    assert [each.value for each in outputs.EXPORTS] == list(FORMATS)
    assert list(get_args(AnswerFormat)) == ["json", *FORMATS]


def test_options_that_do_not_fit(corpus: Path, settings: AnnotationSettings, tmp_path: Path) -> None:
    for changes in (
        {"format": "pdf"},
        {"format": "fhir", "keep_columns": ["ward"]},
        {"format": "bioc", "sentences": True},
        {"athena": "."},
        {"format": "csv", "keep_columns": ["note"]},
    ):
        with pytest.raises(SapbertError, match="E002"):
            annotate(corpus, tmp_path / "out", replace(settings, **changes), progress=False)
    with pytest.raises(MissingFile, match="E401"):
        annotate(corpus, tmp_path / "out", replace(settings, format="omop", athena=str(tmp_path)), progress=False)
    assert not (tmp_path / "out").exists()


def test_the_command(corpus: Path, tiny_linker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(default_linkers, "open_linker", lambda: tiny_linker)
    done = CliRunner().invoke(app, ["annotate", str(corpus), str(tmp_path / "out"), "--format", "fhir"])
    assert done.exit_code == 0, done.output
    assert "5 notes, 1 failed" in done.stdout
    assert [line["resourceType"] for line in lines(tmp_path / "out")] == ["Bundle"] * 4


@pytest.mark.e2e
def test_two_workers_write_the_same_bytes(corpus: Path, settings: AnnotationSettings, outs: dict[str, Path], tmp_path: Path) -> None:
    for name in ("fhir", "omop"):
        out = tmp_path / name
        shutil.copytree(outs[name], out)
        for number in (0, 2):  # one partition stays, so that the run is resumed with the time at which it was started
            (out / f"part-{number:05d}{ENDINGS[name]}").unlink()
        report = annotate(corpus, out, replace(settings, format=name), partition_size=2, workers=2, progress=False)
        assert report.kept == 1
        assert content(out) == content(outs[name])
