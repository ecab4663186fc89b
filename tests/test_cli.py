"""The command line, run in this process: its output, and one line with a code for each error."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest
import spacy
import typer
from readers.helpers import RELEASE, relation, write_release
from spacy.language import Language
from tiny_encoders import make_bert, with_code
from typer.testing import CliRunner

from spacy_sapbert.build import default_linkers
from spacy_sapbert.cli import app, linking, read_notes
from spacy_sapbert.cli.app import command
from spacy_sapbert.cli.inputs import open_inputs
from spacy_sapbert.corpus.notes import NoteReader
from spacy_sapbert.corpus.pipeline import make_pipeline
from spacy_sapbert.errors import SapbertWarning, fail
from spacy_sapbert.kb.knowledge_base import KnowledgeBase

pytestmark = pytest.mark.usefixtures("one_thread")

DATA = Path(__file__).parent / "data"
NOTE = "Fevers and a cold.\nTakes aspirin for hypertension.\n"
MENTIONS = ["Fevers", "cold", "aspirin", "hypertension"]
CUIS = ["C9100027", "C9100020", "C9100053", "C9100009"]


@pytest.fixture(scope="module", autouse=True)
def default_linker(tiny_linker: Path) -> Iterator[None]:
    """Make the tiny linker the default of the commands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(default_linkers, "open_linker", lambda: tiny_linker)  # the function behind the entry point
        yield


@pytest.fixture(autouse=True)
def keep_filters() -> Iterator[None]:
    with warnings.catch_warnings():
        yield


def run(*args: Any, stdin: Any = None, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [str(arg) for arg in args], input=stdin)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def refused(*args: Any, stdin: Any = None) -> str:
    """Return the one line that a wrong call prints."""
    result = run(*args, stdin=stdin, code=1)
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    lines = [line for line in result.stderr.strip().splitlines() if "record" not in line]  # progress bars
    assert len(lines) == 1, result.stderr
    return str(lines[0])


def records(text: str) -> List[Dict[str, Any]]:
    return [json.loads(line) for line in text.split("\n") if line]


# -- link -----------------------------------------------------------------------------------------------------------------


def test_text_to_jsonl():
    found = records(run("link", NOTE, "--format", "jsonl").stdout)
    assert [r["mention"] for r in found] == MENTIONS
    assert [r["cui"] for r in found] == CUIS
    assert [NOTE[r["start"] : r["end"]] for r in found] == MENTIONS
    assert {r["note"] for r in found} == {"text"}
    assert found[2]["codes"] == {"UMLS": ["C9100053"], "RXNORM": ["1191"]}
    assert found[2]["name"] == "acetylsalicylic acid"


def test_text_to_csv_table_and_html():
    rows = list(csv.DictReader(io.StringIO(run("link", NOTE, "--format", "csv").stdout)))
    assert [(r["mention"], r["cui"]) for r in rows] == list(zip(MENTIONS, CUIS))
    table = run("link", NOTE).stdout
    assert all(word in table for word in ("Fevers", "C9100027", "acetylsalicylic", "1.00"))
    page = run("link", NOTE, "--format", "html").stdout
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert all(cui in page for cui in CUIS)


def test_many_notes_become_several_pages(tmp_path: Path):
    corpus = tmp_path / "notes.jsonl"
    corpus.write_text("".join(json.dumps({"id": f"n{i}", "text": "fever"}) + "\n" for i in range(5)))
    out = tmp_path / "out" / "a b.html"
    run("link", corpus, "--format", "html", "--out", out, "--notes-per-page", 2)
    assert sorted(path.name for path in out.parent.iterdir()) == ["a b-2.html", "a b-3.html", "a b.html"]
    pages = [(out.parent / name).read_text(encoding="utf-8") for name in ("a b.html", "a b-2.html", "a b-3.html")]
    assert [[note for note in ("n0", "n1", "n2", "n3", "n4") if f"<h2>{note}</h2>" in page] for page in pages] == [["n0", "n1"], ["n2", "n3"], ["n4"]]
    assert 'href="a%20b-2.html"' in pages[0]
    for more in (("--notes-per-page", 0), ("--notes-per-page", 5), ()):
        run("link", corpus, "--format", "html", "--out", tmp_path / "one" / "x.html", *more)
        assert [path.name for path in (tmp_path / "one").iterdir()] == ["x.html"]
    assert run("link", corpus, "--format", "html", "--notes-per-page", 2).stdout.count("<article") == 5  # standard output is one page


def test_files_folders_jsonl_and_standard_input(tmp_path: Path):
    folder = tmp_path / "notes"
    (folder / "ward").mkdir(parents=True)
    (folder / "b.txt").write_text(NOTE)
    (folder / "ward" / "a.MD").write_text("cough")
    (folder / "ward" / "ignored.pdf").write_bytes(b"\xff")
    (tmp_path / "one.text").write_text("\ufefffever")
    lines = [{"text": "tremor", "id": 7}, {"text": "nausea\u2028and fatigue\x85"}]
    (tmp_path / "more.jsonl").write_text("\n\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n")
    found = records(run("link", folder, tmp_path / "one.text", tmp_path / "more.jsonl", "-", "--format", "jsonl", stdin="a cough\r\n").stdout)
    assert [(r["note"], r["mention"]) for r in found] == [
        *(("b", mention) for mention in MENTIONS),
        ("ward/a", "cough"),
        ("one", "fever"),
        ("7", "tremor"),
        ("more:3", "nausea"),
        ("more:3", "fatigue"),
        ("stdin", "cough"),
    ]


