"""Find concepts for mentions: exact match, nearest names, filters, ranking, the decision to link, and the cache of answers.

This module works on texts. It knows nothing about spaCy Docs: what the context in a Doc decides comes in as a `Choice`.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from .bundle import LinkerBundle, is_default, is_fast, is_paired
from .calibration import Calibration, Evidence, Observed
from .candidates import DECIMALS, EMPTY, Candidate, Hits, Ranking, Rules, Standing, rank
from .context.base import Choice
from .encoders.base import CarefulWithWords
from .errors import fail, warn
from .indexes.base import KeepsNeighbours
from .kb import curies, semantic_types
from .kb.concept import DOTLESS, Name, normalise, other_numbers
from .kb.forms import inner_plurals, nouns, singulars
from .kb.knowledge_base import KnowledgeBase
from .kb.name_table import is_canonical, is_weak
from .kb.removals import Blocked
from .kb.writing import is_acronym
from .ranking.features import FeatureReader
from .ranking.fit import Example
from .ranking.opposites import Poles, opposite, poles_of
from .ranking.pairs import CrossEncoder, cross_encoder
from .ranking.ranker import FEATURES, WORDS_ADDED, WORDS_MISSING, Ranker
from .ranking.rerank import (
    READ,
    SHIPPED_CROSS_RERANKER,
    SHIPPED_CROSS_RERANKER_FAST,
    SHIPPED_RERANKER,
    NameComparer,
    Reranker,
    read_reranker,
    static_encoder,
)
from .ranking.words import frequent_words
from .settings import CONTEXT, COSINE, LEARNED, NAMES, READING, Filter, Settings
from .types import Bools1d, Floats2d, Ints1d, Ints2d

NO_THRESHOLD = -2.0  # below every cosine
NOISE = 1e-9  # rounding error of a probability
CHOSEN_BY_CONTEXT_SCORE = 1.0  # score of a concept that only the context chose: the mention alone did not find it
MAX_MENTION_CHARS = 1_000  # longer mentions are cut; the encoder reads only 25 tokens
EXACT_BUDGET = 0.05  # search budget of an exact match: its concept is known, only the other candidates are searched
FORMS_BUDGET = 0.125  # search budget with `new_words=False`: names with the same words in other forms are very near
FITTING = {
    NAMES: "the default encoder",
    **dict.fromkeys(READING, "the default, the fast or the paired encoder"),
}  # setting `rerank` -> encoders that it works with
VOCABULARIES_SHOWN = 12  # in an error message
SHORT = 3  # characters of a mention that often has several meanings
# label of a mention -> semantic groups of concepts to which it is not linked by a similar name with fewer words: "bone saw" is no bone
OTHER_KINDS = {
    "PROC": frozenset(["ANAT", "CONC", "DISO", "PHEN"]),
    "CHEM": frozenset(["ANAT", "CONC", "DISO", "PHEN"]),
    "DISO": frozenset(["ANAT", "CONC", "PHEN"]),
    "ANAT": frozenset(["CONC"]),
}
_WORDS = re.compile(r"[^\W_]+")
_FUNCTION_WORDS = frozenset(["a", "and", "by", "in", "of", "or", "the", "to", "with"])

_NOTHING: Ints1d = np.zeros(0, dtype=np.int64)
_NO_HITS = Hits(_NOTHING, _NOTHING, _NOTHING, np.zeros(0), _NOTHING, _NOTHING)


class Query(NamedTuple):
    """What is looked up. A tuple of text and types is one, too.

    Attributes:
        text: the mention's text.
        types: semantic types that it may be linked to; None is all.
        around: the text around it, see `spacy_sapbert.doc.around`, which `rerank="context"` reads; "" if it is not read.
    """

    text: str
    types: Filter = None
    around: str = ""


Asked = Query | tuple[str, Filter]
Ranked = Callable[[Sequence[Query], Hits], Standing]  # (normalised mentions, what was found for them) -> their order


class Mask(NamedTuple):
    """Masks of what a search may find; None is everything.

    Attributes:
        names: (n,) surface forms of the knowledge base's files.
        rows: (m,) rows of the name table.
        added_names: (a,) added surface forms.
        added_rows: rows of the name table of additions.
    """

    names: Bools1d | None = None
    rows: Bools1d | None = None
    added_names: Bools1d | None = None
    added_rows: Bools1d | None = None


LISTS = ("meanings", "runner_up", "ties")  # the entries of `Answer.explain` that are lists


class Answer(NamedTuple):
    """What one mention is linked to. Equal mentions share one answer.

    Attributes:
        candidates: (concept id, score), best first; empty without a link, unless `coverage` is set.
        codes: codes of the first concept, by vocabulary; empty without a link.
        explain: the reasons, without the entries that depend on the span.
        linked: whether the first candidate is the link.
        probability: probability that the first candidate is right, 0 to 1; None without a calibration or a candidate.
    """

    candidates: list[tuple[str, float]]
    codes: dict[str, list[str]]
    explain: dict[str, Any]
    linked: bool
    probability: float | None


class Found(NamedTuple):
    """An answer, and whether it came from the cache."""

    answer: Answer
    cached: bool


class MentionCandidate(NamedTuple):
    """scispaCy's candidate: a concept, and the names by which it was found, with their cosines."""

    concept_id: str
    aliases: list[str]
    similarities: list[float]


class Facts(NamedTuple):
    """What the knowledge base says of the concepts that answers show. It is read for many answers at once.

    Attributes:
        names: (surface form, concept) -> the name of this concept with this form, for the first concept and the runner-up of each ranking.
        codes: concept -> its codes by vocabulary, for the first concept of each ranking.
    """

    names: dict[tuple[int, int], Name]
    codes: dict[int, dict[str, list[str]]]


