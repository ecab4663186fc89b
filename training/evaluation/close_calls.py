"""Write the mentions that a cross-encoder learns from: `python -m training close-calls --fit ncbi-train,bc5cdr-train --test ncbi-dev,bc5cdr-dev`.

The default encoder and the static encoder search each corpus's own dictionary exactly. If a mention is a name of the dictionary, the name itself is left
out of the search, so that the concept is found by its other names. Such mentions are gold mentions of the parts to train on, names of the
dictionaries, and names that stand in notes. Each mention comes with the text around it and the definitions of its candidates, or without both, so that
the cross-encoder learns to read either.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import spacy

from spacy_sapbert.candidates import DECIMALS
from spacy_sapbert.doc.around import text_around
from spacy_sapbert.encoders.transformer import NameEncoder
from spacy_sapbert.errors import MissingFile
from spacy_sapbert.errors import fail as base_fail
from spacy_sapbert.files import write_text
from spacy_sapbert.kb.concept import normalise
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.ranking.pairs import DEFINITION_READ, NAMES_READ
from spacy_sapbert.ranking.rerank import static_encoder
from spacy_sapbert.search import CandidateSearch, Query
from spacy_sapbert.types import Floats2d, Ints1d

from ..corpora.corpus import open_lines
from ..corpora.texts import read_notes
from ..data.augment import Augment
from ..tasks.cross_encoder import Call
from .benchmarks import BenchmarkReader
from .parts import check_fit_and_test, known_gold, read_apart, read_part
from .reranker import make_search

FOUND = 30  # names that each encoder finds
MOST = 10  # candidates of a mention
CHUNK = 128  # mentions that are searched at once
LENGTHS = range(4, 61)  # characters of a name that becomes a mention
IN_NOTES = range(6, 61)  # the same, of a name that stands in a note: shorter ones often mean something else
MOST_WORDS = 5  # of such a name
CONTEXTS = 3  # places of the same name in notes that are taken
NOTES = 5_000  # of MTSamples that are read
_WORDS = re.compile(r"[^\W_]+(?:[-'/][^\W_]+)*")
TRAIN, DEV = "train.jsonl", "dev.jsonl"


class Dictionary(NamedTuple):
    """A dictionary with the vectors of its names.

    Attributes:
        search: An exact search over the default encoder's vectors.
        names: (n,) normalised names.
        vectors: The vectors (n, d) of each encoder: the default one, and the static one.
        concepts: (n,) the concepts of each name.
        rows: The names of each concept.
        canonical: The normalised canonical name of each concept.
        definitions: Concept -> its definition, for those that have one.
    """

    search: CandidateSearch
    names: list[str]
    vectors: tuple[Floats2d, Floats2d]
    concepts: list[list[int]]
    rows: list[Ints1d]
    canonical: list[str]
    definitions: dict[int, str]


class Sought(NamedTuple):
    """A mention that is searched.

    Attributes:
        mention: The normalised mention.
        gold: The concepts that are right.
        own: A name that is left out of the search, or None.
        around: The text around it, see `pair_text`; None: neither this text nor definitions are read.
    """

    mention: str
    gold: Sequence[int]
    own: int | None = None
    around: str | None = None


def open_dictionary(kb: KnowledgeBase, encoder: NameEncoder, *, progress: bool = False) -> Dictionary:
    """Encode the names of a dictionary with both encoders."""
    names, table = list(kb.surface_forms()), kb.name_table
    search = make_search(kb, encoder, progress=progress)
    concepts: list[list[int]] = [[] for _ in names]
    rows: list[list[int]] = [[] for _ in range(len(kb))]
    for name, concept in zip(table.surface_form.tolist(), table.concept.tolist()):
        concepts[name].append(concept)
        rows[concept].append(name)
    vectors = search.bundle.index.vectors(np.arange(len(names)))
    definitions: dict[int, str] = {}
    for concept, text, _ in kb.definitions():
        definitions.setdefault(concept, text)
    canonical = [normalise(name) for _, _, name in kb.canonical_names()]
    as_arrays = [np.array(each, dtype=np.int64) for each in rows]
    return Dictionary(search, names, (vectors, static_encoder().encode(names)), concepts, as_arrays, canonical, definitions)


def calls(dictionary: Dictionary, asked: Sequence[Sought]) -> list[Call]:
    """Search q mentions in a dictionary.

    Returns:
        The mentions with at most MOST candidates, the highest sum of both cosines first. Mentions for which nothing is found are left out.
    """
    encoders = dictionary.search.bundle.encoder, static_encoder()
    made = []
    for start in range(0, len(asked), CHUNK):
        chunk = asked[start : start + CHUNK]
        texts = [one.mention for one in chunk]
        cosines = [encoder.encode(texts) @ vectors.T for vectors, encoder in zip(dictionary.vectors, encoders)]  # (chunk, n) each
        for at, one in enumerate(chunk):
            candidates = _candidates(dictionary, [each[at] for each in cosines], one.gold, one.own)
            if not candidates:
                continue
            concepts, names, scores, right = (list(each) for each in zip(*candidates))
            definitions = [] if one.around is None else [normalise(dictionary.definitions.get(concept, ""))[:DEFINITION_READ] for concept in concepts]
            made.append(Call(one.mention, names, scores, right, one.around or "", definitions if any(definitions) else []))
    return made


def _candidates(
    dictionary: Dictionary, cosines: Sequence[Any], gold: Sequence[int], own: int | None
) -> list[tuple[int, list[str], list[float], bool]]:
    """Return concept, names, scores and rightness of the candidates of one mention, the best first.

    Args:
        dictionary: The dictionary.
        cosines: (n,) of the names, for each encoder; that of the name that is left out is changed.
        gold: Concepts that are right.
        own: The name that is left out, or None.
    """
    found: dict[int, None] = {}
    for each in cosines:
        if own is not None:
            each[own] = -1.0
        nearest = np.argpartition(-each, min(FOUND, len(each) - 1))[:FOUND]
        found.update((concept, None) for name in nearest.tolist() if name != own for concept in dictionary.concepts[name])
    scores = {concept: [round(float(each[dictionary.rows[concept]].max()), DECIMALS) for each in cosines] for concept in found}
    best = sorted(found, key=lambda concept: -sum(scores[concept]))[:MOST]
    return [(concept, _read_names(dictionary, concept, cosines[0], own), scores[concept], concept in gold) for concept in best]


def _read_names(dictionary: Dictionary, concept: int, cosines: Any, own: int | None) -> list[str]:
    """Return the names of a candidate that are read: the canonical one, unless it is left out, and the nearest ones."""
    rows = dictionary.rows[concept]
    nearest = rows[np.argsort(-cosines[rows], kind="stable")[: NAMES_READ + 1]].tolist()
    near = [dictionary.names[row] for row in nearest if row != own]
    canonical = dictionary.canonical[concept]
    names = near if own is not None and canonical == dictionary.names[own] else [canonical, *near]
    return list(dict.fromkeys(names))[:NAMES_READ]


def has_others(dictionary: Dictionary, row: int) -> bool:
    """Return whether a concept of a name has other names too."""
    return any(len(dictionary.rows[concept]) > 1 for concept in dictionary.concepts[row])


def names_as_mentions(dictionary: Dictionary, count: int, chance: random.Random, augment: Augment) -> list[Sought]:
    """Draw names of concepts that have other names too, and change some as notes would. With every second one, definitions are read."""
    pool = [row for row, name in enumerate(dictionary.names) if len(name) in LENGTHS and has_others(dictionary, row)]
    drawn = chance.sample(pool, min(count, len(pool)))
    mentions = [normalise(augment(dictionary.names[row], str(row))) for row in drawn]
    return [Sought(mention, dictionary.concepts[row], row, (None, "")[at % 2]) for at, (mention, row) in enumerate(zip(mentions, drawn))]


def gold_mentions(dictionary: Dictionary, queries: Sequence[Query], gold: Sequence[str], *, known: bool) -> list[Sought]:
    """Return gold mentions with the text around them.

    Args:
        dictionary: The dictionary.
        queries: The mentions.
        gold: Their gold ids.
        known: True: those that are a name of their gold concept, which is left out of the search; each place is one. False: those that are no name of the
            dictionary; mentions with equal text and gold are one, with the text around the first of them.
    """
    search = dictionary.search
    found: dict[tuple[str, tuple[int, ...], str], Sought] = {}
    mentions = [search.normal(query.text) for query in queries]
    exact, other_form = search.bundle.kb.find(mentions), search.exact_matches(mentions)
    for query, mention, kb_id in zip(queries, mentions, gold):
        rows = tuple(search.rows_of_gold(kb_id))
        own = exact.get(mention)
        if known and own is not None and not set(rows).isdisjoint(dictionary.concepts[own]) and has_others(dictionary, own):
            found.setdefault((mention, rows, query.around), Sought(mention, rows, own, query.around))
        elif not known and rows and mention not in other_form:
            found.setdefault((mention, rows, ""), Sought(mention, rows, None, query.around))
    return list(found.values())


def names_in_notes(dictionary: Dictionary, notes: Sequence[str], chance: random.Random, count: int) -> list[Sought]:
    """Draw names of one meaning that stand in notes, with the text around them. The name is left out of the search.

    Args:
        dictionary: The dictionary.
        notes: Texts.
        chance: Draws the places.
        count: Most places. CONTEXTS of the same name are taken at most.
    """
    usual = {
        name: row
        for row, name in enumerate(dictionary.names)
        if len(dictionary.concepts[row]) == 1 and len(name) in IN_NOTES and has_others(dictionary, row)
    }
    places: dict[str, list[str]] = {}
    for note in notes:
        words, first = list(_WORDS.finditer(note)), 0
        while first < len(words):
            start, after = words[first].start(), first + 1
            for last in range(min(first + MOST_WORDS, len(words)), first, -1):
                name = normalise(note[start : words[last - 1].end()])
                if name in usual:
                    places.setdefault(name, []).append(text_around(note, start, words[last - 1].end()))
                    after = last
                    break
            first = after
    drawn = [(name, around) for name, each in places.items() for around in chance.sample(each, min(CONTEXTS, len(each)))]
    chosen = chance.sample(drawn, min(count, len(drawn)))
    return [Sought(name, dictionary.concepts[usual[name]], usual[name], around) for name, around in chosen]


def phrases_of(dictionary: Dictionary, path: Path, without: Collection[str]) -> list[Sought]:
    """Return phrases of patients whose concept is in the dictionary. With every second one, definitions are read.

    Args:
        dictionary: The dictionary.
        path: Table of concept ids and their phrases, with `|` between them.
        without: Normalised phrases that are left out.

    Raises:
        OSError: The file can't be read.
    """
    kb = dictionary.search.bundle.kb
    found: list[Sought] = []
    for concept_id, phrases in (line.split("\t") for line in open_lines(path) if line.count("\t") == 1 and not line.startswith("#")):
        rows = kb.rows_of(concept_id)
        for phrase in map(normalise, phrases.split("|")):
            own = kb.find([phrase]).get(phrase)
            if rows and phrase not in without and (own is None or not set(rows).isdisjoint(dictionary.concepts[own])):
                found.append(Sought(phrase, rows, own, (None, "")[len(found) % 2]))
    return found


def write_close_calls(
    fit: Sequence[str],
    test: Sequence[str],
    reader: BenchmarkReader,
    out: Path,
    *,
    names: int = 3_000,
    repeat: int = 2,
    phrases: Path | None = None,
    notes: Path | None = None,
    places: int = 0,
    seed: int = 0,
    progress: bool = False,
) -> dict[str, int]:
    """Write the files `train.jsonl` and `dev.jsonl`.

    Args:
        fit: Parts of corpora to train on.
        test: Parts to measure on.
        reader: Reads the corpora and their dictionaries.
        out: Folder to write into.
        names: Number of names of each dictionary that become mentions.
        repeat: How often each gold mention that is no name is in `train.jsonl`, in turn with the text around it and without: names are many, and
            written in another way.
        phrases: Table of phrases of patients, which are searched in HPO; None: none. Those of `examples/patients` are left out.
        notes: MTSamples; None: none. Names of the last dictionary of `fit` that stand in them become mentions.
        places: Number of these mentions.
        seed: Decides which names are drawn, and how they are changed.
        progress: Show progress bars.

    Returns:
        Part, dictionary or kind of mentions -> number of mentions.

    Raises:
        SapbertError: E401 (there is no file of phrases or notes), E519 (a part is in both), E540, E542, E548 (no part to train on).
    """
    from ..data.augment import augment

    check_fit_and_test(fit, test, "--fit", "a cross-encoder is trained on annotated mentions; give parts of corpora")
    for path in (phrases, notes):
        if path is not None and not path.is_file():
            raise base_fail("E401", MissingFile, path=path)
    nlp, encoder, chance = spacy.blank("en"), NameEncoder().initialize(), random.Random(seed)
    dictionaries: dict[str, Dictionary] = {}
    corpora = read_apart(reader, [*fit, *test])

    def dictionary(part: str) -> Dictionary:
        of = reader.dictionary_of(part)
        if of not in dictionaries:
            dictionaries[of] = open_dictionary(reader.knowledge_base(part), encoder, progress=progress)
        return dictionaries[of]

    found: dict[str, list[Call]] = {}
    train: list[Call] = []
    for part, corpus in corpora.items():
        gold = known_gold(corpus, nlp, dictionary(part).search, around=True)
        found[part] = calls(dictionary(part), gold_mentions(dictionary(part), *gold, known=False))
        if part in fit:
            without = [call._replace(around="", definitions=[]) for call in found[part]]  # the same search
            train += [call for at in range(repeat) for call in (without if at % 2 else found[part])]
            found[f"names in {part}"] = calls(dictionary(part), gold_mentions(dictionary(part), *gold, known=True))
    for of in sorted({reader.dictionary_of(part) for part in fit}):
        changed = augment(share=0.5, spelling=0.2, modifiers=0.1)
        found[f"names of {of}"] = calls(dictionaries[of], names_as_mentions(dictionaries[of], names, chance, changed))
    if phrases is not None:
        measured = {normalise(mention.text) for part in ("patients-dev", "patients-test") for mention in read_part(reader, part).mentions}
        hpo = dictionary("patients-dev")
        found["phrases"] = calls(hpo, phrases_of(hpo, phrases, measured))
    if notes is not None:
        last = dictionaries[reader.dictionary_of(fit[-1])]
        found["notes"] = calls(last, names_in_notes(last, read_notes(notes, NOTES), chance, places))
    train += [call for name, each in found.items() if name not in corpora for call in each]
    out.mkdir(parents=True, exist_ok=True)
    for file, each in ((TRAIN, train), (DEV, [call for name in test for call in found[name]])):
        write_text(out / file, "".join(json.dumps(call._asdict(), ensure_ascii=False) + "\n" for call in each))
    return {name: len(each) for name, each in found.items()}