def test_notes_from_tables_and_compressed_files(tmp_path: Path):
    import pyarrow as pa
    import pyarrow.parquet as pq
    import zstandard

    rows = [{"nr": 3, "note": "a cough"}, {"nr": 4, "note": "fever, nausea"}]
    csv_text = 'nr,note\n3,a cough\n4,"fever, nausea"\n'
    (tmp_path / "a.csv").write_text(csv_text)
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(csv_text.encode()))
    (tmp_path / "c.jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress("\n".join(map(json.dumps, rows)).encode()))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "d.parquet")
    files = [tmp_path / name for name in ("a.csv", "b.csv.gz", "c.jsonl.zst", "d.parquet")]
    found = list(read_notes([str(file) for file in files], "note", "nr"))
    assert found == [("a cough", "3"), ("fever, nausea", "4")] * 4
    linked = records(run("link", files[1], "--text-field", "note", "--id-field", "nr", "--format", "jsonl").stdout)
    assert [(r["note"], r["mention"]) for r in linked] == [("3", "cough"), ("4", "fever"), ("4", "nausea")]
    (tmp_path / "e.txt.gz").write_bytes(gzip.compress(b"tremor"))
    assert list(read_notes([str(tmp_path / "e.txt.gz")])) == [("tremor", "e")]
    assert "--text-field" in refused("link", files[0])
    (tmp_path / "e.txt.gz").write_bytes(gzip.compress(b"tremor")[:-6])
    assert refused("link", tmp_path / "e.txt.gz").startswith("[E402]")


def test_columns_of_the_input_are_kept(tmp_path: Path):
    (tmp_path / "a.csv").write_text("id,text,ward,bed\n1,a cough,=North,3\n2,fever,,4\n")
    (tmp_path / "b.jsonl").write_text('{"id": 3, "text": "fever", "ward": ["x", 1]}\n')
    files = tmp_path / "a.csv", tmp_path / "b.jsonl"
    found = records(run("link", *files, "--format", "jsonl", "--keep-columns", "ward").stdout)
    assert [(r["note"], r["columns"]) for r in found] == [("1", {"ward": "=North"}), ("2", {"ward": ""}), ("3", {"ward": '["x", 1]'})]
    rows = list(csv.DictReader(io.StringIO(run("link", files[0], "--format", "csv", "--keep-columns", "bed,ward").stdout)))
    assert [(r["note"], r["bed"], r["ward"]) for r in rows] == [("1", "3", "'=North"), ("2", "4", "")]
    assert list(rows[0])[-2:] == ["bed", "ward"]
    for args, why in (
        ((files[0], "--format", "fhir"), "it is for --format jsonl and csv."),
        (("a cough", "--format", "csv"), "texts and text files have no columns."),
    ):
        assert refused("link", *args, "--keep-columns", "ward") == f"[E002] Setting '--keep-columns' of 'link' is 'ward': {why}"
    assert "there is already a column of this name" in refused("link", files[0], "--format", "csv", "--keep-columns", "score")
    assert refused("link", files[0], "--format", "csv", "--keep-columns", "floor").startswith("[E408]")


@pytest.mark.parametrize("packed", [False, True])
def test_a_field_to_keep_that_no_line_has_is_refused(tmp_path: Path, packed: bool):
    lines = b'{"text": "fever", "bed": 1}\n\n{"text": "cough", "ward": null}\n'
    path = tmp_path / ("a.jsonl.gz" if packed else "a.jsonl")
    path.write_bytes(gzip.compress(lines) if packed else lines)
    asked = ["link", path, "--format", "jsonl", "--keep-columns"]
    found = records(run(*asked, "ward,bed").stdout)  # a line without the field, and one in which it is null
    assert [r["columns"] for r in found] == [{"ward": None, "bed": "1"}, {"ward": None, "bed": None}]
    assert refused(*asked, "ward,wrad") == f"[E408] '{path}' has no field 'wrad' (--keep-columns). It has: bed, text, ward."
    path = tmp_path / "b.jsonl"
    path.write_text("[]\n{\n")  # lines that are no records fail alone
    assert refused("link", path, "--format", "jsonl", "--keep-columns", "ward").startswith(f"[E403] '{path}', line 1: ")


def test_a_pipeline_with_components_of_a_file(tmp_path: Path):
    code = tmp_path / "mine.py"
    code.write_text(
        "from spacy.language import Language\nfrom spacy.tokens import Span\n@Language.component('only_colds')\ndef only(doc):\n"
        "    doc.ents = [Span(doc, i, i + 1, 'X') for i in range(len(doc)) if doc[i].text == 'cold']\n    return doc\n"
    )
    nlp = spacy.blank("en")
    from spacy.util import import_file

    import_file("mine", code)
    nlp.add_pipe("only_colds")
    nlp.to_disk(tmp_path / "pipeline")
    asked = ("link", "a cold and fever", "--pipeline", tmp_path / "pipeline", "--format", "jsonl")
    assert [r["mention"] for r in records(run(*asked, "--code", code).stdout)] == ["cold"]
    assert refused(*asked, "--code", tmp_path / "none.py").startswith("[E401]")
    code.write_text("raise RuntimeError('no')")
    assert "RuntimeError: no" in refused(*asked, "--code", code)


def test_a_warning_is_printed_without_a_line_of_code() -> None:
    where = typer.Typer()
    where.callback()(lambda: None)  # with one command only, typer would take its name for an argument

    @command(where, "risky")
    def risky() -> None:
        for category, message in ((SapbertWarning, SapbertWarning("W020", "anyone can read this")), (UserWarning, UserWarning("other"))):
            sys.stderr.write(warnings.formatwarning(message, category, "typing.py", 7, "if all("))

    before = warnings.formatwarning
    said = CliRunner().invoke(where, ["risky"]).stderr
    assert said == "[W020] anyone can read this\ntyping.py:7: UserWarning: other\n  if all(\n"
    assert warnings.formatwarning is before


@pytest.mark.e2e
def test_a_pipeline_whose_component_nobody_registered(tmp_path: Path):
    nlp = spacy.blank("en")
    nlp.to_disk(tmp_path / "pipeline")
    config = tmp_path / "pipeline" / "config.cfg"
    config.write_text(config.read_text().replace("pipeline = []", 'pipeline = ["mine"]') + '\n[components.mine]\nfactory = "nobodys"\n')
    said = run("link", "a cold", "--pipeline", tmp_path / "pipeline", code=1)
    assert said.stderr.startswith("[E402]")
    assert "no component 'nobodys' is registered here. Import the Python file that registers it (--code FILE)" in said.stderr
    assert len(said.stderr.splitlines()) == 1


def test_umls_by_its_name_says_what_to_do():
    said = refused("link", "a cold", "--linker-name", "umls")
    assert said.startswith("[E001]")
    assert "spacy_sapbert kb build" in said
    assert "spacy_sapbert index" in said


def test_a_target_without_a_calibration_is_refused():
    assert refused("link", "a cold", "--target-precision", "0.9").startswith("[E010]")


@pytest.mark.parametrize("form", ["jsonl", "csv", "html", "table"])
def test_out_is_the_same_as_standard_output(tmp_path: Path, form: str):
    out = tmp_path / "new" / f"links.{form}"
    assert run("link", "cold fever", "--format", form, "--out", out).stdout == ""
    written = out.read_bytes().decode("utf-8")
    assert "C9100027" in written
    if form != "table":
        assert written == run("link", "cold fever", "--format", form).stdout_bytes.decode("utf-8")
    assert [p.name for p in out.parent.iterdir()] == [out.name]


def test_text_that_is_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("here.txt").write_text("nausea")
    long = "He has a cough and no fever. " * 15  # longer than a file name may be
    for text in (long, "", "N/A fever", "a" * 300, "a" * 5_000, "x/" * 2_500, "fever.txt was lost", "fever\x00", "發燒" * 100):
        assert list(read_notes([text])) == [(text, "text")], text[:20]
    assert [note for note, _ in read_notes(["here.txt", "."])] == ["nausea", "nausea"]
    for path in ("ward/notes", "there.txt", "/no/such/place"):
        with pytest.raises(FileNotFoundError, match="E401"):
            list(read_notes([path]))
    assert len(records(run("link", long, "--format", "jsonl").stdout)) == 30


def test_options_of_link(tiny_linker: Path):
    both = ["cold", "knee replacement"]

    def mentions(*args: Any) -> List[Any]:
        return [(r["mention"], r["cui"]) for r in records(run("link", " and ".join(both), "--format", "jsonl", *args).stdout)]

    assert mentions("--linker-name", tiny_linker) == [("cold", "C9100020"), ("knee replacement", "C9100048")]
    other, without = mentions("--types", "T033,CHEM")  # the recogniser marks a mention that is no name of these types
    assert other == ("cold", "C9100029")
    assert (without[0] in both[1], without[1]) == (True, "NIL")
    assert [cui for _, cui in mentions("--vocabularies", "RXNORM", "--threshold", "0.9")] == ["NIL", "NIL"]


def test_abbreviations_by_default():
    pytest.importorskip("scispacy")
    text = "multiple sclerosis (MS). MS is stable"
    assert [r["cui"] for r in records(run("link", text, "--format", "jsonl").stdout)] == ["C9100006"] * 3
    assert [r["cui"] for r in records(run("link", text, "--format", "jsonl", "--no-abbreviations").stdout)] == ["C9100006", "C9100004", "C9100004"]


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory: pytest.TempPathFactory, tiny_linker: Path) -> Path:
    """Pipelines: `with-linker` has a ruler and a linker, `plain` only the ruler."""
    folder = tmp_path_factory.mktemp("pipelines")
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "PROBLEM", "pattern": "heart attacked"}])  # type: ignore[attr-defined]
    nlp.to_disk(folder / "plain")
    nlp.add_pipe("sapbert_linker", config={"linker_name": str(tiny_linker), "threshold": 0.99})
    nlp.to_disk(folder / "with-linker")
    return folder


