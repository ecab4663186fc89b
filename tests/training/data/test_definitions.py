"""Grounding texts: which texts a concept gets, how they are paired with its names, what is held out, and bad files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import numpy as np
import pyarrow.parquet as pq
import pytest

from spacy_sapbert.build.linker import read_source
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.kb.builder import Filters, Source, build_kb
from spacy_sapbert.kb.concept import Concept, Name, normalise
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from training.data.definitions import build_grounding, grounding_of
from training.data.generated import read_generated
from training.data.grounding_pairs import allot
from training.data.pairs import build_pairs, check_folder, read_labels, read_queries
from training.errors import Errors

DATA = Path(__file__).parents[2] / "data"
Texts = Dict[str, List[Tuple[str, str]]]


def concept(concept_id: str, *names: str, **more: Any) -> Concept:
    return Concept(concept_id, more.pop("source", "T"), names=[Name(n, "T", rank=i) for i, n in enumerate(names)], **more)


TOYS = [
    concept("T:0", "disease"),
    concept("T:1", "lung disease", parents=["T:0"]),
    concept("T:2", "infection", parents=["T:0"]),
    concept("T:3", "Pneumonia", "lung fever", parents=["T:1", "T:2"], definition="Pneumonia is an infection that inflames the air sacs of a lung."),
    concept("T:3", definition="Air sacs of one or both lungs fill with fluid.", source="NCI"),
    concept("T:4", "asthma", parents=["T:1"], definition="A long-term inflammation of the airways."),
    concept("T:5", "measles", "rubeola", "morbilli", parents=["T:2"], definition="A rash illness of children, caused by a virus."),
]


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., KnowledgeBase]:
    return lambda *concepts: build_kb([Source("test", list(concepts))], tmp_path / "kb")


def texts_of(kb: KnowledgeBase, folder: Path, *kinds: str) -> Texts:
    """Concept id -> (kind, text) of texts.parquet."""
    ids = {label: kb.concept_id(row) for row, label in reversed(list(enumerate(read_labels(folder).tolist())))}
    found: Texts = {}
    for row in pq.read_table(folder / "texts.parquet").to_pylist():
        if not kinds or row["kind"] in kinds:
            found.setdefault(ids[row["label"]], []).append((row["kind"], row["text"]))
    return found


def pairs_of(folder: Path) -> List[Tuple[str, str, int]]:
    return [(row["anchor"], row["positive"], row["label"]) for row in pq.read_table(folder / "pairs.parquet").to_pylist()]


def test_each_name_with_each_definition_of_every_source(make: Callable[..., KnowledgeBase], tmp_path: Path) -> None:
    kb = make(*TOYS)
    counts = build_grounding(kb, tmp_path / "g", shares={"definitions": 1.0})
    label = read_labels(tmp_path / "g")[kb.row_of("T:3")]
    mine = [(a, p) for a, p, found in pairs_of(tmp_path / "g") if found == label]
    said = ["It is an infection that inflames the air sacs of a lung.", "Air sacs of one or both lungs fill with fluid."]
    assert sorted(mine) == sorted((name, text) for name in ("pneumonia", "lung fever") for text in said)
    # 2 names x 2 definitions, 1 x 1, 3 x 1
    assert (counts["pairs"], counts["pairs_with_definitions"], counts["pairs_before_trimming"], counts["labels_in_pairs"]) == (8, 8, 8, 3)
    assert (counts["names_in_pairs"], counts["definitions"], counts["labels_with_a_definition"]) == (6, 4, 3)
    assert counts["texts"]["T"] == {"kept": 3, "own_name_replaced": 1, "read": 3, "first_ids": {}}
    assert counts["texts"]["NCI"] == {"kept": 1, "read": 1, "first_ids": {}}
    assert counts["labels_without_a_text"] == 1  # "disease": its description would be "lung disease", which contains its name


def test_texts_for_self_distillation(make: Callable[..., KnowledgeBase], tmp_path: Path) -> None:
    kb = make(*TOYS)
    build_grounding(kb, tmp_path / "g")
    texts = texts_of(kb, tmp_path / "g")
    assert [pair for pair in texts["T:5"] if pair[0] != "description"] == [
        ("name", "measles"),
        ("synonym", "rubeola"),
        ("synonym", "morbilli"),
        ("definition", "A rash illness of children, caused by a virus."),
    ]
    described = texts_of(kb, tmp_path / "g", "description")
    # only pneumonia is both; asthma is also "a kind of lung disease", and measles "a kind of infection"
    assert [text for _, text in described["T:3"]] in [
        [wording.format(*order)]
        for wording in ("{0} that is also {1}", "both {0} and {1}", "a kind of {0} and of {1}")
        for order in (("lung disease", "infection"), ("infection", "lung disease"))
    ]
    assert "T:4" not in described
    assert "T:5" not in described
    streamed = list(grounding_of(tmp_path / "g"))
    assert [text for _, name, text in streamed if name == "pneumonia"][:2] == [text for kind, text in texts["T:3"] if kind == "definition"]
    assert streamed == list(grounding_of(kb))


def test_what_can_be_no_grounding_text_is_counted_and_named(make: Callable[..., KnowledgeBase], tmp_path: Path) -> None:
    long = "Sentence number one ends here. " * 40
    kb = make(
        concept("T:1", "arthralgia", "joint pain", definition="Joint pain."),  # a name
        concept("T:2", "cyst", definition="."),  # nothing
        concept("T:3", "wart", definition="Verruca."),  # one word
        concept("T:4", "lung cancer", "cancer of the lung", definition="Any cancer of the lung."),  # without its names, almost nothing is left
        concept("T:5", "boil", definition="x" * 1200),  # no sentence ends within the limit
        concept("T:6", "gout", definition=long),  # cut: 1,000 characters hold 32 of its sentences of 31
        concept("T:7", "left toe", definition="One of the ten digits of the feet."),
        concept("T:8", "right toe", definition="One of the ten digits of the feet"),  # the same text without the full stop
        concept("T:9", "scab", definition="A crust over a wound."),
        concept("T:9", definition="A crust  over a WOUND", source="U"),
    )
    counts = build_grounding(kb, tmp_path / "g")
    assert counts["texts"]["T"] == {
        "cut": 1,
        "empty": 1,
        "enormous": 1,
        "equal_to_a_name": 1,
        "kept": 2,
        "of_several_concepts": 2,
        "only_its_names": 1,
        "read": 9,
        "too_short": 1,
        "first_ids": {
            "cut": "T:6",
            "empty": "T:2",
            "enormous": "T:5",
            "equal_to_a_name": "T:1",
            "of_several_concepts": "T:7, T:8",
            "only_its_names": "T:4",
            "too_short": "T:3",
        },
    }
    assert counts["texts"]["U"] == {"read": 1, "repeated": 1, "first_ids": {}}
    assert texts_of(kb, tmp_path / "g", "definition") == {
        "T:6": [("definition", ("Sentence number one ends here. " * 32).strip())],
        "T:9": [("definition", "A crust over a wound.")],
    }
    assert json.loads((tmp_path / "g" / "manifest.json").read_text())["texts"] == counts["texts"]


def test_an_own_name_is_that_of_any_concept_of_the_label(make: Callable[..., KnowledgeBase], tmp_path: Path) -> None:
    kb = make(
        concept("A:1", "gout", "podagra", definition="Podagra, or urate arthritis, is a disease of joints and crystals."),
        concept("B:1", "gout", "urate arthritis"),  # one label: equal canonical names
        concept("B:2", "cough"),
    )
    build_grounding(kb, tmp_path / "g", shares={"definitions": 1})
    assert pairs_of(tmp_path / "g") == [(name, "It, is a disease of joints and crystals.", 0) for name in ("gout", "podagra", "urate arthritis")]


# -- how many pairs, of which kind -----------------------------------------------------------------------------------------


def test_a_share_of_each_kind(make: Callable[..., KnowledgeBase], tmp_path: Path) -> None:
    kb = make(concept("T:1", "a a", "b b", "c c", "d d", definition="A thing of four names."), concept("T:2", "e e"))

    def kinds(**shares: float) -> Tuple[int, int]:
        counts = build_grounding(kb, tmp_path / "g", shares=shares)
        assert len(pairs_of(tmp_path / "g")) == counts["pairs"] == len(set(pairs_of(tmp_path / "g")))
        return counts["pairs_with_definitions"], counts["pairs_with_names"]

    assert kinds(definitions=1) == (4, 0)
    assert kinds(definitions=1, names=1) == (4, 6)
    assert kinds(definitions=0.5, names=0.5) == (2, 3)
    assert kinds(names=1) == (0, 6)


def test_a_share_of_single_pairs_is_met_over_many_concepts(make: Callable[..., KnowledgeBase], tmp_path: Path) -> None:
    kb = make(*(concept(f"T:{i}", f"name {i} of it", definition=f"A toy that has the number {i}.") for i in range(400)))
    counts = build_grounding(kb, tmp_path / "g", shares={"definitions": 0.25})
    assert counts["pairs"] == pytest.approx(100, abs=30)  # 3.5 standard deviations of a binomial draw
    assert counts["definitions"] == 400


def test_a_concept_of_many_names_is_trimmed_in_proportion(make: Callable[..., KnowledgeBase], tmp_path: Path) -> None:
    names = [f"name {letter}" for letter in "abcdefghijklmnopqrst"]
    kb = make(concept("T:1", *names, definition="One thing is said of it."), concept("T:1", definition="And another one."), concept("T:2", "x x"))
    counts = build_grounding(kb, tmp_path / "g", shares={"definitions": 1, "names": 0.5}, max_pairs=30)
    # 40 and 95 of 40 and 190 possible pairs are wanted; 30 are divided 1 : 0.5
    assert (counts["pairs_with_definitions"], counts["pairs_with_names"], counts["pairs_before_trimming"]) == (20, 10, 230)


@pytest.mark.parametrize(
    ("wanted", "limit", "given"),
    [
        ({"definitions": 3, "descriptions": 4}, 7, {"definitions": 3, "descriptions": 4}),
        ({"definitions": 100, "descriptions": 100}, 50, {"definitions": 25, "descriptions": 25}),
        ({"definitions": 5, "descriptions": 100}, 50, {"definitions": 5, "descriptions": 45}),
        ({"definitions": 100, "descriptions": 4, "names": 100}, 52, {"definitions": 32, "descriptions": 4, "names": 16}),
        ({"definitions": 100, "descriptions": 0, "names": 0}, 50, {"definitions": 50, "descriptions": 0, "names": 0}),
    ],
)
def test_allot(wanted: Dict[str, int], limit: int, given: Dict[str, int]) -> None:
    assert allot(wanted, {"definitions": 1.0, "descriptions": 1.0, "names": 0.5}, limit) == given


# -- what is held out ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Tuple[KnowledgeBase, Path, Path, Dict[str, Any]]:
    folder = tmp_path_factory.mktemp("clinic")
    lines = [
        concept(f"{axis}:{i}", f"{axis} pattern {i}", f"pattern no {i} of {axis}", f"{axis} motif {i}")
        for axis in ("ROW", "COLUMN")
        for i in range(7)
    ]
    cells = [
        concept(f"CELL:{i}{j}", f"rash {i}{j}", f"{i}{j} spots", f"spotted {i}{j}", parents=[f"ROW:{i}", f"COLUMN:{j}"])
        for i in range(7)
        for j in range(7)
    ]
    kb = build_kb([read_source(DATA / "tiny_clinic.tsv"), Source("grid", lines + cells)], folder / "kb")
    build_pairs(kb, folder / "pairs", held_out=0.2, zero_shot=0.2)
    counts = build_grounding(kb, folder / "g", held_out=folder / "pairs", shares={"definitions": 1, "descriptions": 1, "names": 1}, seed=3)
    return kb, folder / "pairs", folder / "g", counts


def test_what_pairs_hold_out_is_in_nothing(clinic: Tuple[KnowledgeBase, Path, Path, Dict[str, Any]]) -> None:
    kb, pairs, folder, counts = clinic
    queries = read_queries(pairs)
    assert read_queries(folder) == queries
    assert (folder / "labels.npy").read_bytes() == (pairs / "labels.npy").read_bytes()
    asked = {query.query for query in queries}
    unseen = {query.label for query in queries if query.split == "zero_shot"}
    assert len(unseen) == counts["zero_shot_queries"] == round(0.2 * (60 + 14 + 49))
    rows = pq.read_table(folder / "texts.parquet").to_pylist()
    assert not unseen & {row["label"] for row in rows}
    assert not unseen & {label for _, _, label in pairs_of(folder)}
    assert not asked & {normalise(text) for anchor, positive, _ in pairs_of(folder) for text in (anchor, positive)}
    assert not asked & {normalise(row["text"]) for row in rows}
    # descriptions of other concepts do not contain held-out names either
    names = asked | {normalise(name.text) for row in range(len(kb)) if read_labels(pairs)[row] in unseen for name in kb.names_of(row)}
    described = [row["text"] for row in rows if row["kind"] == "description"]
    assert len(described) > 10
    assert any("pattern no" in text or "motif" in text for text in described)  # used if the canonical name is held out
    assert not [text for text in described for name in names if f" {name} " in f" {text} "]
    assert counts["texts"]["UMLS"]["of_a_concept_kept_out"] == sum(read_labels(pairs)[row] in unseen for row, _, _ in kb.definitions())


def test_the_layout_is_that_of_pairs(clinic: Tuple[KnowledgeBase, Path, Path, Dict[str, Any]]) -> None:
    _, pairs, folder, counts = clinic
    table = pq.read_table(folder / "pairs.parquet")
    assert table.schema.equals(pq.read_table(pairs / "pairs.parquet").schema)
    labels = np.asarray(table["label"])
    assert (labels[1:] >= labels[:-1]).all()
    assert table.num_rows == counts["pairs"] == sum(counts[f"pairs_with_{kind}"] for kind in ("definitions", "descriptions", "names"))
    theirs = json.loads((pairs / "manifest.json").read_text())
    ours = json.loads((folder / "manifest.json").read_text())
    assert {key: ours[key] for key in ("kind", "format", "kb", "sources")} == {key: theirs[key] for key in ("kind", "format", "kb", "sources")}
    needed = {"pairs", "pairs_before_trimming", "labels_in_pairs", "names_in_pairs", "ambiguous_names", "held_out_queries", "zero_shot_queries"}
    assert needed <= set(ours["counts"])  # counts that a model card prints
    assert pq.read_table(folder / "texts.parquet").schema.types == ["int32", "string", "string"]


def test_no_text_names_its_concept_and_none_is_of_two(clinic: Tuple[KnowledgeBase, Path, Path, Dict[str, Any]]) -> None:
    kb, _, folder, _ = clinic
    labels = read_labels(folder)
    names: Dict[int, set[str]] = {}
    for row in range(len(kb)):
        names.setdefault(int(labels[row]), set()).update(normalise(name.text) for name in kb.names_of(row))
    owner: Dict[str, int] = {}
    for row in pq.read_table(folder / "texts.parquet").to_pylist():
        if row["kind"] in ("definition", "description"):
            padded = " " + "".join(c if c.isalnum() else " " for c in normalise(row["text"])) + " "
            assert not [name for name in names[row["label"]] if f" {name} " in padded]
            assert owner.setdefault(row["text"], row["label"]) == row["label"]


def test_same_seed_same_files(clinic: Tuple[KnowledgeBase, Path, Path, Dict[str, Any]], tmp_path: Path) -> None:
    kb, pairs, folder, counts = clinic
    settings: Dict[str, Any] = {"held_out": pairs, "shares": {"definitions": 1, "descriptions": 1, "names": 1}}
    assert build_grounding(kb, tmp_path / "again", seed=3, **settings) == counts
    build_grounding(kb, tmp_path / "other", seed=4, **settings)
    for name in ("pairs.parquet", "texts.parquet", "queries.parquet", "labels.npy"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()
    assert (tmp_path / "other" / "texts.parquet").read_bytes() != (folder / "texts.parquet").read_bytes()


@pytest.mark.usefixtures("one_thread")
def test_the_training_command_reads_the_folder(clinic: Tuple[KnowledgeBase, Path, Path, Dict[str, Any]], tiny_base: Path, tmp_path: Path) -> None:
    from training import fit

    kb, _, folder, counts = clinic
    given = {"paths.pairs": str(folder), "paths.kb": str(kb.path), "paths.base": str(tiny_base), "paths.out": str(tmp_path / "encoder")}
    steps = {"batches.pairs": 16, "training.max_steps": 2, "training.eval_every": 2, "encoder.max_length": 32}
    report = fit.fit(fit.read_recipe(Path(__file__).parents[3] / "training" / "configs" / "sap.cfg", {**given, **steps}))
    assert report["pairs"] == {key: value for key, value in counts.items() if key != "texts"}
    assert (tmp_path / "encoder" / "model.safetensors").is_file()


# -- generated definitions -------------------------------------------------------------------------------------------------


@pytest.fixture
def coded(make: Callable[..., KnowledgeBase]) -> KnowledgeBase:
    return make(
        concept("C9000001", "cough", codes=[("SNOMEDCT_US", "49727002"), ("HPO", "HP:0012735")], retired=["C9000007"]),
        concept("C9000002", "sneeze", codes=[("SNOMEDCT_US", "76067001"), ("OMIM", "123456")]),
        concept("C9000003", "itch", codes=[("MDR", "123456")]),
    )


def generated(kb: KnowledgeBase, folder: Path, *files: Path) -> Tuple[Texts, Dict[str, Any]]:
    counts = build_grounding(kb, folder / "g", generated=files)
    return texts_of(kb, folder / "g", "definition"), counts["texts"]


@pytest.mark.parametrize("header", ["", "CUI\tdefinition\n", "# made by a model\n# in May\nConcept_ID\tText\n"])
def test_generated_definitions_with_and_without_a_header(coded: KnowledgeBase, tmp_path: Path, header: str) -> None:
    lines = "C9000001\tCough is air that leaves at once.\nC9000007\tA reflex that clears the throat.\n\nSNOMEDCT_US:76067001\tAir through the nose, and loud.\n"
    (tmp_path / "agct.tsv").write_text(header + lines)
    texts, counts = generated(coded, tmp_path, tmp_path / "agct.tsv")
    assert texts == {
        "C9000001": [("definition", "It is air that leaves at once."), ("definition", "A reflex that clears the throat.")],
        "C9000002": [("definition", "Air through the nose, and loud.")],
    }
    assert counts["agct.tsv"] == {"kept": 3, "own_name_replaced": 1, "read": 3, "first_ids": {}}
    assert json.loads((tmp_path / "g" / "manifest.json").read_text())["sources"] == ["test", "agct.tsv"]


def test_bare_codes_and_what_is_wrong_with_lines(coded: KnowledgeBase, tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    (tmp_path / "bare.tsv").write_text(
        "id\tname\tdefinition\n49727002\tx\tAir that leaves at once.\n123456\tx\tOf two concepts, who knows which.\n"
        "999\tx\tOf nothing that is known.\n998\tx\tOf nothing that is known.\n999\tx\tAgain of nothing known.\n76067001\tx\t \n76067001\ttwo cells\n"
    )
    (tmp_path / "vocabulary.tsv").write_text(
        "sab\tcode\ttext\nOMIM\t123456\tAir through the nose, and loud.\nHPO\tHP:0012735\tA reflex that clears the throat.\n"
    )
    texts, counts = generated(coded, tmp_path, tmp_path / "bare.tsv", tmp_path / "vocabulary.tsv")
    assert texts == {
        "C9000001": [("definition", "Air that leaves at once."), ("definition", "A reflex that clears the throat.")],
        "C9000002": [("definition", "Air through the nose, and loud.")],
    }
    assert counts["bare.tsv"] == {
        "empty": 1,
        "kept": 1,
        "malformed_lines": 1,
        "read": 6,
        "several_concepts": 1,
        "unknown_concept": 3,
        "first_ids": {"empty": "76067001", "several_concepts": "123456", "unknown_concept": "999, 998"},
    }
    assert [str(warning.message)[:8] for warning in recwarn if "bare.tsv" in str(warning.message)] == ["[W001] 1"]


def write_latin(path: Path) -> None:
    path.write_bytes("C9000001\tGood.\nC9000002\tTüftelhusten\n".encode("latin-1"))


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (write_latin, "E404", "line 2"),
        ("a\tb\tc\nC9000001\tx\ty\n", "E591", r"line 1 has 3 columns \(a, b, c\)"),
        ("just text\n", "E591", "line 1 has 1 column "),
        ("", "E402", "no rows"),
        ("C1\tOf nothing that is known.\nX:2\tNor this one here.\n", "E592", r"None of the 2 definitions .* C1, X:2"),
        ("CUI\ttext\n" + "C9000001\n" * 200, "E405", "1 cells, not 2"),
        (None, "E401", "does not exist"),
    ],
)
def test_files_that_are_refused(coded: KnowledgeBase, tmp_path: Path, content: Any, code: str, said: str) -> None:
    path = tmp_path / "given.tsv"
    if callable(content):
        content(path)
    elif content is not None:
        path.write_text(content)
    with pytest.raises(SapbertError, match=said) as error:
        build_grounding(coded, tmp_path / "g", generated=[path])
    assert error.value.code == code
    assert not (tmp_path / "g").exists()


def test_generated_definitions_of_concepts_kept_out(clinic: Tuple[KnowledgeBase, Path, Path, Dict[str, Any]], tmp_path: Path) -> None:
    kb, pairs, _, _ = clinic
    unseen = next(query for query in read_queries(pairs) if query.split == "zero_shot")
    row = read_labels(pairs).tolist().index(unseen.label)
    (tmp_path / "more.tsv").write_text(f"{kb.concept_id(row)}\tA definition that only a model could have written.\n")
    counts = build_grounding(kb, tmp_path / "g", held_out=pairs, generated=[tmp_path / "more.tsv"])
    assert counts["texts"]["more.tsv"] == {"of_a_concept_kept_out": 1, "read": 1, "first_ids": {}}


def test_lines_are_read_as_they_come(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('49727002\tA "quoted" thing.\n')
    assert [tuple(one) for one in read_generated(tmp_path / "a.tsv")] == [("49727002", "", 'A "quoted" thing.')]


# -- settings, folders, command --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"shares": {"definitions": 1.5}}, "shares.definitions"),
        ({"shares": {"definitions": -1}}, "from 0 to 1"),
        ({"shares": {"definitions": 0.0}}, "above 0"),
        ({"shares": {"glosses": 1.0}}, "glosses"),
        ({"max_pairs": 0}, "max_pairs"),
        ({"descriptions": -1}, "descriptions"),
    ],
)
def test_settings_that_make_no_sense(make: Callable[..., KnowledgeBase], tmp_path: Path, settings: Dict[str, Any], said: str) -> None:
    with pytest.raises(SapbertError, match=said) as error:
        build_grounding(make(*TOYS), tmp_path / "g", **settings)
    assert error.value.code == "E590"
    assert not (tmp_path / "g").exists()


def test_pairs_of_another_knowledge_base(
    clinic: Tuple[KnowledgeBase, Path, Path, Dict[str, Any]], make: Callable[..., KnowledgeBase], tmp_path: Path
) -> None:
    for folder, code in ((clinic[1], "E549"), (tmp_path, "E502")):
        with pytest.raises(SapbertError) as error:
            build_grounding(make(*TOYS), tmp_path / "g", held_out=folder)
        assert error.value.code == code


def test_a_knowledge_base_without_texts(make: Callable[..., KnowledgeBase], tmp_path: Path, command: Callable[..., str]) -> None:
    with pytest.raises(SapbertError, match="2 concepts, 0 definitions, 0 descriptions") as error:
        build_grounding(make(concept("T:1", "a a", "b b"), concept("T:2", "c c")), tmp_path / "g")
    assert error.value.code == "E593"
    assert [path.name for path in tmp_path.iterdir()] == ["kb"]
    arguments = ("definitions", tmp_path / "kb", tmp_path / "g")
    with pytest.raises(SapbertError, match="E593"):
        command(*arguments)
    assert not (tmp_path / "g").exists()
    assert "2 concepts, 0 definitions" in json.loads(command(*arguments, "--allow-empty"))["empty"]  # as project.yml calls it
    assert "2 concepts, 0 definitions" in json.loads((tmp_path / "g" / "manifest.json").read_text())["why"]
    with pytest.raises(SapbertError, match="E502"):
        check_folder(tmp_path / "g")


def test_translations_are_no_names_of_the_pairs(tmp_path: Path) -> None:
    names = [Name("fever", "T"), Name("fieber", "T", "de"), Name("pyrexia", "T")]
    made = Concept("T:1", "T", names, definition="A body temperature above what is normal for the person.")
    kb = build_kb([Source("test", [made])], tmp_path / "kb", filters=Filters(languages=()))
    build_grounding(kb, tmp_path / "g", shares={"definitions": 1.0, "names": 1.0})
    found = pq.read_table(tmp_path / "g" / "pairs.parquet").to_pylist()
    assert {text for row in found for text in (row["anchor"], row["positive"])} == {"fever", "pyrexia", made.definition}


def test_names_of_a_cased_knowledge_base_keep_their_capitals(tmp_path: Path) -> None:
    """Names keep their capitals, and a held-out query is in no pair in any spelling of case."""
    names = [Name("Fever", "T"), Name("PYREXIA", "T"), Name("Pyrexia", "T"), Name("Febris", "T")]
    made = Concept("T:1", "T", names, definition="A body temperature above what is normal for the person.")
    kb = build_kb([Source("test", [made])], tmp_path / "kb", filters=Filters(cased=True))
    build_pairs(kb, tmp_path / "p", held_out=0.9, zero_shot=0)
    (query,) = read_queries(tmp_path / "p")
    build_grounding(kb, tmp_path / "g", held_out=tmp_path / "p", shares={"definitions": 1.0, "names": 1.0})
    found = pq.read_table(tmp_path / "g" / "pairs.parquet").to_pylist()
    used = {text for row in found for text in (row["anchor"], row["positive"])} - {made.definition}
    assert query.query in {"Fever", "PYREXIA", "Febris"}
    assert used == {"Fever", "PYREXIA", "Febris"} - {query.query}


def test_texts_of_a_folder_that_has_none(clinic: Tuple[KnowledgeBase, Path, Path, Dict[str, Any]], tmp_path: Path) -> None:
    for folder, said in ((clinic[1], "names only"), (tmp_path, "no manifest.json")):
        with pytest.raises(SapbertError, match=said) as error:
            list(grounding_of(folder))
        assert error.value.code == "E594"


def test_command(clinic: Tuple[KnowledgeBase, Path, Path, Dict[str, Any]], tmp_path: Path, command: Callable[..., str]) -> None:
    kb, pairs, folder, counts = clinic
    shares = ["--definitions", "1", "--descriptions", "1", "--names", "1"]
    assert json.loads(command("definitions", kb.path, tmp_path / "g", "--pairs", pairs, "--seed", 3, *shares)) == counts
    assert (tmp_path / "g" / "pairs.parquet").read_bytes() == (folder / "pairs.parquet").read_bytes()
    with pytest.raises(SapbertError, match="E401"):
        command("definitions", kb.path, tmp_path / "h", "--generated", tmp_path / "none.tsv")


def test_error_codes_are_of_the_grounding_texts() -> None:
    assert [code for code in vars(Errors) if code.startswith("E59")] == ["E590", "E591", "E592", "E593", "E594"]
