"""The task of cross-lingual distillation: a student learns the teacher's vector of an English name, for that name and for its translations.

The loss is the mean squared error. If student and teacher have the same width, the student's vectors become close to the teacher's. If the widths
differ, a linear layer maps the student's vector to the teacher's width; this layer is removed when the student is saved. In both cases the index of
English names must be made with the student. The teacher's vectors are L2-normalised, like all vectors of this project.

Source: Reimers and Gurevych, EMNLP 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch

from spacy_sapbert.files import checksum
from spacy_sapbert.kb.concept import normalise
from spacy_sapbert.types import Floats2d

from ..data.pairs import HELD_OUT
from ..data.translations import TRANSLATIONS
from ..errors import fail
from ..loop.batches import ShuffledBatches
from ..loop.model import HEAD, add_head, transformer_of
from ..loop.trainer import Bools, HeldOut, HeldOutAccuracy, TextCollator
from ..recipe import Prepared, Table, Task, Words, listed
from ..registry import registry
from .targets import Distance, Ints, Teacher, codes, kept, manifest_of, read_table

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from ..recipe import Recipe

TARGETS = "targets.npy"
COLUMNS = ("english", "translation", "language", "concept_id", "split")
EXPECTED = f"a table of translations ({TRANSLATIONS}: {', '.join(COLUMNS)})"
SPLITS = ("train", HELD_OUT)


class Translations(NamedTuple):
    """The rows of one split: English names, their translations, the languages of the translations, and the concepts."""

    english: list[str]
    translation: list[str]
    language: list[str]
    concept: list[str]


@registry.tasks("spacy-sapbert.CrossLingualDistillation.v1")
def cross_lingual_distillation(teacher: str, translations: str, pairs: int = 64, teacher_length: int = 0) -> CrossLingualDistillationTask:
    """Make the task. It is measured with held-out translations: whether the nearest English name of the table belongs to the same concept.

    Args:
        teacher: Folder or name of an English encoder.
        translations: Folder with translations.parquet (`python -m training translations cross-lingual`); the teacher's vectors are stored in it.
        pairs: Number of pairs in a batch, of all processes together; a batch has twice as many texts.
        teacher_length: Greatest number of tokens of a name that the teacher reads; 0: as many as the student.

    Raises:
        SapbertError: E511.
    """
    for setting, value, least in (("pairs", pairs, 1), ("teacher_length", teacher_length, 0)):
        if value < least:
            raise fail("E511", setting=f"task.{setting}", value=value, why=f"it must be at least {least}")
    return CrossLingualDistillationTask(teacher, translations, pairs, teacher_length)


class CrossLingualDistillationTask(Task):
    """Cross-lingual distillation, measured with held-out translations."""

    def __init__(self, teacher: str, translations: str, pairs: int, teacher_length: int) -> None:
        self.teacher, self.translations, self.pairs, self.teacher_length = teacher, Path(translations), pairs, teacher_length

    def extent(self, recipe: Recipe) -> tuple[int, int, int]:
        """Return the number of training rows, the rows of a batch, and 2; see `Task.extent`."""
        path = self.translations / TRANSLATIONS
        split = read_table(path, EXPECTED, pa.schema([("split", pa.string())])).column("split")
        return split.to_pylist().count("train"), self.pairs, 2

    def prepare(self, recipe: Recipe, encoder: SentenceTransformer) -> Prepared:
        """Read the table, and encode its English names with the teacher. The teacher's vectors are stored and used again.

        Raises:
            SapbertError: E610 (the table), E611 (nothing to learn), E512 (the teacher).
        """
        from datasets import Dataset

        given, path = recipe.training, self.translations / TRANSLATIONS
        splits = read_translations(path)
        train, held, counts = apart(splits["train"], splits[HELD_OUT])
        if not train.english:
            raise fail("E611", path=path, why="no row of the split 'train' remains")
        names = list(dict.fromkeys(train.english))
        teacher = Teacher(self.teacher, self.teacher_length or recipe.encoder.max_length, given.gpu_id)
        data_settings = {"translations": checksum(path), "teacher": teacher.fingerprint}

        def make(folder: Path) -> dict[str, Any]:
            np.save(folder / TARGETS, teacher.encode(names), allow_pickle=False)  # a vector for each English name of the table
            return {"names": len(names)}

        folder = kept(self.translations, data_settings, make)
        targets: Floats2d = np.load(folder / TARGETS, mmap_mode="r")  # (names, d)
        student: Any = transformer_of(encoder)
        mapped = int(student.config.hidden_size) != teacher.width
        if mapped:
            add_head(encoder, teacher.width)
        place = {name: i for i, name in enumerate(names)}
        table = pa.table({"english": train.english, "translation": train.translation, "name": [place[name] for name in train.english]})
        sample = held_out_translations(held, splits, given.seed, given.eval_queries, given.eval_names)

        def label(rows: Sequence[dict[str, Any]]) -> torch.Tensor:
            return torch.from_numpy(np.array(targets[[row["name"] for row in rows]])).repeat(2, 1)  # the same target for both columns

        return Prepared(
            data=Dataset(table, fingerprint=data_settings["translations"][:32]),
            batch_size=self.pairs,
            batches=ShuffledBatches.make,
            collator=TextCollator(encoder.tokenizer, recipe.encoder.max_length, ("english", "translation"), label),
            objective=Distance(encoder, HEAD if mapped else "sentence_embedding", given.batch_tokens, given.cache_gradients),
            evaluator=TranslationAccuracy(sample) if sample.queries else None,
            data_settings={**data_settings, "targets": manifest_of(folder)["files"][TARGETS]["blake2b"]},
            report={
                "translations": {"pairs": len(train.english), "english_names": len(names), "languages": _counts(train.language), **counts},
                "held_out": {"queries": len(sample.queries), "names": len(sample.names)},
                "teacher": {"dimensions": teacher.width, "linear_map": mapped},
                "sources": [self.translations.name],
            },
            words=words,
            paths=("teacher", "translations"),
        )


def _counts(words: Sequence[str]) -> dict[str, int]:
    return {word: words.count(word) for word in sorted(set(words))}


def read_translations(path: Path) -> dict[str, Translations]:
    """Read the table. Return split -> its rows; white space at the ends of texts is removed.

    Raises:
        SapbertError: E610 (the table, an empty text).
    """
    table = read_table(path, EXPECTED, pa.schema([(name, pa.string()) for name in COLUMNS]))
    split = codes(table.column("split"), SPLITS, path, EXPECTED)
    columns = {name: [text.strip() for text in table.column(name).to_pylist()] for name in COLUMNS[:4]}
    for name, texts in columns.items():
        if "" in texts:
            raise fail("E610", path=path, expected=EXPECTED, why=f"row {texts.index('')} has an empty {name}")
    rows = {name: np.flatnonzero(split == i).tolist() for i, name in enumerate(SPLITS)}
    return {name: Translations(*([columns[column][row] for row in rows[name]] for column in COLUMNS[:4])) for name in SPLITS}


def apart(train: Translations, held: Translations) -> tuple[Translations, Translations, dict[str, int]]:
    """Remove the rows of both splits that would make the figures too good, and count them.

    Training rows are removed if their translation is also a held-out translation of the same language. Held-out translations are removed if they are
    written like an English name of the concept.
    """
    queries = {(normalise(text), language) for text, language in zip(held.translation, held.language)}
    rows = [i for i, (text, language) in enumerate(zip(train.translation, train.language)) if (normalise(text), language) not in queries]
    english = {(normalise(text), concept) for part in (train, held) for text, concept in zip(part.english, part.concept)}
    asked = [i for i, (text, concept) in enumerate(zip(held.translation, held.concept)) if (normalise(text), concept) not in english]
    counts = {
        "held_out_in_training": len(train.english) - len(rows),
        "held_out": len(asked),
        "held_out_same_as_english": len(held.english) - len(asked),
    }
    return _rows(train, rows), _rows(held, asked), counts


def _rows(part: Translations, rows: Sequence[int]) -> Translations:
    return Translations(*([column[row] for row in rows] for column in part))


def held_out_translations(held: Translations, splits: dict[str, Translations], seed: int, eval_queries: int, eval_names: int) -> HeldOut:
    """Return a sample of held-out translations, and a dictionary: the English names of their concepts and a sample of the table's others."""
    chance = np.random.default_rng([seed, 4])
    chosen = sorted(chance.choice(len(held.english), min(eval_queries, len(held.english)), replace=False).tolist()) if held.english else []
    asked = _rows(held, chosen)
    ids = {concept: i for i, concept in enumerate(dict.fromkeys([*splits["train"].concept, *splits[HELD_OUT].concept]))}
    pairs = list(dict.fromkeys((name, ids[concept]) for part in splits.values() for name, concept in zip(part.english, part.concept)))
    labels: Ints = np.array([label for _, label in pairs], dtype=np.int64)
    wanted = np.isin(labels, [ids[concept] for concept in asked.concept])
    others = np.flatnonzero(~wanted)
    wanted[chance.choice(others, min(eval_names, len(others)), replace=False)] = True
    rows = np.flatnonzero(wanted)
    queries = np.array([ids[concept] for concept in asked.concept], dtype=np.int64)
    return HeldOut(asked.translation, queries, asked.language, [pairs[row][0] for row in rows], labels[rows])