def test_a_pipeline_of_the_users(pipelines: Path):
    def find(*args: Any) -> List[Any]:
        return [(r["mention"], r["label"], r["cui"]) for r in records(run("link", "heart attacked, cold", "--format", "jsonl", *args).stdout)]

    assert find("--pipeline", pipelines / "plain") == [("heart attacked", "PROBLEM", "C9100003")]
    assert find("--pipeline", pipelines / "plain", "--threshold", "0.99") == [("heart attacked", "PROBLEM", "NIL")]
    assert find("--pipeline", pipelines / "with-linker") == [("heart attacked", "PROBLEM", "NIL")]
    line = refused("link", "x", "--pipeline", pipelines / "with-linker", "--threshold", "0.5")  # the option would have no effect
    assert line.startswith("[E002] Setting 'threshold'")


def test_the_detector_comes_before_the_linker(pipelines: Path):
    pytest.importorskip("scispacy")
    for pipeline in ("plain", "with-linker"):
        assert make_pipeline({}, str(pipelines / pipeline)).pipe_names == [
            *("entity_ruler", "abbreviation_detector", "sapbert_linker", "clinical_status"),
        ]
    found = make_pipeline({}).pipe_names
    assert found == ["clinical_mentions", "concept_matcher", "abbreviation_detector", "sapbert_linker", "clinical_status"]


