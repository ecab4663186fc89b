"""The benchmarks' arithmetic and parsers, added up by hand."""

from __future__ import annotations

import json

import pytest
import spacy

from benchmarks import common, corpora, linking, memory, metrics, systems, worker
from benchmarks.metrics import Gold, Mention, accuracy, lenient, resolve, strict, sweep

GSC = """100
Short stature and low muscle tone.
0\t13\tShort stature\tHP:0004322
18\t33\tlow muscle tone\tHP:0001252

200
No finding here.

300
Tone.
0\t4\tTone\tHP:1
"""
PUBTATOR = """7|t|WD and cancer.
7|a|Wilson disease (WD) is rare.
7\t0\t2\tWD\tSpecificDisease\tD006527
7\t15\t29\tWilson disease\tSpecificDisease\tOMIM:277900|C535918+D006527

8|t|Nothing.
8|a|
"""
ROWS = {"A": 1, "B": 2, "C": 3, "old A": 1}


def mention(*gold):
    return Mention("d", 0, 1, "x", gold)


def row_of(concept_id):
    return ROWS[concept_id]


# -- metrics ------------------------------------------------------------------------------------------------------------


def test_resolve_follows_ids_and_names_what_is_missing():
    assert resolve(mention(("old A",)), row_of) == Gold(((1,),), ())
    gold = resolve(mention(("A", "X"), ("Y",)), row_of)
    assert gold == Gold(((1, None), (None,)), ("X", "Y"))
    assert not gold.answerable
    assert resolve(mention(("X",), ("B",)), row_of).answerable


def test_strict_needs_all_of_a_composite_and_lenient_any():
    composite = Gold(((1, 2),), ())
    assert not strict(composite, [1, 2], 1)
    assert strict(composite, [2, 9, 1], 3)
    assert not strict(composite, [2, 9, 1], 2)
    assert lenient(composite, [2], 1)
    assert not lenient(composite, [9, 1], 1)


def test_alternatives_are_each_enough():
    either = Gold(((1,), (2,)), ())
    assert strict(either, [2], 1)
    assert strict(either, [1], 1)
    assert not strict(either, [3, 4], 2)


def test_an_id_outside_the_knowledge_base_is_never_found():
    assert not strict(Gold(((None,),), ("X",)), [1, 2], 2)
    assert not lenient(Gold(((None,),), ("X",)), [1, 2], 2)
    assert lenient(Gold(((None, 2),), ("X",)), [2], 1)
    assert not strict(Gold(((None, 2),), ("X",)), [2], 1)


def test_accuracy_at_1_and_k():
    golds = [Gold(((1,),), ()), Gold(((2,),), ()), Gold(((3,),), ()), Gold(((None,),), ("X",))]
    ranked = [[1, 2], [1, 2], [1, 2], [1]]
    found = accuracy(golds, ranked, k=2)  # right at 1: the first; at 2: the second also
    assert found == (25.0, 50.0, 4)
    answerable = accuracy(golds, ranked, k=2, answerable_only=True)
    assert answerable.at_1 == pytest.approx(100 / 3)
    assert answerable.at_k == pytest.approx(200 / 3)
    assert answerable.total == 3


def test_accuracy_of_composites_depends_on_the_rule():
    golds, ranked = [Gold(((1, 2),), ())], [[1, 2]]
    assert accuracy(golds, ranked, k=2)[:2] == (0.0, 100.0)
    assert accuracy(golds, ranked, k=2, rule=lenient)[:2] == (100.0, 100.0)


def test_accuracy_of_nothing_and_of_unlike_lengths():
    assert accuracy([], []) == (0.0, 0.0, 0)
    with pytest.raises(ValueError, match="1 gold mentions but 0 rankings"):
        accuracy([Gold(((1,),), ())], [])


def test_missing_ids_are_counted():
    assert metrics.missing_ids([Gold((), ("Y", "X")), Gold((), ("X",))]) == {"X": 2, "Y": 1}


def test_sweep_counts_what_is_above_the_threshold():
    low, high, none = sweep([0.9, 0.8, 0.6, float("-inf")], [True, False, True, False], [0.5, 0.8, 1.0])
    assert low == (0.5, 3, 2, 4)
    assert low.precision == pytest.approx(200 / 3)
    assert low.recall == 50.0
    assert low.f1 == pytest.approx(400 / 7)
    assert high == (0.8, 1, 1, 4)  # 0.8 itself is not above 0.8
    assert (none.precision, none.recall, none.f1) == (100.0, 0.0, 0.0)


# -- corpora ------------------------------------------------------------------------------------------------------------


def test_gsc():
    corpus = corpora.read_gsc(GSC.splitlines())
    assert list(corpus.documents) == ["100", "200", "300"]
    assert corpus.mentions[1] == Mention("100", 18, 33, "low muscle tone", (("HP:0001252",),))
    assert len(corpus.mentions) == 3


def test_pubtator():
    corpus = corpora.read_pubtator(PUBTATOR.splitlines())
    assert corpus.documents == {"7": "WD and cancer. Wilson disease (WD) is rare.", "8": "Nothing. "}
    assert corpus.mentions[0] == Mention("7", 0, 2, "WD", (("MESH:D006527",),))
    assert corpus.mentions[1].gold == (("OMIM:277900",), ("MESH:C535918", "MESH:D006527"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("D001943", (("MESH:D001943",),)),
        ("D001943|D010051", (("MESH:D001943",), ("MESH:D010051",))),
        ("D007674+D006222", (("MESH:D007674", "MESH:D006222"),)),
        ("OMIM:300322+OMIM:102600", (("OMIM:300322", "OMIM:102600"),)),
        ("D1+D1", (("D1",),)),  # an id of no known form stays as it is, once
        (" ", ()),
    ],
)
def test_gold_ids(text, expected):
    assert corpora.gold_ids(text) == expected