class TranslationAccuracy(HeldOutAccuracy):
    """The accuracy of all held-out translations together, which is the main figure, and of each language."""

    def __init__(self, data: HeldOut) -> None:
        super().__init__(data)
        self.primary_metric = f"{HELD_OUT}_at1"

    def groups(self) -> dict[str, Bools]:
        """Return all queries as one group, and those of each language."""
        return {HELD_OUT: np.ones(len(self.data.splits), dtype=np.bool_), **super().groups()}


def words(report: dict[str, Any]) -> Words:
    """Return the texts of the model card for a report of this task."""
    counts, held = report["translations"], report["held_out"]
    data = (
        f"{counts['pairs']:,} names and their translations ({listed(counts['languages'])}; {', '.join(report['sources'])}) of {counts['english_names']:,} "
        f"English names. Left out: {counts['held_out_in_training']:,} translations that are also held-out translations of the same language. "
    )
    data += (
        "A linear layer mapped the vectors to the teacher's width, and was removed: make indexes with this encoder."
        if report["teacher"]["linear_map"]
        else ("The vectors are close to those of the teacher; make indexes with this encoder.")
    )
    measured, tables = "", []
    if report["after"]:
        measured = (
            f"Held-out translations ({held['queries']:,}; {counts['held_out_same_as_english']:,} that are written as in English are left out) against "
            f"{held['names']:,} English names by exact search; ties count by their expected value."
        )
        groups = [key.removesuffix("_at1") for key in report["after"] if key.endswith("_at1")]
        titles = {HELD_OUT: "all languages"}
        tables = [Table(("@1", "@5"), [(titles.get(group, group), (f"{group}_at1", f"{group}_at5")) for group in groups])]
    return Words(
        "cross-lingual distillation (Reimers and Gurevych, EMNLP 2020)",
        "a name and its translation get the teacher's vector of the English name",
        data,
        measured,
        tables,
        language="[en, " + ", ".join(sorted(counts["languages"])) + "]",
        limits="The encoder gives poor vectors for names in other languages, for sentences, and for abbreviations without their long form.",
    )