# -- errors ---------------------------------------------------------------------------------------------------------------


def test_wrong_inputs(tmp_path: Path):
    latin = tmp_path / "latin.txt"
    latin.write_bytes("first\nsecond caf\xe9\n".encode("latin-1"))
    assert refused("link", latin).startswith(f"[E404] '{latin}' is not valid UTF-8 near line 2")
    assert refused("link", "-", stdin=b"caf\xe9").startswith("[E404] 'standard input'")
    (tmp_path / "empty").mkdir()
    assert refused("link", tmp_path / "empty").startswith(f"[E402] '{tmp_path / 'empty'}' is not a folder of notes")
    assert refused("link", tmp_path / "none.txt").startswith("[E401]")
    for name in ("none.jsonl", "none.jsonl.zst", "none.txt.xz", "none.pq"):
        assert refused("link", name).startswith("[E401]")
    (tmp_path / "notes.json").write_text('[{"text": "fever"}]')
    assert refused("link", tmp_path / "notes.json").startswith(
        f"[E402] '{tmp_path / 'notes.json'}' is not a file of notes: '.json' is not read. Give "
    )
    assert refused("link", tmp_path / "none").startswith("[E401]")


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("a.json.gz", "'.json' is not read. Give a .parquet"),
        ("a.PDF.xz", "'.pdf' is not read. Save its text as .txt."),
        ("a.docx", "'.docx' is not read. Save its text as .txt."),
        ("a.pptx", "'.pptx' is not read. Save its text as .txt."),
        ("a.html", "'.html' is not read. Save its text as .txt."),
        ("a.htm.zst", "'.htm' is not read. Save its text as .txt."),
        ("a.xml", "'.xml' is not read. Save its text as .txt."),
        ("a.xlsx", "'.xlsx' is not read. Save it as .csv."),
        ("a.xls", "'.xls' is not read. Save it as .csv."),
        ("a.png", "'.png' is not read. It is an image; recognise the text in it first, and save it as .txt."),
        ("a.jpg", "'.jpg' is not read. It is an image;"),
        ("a.dcm", "'.dcm' is not read. It is an image;"),
        ("a.zip", "'.zip' is not read. Unpack it, and give the folder."),
    ],
)
def test_files_that_are_no_text_are_refused_with_a_remedy(tmp_path: Path, name: str, remedy: str):
    path = tmp_path / name
    path.write_bytes(b"fever")
    assert refused("link", path).startswith(f"[E402] '{path}' is not a file of notes: {remedy}")


@pytest.mark.parametrize(
    ("content", "line", "why"),
    [
        ('\n{"text": "b"\n', 2, "not JSON"),
        ('\n\n{"id": 1}\n', 3, "no field 'text'"),
        ('["text\u2028"]\n', 1, "no field 'text'"),
        ('{"text": 5}', 1, "no field 'text'"),
        ("text\n", 1, "not JSON"),
    ],
)
def test_wrong_jsonl(tmp_path: Path, content: str, line: int, why: str):
    path = tmp_path / "notes.jsonl"
    path.write_text(content, encoding="utf-8")
    message = refused("link", path)
    assert message.startswith(f"[E403] '{path}', line {line}: ")
    assert why in message


def test_lines_and_files_that_cannot_be_read_do_not_lose_the_others(tmp_path: Path):
    path = tmp_path / "notes.jsonl"
    path.write_text('{"text": "fever\u2028"}\n["text"]\n{"text": "b"\n{"text": "cough"}\n', encoding="utf-8")
    folder = tmp_path / "ward"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"caf\xe9")
    (folder / "b.txt").write_text("tremor")
    said = run("link", path, folder, "--format", "jsonl", code=1)
    assert [(r["note"], r["mention"]) for r in records(said.stdout)] == [("notes:1", "fever"), ("notes:4", "cough"), ("b", "tremor")]
    (line,) = said.stderr.strip().splitlines()
    assert line.startswith("[E054] 3 of 6 notes could not be linked (the others were); the first that failed is 'notes:2': ")
    assert f"[E403] '{path}', line 2: it has no field 'text' that holds text. Correct these notes" in line
    out = tmp_path / "out.csv"
    assert refused("link", folder / "a.txt", "--format", "csv", "--out", out).startswith("[E404]")
    assert not out.exists()


