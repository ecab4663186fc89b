"""The page: one file, nothing fetched, what is written in it, bad input."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from spacy_sapbert.errors import SapbertError
from training import report

ACCURACY = {"strict_at1": 40.0, "strict_at5": 50.0, "lenient_at1": 61.25, "lenient_at5": 70.0, "n": 12}
RESULT = {
    "kind": "evaluation",
    "seed": 0,
    "limit": 0,
    "pool": 0,
    "search": "Exact search.",
    "versions": {"python": "3.11"},
    "encoders": {"base": {"fingerprint": "abc"}, "ours#0": {"fingerprint": "def"}},
    "sets": {
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
    return report.render(report.read_evaluations(metrics), encoder)


def test_the_page_fetches_nothing_and_closes_every_tag(folders):
    tags = Tags(page_of(*folders))
    assert not tags.open
    names = {tag for tag, _ in tags.found}
    assert not names & {"script", "img", "link", "iframe", "object"}
    assert not any({"src", "onload", "style"} & set(attributes) for _, attributes in tags.found)
    assert [tag for tag, attributes in tags.found if "href" in attributes] == ["a"]  # the card's link, which nobody follows by himself


def test_figures_protocol_and_what_was_left_out_stand_together(folders):
    page = page_of(*folders)
    assert "72.0/80.0 ± 1.5" in page
    assert "ours (3 seeds)" in page
    assert "40.0/50.0" in page  # the other rule
    assert "@1/@5, lenient</th><th" in page
    assert "n = 1,200; 70,000 names of 9,000 concepts.\nLenient &amp; exact. 3 can&#39;t be answered" in page
    assert page.count("Exact search.") == 1
    assert "2, MESH:D9 (2)." in page
    assert "83.3" in page
    assert page.count('class="best"') == 2
    assert "&lt;script&gt;alert(1)" in page
    assert "Not the full evaluation" not in page


def test_a_smoke_run_says_so(folders):
    metrics, encoder = folders
    (metrics / "evaluation.json").write_text(json.dumps({**RESULT, "limit": 20, "pool": 9}), encoding="utf-8")
    page = " ".join(page_of(metrics, encoder).split())
    assert "at most 20 queries of each set, and dictionaries cut down." in page


def test_several_evaluations_each_have_their_part(folders):
    metrics, encoder = folders
    (metrics / "evaluation-test.json").write_text(json.dumps(RESULT), encoding="utf-8")
    assert list(report.read_evaluations(metrics)) == ["evaluation-test", "evaluation"]
    assert "<h2>evaluation-test</h2>" in page_of(metrics, encoder)


def test_the_log_is_thinned_and_keeps_its_ends(folders):
    log = report.read_log(folders[1] / "train_log.jsonl", shown=3)
    assert log.columns == ["step", "loss", "held_out_at1"]
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


def test_the_command(folders, tmp_path):
    out = tmp_path / "report" / "index.html"
    assert report.main(["--metrics", str(folders[0]), "--encoder", str(folders[1]), "--out", str(out)]) == 0
    assert out.read_text(encoding="utf-8") == page_of(*folders)


@pytest.mark.parametrize("content", ["{", "[]", '{"kind": "pairs"}'])
def test_what_is_no_evaluation_is_named(folders, content):
    (folders[0] / "evaluation.json").write_text(content, encoding="utf-8")
    with pytest.raises(SapbertError, match=r"\[E547\].*evaluation\.json"):
        report.read_evaluations(folders[0])


def test_a_damaged_log_is_named_with_its_line(folders):
    (folders[1] / "train_log.jsonl").write_text('{"step": 1}\n{"step":\n', encoding="utf-8")
    with pytest.raises(SapbertError, match=r"\[E547\].*line 2"):
        page_of(*folders)


def test_missing_metrics_and_encoder(folders, tmp_path, capsys):
    out = tmp_path / "index.html"
    assert report.main(["--metrics", str(tmp_path / "none"), "--encoder", str(folders[1]), "--out", str(out)]) == 1
    assert "[E545]" in capsys.readouterr().err
    assert report.main(["--metrics", str(folders[0]), "--encoder", str(tmp_path / "none"), "--out", str(out)]) == 1
    assert "[E541]" in capsys.readouterr().err
    assert not out.exists()