class CandidateSearch:
    """Finds concepts for mentions with an opened linker and its settings. Several threads may use it.

    Args:
        bundle: the opened linker.
        settings: settings of the component.
        component: its name, for messages.
        lock: held while the encoder works. Searches that share an encoder must share the lock.
        comparer: compares mentions with names for the reranker; None makes the one that `rerank` asks for.

    Raises:
        SapbertError: E010, `target_precision` or `coverage` needs a calibration; E011, the calibration can't reach it; E050, `rank` needs a ranker;
            E056, `rerank` needs another encoder; E057, a file of the reranker is damaged; E087, the ranker does what `rerank` asks for; E105, E107,
            the knowledge base does not have a vocabulary or language.
    """

    def __init__(
        self,
        bundle: LinkerBundle,
        settings: Settings,
        *,
        component: str = "sapbert_linker",
        lock: threading.RLock | None = None,
        comparer: NameComparer | None = None,
    ) -> None:
        if settings.vocabularies:
            bundle.kb.allowed_vocabulary_sets(settings.vocabularies)
        if settings.languages:
            bundle.kb.check_languages(settings.languages)
        if settings.rank == LEARNED and bundle.ranker is None:
            raise fail("E050", component=component, path=bundle.folder, why=bundle.why_not_ranked)
        self.bundle, self.settings = bundle, settings
        self.ranker = None if settings.rank == COSINE else bundle.ranker
        self.reranker = None if settings.rerank is None else _reranker(bundle, settings.rerank, component, self.ranker)
        self._comparer = make_comparer(bundle.kb, settings.rerank, cached=settings.cache_size > 0) if comparer is None else comparer
        compares = self.ranker is not None and self.ranker.has_both_cosines and not is_fast(bundle.encoder)
        # files are read here, so that a missing one is not the error of a note, and no note waits for them
        if self.ranker is not None and (self.ranker.uses(WORDS_MISSING) or self.ranker.uses(WORDS_ADDED)):
            frequent_words()
        if compares or self.reranker is not None:
            static_encoder()
        if settings.rerank in READING:
            cross_encoder()
        encode = None if is_fast(bundle.encoder) else _static_vectors
        added = None if bundle.kb.added is None else bundle.kb.added.first_surface_form
        self._features = FeatureReader(partial(_surface_forms, bundle.kb), encode, added)  # no bound method: it would refer back to this search
        self.least_probability, self.score_gap = _targets(bundle, settings, component)
        encoder = bundle.encoder
        self._least_word_score = encoder.least_word_score if isinstance(encoder, CarefulWithWords) else NO_THRESHOLD
        self._lock = threading.RLock() if lock is None else lock
        self._cache: LRUCache[Query, Answer] = LRUCache(settings.cache_size)
        self._words: LRUCache[Asked, Answer] = LRUCache(settings.cache_size)
        self._masks: dict[Filter, Mask] = {}
        self._left: Bools1d | None = None  # see `_not_removed`

    @property
    def calibration(self) -> Calibration | None:
        """The calibration of the bundle."""
        return self.bundle.calibration

    # -- answers --------------------------------------------------------------------------------------------------------

    def find(self, queries: Sequence[Asked]) -> list[Found]:
        """Return an answer for each query. Equal queries are looked up once."""
        keys = self._keys(queries)
        with self._lock:
            known = {key: self._cache[key] for key in dict.fromkeys(keys) if key in self._cache}
            fresh = self._answers([key for key in dict.fromkeys(keys) if key not in known])
            if self.settings.cache_size:
                self._cache.update(fresh)
        return [Found(known[key], True) if key in known else Found(fresh[key], False) for key in keys]

    def _keys(self, queries: Sequence[Asked]) -> list[Query]:
        """Return queries with normalised texts. The text around a mention is kept only where it is read: not for exact matches."""
        if self.settings.rerank != CONTEXT:
            return [Query(self.normal(query[0]), query[1]) for query in queries]
        keys = [Query(self.normal(query[0]), *query[1:]) for query in queries]
        exact: set[tuple[str, Filter]] = set()
        with self._lock:
            for types in dict.fromkeys(key.types for key in keys):
                names = list(dict.fromkeys(key.text for key in keys if key.types == types))
                exact.update((name, types) for name, row in zip(names, self._exact(names, self._mask(types))) if row is not None)
        return [key._replace(around="") if key[:2] in exact else key for key in keys]

    def forget(self) -> None:
        """Empty the cache of answers."""
        with self._lock:
            self._cache.clear()
            self._words.clear()
        if self.settings.rerank in READING:
            cross_encoder().forget()

    def remembered(self, query: Asked, make: Callable[[], Answer]) -> Answer:
        """Return the cached answer for a query in its original spelling. If there is none, make it and cache it.

        Args:
            query: a word as it is written in the text, and the semantic types that it may be linked to.
            make: makes the answer from the answer for the word in lower case.
        """
        with self._lock:
            if query in self._words:
                return self._words[query]
        made = make()
        if self._words.maxsize:
            with self._lock:
                self._words[query] = made
        return made

    def n_cached(self) -> int:
        """Return the number of cached answers."""
        return len(self._cache)

    def normal(self, text: str) -> str:
        """Return a mention in the form in which names are encoded, see `KnowledgeBase.encoded_form`.

        The lower case is that of the texts' language. If only the usual lower case finds a name, that one is used (HIV, MRI in Turkish).
        """
        text, language, kb = text[:MAX_MENTION_CHARS], self.settings.language, self.bundle.kb
        if kb.cased:
            return kb.encoded_form(text)
        own = normalise(text, language)
        if language in DOTLESS and not kb.find([text], language) and kb.find([text]):
            return normalise(text)
        return own

    def _answers(self, keys: Sequence[Query]) -> dict[Query, Answer]:
        rules = self.settings.rules
        if self.least_probability is not None or self.score_gap is not None:  # then `_answer` decides what is linked and which candidates are given
            rules = replace(rules, threshold=NO_THRESHOLD, max_entities=self.settings.k if self.score_gap is not None else rules.max_entities)
        found = {key: (self._with_link_first(key.text, *each), each[1]) for key, each in self._rankings(keys, rules).items()}
        facts = self._read([ranking for ranking, _ in found.values()])
        return {key: self._answer(key.text, ranking, exact, facts) for key, (ranking, exact) in found.items()}

    def _read(self, rankings: Sequence[Ranking]) -> Facts:
        """Return what the answers for some rankings show."""
        kb = self.bundle.kb
        first = [top for ranking in rankings if (top := _top(ranking)) is not None]
        shown = [*first, *(ranking.runner_up for ranking in rankings if ranking.runner_up is not None)]
        kb.read_ids({*(c.concept for c in shown), *(c.concept for ranking in rankings for c in ranking.kept)})
        return Facts(kb.matched_names((c.surface_form, c.concept) for c in shown), kb.codes_of(c.concept for c in first))

    def _threshold(self, text: str, exact: bool) -> float:
        """Return the score that a mention's link must be above. An encoder may require more of single words that are not names."""
        return self.settings.threshold if exact or not text.isalpha() else max(self.settings.threshold, self._least_word_score)

    def _with_link_first(self, mention: str, ranking: Ranking, exact: bool) -> Ranking:
        """Return a ranking without the candidates that are not above the threshold, if the first one is not: a ranker's first may have a low cosine."""
        threshold = self._threshold(mention, exact)
        if self.least_probability is None and ranking.kept and ranking.kept[0].score <= threshold:
            return ranking._replace(kept=[c for c in ranking.kept if c.score > threshold] or ranking.kept)
        return ranking

    def _answer(self, mention: str, ranking: Ranking, exact: bool, facts: Facts) -> Answer:
        kb, threshold, top = self.bundle.kb, self._threshold(mention, exact), _top(ranking)
        name = None if top is None else facts.names[top.surface_form, top.concept]
        codes = {} if top is None else facts.codes[top.concept]
        probability = None
        if self.calibration is not None and top is not None and name is not None:
            probability = self.calibration.probability(self._evidence(mention, ranking, top, exact, name, len(codes)))
        linked = bool(ranking.kept) and top is not None and top.score > threshold
        if self.least_probability is not None and probability is not None:
            linked = bool(ranking.kept) and probability >= self.least_probability - NOISE
        if linked and not exact and not self.settings.new_words and name is not None:
            linked = not _adds_words(name.text, mention)
        chosen = ranking.kept if linked else []
        if self.score_gap is not None and top is not None:
            chosen = [c for c in ranking.kept if round(top.ranked_by - c.ranked_by, DECIMALS) <= self.score_gap]
        kept = [(kb.concept_id(c.concept), c.score) for c in chosen]
        explain: dict[str, Any] = {"linked": linked, "exact": exact, "threshold": threshold}
        if probability is not None:
            probability = round(probability, DECIMALS)
            explain["probability"] = probability
        if self.least_probability is not None:
            least = round(self.least_probability, DECIMALS)
            explain.update(threshold=None, target_precision=self.settings.target_precision, least_probability=least)
        if top is not None and top.rank_score is not None:
            explain.update(self._shares(top.rank_score, top.shares))
        if top is not None and name is not None:
            explain.update(id=kb.concept_id(top.concept), name=name.text, source=name.source, term_type=name.term_type, score=top.score)
            second = ranking.runner_up
            explain["runner_up"] = (
                None if second is None else [kb.concept_id(second.concept), facts.names[second.surface_form, second.concept].text, second.score]
            )
            explain["margin"] = None if second is None else _margin(top, ranking)
            explain["ties"] = [kb.concept_id(concept) for concept in ranking.tied]
        return Answer(kept, codes if linked else {}, explain, linked, probability if kept else None)

    def _shares(self, score: float, shares: tuple[float, ...]) -> dict[str, dict[str, float]]:
        """Return what made the score that ranked a concept, for the explanation."""
        first, second = shares[: len(FEATURES)], shares[len(FEATURES) :]
        found = {}
        reranked = any(second)
        before = round(sum(first), DECIMALS) if reranked else score
        if self.ranker is not None:
            used = [FEATURES.index(name) for name in self.ranker.features]
            found["rank"] = {"score": before, **_by_name(self.ranker.features, [first[i] for i in used])}
        if reranked:
            found["rerank"] = {"score": score, "first": before, **_by_name(READ, second)}
        return found

    def of_kind(self, found: Found, label: str) -> Found:
        """Return what was found for a mention; without its link, if that is a similar name of another kind, see `OTHER_KINDS`.

        This is only so with `new_words=False`, because then the mention has all words of the name and others: "bone saw" is no bone.

        Args:
            found: what was found.
            label: label of the mention.
        """
        answer, others = found.answer, OTHER_KINDS.get(label)
        if self.settings.new_words or others is None or not answer.linked or answer.explain["exact"]:
            return found
        kb = self.bundle.kb
        kinds = semantic_types.groups_of(kb.types_of(kb.row_of(answer.explain["id"])))
        if not kinds or not others.issuperset(kinds):
            return found
        kept = answer.candidates if self.score_gap is not None else []
        explain = {**answer.explain, "linked": False}
        return Found(Answer(kept, {}, explain, False, answer.probability if kept else None), found.cached)

    # -- meanings in context --------------------------------------------------------------------------------------------

    def meanings(self, answer: Answer) -> list[tuple[str, float]]:
        """Return the concepts of an answer with their scores, best first: those that tie, then the other candidates."""
        first = answer.explain.get("score")
        found = {answer.explain["id"]: first} if first is not None else {}
        found.update((concept, first) for concept in answer.explain.get("ties", ()))
        for concept, score in answer.candidates:
            found.setdefault(concept, score)
        return list(found.items())

    def decided(self, answer: Answer, choice: Choice, types: Filter, mention: str) -> Answer:
        """Return an answer with the meaning that was chosen in its context.

        It is a link if the choice is decided, if the settings allow the concept and, with `target_precision`, if it is probable enough.

        Args:
            answer: the answer from the text alone.
            choice: the meaning by the context.
            types: semantic types that the span may be linked to; None is all.
            mention: its text. A concept from which a user removed this name is not linked.
        """
        kb = self.bundle.kb
        allowed = [(concept, probability) for concept, probability in choice.concepts if self._allows(kb.row_of(concept), types, mention)]
        probability = allowed[0][1] if allowed else None
        linked = choice.decided and bool(allowed) and allowed[0] == choice.concepts[0]
        if linked and self.least_probability is not None and probability is not None:
            linked = probability >= self.least_probability - NOISE
        explain: dict[str, Any] = {**answer.explain, "linked": linked, "meaning": choice.meaning}
        if allowed and allowed[0][0] != answer.explain.get("id"):
            for shares in ("rank", "rerank"):
                explain.pop(shares, None)  # they belong to the concept that the text alone found
        scores = dict(self.meanings(answer))
        rows = [(concept, scores.get(concept, CHOSEN_BY_CONTEXT_SCORE)) for concept, _ in allowed[: self.settings.max_entities_per_mention]]
        if allowed:
            explain.update(id=allowed[0][0], name=kb.canonical_name_of(kb.row_of(allowed[0][0])), score=rows[0][1])
            explain.update(probability=round(allowed[0][1], DECIMALS), meanings=[[concept, round(p, DECIMALS)] for concept, p in allowed])
        kept = rows if linked or self.score_gap is not None else []
        return Answer(kept, kb.codes(kb.row_of(rows[0][0])) if linked else {}, explain, linked, probability if kept else None)

    def _allows(self, row: int, types: Filter, mention: str) -> bool:
        """Return whether a mention may mean a concept, and the settings allow the concept to be found by one of its names."""
        removed = self.bundle.kb.removed
        if removed is not None and removed.is_blocked(normalise(self.normal(mention)), row):
            return False
        if types is None and not self.settings.vocabularies and not self.settings.languages:
            return True
        return any(self._may_be_found(row, name, types) for name in self.bundle.kb.names_of(row))

    # -- what a calibration is fit on -----------------------------------------------------------------------------------

    def check_gold(self, gold: Sequence[str]) -> None:
        """Warn W005 if the knowledge base does not have some of the gold ids.

        Args:
            gold: see `observe`.

        Raises:
            SapbertError: E016, the knowledge base has none of them.
        """
        ids = [kb_id for kb_id in gold if kb_id != "NIL"]
        kb = self.bundle.kb
        unknown = Counter(i for i in ids if not any(part.strip() in kb for alternative in i.split("|") for part in alternative.split("+")))
        count, examples = sum(unknown.values()), ", ".join(i for i, _ in unknown.most_common(3))
        if ids and count == len(ids):
            theirs = curies.vocabularies_in_words(part for i in ids for part in re.split("[|+]", i))
            raise fail(
                "E016",
                n=count,
                examples=examples,
                theirs=theirs,
                ours=", ".join(kb.vocabularies_by_size[:VOCABULARIES_SHOWN]),
                known=kb.concept_id(0),
            )
        if count:
            warn("W005", count=count, n=len(ids), examples=examples)

    def exact_matches(self, names: Sequence[str]) -> set[str]:
        """Return those of some normalised mentions that are a name of the knowledge base, in any form."""
        return set(_find(self.bundle.kb, names, self.settings.language))

    def rows_of_gold(self, gold: str) -> list[int]:
        """Return the rows of the concepts of a gold annotation. Codes and retired ids lead to their concepts.

        Args:
            gold: the id or code of the right concept, with `|` between alternatives. A composite ("A+B") and "NIL" have no row.
        """
        return [row for alternative in gold.split("|") for row in self.bundle.kb.rows_of(alternative.strip())]

    def observe(self, queries: Sequence[Asked], gold: Sequence[str]) -> list[Observed]:
        """Return how this search ranks annotated mentions. The threshold is ignored.

        Args:
            queries: the mentions.
            gold: the right concept's id or code of each mention, with `|` between alternatives; "NIL" if the knowledge base has none.
        """
        keys = self._keys(queries)
        found = self._all_candidates(keys)
        facts, evidence = self._read([ranking for ranking, _ in found.values()]), {}
        for key, (ranking, exact) in found.items():
            if ranking.kept:
                top = ranking.kept[0]
                name, codes = facts.names[top.surface_form, top.concept], facts.codes[top.concept]
                evidence[key] = self._evidence(key.text, ranking, top, exact, name, len(codes))
        return [self._observed(found[key][0], evidence.get(key), self.rows_of_gold(kb_id)) for key, kb_id in zip(keys, gold)]

    def ranked(self, queries: Sequence[Asked]) -> list[tuple[list[Candidate], bool]]:
        """Return at most `k` candidates of each mention, best first, and whether the first is an exact match. The threshold is ignored.

        Args:
            queries: the mentions.
        """
        keys = self._keys(queries)
        found = self._all_candidates(keys)
        return [(found[key][0].kept, found[key][1]) for key in keys]

    def _all_candidates(self, keys: Sequence[Query]) -> dict[Query, tuple[Ranking, bool]]:
        """Rank distinct normalised mentions without a threshold. Also return whether each is an exact match."""
        rules = replace(self.settings.rules, threshold=NO_THRESHOLD, max_entities=self.settings.k)
        with self._lock:
            return self._rankings(list(dict.fromkeys(keys)), rules)

    def _observed(self, ranking: Ranking, evidence: Evidence | None, gold: list[int]) -> Observed:
        """Return how a mention with the given gold concepts is ranked."""
        if evidence is None:
            return Observed(Evidence(-1.0, 0.0, False), False, float("inf") if gold else None)
        top = ranking.kept[0]
        scores = [c.ranked_by for c in ranking.kept if c.concept in gold]
        behind = None if not gold else round(top.ranked_by - max(scores), DECIMALS) if scores else float("inf")
        return Observed(evidence, top.concept in gold, behind, self.bundle.kb.concept_id(top.concept))

    def _evidence(self, mention: str, ranking: Ranking, top: Candidate, exact: bool, name: Name, vocabularies: int) -> Evidence:
        """Return what a calibration looks at. It depends on the mention and the linker alone, not on other mentions.

        Args:
            mention: the normalised mention.
            ranking: its ranking.
            top: its first candidate.
            exact: whether it is an exact match.
            name: the candidate's name that was found.
            vocabularies: number of vocabularies in which the candidate has a code.
        """
        place = self.bundle.kb.rank_in_tie(top.surface_form, top.concept)
        return Evidence(
            top.score,
            _margin(top, ranking),
            exact,
            synonym=exact and not is_canonical(place),
            other_form=exact and normalise(name.text, name.language) != normalise(mention, name.language),
            weak_name=bool(is_weak(np.array(place))),
            acronym=is_acronym(name.text),
            short=len(mention) <= SHORT,
            vocabularies=vocabularies,
        )

    def examples(self, queries: Sequence[Asked], gold: Sequence[str]) -> list[Example]:
        """Return the features of the candidates of annotated mentions, best score first, and which candidates are right.

        Mentions with an exact match are left out. Equal mentions with equal gold are one example, with the text around the first of them.

        Args:
            queries: see `observe`.
            gold: see `observe`.
        """
        return self._examples(queries, gold, lambda keys, hits: self._features.features(_texts(keys), hits))

    def reranking_examples(self, queries: Sequence[Asked], gold: Sequence[str]) -> list[Example]:
        """Return the values by which the candidates of annotated mentions are reranked, best score first.

        The columns are the score that ranks the candidate, and those of `COMPARED`, or of `READ` with the cross-encoder. The order is that of this
        score. For the rest see `examples`.

        Args:
            queries: see `observe`.
            gold: see `observe`.
        """

        def compared(keys: Sequence[Query], hits: Hits) -> npt.NDArray[np.float64]:
            names, every = _texts(keys), np.arange(len(hits.starts))
            return np.column_stack([self._first(names, hits).scores, self._comparer.values(names, hits, every, _arounds(keys))])

        return self._examples(queries, gold, compared)

    def _examples(
        self, queries: Sequence[Asked], gold: Sequence[str], read: Callable[[Sequence[Query], Hits], npt.NDArray[np.float64]]
    ) -> list[Example]:
        """Return the candidates of annotated mentions with the values that `read` gives each pair of a mention and a concept, see `examples`."""
        around: dict[tuple[str, Filter], str] = {}
        wanted: dict[tuple[Query, tuple[int, ...]], None] = {}
        for key, kb_id in zip(self._keys(queries), gold):
            key = key._replace(around=around.setdefault(key[:2], key.around))
            wanted[key, tuple(self.rows_of_gold(kb_id))] = None
        seen: dict[Query, tuple[Ints1d, npt.NDArray[np.float64]]] = {}
        rules = replace(self.settings.rules, threshold=NO_THRESHOLD, max_entities=1)

        def watch(keys: Sequence[Query], hits: Hits) -> Standing:
            values, best = read(keys, hits), hits.starts
            order = np.lexsort((hits.concept[best], hits.place[best], -values[:, 0], hits.query[best]))
            concept, query, values = hits.concept[best][order], hits.query[best][order], values[order]
            for q in np.unique(query).tolist():
                seen[keys[q]] = concept[query == q], values[query == q]
            return Standing(hits.score[best], np.zeros((len(best), len(FEATURES))))

        with self._lock:
            for types in dict.fromkeys(key.types for key, _ in wanted):
                keys = list(dict.fromkeys(key for key, _ in wanted if key.types == types))
                size = self.settings.candidates_batch_size
                for start in range(0, len(keys), size):
                    for key, (_, exact) in zip(keys[start : start + size], self._rank(keys[start : start + size], types, rules, watch)):
                        if not exact:
                            seen.setdefault(key, (np.zeros(0, dtype=np.int64), read([], _NO_HITS)))
        found = [(seen[key], rows) for key, rows in wanted if key in seen]
        return [Example(values, np.isin(concept, rows)) for (concept, values), rows in found]

    # -- rankings -------------------------------------------------------------------------------------------------------

    def _rankings(self, keys: Sequence[Query], rules: Rules) -> dict[Query, tuple[Ranking, bool]]:
        """Rank distinct normalised mentions, in batches with one type filter each. Also return whether each is an exact match."""
        found: dict[Query, tuple[Ranking, bool]] = {}
        size = self.settings.candidates_batch_size
        for start in range(0, len(keys), size):
            batch = keys[start : start + size]
            for types in dict.fromkeys(key.types for key in batch):
                some = [key for key in batch if key.types == types]
                found.update(zip(some, self._rank(some, types, rules)))
        return found

    def _rank(self, keys: Sequence[Query], types: Filter, rules: Rules, by: Ranked | None = None) -> list[tuple[Ranking, bool]]:
        """Rank the concepts of distinct normalised mentions. Nothing is found for a mention without a letter or digit.

        Args:
            keys: the mentions.
            types: semantic types that may be found.
            rules: which concepts are kept.
            by: ranks the concepts of mentions without an exact match; None is the linker's ranker, if it has one.
        """
        bundle, mask = self.bundle, self._mask(types)
        kb, n = bundle.kb, len(bundle.index)
        answers: list[tuple[Ranking, bool]] = [(EMPTY, False)] * len(keys)
        useful = [i for i, key in enumerate(keys) if _has_letter_or_digit(key.text)]
        if not useful:
            return answers
        asked = [keys[i] for i in useful]
        names = _texts(asked)
        exact = self._exact(names, mask)
        known = [i for i, row in enumerate(exact) if row is not None]
        unknown = [i for i, row in enumerate(exact) if row is None]
        vectors = self._vectors(names, exact)
        k = min(self.settings.k, n)
        found, cosines = np.full((len(names), k), -1, dtype=np.int64), np.full((len(names), k), -np.inf, dtype=np.float32)
        if known:
            forms = np.array([exact[i] for i in known], dtype=np.int64)
            found[known], cosines[known] = self._near_exact(forms, vectors[known], k, mask.names)
        if unknown:
            budget = 1.0 if self.settings.new_words else FORMS_BUDGET
            found[unknown], cosines[unknown] = self._nearest(vectors[unknown], k, mask.names, budget)
        found, cosines = self._with_added(vectors, found, cosines, mask.added_names)
        found[~vectors.any(axis=1)] = -1  # the encoder knows none of its words
        self._leave_out_opposites(names, unknown, found)
        if by is None and (self.ranker is not None or self.reranker is not None):
            by = self._standing
        ranker = None if by is None else partial(by, asked)
        added = None if kb.added is None else kb.added.name_table
        rankings = rank(
            found,
            cosines,
            kb.name_table,
            rules,
            exact=exact,
            allowed=mask.rows,
            added=added,
            added_allowed=mask.added_rows,
            blocked=self._blocked(names),
            ranker=ranker,
        )
        for i, ranking, row in zip(useful, rankings, exact):
            answers[i] = ranking, row is not None
        return answers

    def _exact(self, names: Sequence[str], mask: Mask) -> list[int | None]:
        """Return the row of the name that each normalised mention equals, if it may be found; else None."""
        rows = _find(self.bundle.kb, names, self.settings.language) if self.settings.exact_match else {}
        exact = [rows.get(name) for name in names]
        if mask.names is not None and mask.added_names is not None:
            every = np.concatenate([mask.names, mask.added_names]) if len(mask.added_names) else mask.names
            exact = [row if row is not None and every[row] else None for row in exact]
        return exact

    def _leave_out_opposites(self, names: Sequence[str], which: Sequence[int], found: Ints2d) -> None:
        """Leave out names that say the opposite of a mention: their rows become -1.

        Args:
            names: (q,) normalised mentions.
            which: the mentions that are no name.
            found: (q, k) rows of the names that were found.
        """
        poles = {i: said for i in which if (said := poles_of(names[i].lower()))}
        if not poles:
            return
        rows = np.unique(found[list(poles)])
        said_by = self._poles_of_names(rows[rows >= 0].tolist())
        for i, said in poles.items():
            against = [row for row in found[i].tolist() if row in said_by and all(opposite(said, each) for each in said_by[row])]
            found[i, np.isin(found[i], against)] = -1

    def _poles_of_names(self, rows: Sequence[int]) -> dict[int, list[Poles]]:
        """Return what names say for each of their concepts: what they say themselves, else what the canonical name of the concept says.

        Args:
            rows: rows of surface forms, in ascending order. Added ones, which are the last, are left out.
        """
        kb = self.bundle.kb
        concepts = kb.name_table.concepts_of([row for row in rows if row < kb.n_surface_forms])
        return {
            row: [{**poles_of(kb.canonical_name_of(concept).lower()), **poles_of(form.lower())} for concept in sorted(owners)]
            for row, form, owners in zip(rows, _surface_forms(kb, rows), concepts)
        }

    def _near_exact(self, forms: Ints1d, vectors: Floats2d, k: int, allowed: Bools1d | None) -> tuple[Ints2d, Floats2d]:
        """Return the k nearest names of exact matches and their cosines, (q, k) each, see `_nearest`.

        They come from the index's table of neighbours. Without a table, with a mask, for added names and for names beside a removed one, they are
        searched.

        Args:
            forms: (q,) the surface form that each mention is equal to.
            vectors: (q, d) its vector.
            k: number of names.
            allowed: (n,) names that may be found; None is all.
        """
        index, removed = self.bundle.index, self.bundle.kb.removed
        stored = np.flatnonzero(forms < len(index))
        table = index.neighbours(forms[stored], k) if allowed is None and isinstance(index, KeepsNeighbours) else None
        if table is None:
            return self._nearest(vectors, k, allowed, EXACT_BUDGET)
        rows, cosines = np.empty((len(forms), k), dtype=np.int64), np.empty((len(forms), k), dtype=np.float32)
        rows[stored], cosines[stored] = table
        others = forms >= len(index)
        if removed is not None and removed.gone:
            others[stored] |= np.isin(table[0], list(removed.gone)).any(axis=1)
        if others.any():
            rows[others], cosines[others] = self._nearest(vectors[others], k, allowed, EXACT_BUDGET)
        return rows, cosines

    def _nearest(self, vectors: Floats2d, k: int, allowed: Bools1d | None = None, budget: float = 1.0) -> tuple[Ints2d, Floats2d]:
        """Return the k nearest names of the index (q, k) and their cosines, without names that no concept has any more, see `Removals`.

        Args:
            vectors: (q, d) vectors of mentions.
            k: number of names.
            allowed: (n,) names that may be found; None is all.
            budget: share of the index's search budget.
        """
        index, removed = self.bundle.index, self.bundle.kb.removed
        rows, cosines = index.query(vectors, k, allowed=allowed, budget=budget)
        if removed is None or not removed.gone:
            return rows, cosines
        gone = np.array(sorted(removed.gone), dtype=np.int64)
        hit = np.flatnonzero(np.isin(rows, gone).any(axis=1))  # only these mentions are searched again, so that the others keep their answers
        if len(hit):
            more = min(k + min(len(gone), k), len(index))
            found, near = index.query(vectors[hit], more, allowed=allowed, budget=budget)
            last = np.isin(found, gone)
            found, near = np.where(last, -1, found), np.where(last, -np.inf, near)
            order = np.argsort(last, axis=1, kind="stable")[:, :k]
            rows[hit], cosines[hit] = np.take_along_axis(found, order, axis=1), np.take_along_axis(near, order, axis=1)
        return rows, cosines

    def _blocked(self, names: Sequence[str]) -> dict[int, Blocked] | None:
        """Return number of a normalised mention -> concepts that it may not mean, because a user removed this name."""
        removed = self.bundle.kb.removed
        if removed is None:
            return None
        return {i: blocked for i, name in enumerate(names) if (blocked := removed.blocked(name)) is not None}

    def _vectors(self, names: Sequence[str], exact: Sequence[int | None]) -> Floats2d:
        """Return the vectors of normalised mentions, (q, dim): the stored one of an exact match, else the encoder's.

        Args:
            names: the mentions.
            exact: the surface form that each is equal to, or None.
        """
        kb, index, n = self.bundle.kb, self.bundle.index, len(self.bundle.index)
        vectors = np.zeros((len(names), index.dim), dtype=np.float32)
        stored = {i: row for i, row in enumerate(exact) if row is not None and row < n}
        if stored:
            vectors[list(stored)] = index.vectors(np.array(list(stored.values()), dtype=np.int64))
        for i, row in enumerate(exact):
            if kb.added is not None and row is not None and row >= n:
                vectors[i] = kb.added.vectors[row - n]
        unknown = [i for i, row in enumerate(exact) if row is None]
        if unknown:
            with self._lock:
                vectors[unknown] = self.bundle.encoder.encode([names[i] for i in unknown])
        return vectors

    def _standing(self, keys: Sequence[Query], hits: Hits) -> Standing:
        """Rank hits of normalised mentions by the ranker or by their scores, then rerank close calls."""
        names = _texts(keys)
        first = self._first(names, hits)
        return first if self.reranker is None else self._comparer.standing(self.reranker, names, hits, first, _arounds(keys))

    def _first(self, names: Sequence[str], hits: Hits) -> Standing:
        """Rank hits of normalised mentions by the ranker or by their scores."""
        return self._by_score(hits) if self.ranker is None else self._features.standing(self.ranker, names, hits)

    def _by_score(self, hits: Hits) -> Standing:
        """Return the order by the scores alone. All of it is the share of the cosine."""
        return Standing(hits.score[hits.starts], np.stack([hits.score[hits.starts], *np.zeros((len(FEATURES) - 1, len(hits.starts)))], axis=1))

    def _with_added(self, vectors: Floats2d, rows: Ints2d, cosines: Floats2d, allowed: Bools1d | None = None) -> tuple[Ints2d, Floats2d]:
        """Append all a added surface forms to what the index found: (q, k) -> (q, k + a). There are only a few."""
        added = self.bundle.kb.added
        if added is None or not len(added.vectors):
            return rows, cosines
        near = vectors @ added.vectors.T  # (q, a)
        here = np.arange(len(added.vectors)) + added.first_surface_form
        if allowed is not None:
            here = np.where(allowed, here, -1)
        return np.hstack([rows, np.broadcast_to(here, near.shape)]), np.hstack([cosines, near])

    def nearest(self, texts: Sequence[str], k: int) -> list[list[MentionCandidate]]:
        """Return the concepts of the k nearest names of each text, best first, by their vectors alone.

        Args:
            texts: the mentions.
            k: number of names for each mention.
        """
        kb, index = self.bundle.kb, self.bundle.index
        names = [self.normal(text) for text in texts]
        same = kb.find(names)
        exact = [same.get(name) for name in names]
        vectors = self._vectors(names, exact)
        rows, cosines = self._with_added(vectors, *self._nearest(vectors, min(k, len(index))))
        here = np.array([-2 if row is None else row for row in exact], dtype=np.int64)
        cosines[rows == here[:, None]] = 1.0  # stored vectors are rounded, so the product is not exactly 1
        useful = np.array([_has_letter_or_digit(name) for name in names], dtype=np.bool_)
        rows[~(useful & vectors.any(axis=1))] = -1
        added = None if kb.added is None else kb.added.name_table
        allowed, blocked = self._not_removed(), self._blocked(names)
        rankings = rank(rows, cosines, kb.name_table, Rules(NO_THRESHOLD, k), allowed=allowed, added=added, blocked=blocked)
        return [self._by_concept(*each) for each in zip(rankings, rows.tolist(), cosines.tolist())]

    def _by_concept(self, ranking: Ranking, rows: list[int], cosines: list[float]) -> list[MentionCandidate]:
        kb = self.bundle.kb
        found: dict[int, dict[str, float]] = {}  # concept -> name -> cosine
        for row, cosine in zip(rows, cosines):
            for concept, name in kb.names_of_surface_form(row) if row >= 0 else ():
                found.setdefault(concept, {}).setdefault(name.text, cosine)
        return [MentionCandidate(kb.concept_id(c.concept), list(found[c.concept]), list(found[c.concept].values())) for c in ranking.kept]

    # -- filters --------------------------------------------------------------------------------------------------------

    def _mask(self, types: Filter) -> Mask:
        """Return the masks of what may be found, by semantic types, vocabularies and languages."""
        settings, kb = self.settings, self.bundle.kb
        if types is None and not settings.vocabularies and not settings.languages:
            return Mask(rows=self._not_removed())
        if types not in self._masks:
            table, added, left = kb.name_table, kb.added, self._not_removed()
            rows = np.ones(len(table), dtype=np.bool_) if left is None else left.copy()
            if types is not None:
                rows &= kb.allowed_type_sets(types)[table.types]
            if settings.vocabularies:
                rows &= kb.allowed_vocabulary_sets(settings.vocabularies)[table.vocabularies]
            if settings.languages:
                rows &= kb.rows_of_languages(settings.languages)
            names = table.surface_forms_of(rows, kb.n_surface_forms)
            if added is None:
                self._masks[types] = Mask(names, rows, np.zeros(0, dtype=np.bool_))
            else:
                added_rows = added.allowed(lambda concept, name: self._may_be_found(concept, name, types))
                both = np.concatenate([names, np.zeros(len(added.vectors), dtype=np.bool_)])
                both[added.name_table.surface_form[added_rows]] = True
                self._masks[types] = Mask(both[: len(names)], rows, both[len(names) :], added_rows)
        return self._masks[types]

    def _not_removed(self) -> Bools1d | None:
        """Return the mask (m,) of the rows of the name table without removed names; None if nothing was removed."""
        kb = self.bundle.kb
        if self._left is None and kb.removed is not None and len(kb.removed.rows):
            left = np.ones(len(kb.name_table), dtype=np.bool_)
            left[kb.removed.rows] = False
            self._left = left
        return self._left

    def _may_be_found(self, row: int, name: Name, types: Filter) -> bool:
        """Return whether the settings allow a concept to be found by one of its names."""
        concept, settings = self.bundle.kb.concept(row), self.settings
        vocabularies = {vocabulary for vocabulary, _ in concept.codes} | {other.source for other in concept.names}
        return (
            (types is None or not types.isdisjoint(concept.types))
            and (not settings.vocabularies or not vocabularies.isdisjoint(settings.vocabularies))
            and (not settings.languages or name.language in settings.languages)
        )