@pytest.mark.parametrize(
    ("kind", "error", "given", "code", "why"),
    [
        ("jsonl", OSError, (5, "Input/output error"), "E053", "can't use '{path}' (Input/output error)"),
        ("jsonl", FileNotFoundError, (2, "No such file or directory"), "E401", "'{path}' does not exist. Correct"),
        ("parquet", ValueError, ("fever",), "E402", "it was changed or is damaged (ValueError in "),
    ],
)
def test_an_input_that_cannot_be_read_to_its_end_does_not_lose_what_was_read(
    tmp_path: Path, kind: str, error: Any, given: Any, code: str, why: str, monkeypatch: pytest.MonkeyPatch
):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path, out = tmp_path / f"notes.{kind}", tmp_path / "out.jsonl"
    if kind == "jsonl":
        path.write_text('{"text": "fever"}\n' * 6)
    else:
        pq.write_table(pa.table({"text": ["fever"] * 6}), path)
    reads, left = NoteReader.read, 3

    def broken(self: NoteReader, partition: Any) -> Iterator[Any]:
        yield from list(reads(self, partition))[:left]
        raise error(*given)

    monkeypatch.setattr(NoteReader, "read", broken)
    said = run("link", path, "cough", "--format", "jsonl", "--out", out, code=1)
    assert [r["mention"] for r in records(out.read_text())] == ["fever", "fever", "fever", "cough"]  # the next input is read, too
    (line,) = said.stderr.strip().splitlines()
    first = f"[E054] 3 of 7 notes could not be linked (the others were); the first that failed is 'notes.{kind}, note 4': [{code}] "
    assert line.startswith(first)
    assert why.format(path=path) in line
    left = 0
    out.unlink()
    assert refused("link", path, "--format", "jsonl", "--out", out).startswith(f"[{code}] ")
    assert not out.exists()


def test_an_input_that_is_deleted_after_it_was_opened_is_named(tmp_path: Path):
    path = tmp_path / "notes.jsonl"
    path.write_text('{"text": "fever"}\n{"text": "cough"}\n')
    (tmp_path / "more.txt").write_text("tremor")
    inputs = open_inputs([str(path), str(tmp_path / "more.txt")])
    path.unlink()
    found = list(inputs.notes)
    assert [(read.note_id, read.text, getattr(read.error, "code", "")) for read in found] == [
        *(("notes.jsonl, note 1", "", "E401"), ("notes.jsonl, note 2", "", "E401"), ("more", "tremor", "")),
    ]
    assert len(found) == inputs.total == 3


def test_the_reason_of_a_component_ends_with_one_full_stop(tmp_path: Path):
    @Language.component("refuses_cough")
    def refuses_cough(doc: Any) -> Any:
        if "cough" in doc.text:
            raise fail("E402", path="x", expected="y", why="it is wrong.")
        return doc

    nlp = make_pipeline({}, alone=True)
    nlp.add_pipe("refuses_cough", first=True)
    nlp.to_disk(tmp_path / "nlp")
    said = run("link", "fever", "cough", "--format", "jsonl", "--pipeline", tmp_path / "nlp", code=1).stderr
    assert said.strip().endswith("[E402] 'x' is not y: it is wrong. Correct these notes, or leave them out.")


def test_all_inputs_are_checked_before_the_first_note_is_linked(tmp_path: Path):
    (tmp_path / "a.txt").write_text("fever")
    assert refused("link", tmp_path / "a.txt", tmp_path / "none.txt").startswith("[E401]")


@pytest.mark.parametrize("form", ["jsonl", "csv", "table", "html", "fhir", "omop", "phenopackets", "bioc", "comprehend", "brat"])
def test_notes_are_written_while_others_are_read(tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch):
    """With batches of two notes, the output is that of one batch, and at most one page or batch of Docs is alive."""
    import gc
    import re

    from spacy.tokens import Doc

    corpus = tmp_path / "notes.jsonl"
    texts = ["fever", "cough", "tremor", NOTE, "nausea", "no fever", "cold"]
    corpus.write_text("".join(json.dumps({"id": f"n{i}", "text": text}) + "\n" for i, text in enumerate(texts)))
    asked = ["link", corpus, "--format", form, "--notes-per-page", 2, "--out"]

    def written(folder: Path) -> Dict[str, str]:
        found = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()}
        return {name: re.sub(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d|, \"cached\": \w+", "", text) for name, text in found.items()}  # time of the run

    run(*asked, tmp_path / "one" / "x.out")
    most, batches, watched = 0, linking.NotesRun._batches, ("jsonl", "html", "fhir")

    def counted(self: linking.NotesRun, takes: Any) -> Iterator[Any]:
        nonlocal most
        for batch in batches(self, takes):
            if form in watched:  # it takes seconds, because all objects of PyTorch are looked at
                gc.collect()
                most = max(most, sum(type(each) is Doc and each.text in texts for each in gc.get_objects()))
            yield batch

    monkeypatch.setattr(linking.NotesRun, "_batches", counted)
    monkeypatch.setattr(linking, "MAX_NOTES", 2)
    run(*asked, tmp_path / "two" / "x.out")
    assert written(tmp_path / "two") == written(tmp_path / "one")
    assert len(written(tmp_path / "one")) == {"html": 4, "brat": 15}.get(form, 1)
    assert 2 <= most <= 5 or form not in watched


