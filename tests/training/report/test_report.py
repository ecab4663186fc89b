"""The page of the report: one file that loads nothing, its content, and bad input."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from spacy_sapbert.errors import SapbertError
from training.corpora.mention import Gold, GoldMention
from training.evaluation import evaluate
from training.evaluation.benchmarks import ConceptBenchmark
from training.evaluation.dictionaries import make_dictionary
from training.evaluation.results import read_results
from training.evaluation.systems import outcomes_of
from training.report import page as report

ACCURACY = {"strict_at1": 40.0, "strict_at5": 50.0, "lenient_at1": 61.25, "lenient_at5": 70.0, "n": 12}
RESULT = {
    "kind": "evaluation",
    "seed": 0,
    "limit": 0,
    "pool": 0,
    "search": "Exact search.",
    "versions": {"python": "3.11"},
    "encoders": {"base": {"fingerprint": "abc"}, "ours#0": {"fingerprint": "def"}},
    "benchmarks": {
        "ncbi-dev-published": {
            "title": "NCBI-disease dev <script>alert(1)</script>",
            "protocol": "Exact search. Lenient & exact.",
            "n": 1200,
            "counts": {"unanswerable": 3, "missing_ids": 2, "missing_ids_most_frequent": {"MESH:D9": 2}},
            "metric": "accuracy",
            "rule": "lenient",
            "dictionary": {"names": 70000, "concepts": 9000},
            "systems": {
                "base": {**ACCURACY, "at1": 61.25, "at5": 70.0, "seeds": 1},
                "ours": {**ACCURACY, "at1": 72.0, "at5": 80.0, "at1_sd": 1.5, "seeds": 3},
            },
        },
        "stsb-dev": {
            "title": "STS-B dev",
            "protocol": "Spearman.",
            "n": 5,
            "counts": {},
            "metric": "spearman",
            "systems": {"base": {"spearman": 83.33, "seeds": 1}},
        },
    },
}


class Tags(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.found, self.open = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture
def folders(tmp_path):
    """(metrics, encoder) with an evaluation, a log and a model card."""
    metrics, encoder = tmp_path / "metrics", tmp_path / "encoder"
    metrics.mkdir()
    encoder.mkdir()
    (metrics / "evaluation.json").write_text(json.dumps(RESULT), encoding="utf-8")
    (metrics / "benchmarks.json").write_text("{}", encoding="utf-8")
    (encoder / "config.json").write_text("{}", encoding="utf-8")
    lines = [{"step": i, "loss": 1 / (i + 1), "note": "text"} for i in range(100)] + [{"step": 100, "held_out_at1": 55.5}]
    (encoder / "train_log.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    card = "---\nlicense: mit\nseed: 8\n---\n# The encoder\n\n<img src=x> ![p](http://x/y.png)\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    (encoder / "README.md").write_text(card, encoding="utf-8")
    return metrics, encoder


def page_of(metrics, encoder):
    return report.render(read_results(metrics), encoder)


def write(metrics, name, content):
    (metrics / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


def section(page, anchor):
    """Return the HTML of a section, from its heading to the next one, with single spaces."""
    after = page.split(f'<h2 id="{anchor}">')[1]
    return " ".join(after.split("<h2 ")[0].split())


def cells(part):
    """Return the rows of all tables, as lists of cell texts."""
    rows = []
    for row in part.split("<tr")[1:]:
        found = re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row.split("</tr>")[0])
        rows.append([re.sub(r"<[^>]+>", " ", cell).strip() for cell in found])
    return rows


def test_the_page_fetches_nothing_and_closes_every_tag(folders):
    page = page_of(*folders)
    tags = Tags(page)
    assert not tags.open
    names = {tag for tag, _ in tags.found}
    assert not names & {"script", "img", "link", "iframe", "object"}
    assert not any({"src", "onload", "style"} & set(attributes) for _, attributes in tags.found)
    links = [attributes["href"] for _, attributes in tags.found if "href" in attributes]
    ids = [attributes["id"] for _, attributes in tags.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert [link for link in links if not link.startswith("#")] == ["http://x/y.png"]  # a link of the model card, which is not loaded by the page
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)  # links of the table of contents and inside the plots
    assert "@import" not in page
    assert not re.findall(r"url\((?!#)", page)


def test_figures_protocol_and_what_was_left_out_stand_together(folders):
    page = page_of(*folders)
    assert "72.0/80.0 ± 1.5" in page
    assert "ours (3 seeds)" in page
    assert "40.0/50.0" in page  # the figures for the other rule
    assert "@1/@5, lenient</th><th" in page
    assert "n = 1,200; 70,000 names of 9,000 concepts.\nLenient &amp; exact. 3 can&#39;t be answered" in page
    assert page.count("Exact search.") == 1
    assert "2, MESH:D9 (2)." in page
    assert "83.3" in page
    assert page.count('class="best"') == 2
    assert page.count('class="number best"') == 2  # once more in the table of all benchmarks
    assert "&lt;script&gt;alert(1)" in page
    assert "Not the full evaluation" not in page


def test_a_smoke_run_says_so(folders):
    metrics, encoder = folders
    (metrics / "evaluation.json").write_text(json.dumps({**RESULT, "limit": 20, "pool": 9}), encoding="utf-8")
    page = " ".join(page_of(metrics, encoder).split())
    assert "at most 20 queries of each benchmark, and smaller dictionaries." in page


def test_several_evaluations_each_have_their_part(folders):
    metrics, encoder = folders
    (metrics / "evaluation-test.json").write_text(json.dumps(RESULT), encoding="utf-8")
    assert list(read_results(metrics).evaluations) == ["evaluation", "evaluation-test"]
    assert "<h2>evaluation-test</h2>" in page_of(metrics, encoder)


def test_the_log_is_thinned_and_keeps_its_ends(folders):
    log = report.read_log(folders[1] / "train_log.jsonl", shown=3)
    assert log.columns == ["step", "loss", "held_out_at1"]  # columns that have a number in the lines that are shown
    assert log.rows == [["0", "1", ""], ["50", "0.01961", ""], ["100", "", "55.5"]]
    assert log.total == 101
    assert len(report.read_log(folders[1] / "train_log.jsonl", shown=1000).rows) == 101
    assert len(report.read_log(folders[1] / "train_log.jsonl", shown=1).rows) == 1


def test_the_card_is_text_without_html_and_pictures(folders):
    settings, text = report.read_card(folders[1] / "README.md")
    assert settings == "license: mit\nseed: 8"
    assert "<h1>The encoder</h1>" in text
    assert "<td>1</td>" in text
    assert "&lt;img src=x&gt;" in text
    assert "<img" not in text


def test_an_encoder_without_log_and_card(folders):
    metrics, encoder = folders
    (encoder / "README.md").unlink()
    (encoder / "train_log.jsonl").unlink()
    page = page_of(metrics, encoder)
    assert "holds no train_log.jsonl" in page
    assert "holds no model card" in page


def test_the_command(folders, tmp_path, command):
    out = tmp_path / "report" / "index.html"
    command("report", ["--metrics", str(folders[0]), "--encoder", str(folders[1]), "--out", str(out)])
    assert out.read_text(encoding="utf-8") == page_of(*folders)


@pytest.mark.parametrize("content", ["{", "[]", '{"kind": "pairs"}', '{"kind": "evaluation"}'])
def test_what_is_no_evaluation_is_named(folders, content):
    (folders[0] / "evaluation.json").write_text(content, encoding="utf-8")
    with pytest.raises(SapbertError, match=r"\[E547\].*evaluation\.json"):
        read_results(folders[0])


def test_a_damaged_log_is_named_with_its_line(folders):
    (folders[1] / "train_log.jsonl").write_text('{"step": 1}\n{"step":\n', encoding="utf-8")
    with pytest.raises(SapbertError, match=r"\[E547\].*line 2"):
        page_of(*folders)


def test_missing_metrics_and_encoder(folders, tmp_path, command):
    out = tmp_path / "index.html"
    with pytest.raises(SapbertError, match=re.escape("[E545]")):
        command("report", ["--metrics", str(tmp_path / "none"), "--encoder", str(folders[1]), "--out", str(out)])
    with pytest.raises(SapbertError, match=re.escape("[E541]")):
        command("report", ["--metrics", str(folders[0]), "--encoder", str(tmp_path / "none"), "--out", str(out)])
    assert not out.exists()


# -- the sections for each kind of file-----------------------------------------------------------------------------------


def with_intervals(name="ncbi-test-sapbert", **mine):
    """Return RESULT with one benchmark, in which `ours` is compared with the base, a baseline and the published figure."""
    system = {**ACCURACY, "seeds": 1}
    systems = {
        "exact match": {**system, "at1": 50.0, "at5": 55.0},
        "base": {**system, "at1": 85.0, "at5": 90.0, "at1_ci": [82.5, 87.5], "at5_ci": [88.0, 92.0], "mrr": 87.5, "answerable_at1": 86.0},
        "ours": {**system, "at1": 91.0, "at5": 96.0, "at1_ci": [89.0, 93.0], "at5_ci": [95.0, 97.0], "mrr": 93.0, "answerable_at1": 92.5, **mine},
    }
    groups = {
        system: {"by_length": {"1 word": {"n": 1000, "at1": 80.0 + i, "at5": 95.0}, "2 words <i>": {"n": 200, "at1": 60.0 + i, "at5": 70.0}}}
        for i, system in enumerate(("base", "ours"))
    }
    confusions = [
        {
            "mention": "rare",
            "gold": ["D2"],
            "gold_names": ["Two"],
            "predicted": None,
            "predicted_name": None,
            "score": None,
            "count": 1,
            "why": "no name",
        },
        {
            "mention": "<tumor>",
            "gold": [["D1", "D3"]],
            "gold_names": ["One"],
            "predicted": "D9",
            "predicted_name": "Nine",
            "score": 0.875,
            "count": 7,
            "why": "narrower",
        },
    ]
    entry = {
        **RESULT["benchmarks"]["ncbi-dev-published"],
        "systems": systems,
        "groups": groups,
        "comparisons": [{"a": "base", "b": "ours", "difference": 6.0, "p": 0.0004}],
        "confusions": {"ours": confusions, "base": []},
    }
    return {**RESULT, "encoders": {"base": {"fingerprint": "abc", "base_package": True}, "ours": {"fingerprint": "def"}}, "benchmarks": {name: entry}}


def test_the_answer_says_which_figure_of_what_beside_what():
    answer = report.answer_of({"evaluation": with_intervals()})
    assert answer.sentences[0] == (
        "“ours” finds the right concept first for 91.0% (95% interval 89.0 to 93.0), and among the first five for 96.0%, "
        "of 1,200 queries of NCBI-disease dev <script>alert(1)</script> (ncbi-test-sapbert)."
    )
    assert answer.sentences[1] == "On the same queries and dictionary: “base”, the encoder before training, 85.0%; exact match 50.0%."
    assert answer.sentences[2].startswith(
        "That is 1.0 points below the published figure, which is within the interval. Published: SapBERT (PubMedBERT, 110M"
    )
    assert "92.0% and 95.6%" in answer.sentences[2]
    axes = answer.pictures[0].figure.axes[0]
    assert [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 1] == [91.0, 85.0, 50.0]  # the best one first


@pytest.mark.parametrize(
    ("at1", "interval", "said"),
    [(93.5, None, "1.5 points above the published figure. "), (90.0, [88.0, 91.5], "2.0 points below the published figure. ")],
)
def test_the_published_figure_is_within_no_interval(at1, interval, said):
    assert said in report.answer_of({"evaluation": with_intervals(at1=at1, at1_ci=interval)}).sentences[2]


def test_the_published_figure_stands_beside_no_other_protocol():
    answer = report.answer_of({"evaluation": with_intervals("ncbi-test-abbreviations")})
    assert not any("92.0" in sentence for sentence in answer.sentences)
    assert "published" not in answer.pictures[0].words


def test_the_headline_is_the_set_that_is_wanted_first():
    both = {"a": with_intervals("ncbi-dev"), "b": with_intervals("ncbi-test")}
    assert report.headline(both) == (both["b"], "ncbi-test")
    only = {**RESULT, "benchmarks": {"stsb-dev": RESULT["benchmarks"]["stsb-dev"]}}
    assert report.headline({"evaluation": only}) is None
    assert report.answer_of({"evaluation": only}).sentences == []


def test_intervals_ranks_comparisons_and_break_downs(folders):
    write(folders[0], "evaluation", with_intervals())
    page = page_of(*folders)
    sets = cells(section(page, "benchmarks"))
    assert sets[0] == ["system", "@1/@5, lenient", "@1, 95%", "@5, 95%", "@1/@5, strict", "MRR × 100", "@1, answerable"]
    assert sets[1] == ["ours", "91.0/96.0", "[89.0, 93.0]", "[95.0, 97.0]", "40.0/50.0", "93.0", "92.5"]  # ours first, then the base, then baselines
    assert sets[3] == ["exact match", "50.0/55.0", "", "", "40.0/50.0", "–", "–"]
    assert "ours − base = +6.0 points, p = 0.0004." in section(page, "benchmarks")
    assert cells(section(page, "groups")) == [
        ["group", "n", "ours @1/@5", "base @1/@5"],
        ["by by length"],
        ["1 word", "1,000", "81.0/95.0", "80.0/95.0"],
        ["2 words &lt;i&gt;", "200", "61.0/70.0", "60.0/70.0"],
    ]
    drawn, _ = report.groups_of({"evaluation": with_intervals()})
    assert [list(line.get_xdata()) for line in drawn[0].figure.axes[0].lines if len(line.get_xdata()) == 2] == [[80.0, 81.0], [60.0, 61.0]]
    change = report.changes_of({"evaluation": with_intervals()})
    assert [picture.name for picture in change] == ["change-evaluation-accuracy-1"]
    assert [85.0, 91.0] in [list(line.get_xdata()) for line in change[0].figure.axes[0].lines]


def test_many_sets_are_drawn_in_parts_that_fit_a_page():
    one = with_intervals()
    entry = one["benchmarks"]["ncbi-test-sapbert"]
    many = report.changes_of({"evaluation": {**one, "benchmarks": {f"set-{i}": entry for i in range(17)}}})
    assert [picture.title for picture in many] == ["Accuracy by benchmark, part 1", "Accuracy by benchmark, part 2"]
    assert [picture.words.split("higher in ")[1].split(",")[0] for picture in many] == ["9 of 9", "8 of 8"]


def test_confusions_the_most_frequent_first_and_escaped(folders):
    write(folders[0], "evaluation", with_intervals())
    rows = cells(section(page_of(*folders), "confusions"))
    assert rows[0] == ["mention", "times", "gold", "ours says", "why"]
    assert rows[1] == ["&lt;tumor&gt;", "7", "One (D1, D3)", "Nine (D9), 0.88", "narrower"]
    assert rows[2] == ["rare", "1", "Two (D2)", "nothing", "no name"]


CALIBRATION = {
    "kind": "calibration",
    "data": {"fit": "NCBI <dev>", "test": "NCBI test"},
    "n_fit": 787,
    "n_test": 1960,
    "ece": 0.031,
    "ece_raw": 0.214,
    "bins": [{"low": 0.0, "high": 1.0, "n": 1960, "confidence": 0.8, "accuracy": 0.75}],
    "curve": [{"threshold": 0.5, "precision": 0.9, "kept": 0.7}],
    "targets": [{"target_precision": 0.95, "precision": 0.948, "kept": 0.42}, {"target_precision": 0.99, "precision": None, "kept": None}],
    "conformal": [{"asked": 0.9, "covered": 0.908, "size": 1.73}],
}


def test_calibration(folders):
    write(folders[0], "calibration", CALIBRATION)
    part = section(page_of(*folders), "calibration")
    assert "Fitted on NCBI &lt;dev&gt; (787 mentions), measured on NCBI test (1,960), which was not used for fitting." in part
    assert "Expected calibration error 0.031 (of the cosine itself 0.214)." in part
    assert cells(part)[1:3] == [["95", "94.8", "42.0"], ["99", "not reached", "not reached"]]
    assert cells(part)[4] == ["90", "90.8", "1.7"]
    assert part.count("<svg") == 2


def test_end_to_end(folders):
    f = {"precision": 70.0, "recall": 80.0, "f1": 74.5}
    one = {
        "n_documents": 228,
        "n_gold": 1949,
        "n_predicted": 2100,
        "mention_exact": f,
        "document": {**f, "f1": 66.25},
        "documents_per_second": 31.25,
        "note": "a <note>",
    }
    one["mention_exact"] = {**f, "f1_ci": [72.25, 76.75]}
    write(folders[0], "end-to-end", {"kind": "end-to-end", "protocol": "Only the text.", "systems": {"linker": {"benchmarks": {"gsc-test": one}}}})
    part = section(page_of(*folders), "end-to-end")
    assert cells(part)[1:] == [
        ["linker", "mentions, exact", "70.0", "80.0", "74.5 [72.2–76.8]", "31.2"],
        ["linker", "documents", "70.0", "80.0", "66.2", ""],
    ]
    assert "Only the text." in part
    assert "228 documents, 1,949 gold; found: linker 2,100." in part
    assert "linker: a &lt;note&gt;" in part
    assert "FastHPOCR, published: 76.0, F1 of mentions; its protocol may differ." in part


def test_projection(folders):
    counts = {"positive": [1, 3], "negative": [9, 1]}
    points = [{"name": "a", "concept": 0, "before": [0, 0], "after": [5, 5]}, {"name": "b", "concept": 1, "before": [1, 1], "after": [7, 7]}]
    pairs = {"edges": [0, 0.5, 1], "before": counts, "mined": counts, "after": counts, "note": "Two batches."}
    content = {"kind": "projection", "title": "Names", "concepts": ["One <b>", "Two"], "points": points, "pairs": pairs}
    write(folders[0], "projection", content)
    part = section(page_of(*folders), "paper")
    assert part.count("<svg") == 5
    assert "<li>One &lt;b&gt;</li><li>Two</li>" in part
    assert "Two batches." in part
    (found,) = report.projections_of(read_results(folders[0]).projections)
    assert [list(line.get_xdata()) for line in found["plane"][1].figure.axes[0].lines] == [[5.0], [7.0]]  # the plane after training
    pairs["edges"] = [0, 1]
    write(folders[0], "projection", content)
    with pytest.raises(SapbertError, match=r"\[E547\].*projection\.json.*2 edges, but not 1 counts in 'before'"):
        read_results(folders[0])


def test_throughput_in_both_forms(folders):
    write(
        folders[0],
        "speed",
        {
            "kind": "benchmarks",
            "rows": [{"name": "names <x>", "value": 10651.4, "unit": "names/s", "note": "two cores"}, {"name": "s", "value": 0.125}],
        },
    )
    table = {"title": "Linker: HPO", "protocol": "In one run.", "rows": [{"system": "ours", "notes/s": 1234.5}, {"system": "peer", "notes/s": 2.25}]}
    write(folders[0], "benchmarks", {"throughput": {"linker": table}, "linking": {"GSC": {"title": "not here", "rows": [{"a": 1}]}}})
    part = section(page_of(*folders), "throughput")
    assert cells(part) == [
        ["what", "value", "unit", "note"],
        ["names &lt;x&gt;", "10,651", "names/s", "two cores"],
        ["s", "0.125", "", ""],
        ["system", "notes/s"],
        ["ours", "1,234"],
        ["peer", "2.25"],
    ]
    assert "In one run." in part
    assert "not here" not in part


def test_training_curves(folders):
    log = report.read_log(folders[1] / "train_log.jsonl")
    (loss,) = report.curves_of(log)  # held_out_at1 has one step, which is no curve
    (line,) = loss.figure.axes[0].lines
    assert (line.get_xdata()[1], line.get_ydata()[1]) == (1, 0.5)
    assert len(line.get_xdata()) == 100
    assert report.curves_of(None) == []


def test_what_is_absent_says_which_command_makes_it(folders):
    page = page_of(*folders)
    for anchor, command in (
        ("calibration", "python -m training calibrate"),
        ("end-to-end", "python -m training end-to-end"),
        ("paper", "python -m training projection"),
        ("throughput", "python -m benchmarks throughput"),
        ("confusions", "python -m spacy project run evaluate"),
    ):
        assert f"Make it: <code>{command}" in section(page, anchor)
    for path in folders[0].glob("*.json"):
        path.unlink()
    write(folders[0], "calibration", CALIBRATION)
    page = page_of(*folders)
    assert "Nothing has been evaluated yet" in page
    assert "Make it: <code>python -m spacy project run evaluate" in section(page, "results")
    assert "Fitted on" in page


def test_a_step_with_nothing_to_do_says_why(folders):
    write(folders[0], "calibration", {"kind": "calibration", "absent": "No data to fit on was named."})
    results = read_results(folders[0])
    assert (results.absent, results.calibrations) == ({"calibration": "No data to fit on was named."}, {})
    assert "No data to fit on was named. Make it: <code>python -m training calibrate" in section(page_of(*folders), "calibration")


def test_other_files_are_named_and_not_shown(folders):
    write(folders[0], "compare", {"kind": "comparison"})
    assert "Not shown here: compare.json." in page_of(*folders)


@pytest.mark.parametrize(
    ("change", "place"),
    [({"ece": None}, "ece"), ({"bins": [{"low": 0}]}, r"bins\.0\.high"), ({"n_test": "many"}, "n_test"), ({"ece": float("nan")}, "ece")],
)
def test_a_damaged_file_is_named_with_the_place(folders, change, place):
    write(folders[0], "calibration", {**CALIBRATION, **change})
    with pytest.raises(SapbertError, match=rf"\[E547\].*calibration\.json.*'calibration': {place}"):
        read_results(folders[0])


def test_a_system_without_its_figure_is_named(folders):
    write(folders[0], "evaluation", with_intervals(at5=None))
    with pytest.raises(SapbertError, match=r"\[E547\].*no figure of ours: at5"):
        read_results(folders[0])


def test_what_the_evaluation_writes_is_what_the_report_reads(folders):
    """Two systems on three mentions, with a file written by the code of the evaluation, not a fixture."""
    names = make_dictionary(["a", "b", "c"], np.arange(3), np.arange(3), 3, {"source": "hand"})
    golds = [Gold(((i,),), ()) for i in range(3)]
    given = [GoldMention(f"d{i}", 0, 1, "abc"[i], ((f"X:{i}",),)) for i in range(3)]
    task = ConceptBenchmark("ncbi-dev", "Hand", "As was said.", ["a", "b", "c"], golds, names, given=given)
    right = np.eye(3, dtype=np.float32)
    wrong = np.roll(right, 1, axis=0)
    measured = {name: {task.name: outcomes_of(task, lambda i, j, s=s: s[:, i:j])} for name, s in (("base", wrong), ("trained", right))}
    about = {"versions": {}, "seed": 0, "limit": 0, "pool": 0, "encoders": {"base": {"fingerprint": "0"}, "trained": {"fingerprint": "1"}}}
    result = evaluate.as_result([task], measured, about, against="base", seed=0, with_confusions=True)
    (folders[0] / "evaluation.json").write_text(json.dumps(result), encoding="utf-8")
    part = section(page_of(*folders), "benchmarks")
    assert "trained − base = +100.0 points" in part
    assert "100.0/100.0" in part
    assert "bootstrap over documents" in part