def make_comparer(kb: KnowledgeBase, rerank: str | None, *, cached: bool = True, reads: Callable[[], CrossEncoder] = cross_encoder) -> NameComparer:
    """Return what compares mentions with all names of concepts.

    Args:
        kb: the knowledge base.
        rerank: "cross_encoder" and "context" also read them with the cross-encoder, which is loaded on first use; "context" with definitions.
        cached: whether the cross-encoder may keep what it read: mentions, and with "context" the text around them.
        reads: returns the cross-encoder.
    """

    def agreements(texts: Sequence[str]) -> npt.NDArray[np.float64]:
        found = reads().agreements(texts)
        if not cached:
            reads().forget()
        return found

    read = agreements if rerank in READING else None
    definition = partial(_definition_of, kb) if rerank == CONTEXT else None
    return NameComparer(partial(_names_of, kb), _static_vectors, read, partial(_surface_forms, kb), definition)


def _static_vectors(names: Sequence[str]) -> Floats2d:
    """Return the vectors of names by the static encoder of this package, which is read on the first call."""
    return static_encoder().encode(names)


def _reranker(bundle: LinkerBundle, rerank: str, component: str, ranker: Ranker | None) -> Reranker:
    """Return the reranker of this package for the linker's encoder and its ranker."""
    encoder = bundle.encoder
    compared = ranker is not None and ranker.has_both_cosines
    if rerank in READING and (is_fast(encoder) or is_paired(encoder) or (is_default(encoder) and compared)):
        return read_reranker(SHIPPED_CROSS_RERANKER_FAST)
    if rerank == NAMES and compared and is_default(encoder):
        raise fail("E087", component=component, path=bundle.folder)
    if not is_default(encoder):
        raise fail("E056", rerank=rerank, component=component, path=bundle.folder, fitting=FITTING[rerank])
    return read_reranker(SHIPPED_CROSS_RERANKER if rerank in READING else SHIPPED_RERANKER)