def test_pages_of_an_earlier_run_are_removed_and_other_files_are_kept(tmp_path: Path):
    corpus, out = tmp_path / "notes.jsonl", tmp_path / "out" / "links.html"

    def link(count: int) -> None:
        corpus.write_text("".join(json.dumps({"id": f"n{i}", "text": "fever"}) + "\n" for i in range(count)))
        run("link", corpus, "--format", "html", "--out", out, "--notes-per-page", 2)

    link(8)
    mine = ["links-5.html", "links-02.html", "links-3.htm", "other-3.html", "links-3b.html"]
    for name in mine:
        (out.parent / name).write_text("<title>Linked notes, page 5 of 9</title>")  # not a page of this tool: it has no policy
    link(3)
    assert sorted(path.name for path in out.parent.iterdir()) == sorted(["links.html", "links-2.html", *mine])
    assert "page 2 of 2" in (out.parent / "links-2.html").read_text(encoding="utf-8")
    link(1)
    assert sorted(path.name for path in out.parent.iterdir()) == sorted(["links.html", *mine])


def test_a_page_whose_place_is_taken_is_named_and_no_page_is_replaced(tmp_path: Path):
    corpus, out = tmp_path / "notes.jsonl", tmp_path / "out" / "links.html"
    corpus.write_text("".join(json.dumps({"id": f"n{i}", "text": "fever"}) + "\n" for i in range(3)))
    taken = out.with_name("links-2.html")
    taken.mkdir(parents=True)
    out.write_text("of an earlier run")
    said = refused("link", corpus, "--format", "html", "--out", out, "--notes-per-page", 2)
    assert said == f"[E009] '{taken}' can't be written (Is a directory). Give another file."
    assert out.read_text() == "of an earlier run"
    assert sorted(path.name for path in out.parent.iterdir()) == ["links-2.html", "links.html"]


