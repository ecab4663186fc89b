"""Cross-lingual benchmarks and their figures, with hand-made vectors."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, List, Sequence

import numpy as np
import pytest

from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb.builder import Filters, Source, build_kb
from spacy_sapbert.kb.concept import Concept, Name
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from training.data.bilingual import Bilingual
from training.data.translations import build_translations, of_rows
from training.evaluation import cross_lingual, evaluate
from training.evaluation.cross_lingual import held_out_benchmarks, of_languages, organism_types, xlbel_benchmarks

CAT, FLU, GOUT = "C9000001", "C9000002", "C9000003"


def concept(cui: str, *types: str, **names: str) -> Concept:
    made = [Name(text, "T", language, rank=i) for language, texts in names.items() for i, text in enumerate(texts.split("|"))]
    return Concept(cui, "UMLS", names=made, types=list(types))


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    concepts = [
        concept(CAT, "T015", en="Cat|Feline", de="Katze"),
        concept(FLU, "T047", en="Flu|Influenza", de="Grippe"),
        concept(GOUT, "T047", en="Gout", de="Gicht", tr="GUT"),
    ]
    return build_kb([Source("test", concepts)], tmp_path_factory.mktemp("cross_lingual") / "kb", filters=Filters(languages=()))


@pytest.fixture
def translations(kb: KnowledgeBase, tmp_path: Path) -> Path:
    """Translations: all concepts except one are held out (0.99 of three, rounded)."""
    rows = [
        Bilingual("flu", "grippe", "de", FLU),
        Bilingual("gout", "gicht", "de", GOUT),
        Bilingual("cat", "gicht", "de", CAT),  # a translation of two concepts
        Bilingual("gout", "gut", "tr", GOUT),
        Bilingual("lost", "fort", "de", "C9999999"),
    ]
    build_translations(of_rows(rows), tmp_path / "translations", held_out=0.99, about={"kb": kb.fingerprint})
    return tmp_path / "translations"


def fake(angles: Dict[str, float]) -> Any:
    """Return an encoder with two dimensions; each text has a given angle in degrees."""

    def encode(names: List[str], progress: bool = False) -> np.ndarray:
        turned = np.radians([angles[name] for name in names])
        return np.stack([np.cos(turned), np.sin(turned)], axis=1).astype(np.float32)

    return SimpleNamespace(encode=encode, max_length=25, fingerprint="fake")


ANGLES = {
    "cat": 0,
    "feline": 5,
    "flu": 30,
    "influenza": 35,
    "gout": 60,
    "katze": 2,
    "gut": 61,
    "grippe": 33,
    "gicht": 20,
    "fort": 90,
}


def measured(groups: Sequence[Any], monkeypatch: pytest.MonkeyPatch, **settings: int) -> Dict[str, Any]:
    monkeypatch.setattr(evaluate, "load_encoder", lambda folder, gpu_id: fake(ANGLES))
    return cross_lingual.evaluate_across_languages({"fake": ""}, groups, **settings)


def test_held_out_translations_are_looked_up_among_english_names(kb: KnowledgeBase, translations: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = {task.name: task for task in held_out_benchmarks(kb, translations)}
    assert set(tasks) == {"held_out_de", "held_out_tr"}
    german = tasks["held_out_de"]
    assert german.dictionary.names == ["cat", "feline", "flu", "gout", "influenza"]
    assert dict(zip(german.queries, [gold.alternatives for gold in german.golds])) == {
        "gicht": ((2,), (0,)),
        "grippe": ((1,),),
        "fort": ((None,),),
    }
    assert german.counts == {
        "names": 3,
        "of_several_concepts": 1,
        "unanswerable": 1,
        "missing_ids": 1,
        "missing_ids_most_frequent": {"C9999999": 1},
    }
    result = measured([list(tasks.values())], monkeypatch)["benchmarks"]
    # "gicht" (20) is nearer to "flu" (30) than to "feline" (5): right only at 5; "grippe" (33) is at "influenza" (35); "fort" has no concept
    row = result["held_out_de"]["systems"]["fake"]
    assert (row["n"], row["at1"], row["at5"]) == (3, pytest.approx(100 / 3), pytest.approx(200 / 3))
    assert result["held_out_tr"]["systems"]["fake"]["at1"] == 100.0
    assert result["held_out_de"]["files"].keys() == {"translations.parquet"}


def test_dictionaries_by_language(kb: KnowledgeBase) -> None:
    assert of_languages(kb, "x", ["de", "tr"]).names == ["gicht", "grippe", "gut", "katze"]
    whole = of_languages(kb, "x")
    assert (len(whole.names), whole.about["languages"]) == (9, ["en", "de", "tr"])
    with pytest.raises(SapbertError) as error:
        of_languages(kb, "x", ["fr"])
    assert error.value.code == "E107"


def test_languages_share_one_pool(kb: KnowledgeBase, translations: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = measured([held_out_benchmarks(kb, translations, ["tr"])], monkeypatch, pool=1)["benchmarks"]["held_out_tr"]
    assert result["dictionary"]["names"] == 2  # gout and one other name
    assert result["protocol"].startswith("NOT THE WHOLE DICTIONARY: 2 of 5 names")


# -- XL-BEL -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def xlbel(tmp_path: Path) -> Path:
    folder = tmp_path / "xlbel"
    folder.mkdir()
    (folder / "de_1k_test_query.txt").write_text(f"{CAT}||Katze\n{FLU}|{GOUT}||Grippe\nC9999999||Fort\n", encoding="utf-8")
    (folder / "tr_1k_test_query.txt").write_text(f"{GOUT}||GUT\n", encoding="utf-8")
    (folder / "README.txt").write_text("none")
    return folder


def test_xlbel_ranks_names(kb: KnowledgeBase, xlbel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    german, turkish = xlbel_benchmarks(kb, xlbel, dictionary_languages=["en"])
    assert (german.name, turkish.name) == ("xlbel_de", "xlbel_tr")
    # each name is its own label: cat 0, feline 1, flu 2, gout 3, influenza 4
    assert [gold.alternatives for gold in german.golds] == [((0,), (1,)), ((2,), (3,), (4,)), ()]
    assert german.golds[2].missing == ("C9999999",)
    result = measured([[german, turkish]], monkeypatch)["benchmarks"]
    assert result["xlbel_de"]["systems"]["fake"]["at1"] == pytest.approx(200 / 3)
    assert result["xlbel_tr"]["systems"]["fake"]["at1"] == 100.0
    assert result["xlbel_de"]["dictionary"]["concepts"] == 3
    assert "399,931 names in all languages" in result["xlbel_de"]["protocol"]
    everything = xlbel_benchmarks(kb, xlbel, ["de"])[0]
    assert "katze" in everything.dictionary.names


def test_provisional_cuis_are_alternatives_like_others(kb: KnowledgeBase, xlbel: Path) -> None:
    (xlbel / "tr_1k_test_query.txt").write_text(f"CL900001|{GOUT}||GUT\n")
    (task,) = xlbel_benchmarks(kb, xlbel, ["tr"], dictionary_languages=["en"])
    assert (task.golds[0].alternatives, task.counts["unanswerable"]) == (((3,),), 0)  # one of the two CUIs is in the dictionary


def test_plants_and_animals_can_be_left_out(kb: KnowledgeBase, xlbel: Path) -> None:
    assert organism_types() == {"T002", "T008", "T010", "T011", "T012", "T013", "T014", "T015"}
    (german,) = xlbel_benchmarks(kb, xlbel, ["de"], organisms=False)
    assert german.queries == ["grippe", "fort"]
    assert (german.counts["mentions"], german.counts["plants_and_animals_left_out"]) == (3, 1)
    assert "T015" in german.protocol
    (xlbel / "de_1k_test_query.txt").write_text(f"{CAT}||Katze\n")
    with pytest.raises(SapbertError) as error:
        xlbel_benchmarks(kb, xlbel, ["de"], organisms=False)
    assert error.value.code == "E544"


def test_folders_that_are_no_xlbel(kb: KnowledgeBase, xlbel: Path, tmp_path: Path) -> None:
    for folder, languages, match in (
        (tmp_path, ["all"], "Found: none"),
        (xlbel, ["fi"], r"in 'fi'.*Found: de, tr"),
        (tmp_path / "x", ["all"], "none"),
    ):
        with pytest.raises(SapbertError, match=match) as error:
            xlbel_benchmarks(kb, folder, languages)
        assert error.value.code == "E609"
    (xlbel / "de_1k_test_query.txt").write_text("Katze\n")
    with pytest.raises(SapbertError) as error:
        xlbel_benchmarks(kb, xlbel, ["de"])
    assert error.value.code == "E560"


def test_one_line_that_does_not_fit_is_counted_and_the_rest_is_measured(kb: KnowledgeBase, xlbel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (xlbel / "de_1k_test_query.txt").write_text(f"{CAT}|CN000001||Katze\n90058||Gicht\n{FLU}||Grippe\n||Fort\n", encoding="utf-8")
    (german,) = xlbel_benchmarks(kb, xlbel, ["de"], dictionary_languages=["en"])
    assert german.queries == ["katze", "gicht", "grippe"]
    assert {key: german.counts[key] for key in ("mentions", "ids_that_are_no_cui", "lines_without_id_or_mention", "unanswerable")} == {
        "mentions": 3,
        "ids_that_are_no_cui": 1,
        "lines_without_id_or_mention": 1,
        "unanswerable": 1,
    }
    result = measured([[german]], monkeypatch)["benchmarks"]["xlbel_de"]
    assert result["systems"]["fake"]["at1"] == pytest.approx(200 / 3)  # the mention without a CUI counts as wrong, as in the published figures


def test_capitals_are_kept_where_the_names_are_cased(xlbel: Path, tmp_path: Path) -> None:
    (xlbel / "de_1k_test_query.txt").write_text(f"{CAT}||Katze\n{FLU}||GRIPPE\n", encoding="utf-8")
    (tmp_path / "list.txt").write_text(f"{CAT}||Cat\n{FLU}||flu\n{FLU}||FLU\n", encoding="utf-8")
    listed = xlbel_benchmarks(None, xlbel, ["de"], candidates=tmp_path / "list.txt", cased=True)[0]
    assert (listed.queries, listed.dictionary.names) == (["Katze", "GRIPPE"], ["Cat", "flu", "FLU"])
    sources = [Source("test", [concept(CAT, "T015", en="Cat"), concept(FLU, "T047", en="FLU|Influenza")])]
    kb = build_kb(sources, tmp_path / "kb", filters=Filters(languages=(), cased=True))
    named = xlbel_benchmarks(kb, xlbel, ["de"])[0]
    assert (named.queries, named.dictionary.names) == (["Katze", "GRIPPE"], ["Cat", "FLU", "Influenza"])
    for benchmark in (listed, named):
        assert "with their capitals" in benchmark.protocol
        assert "lower-cased" not in benchmark.protocol


def test_the_candidate_list_is_the_dictionary(xlbel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Any) -> None:
    """No knowledge base is needed. The list has a name of two concepts, a name that contains `|`, and lines that do not fit."""
    (xlbel / "de_1k_test_query.txt").write_text(f"{CAT}||Katze\n{FLU}|{GOUT}||Grippe\nC9999999||Fort\n", encoding="utf-8")
    (tmp_path / "list.txt").write_text(f"{CAT}||CAT\n{FLU}||Flu\n\n{GOUT}||flu\n{GOUT}|{CAT}||Gout|x\n{GOUT}||\nflu\n", encoding="utf-8")
    german = xlbel_benchmarks(None, xlbel, candidates=tmp_path / "list.txt")[0]
    assert german.dictionary.names == ["cat", "flu", "gout|x"]
    assert [gold.alternatives for gold in german.golds] == [((0,), (2,)), ((1,), (2,)), ()]
    assert {key: german.dictionary.about[key] for key in ("names", "concepts", "lines_left_out")} == {"names": 3, "concepts": 3, "lines_left_out": 2}
    assert german.dictionary.known().entry(1) == (f"{FLU}|{GOUT}", "flu")
    assert "3 names of the candidate list 'list.txt'" in german.protocol
    monkeypatch.setattr(evaluate, "load_encoder", lambda folder, gpu_id: fake({**ANGLES, "gout|x": 60}))
    out = tmp_path / "x.json"
    below = tmp_path / "published"
    below.mkdir()
    xlbel.rename(below / "xlbel_v0.0")  # as in the archive
    given = ["--encoder", "base=", "--kb", str(tmp_path / "none"), "--xlbel", str(below), "--out", str(out)]
    command("cross-lingual", [*given, "--candidates", str(tmp_path / "list.txt"), "--languages", "de"])
    assert json.loads(out.read_text())["benchmarks"]["xlbel_de"]["systems"]["base"]["at1"] == pytest.approx(200 / 3)
    (tmp_path / "list.txt").write_text("flu\n")
    for arguments, code in ((["--candidates", str(tmp_path / "list.txt")], "E560"), ([], "E101"), (["--candidates", "nowhere.txt"], "E401")):
        with pytest.raises(SapbertError, match=code):
            command("cross-lingual", [*given, *arguments])


def test_a_dictionary_that_knows_no_gold_id_is_refused(kb: KnowledgeBase, xlbel: Path, tmp_path: Path, command: Any) -> None:
    """One known id in any language is enough. The four gold ids are CUIs."""
    (tmp_path / "list.txt").write_text("C7000001||flu\nHP:1||gout\n", encoding="utf-8")
    given = ["--encoder", "base=", "--xlbel", str(xlbel), "--out", str(tmp_path / "x.json")]
    with pytest.raises(SapbertError) as error:
        command("cross-lingual", [*given, "--candidates", str(tmp_path / "list.txt")])
    assert str(error.value).startswith(
        f"[E569] Benchmark 'xlbel_de, xlbel_tr': the dictionary (candidate list list.txt) has none of the corpus's gold ids, such as {CAT}. "
        "They are of UMLS (5); the dictionary has names or codes of HPO (1), UMLS (1), such as C7000001."
    )
    assert not (tmp_path / "x.json").exists()
    other = build_kb([Source("test", [Concept("X:1", "T", names=[Name("flu", "T")])])], tmp_path / "other")
    with pytest.raises(SapbertError, match="E569"):
        xlbel_benchmarks(other, xlbel)
    (tmp_path / "list.txt").write_text(f"{GOUT}||gout\n", encoding="utf-8")
    assert [len(task.queries) for task in xlbel_benchmarks(None, xlbel, candidates=tmp_path / "list.txt")] == [3, 1]
    (xlbel / "de_1k_test_query.txt").write_text("C9999999||Fort\n", encoding="utf-8")
    assert [len(task.queries) for task in xlbel_benchmarks(kb, xlbel)] == [1, 1]  # only the German ids are unknown


# -- the command ------------------------------------------------------------------------------------------------------------


def test_command_writes_a_table_and_json(
    kb: KnowledgeBase, translations: Path, xlbel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Any
) -> None:
    monkeypatch.setattr(evaluate, "load_encoder", lambda folder, gpu_id: fake(ANGLES))
    out = tmp_path / "metrics" / "crosslingual.json"
    given = ["--kb", str(kb.path), "--translations", str(translations), "--xlbel", str(xlbel), "--out", str(out)]
    shown = command("cross-lingual", ["--encoder", "base=", *given])
    result = json.loads(out.read_text())
    assert (result["kind"], list(result["benchmarks"])) == ("evaluation", ["held_out_de", "held_out_tr", "xlbel_de", "xlbel_tr"])
    assert result["versions"]["spacy-sapbert"]
    assert result["encoders"]["base"]["fingerprint"] == "fake"
    assert "| base | 33.3/66.7 | 100.0/100.0 |" in out.with_suffix(".md").read_text()
    assert "| base | 33.3/66.7 | 100.0/100.0 |" in shown


def test_the_command_refuses_what_makes_no_sense(kb: KnowledgeBase, translations: Path, tmp_path: Path, command: Any) -> None:
    given = ["--kb", str(kb.path), "--out", str(tmp_path / "x.json")]
    for arguments, code in (
        (["--translations", str(translations)], "E548"),
        (["--encoder", "base="], "E548"),
        (["--encoder", "base=", "--translations", str(translations), "--pool", "-1"], "E548"),
        (["--encoder", "base=", "--translations", str(tmp_path / "none")], "E600"),
        (["--encoder", "base=", "--translations", str(translations), "--languages", "fr"], "E608"),
    ):
        with pytest.raises(SapbertError, match=re.escape(code)):
            command("cross-lingual", [*given, *arguments])
    (translations / "manifest.json").write_text((translations / "manifest.json").read_text().replace(kb.fingerprint, "0" * 32))
    with pytest.raises(SapbertError, match=re.escape("E607")):
        command("cross-lingual", [*given, "--encoder", "base=", "--translations", str(translations)])
    assert not (tmp_path / "x.json").exists()