def _targets(bundle: LinkerBundle, settings: Settings, component: str) -> tuple[float | None, float | None]:
    """Return the least probability of a link for `target_precision`, and the score gap for `coverage`; None for one that is not set."""
    calibration = bundle.calibration
    for setting in ("target_precision", "coverage"):
        if calibration is None and getattr(settings, setting) is not None:
            raise fail("E010", setting=setting, component=component, path=bundle.folder, why=bundle.why_not_calibrated)
    least = score_gap = None
    if calibration is not None and settings.target_precision is not None:
        least = calibration.lowest(settings.target_precision)
    if calibration is not None and settings.coverage is not None:
        score_gap = calibration.score_gap(settings.coverage)
    return least, score_gap


def _by_name(names: Sequence[str], shares: Sequence[float]) -> dict[str, float]:
    return {name: round(share, DECIMALS) + 0.0 for name, share in zip(names, shares)}


def _texts(keys: Sequence[Query]) -> list[str]:
    return [key.text for key in keys]


def _arounds(keys: Sequence[Query]) -> list[str]:
    return [key.around for key in keys]


def _definition_of(kb: KnowledgeBase, row: int) -> str | None:
    return kb.concept(row).definition


def _names_of(kb: KnowledgeBase, row: int) -> list[str]:
    """Return the normalised names of a concept, the canonical one first."""
    return [normalise(name.text, name.language) for name in kb.names_of(row)]