def test_docs_have_spans_at_the_gold_offsets_even_within_tokens_and_overlapping():
    text = "The BCCs/tumours are many."
    mentions = [Mention("1", 4, 7, "BCC", ()), Mention("1", 4, 16, "BCCs/tumours", ()), Mention("1", 9, 16, "tumours", ())]
    ((doc, same),) = corpora.make_docs(corpora.Corpus({"1": text}, mentions), spacy.blank("en"))
    assert doc.text == text
    assert [span.text for span in doc.spans[corpora.GOLD]] == ["BCC", "BCCs/tumours", "tumours"]
    assert same == mentions


def test_offsets_that_do_not_fit_the_text_are_refused():
    corpus = corpora.Corpus({"1": "some text"}, [Mention("1", 0, 4, "other", ())])
    with pytest.raises(ValueError, match="'other' does not stand at 0-4"):
        corpora.make_docs(corpus, spacy.blank("en"))


def test_lines_end_only_at_line_ends(tmp_path):
    import gzip

    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress("a\fb\r\nc\u2028d\n\ne\n".encode()))
    assert list(corpora.open_lines(path)) == ["a\fb", "c\u2028d", "", "e"]


def test_notes_are_distinct(tmp_path):
    path = tmp_path / "notes.jsonl"
    path.write_text("\n".join(json.dumps({"transcription": text}) for text in ["a", " a ", None, "b", "c"]), encoding="utf-8")
    assert corpora.read_notes(path, 2) == ["a", "b"]
    assert corpora.read_notes(path, 9) == ["a", "b", "c"]


# -- systems, tables, measuring -----------------------------------------------------------------------------------------


def test_scispacy_candidates_are_ranked_by_their_best_name():
    class KB:
        def row_of(self, concept_id):
            return ROWS[concept_id]

    class Candidate:
        def __init__(self, concept_id, similarities):
            self.concept_id, self.similarities = concept_id, similarities

    def generator(texts, k):
        assert texts == ["x", "y"]  # equal mentions once
        return [[Candidate("A", [0.2, 0.5]), Candidate("B", [0.4, 0.9])], []]

    ranked = systems.scispacy_candidates(["x", "y", "x"], KB(), generator)
    assert ranked.concepts == [[2, 1], [], [2, 1]]
    assert ranked.scores == [0.9, float("-inf"), 0.9]


def test_noise_holds_no_names_and_does_not_change():
    class Matcher:
        def predict(self, docs):
            return [[token for token in doc if token.text == "seizure"] for doc in docs]

    notes = ["The patient came after a seizure, walking slowly towards admission. Doctor Smith spoke quietly."]
    found = linking.noise_texts(notes, Matcher(), 5)
    assert len(found) == 5
    assert found == linking.noise_texts(notes, Matcher(), 5)
    assert not any("seizure" in text or "," in text or "." in text for text in found)
    assert not any(text.split()[0].lower() in ("the", "after", "a") for text in found)


def test_table():
    table = common.Table("t", "Title", "As was said.", ["system", "x"], notes=["a note"])
    table.add("ours", 81.25)
    table.add("theirs", None)
    assert table.render() == "## Title\nAs was said.\n\nsystem     x\n------  ----\nours    81.2\ntheirs     –\n* a note\n"
    assert table.as_dict()["rows"] == [{"system": "ours", "x": 81.25}, {"system": "theirs", "x": None}]
    with pytest.raises(ValueError, match="1 cells for 2 columns"):
        table.add("short")


def test_report_keeps_what_other_runs_left(tmp_path, capsys):
    path = tmp_path / "metrics" / "benchmarks.json"
    for section in ("linking", "load"):
        common.Report(path).add(section, common.Table("t", "Title", "p", ["x"], [[1]]))
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["linking"]["t"]["rows"] == content["load"]["t"]["rows"] == [{"x": 1}]
    assert str(tmp_path) not in path.read_text(encoding="utf-8")
    assert "## Title" in capsys.readouterr().out


def test_a_missing_data_folder_is_named(tmp_path, monkeypatch):
    from benchmarks.__main__ import main

    monkeypatch.setattr(common, "REPORT", tmp_path / "report.json")
    with pytest.raises(common.Missing, match="no data folder"):
        common.data_folder(str(tmp_path / "none"))
    assert main(["kb", "--data", str(tmp_path / "none")]) == 1
    monkeypatch.setenv(common.DATA_VARIABLE, str(tmp_path))
    assert common.data_folder(None) == tmp_path
    with pytest.raises(common.Missing, match="is not in the data folder"):
        common.data_file(tmp_path, "a.txt")


def test_memory_fields(tmp_path):
    path = tmp_path / "status"
    path.write_text("Name:\tpython\nVmRSS:\t  2000 kB\n", encoding="ascii")
    assert memory.field_mb(path, "VmRSS") == pytest.approx(2.048)
    assert memory.field_mb(path, "Pss") is None
    assert memory.field_mb(tmp_path / "none", "Pss") is None
    assert memory.peak_mb() > 10


def test_clock_times_only_what_it_is_told():
    class Slow:
        dim = 3

        def query(self, x, *, k):
            return x + k

        def __len__(self):
            return 7

    clock = worker.Clock(Slow(), ["query"])
    assert clock.query(1, k=2) == 3
    assert clock.dim == 3
    assert len(clock) == 7
    assert clock.seconds > 0