def test_an_error_while_notes_are_written_keeps_the_file_of_an_earlier_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from spacy_sapbert import render

    out = tmp_path / "out" / "links.jsonl"
    run("link", "fever", "--format", "jsonl", "--out", out)
    before = out.read_bytes()

    def full(*args: Any) -> int:
        args[1].write("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(render, "to_jsonl", full)
    assert (
        refused("link", "cough", "--format", "jsonl", "--out", out)
        == f"[E009] '{out}' can't be written (No space left on device). Give another file."
    )
    assert [path.name for path in out.parent.iterdir()] == ["links.jsonl"]
    assert out.read_bytes() == before


def test_wrong_settings(tmp_path: Path):
    for args, code in (
        (["--linker-name", "nope"], "E001"),
        (["--types", "T999"], "E104"),
        (["--vocabularies", "ICD9"], "E105"),
        (["--threshold", "7"], "E002"),
        (["--pipeline", "no_such_pipeline"], "E402"),
        (["--out", tmp_path, "--format", "csv"], "E009"),
        (["--out", "/proc/none/x.csv", "--format", "csv"], "E009"),
    ):
        assert refused("link", "fever", *args).startswith(f"[{code}]")
    assert refused("lookup", "fever", "--linker-name", "nope").startswith("[E001]")
    assert refused("kb", "info", tmp_path / "none").startswith("[E101]")
    assert refused("kb", "build", tmp_path / "none.obo", "--out", tmp_path / "kb").startswith("[E401]")
    assert refused("kb", "build", DATA / "tiny.obo", "--out", tmp_path / "kb", "--types", "T999").startswith("[E104]")
    assert refused("index", tmp_path, "--out", tmp_path / "l").startswith("[E101]")
    assert refused("index", tmp_path, "--out", tmp_path / "l", "--engine", "faiss").startswith("[E002] Setting 'engine'")
    trees = refused("index", tmp_path, "--out", tmp_path / "l", "--engine", "spacy-sapbert.ExactIndex.v1", "--n-trees", "50")
    assert trees.startswith("[E002] Setting '--n-trees'")
    for setting, why in (
        ("uri", "NAME=VALUE"),
        ("url=x", "Known are uri, "),
        ("search=many", "of type int"),
        ("uri=host:1", "a server"),
        ("search=0", "at least 1"),
    ):
        shown = refused("index", tmp_path, "--out", tmp_path / "l", "--engine", "spacy-sapbert.MilvusIndex.v1", "--setting", setting)
        assert shown.startswith("[E002]")
        assert why in shown
    assert refused("index", tmp_path, "--out", tmp_path / "l", "--pooling", "max").startswith("[E303]")
    assert refused("demo", "--notes", tmp_path / "none").startswith("[E401]")
    assert sorted(p.name for p in tmp_path.iterdir()) == []


@pytest.mark.parametrize("args", [["link", "x", "--treshold", "1"], ["link"], ["link", "x", "--format", "xml"], ["lookup", "x", "--k", "0"], ["nonsense"], ["kb", "build", "x"]])  # fmt: skip
def test_wrong_calls_show_the_usage(args: List[str]):
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 2
    assert "Usage" in result.stderr


def test_lookup_shows_the_concepts_of_ids_and_codes(tiny_linker: Path) -> None:
    shown = run("lookup", "icd10cm:I10", "C9100009", "fever", "--linker-name", tiny_linker, "--k", "1").stdout
    rows = [[cell.strip() for cell in line.split("│")[1:5]] for line in shown.splitlines() if line.startswith("│")]
    assert [row[:2] for row in rows[:2]] == [["id", "C9100009"]] * 2
    assert [row[3] for row in rows[:2]] == ["icd10cm:I10", "C9100009"]
    assert rows[2][0] == "1.000"  # "fever" was looked up as a mention


def test_lookup_of_a_code_that_no_concept_has_says_so(tiny_linker: Path) -> None:
    done = run("lookup", "FOO:123", "C9999999", "fever", "cold:120", "--linker-name", tiny_linker, "--k", "1")
    said = [line for line in done.stderr.splitlines() if "looks like an id" in line]
    assert len(said) == 2  # "cold" is a name and no vocabulary, so "cold:120" is a mention with a value
    assert said[0].startswith("'FOO:123' looks like an id, but the knowledge base has no code of FOO. It has codes of ")
    assert said[1] == "'C9999999' looks like an id, but no concept has the code 'C9999999' of UMLS. It is looked up as a mention."


def test_a_tampered_linker(tiny_linker: Path, tmp_path: Path):
    import shutil

    shutil.copytree(tiny_linker, tmp_path / "l", copy_function=os.link)
    (tmp_path / "l" / "kb" / "names.npy").unlink()
    assert refused("link", "fever", "--linker-name", tmp_path / "l").startswith("[E102]")
    assert refused("kb", "info", tmp_path / "l").startswith("[E102]")


def test_read_notes_streams(tmp_path: Path):
    (tmp_path / "a.txt").write_text("one")
    notes = read_notes([str(tmp_path / "a.txt"), str(tmp_path / "none.txt")])
    assert next(notes) == ("one", "a")
    with pytest.raises(FileNotFoundError, match="E401"):
        next(notes)


# -- kb, index, lookup, demo ----------------------------------------------------------------------------------------------


def test_build_show_index_and_link(tmp_path: Path):
    out = tmp_path / "kb"
    built = run("kb", "build", DATA / "tiny.obo", f"table:{DATA / 'tiny_table.tsv'}", "--out", out)
    kb = KnowledgeBase(out, verify=True)
    assert [source["name"] for source in kb.manifest["sources"]] == ["tiny.obo", "tiny_table.tsv"]
    info = run("kb", "info", out, "--verify").stdout
    for text in (built.stdout, info):
        assert "tiny.obo" in text
        assert f"{len(kb):,}" in text
    assert "SNOMEDCT_US 1" in info
    linker = tmp_path / "linker"
    shown = run("index", out, "--out", linker, "--engine", "auto").stdout
    assert shown.startswith("spacy-sapbert.ExactIndex.v1: ")
    assert "misspelt names" in shown
    assert "acc_at_1" in shown
    assert json.loads((linker / "manifest.json").read_text())["index"] == "spacy-sapbert.ExactIndex.v1"
    assert run("kb", "info", linker).stdout.splitlines()[-1] == info.splitlines()[-1]
    (row,) = records(run("link", "two wandering knees", "--linker-name", linker, "--format", "jsonl").stdout)
    assert (row["mention"], row["name"]) == ("wandering knees", "wandering knee")


@pytest.fixture
def own_encoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model folder with a Python file, which writes the file `marker` when it is run. Questions on standard input get no answer."""
    folder = make_bert(tmp_path / "own")
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    for part in ("BertConfig", "BertModel"):  # transformers marks classes that it has found through the code of a repository
        monkeypatch.setattr(f"transformers.{part}._auto_class", None)
    return with_code(folder, tmp_path / "marker")


def test_code_of_a_repository_is_run_only_when_it_is_trusted(own_encoder: Path, tiny_linker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("builtins.input", lambda prompt="": pytest.fail(f"asked: {prompt}"))
    command = ["index", tiny_linker / "kb", "--encoder", own_encoder, "--out", tmp_path / "linker"]
    said = refused(*command)
    assert said.startswith("[E306]")
    assert "--trust-remote-code" in said
    assert not (tmp_path / "marker").exists()
    result = run(*command, "--trust-remote-code", code=1)
    aloud, error = result.stderr.strip().splitlines()
    assert str(own_encoder) in aloud
    assert "is run" in aloud
    assert (tmp_path / "marker").read_text() == "run"
    assert error.startswith("[E308]")  # a linker with this encoder could not be opened
    assert "OwnModel" in error
    assert not (tmp_path / "linker").exists()
    assert not (tmp_path / "linker.vectors").exists()


def test_a_trusted_repository_whose_classes_are_transformers_own(own_encoder: Path, tiny_linker: Path, tmp_path: Path):
    """Such a linker can be opened without the code of the repository, and no code is saved."""
    with_code(own_encoder, tmp_path / "marker", names="Bert")
    out = tmp_path / "linker"
    result = run(
        "index", tiny_linker / "kb", "--encoder", own_encoder, "--out", out, "--trust-remote-code", "--engine", "spacy-sapbert.ExactIndex.v1"
    )
    assert str(own_encoder) in result.stderr
    (tmp_path / "marker").unlink()
    assert not list(out.rglob("*.py"))
    (row,) = records(run("link", "two colds", "--linker-name", out, "--format", "jsonl").stdout)
    assert row["mention"] == "colds"
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("encoder", ["", "fast"])
def test_what_ships_has_no_code_to_trust(tiny_linker: Path, tmp_path: Path, encoder: str):
    said = refused("index", tiny_linker / "kb", "--encoder", encoder, "--out", tmp_path / "linker", "--trust-remote-code")
    assert said.startswith("[E002]")
    assert "--trust-remote-code" in said


@pytest.mark.parametrize(
    ("asked", "kept"),
    [("", []), ("has_finding_site,causes", ["has_finding_site"]), ("all", ["finding_site_of", "has_finding_site"])],
)
def test_relations_of_umls(tmp_path: Path, asked: str, kept: List[str]) -> None:
    one, other = "C9000001", "C9000002"
    rows = [relation(one, "RO", other, rela="finding_site_of"), relation(other, "RO", one, rela="has_finding_site")]
    release = write_release(tmp_path / "META", {**RELEASE, "MRREL": rows})
    shown = run("kb", "build", release, "--out", tmp_path / "kb", "--relations", asked).stdout
    assert sorted(kind for _, kind, _ in KnowledgeBase(tmp_path / "kb").relations()) == kept
    assert f"relations  {len(kept):>12}" in shown


def test_filters_of_kb_build(tmp_path: Path):
    run("kb", "build", DATA / "tiny_table.tsv", "--out", tmp_path / "en")
    run("kb", "build", DATA / "tiny_table.tsv", "--out", tmp_path / "all", "--languages", "all")
    assert {n.language for c in KnowledgeBase(tmp_path / "en").concepts() for n in c.names} == {"en"}
    assert {n.language for c in KnowledgeBase(tmp_path / "all").concepts() for n in c.names} == {"en", "es"}
    assert refused("kb", "build", DATA / "tiny_table.tsv", "--out", tmp_path / "en", "--languages", "fi").startswith("[E103]")
    said = refused("kb", "build", write_release(tmp_path / "umls"), "--out", tmp_path / "en", "--rrf-sources", "XYZ")
    assert "(left out: 'umls' by vocabulary: SCTSPA (2), SNOMEDCT_US (2), MSH (1), MTH (1), RXNORM (1), TOY (1))" in said
    assert refused("kb", "build", DATA / "tiny_table.tsv", "--out", tmp_path / "en", "--languages", "xx").startswith("[E002]")  # not a language
    assert len(KnowledgeBase(tmp_path / "en")) > 0  # the existing folder is kept


def test_lookup():
    out = run("lookup", "Cold", "heart attacks", "...", "--k", "2").stdout
    lines = [[cell.strip() for cell in line.strip("│ \n").split("│")] for line in out.splitlines() if line.startswith("│")]
    assert [line[:3] for line in lines[:2]] == [["1.000", "C9100020", "common cold"], ["1.000", "C9100029", "sensation of cold"]]
    assert lines[2][1:] == ["C9100003", "myocardial infarction", "heart attack"]
    assert len(lines) == 4  # nothing for "..."


def test_lookup_shows_brackets_as_they_are(tmp_path: Path):
    (tmp_path / "b.tsv").write_text("concept_id\tname\nC0000001\tbenzo[a]pyrene\nC0000002\t[/b] knee\n")
    run("kb", "build", tmp_path / "b.tsv", "--out", tmp_path / "kb")
    run("index", tmp_path / "kb", "--out", tmp_path / "l", "--engine", "spacy-sapbert.ExactIndex.v1")
    out = run("lookup", "benzo[a]pyrene", "--linker-name", tmp_path / "l").stdout
    assert out.count("benzo[a]pyrene") == 3
    assert "[/b] knee" in out


def test_demo(tmp_path: Path):
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "one.txt").write_text(NOTE)
    (notes / "two.txt").write_text("No cough. multiple sclerosis (MS); MS is stable.")
    result = run("demo", "--notes", notes, "--out", tmp_path / "out")
    assert "2 notes, 8 mentions" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("Written: ")
    found = records((tmp_path / "out" / "links.jsonl").read_text())
    assert [r["note"] for r in found] == ["one"] * 4 + ["two"] * 4
    page = (tmp_path / "out" / "notes.html").read_text()
    assert "one" in page
    assert "C9100006" in page


def test_module_runs(monkeypatch: pytest.MonkeyPatch):
    import runpy
    import sys

    monkeypatch.setattr(sys, "argv", ["spacy_sapbert", "--help"])
    with pytest.raises(SystemExit) as info:
        runpy.run_module("spacy_sapbert", run_name="__main__")
    assert info.value.code in (0, None)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ("missing.pdf", "missing"),
        ("notes.DOCX", "missing"),
        ("see notes.pdf", "missing"),
        ("my notes.txt", "missing"),
        ("my notes.csv.gz", "missing"),
        ("tests/no such notes", "missing"),  # the folder exists
        ("./no such notes", "missing"),
        ("none/missing", "missing"),
        ("missing", "text"),  # a word may be a mention
        ("pain.Fever", "text"),
        ("Pt c/o chest pain, n/v.", "text"),
        ("/none/of these", "text"),
        ("He was seen by John Smith, M.D.", "text"),
        (f"{'fever and ' * 30}cough.txt", "text"),  # no file name is so long
        ("/none/my notes.txt", "missing"),
        ("./my notes.jsonl.gz", "missing"),
        ("/day 3.\nsee a.txt", "text"),
    ],
)
def test_a_file_that_is_not_there_is_no_text(given: str, kind: str, monkeypatch: pytest.MonkeyPatch):
    from spacy_sapbert.cli.inputs import _what_is

    monkeypatch.chdir(Path(__file__).parents[1])
    assert _what_is(given) == kind


def test_a_missing_file_with_a_space_in_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert refused("link", "my notes.txt").startswith("[E414] 'my notes.txt' looks like a file, and does not exist.")
    (tmp_path / "my notes.txt").write_text("fever")
    assert '"mention": "fever"' in run("link", "my notes.txt", "--format", "jsonl").stdout