def _surface_forms(kb: KnowledgeBase, rows: Sequence[int]) -> list[str]:
    """Return the surface forms of some rows, including added ones."""
    known = iter(kb.surface_forms_at([row for row in rows if row < kb.n_surface_forms]))
    added = {row: norm for norm, row in kb.added.by_norm.items()} if kb.added is not None and max(rows, default=0) >= kb.n_surface_forms else {}
    return [next(known) if row < kb.n_surface_forms else added[row] for row in rows]


def _top(ranking: Ranking) -> Candidate | None:
    """Return the first candidate, or the best concept if none passes the rules."""
    return ranking.kept[0] if ranking.kept else ranking.best


def _margin(top: Candidate, ranking: Ranking) -> float:
    """Return how far the first concept is before the runner-up, by the score that ranks them; its whole score if there is no runner-up.

    The margin is 0 if the ranker's first concept does not pass the threshold and another one is linked.
    """
    return max(0.0, round(top.ranked_by - (ranking.runner_up.ranked_by if ranking.runner_up is not None else 0.0), DECIMALS))


def _find(kb: KnowledgeBase, names: Sequence[str], language: str) -> dict[str, int]:
    """Return the row of the surface form that equals each name.

    If none does, English plural and possessive endings are ignored, as in `concept_matcher`; then plurals from Latin and Greek, and adjectives, stand
    for the noun: see `kb.forms`.
    """
    rows = kb.find(names)
    if kb.cased and language in DOTLESS:  # in other knowledge bases, names are already in the language's lower case
        rows.update(kb.find(names, language))
    forms = {name: _forms(normalise(name)) for name in names if name not in rows}
    found = kb.find(list(dict.fromkeys(form for of in forms.values() for form in of)))
    return {**rows, **{name: next(found[form] for form in of if form in found) for name, of in forms.items() if any(form in found for form in of)}}


def _forms(norm: str) -> list[str]:
    """Return the other forms of a normalised name, those that are nearest to it first."""
    return [*other_numbers(norm), *singulars(norm), *nouns(norm), *inner_plurals(norm)]


def _adds_words(name: str, mention: str) -> bool:
    """Return whether a name has a word that is not a form of any word of the mention."""
    words = _WORDS.findall(mention.lower())
    return not all(word in _FUNCTION_WORDS or any(_are_forms(word, other) for other in words) for word in _WORDS.findall(name.lower()))


def _are_forms(one: str, other: str) -> bool:
    """Return whether two words begin alike ("schizophrenic", "schizophrenia"), or differ in one or two letters ("haemorrhage", "hemorrhage")."""
    longer, first = max(len(one), len(other)), _shared(one, other)
    last = _shared(one[first:][::-1], other[first:][::-1])
    return first >= max(4, 0.6 * longer) or first + last >= 0.9 * longer


def _shared(one: str, other: str) -> int:
    """Return the number of letters at the beginning that two words share."""
    return next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))


def _has_letter_or_digit(text: str) -> bool:
    return any(character.isalnum() for character in text)
