"""`sapbert_linker`: spans -> unique mentions -> vectors -> nearest names -> concepts -> Doc.

Reads top to bottom: config, factory, class, call, pipe, predict, set_annotations, initialize, files.
"""

from __future__ import annotations

import copyreg
import math
import shutil
import tempfile
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Dict, FrozenSet, List, NamedTuple, Optional, Set, Tuple, Union

import numpy as np
import srsly
from spacy import util
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.scorer import Scorer
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Config, Model

from .build import linker_folder as bundles
from .calibration import Calibration, Observed, fit_calibration
from .candidates import DECIMALS, EMPTY, Candidate, Ranking, Rules, rank
from .doc.spans import Link, Mention, SpansKey, get_mention, get_spans, long_forms, set_extensions, write_links
from .errors import SapbertError, fail, warn
from .files import folder_from_bytes, folder_to_bytes
from .kb import semantic_types
from .kb.additions import AddedName, Additions, check_names, to_tsv
from .kb.concept import DOTLESS, ENGLISH, MAX_NAME_CHARS, Concept, Name, normalise
from .kb.knowledge_base import KnowledgeBase
from .types import Bools1d, Floats2d, Ints2d, VectorIndex

NO_THRESHOLD = -2.0  # below every cosine
NOISE = 1e-9  # of a probability
MAX_MENTION_CHARS = 1_000  # of what the encoder is given; it reads 25 tokens
KNOWN_EFFORT = 0.5  # of the search, for a mention found verbatim: its link is known, only its neighbours are not
LINKER_FOLDER = "linker"

DEFAULT_CONFIG = """
[sapbert_linker]
linker_name = null
encoder = null
resolve_abbreviations = true
k = 30
threshold = 0.8
no_definition_threshold = 0.95
filter_for_definitions = false
max_entities_per_mention = 5
target_precision = null
coverage = null
spans_key = null
attr_name = "kb_ents"
labels_discard = []
overwrite = true
nil = ""
types = null
vocabularies = null
languages = null
exact_match = true
candidates_batch_size = 4096
cache_size = 100000

[sapbert_linker.model]
@architectures = "spacy-sapbert.NameEncoder.v1"

[sapbert_linker.index]
@sapbert_indexes = "spacy-sapbert.AnnoyIndex.v1"

[sapbert_linker.scorer]
@scorers = "spacy-sapbert.linker_scorer.v1"
"""

Types = Union[None, List[str], Dict[str, List[str]]]
FilterKey = Optional[FrozenSet[str]]  # TUIs, None for all
Spans = List[Tuple[Optional[str], int, Any]]


class Mask(NamedTuple):
    """names (n,): of the files, that may be found. lines (m,): of the knowledge base's array. added_names, added_lines: of what was added.
    None: all."""

    names: Optional[Bools1d] = None
    lines: Optional[Bools1d] = None
    added_names: Optional[Bools1d] = None
    added_lines: Optional[Bools1d] = None


class Answer(NamedTuple):
    """What one mention is linked to, made once for equal mentions. candidates: (concept id, score), best first; where not `linked`, empty
    unless `coverage` asks for them. codes: of the first concept. explain: the reasons, without what is the span's own. probability: that
    the first candidate is right."""

    candidates: List[Tuple[str, float]]
    codes: Dict[str, List[str]]
    explain: Dict[str, Any]
    linked: bool
    probability: Optional[float]


class Found(NamedTuple):
    """cached: the answer is from an earlier batch."""

    answer: Answer
    cached: bool


class Prediction(NamedTuple):
    """What one Doc's spans were linked to: three lists of one length."""

    spans: Spans
    mentions: List[Mention]
    found: List[Found]


class MentionCandidate(NamedTuple):
    """scispaCy's candidate: a concept, and the names by which it was found with their cosines."""

    concept_id: str
    aliases: List[str]
    similarities: List[float]


@Language.factory(
    "sapbert_linker",
    default_config=Config().from_str(DEFAULT_CONFIG)["sapbert_linker"],
    assigns=["token.ent_kb_id", "span._.kb_ents", "span._.kb_codes", "span._.kb_explain", "span._.kb_prob"],
    requires=["doc.ents"],
    default_score_weights={"nel_micro_f": 1.0, "nel_micro_r": None, "nel_micro_p": None},
)
def make_sapbert_linker(
    nlp: Language,
    name: str,
    model: Model[List[str], Floats2d],
    index: VectorIndex,
    linker_name: Optional[str],
    encoder: Optional[str],
    resolve_abbreviations: bool,
    k: int,
    threshold: float,
    no_definition_threshold: float,
    filter_for_definitions: bool,
    max_entities_per_mention: int,
    target_precision: Optional[float],
    coverage: Optional[float],
    spans_key: SpansKey,
    attr_name: str,
    labels_discard: List[str],
    overwrite: bool,
    nil: str,
    types: Types,
    vocabularies: Optional[List[str]],
    languages: Optional[List[str]],
    exact_match: bool,
    candidates_batch_size: int,
    cache_size: int,
    scorer: Optional[Callable],
) -> SapBertLinker:
    """Build the component; see SapBertLinker for the settings. Nothing is read from disk."""
    return SapBertLinker(
        model,
        index,
        name,
        linker_name=linker_name,
        encoder=encoder,
        resolve_abbreviations=resolve_abbreviations,
        k=k,
        threshold=threshold,
        no_definition_threshold=no_definition_threshold,
        filter_for_definitions=filter_for_definitions,
        max_entities_per_mention=max_entities_per_mention,
        target_precision=target_precision,
        coverage=coverage,
        spans_key=spans_key,
        attr_name=attr_name,
        labels_discard=labels_discard,
        overwrite=overwrite,
        nil=nil,
        types=types,
        vocabularies=vocabularies,
        languages=languages,
        language=nlp.lang or "",
        exact_match=exact_match,
        candidates_batch_size=candidates_batch_size,
        cache_size=cache_size,
        scorer=scorer,
    )


def _margin(top: Candidate, ranking: Ranking) -> float:
    """The lead of the top concept, in cosine; its whole score where it has no rival."""
    return round(top.score - (ranking.runner_up.score if ranking.runner_up is not None else 0.0), DECIMALS)


def make_linker_scorer() -> Callable[..., Dict[str, Any]]:
    """`spacy-sapbert.linker_scorer.v1`: spaCy's `Scorer.score_links`, where an abstention, "NIL" or "", is no link. To spaCy's own
    entity_linker_scorer "" is a wrong one."""
    return partial(Scorer.score_links, negative_labels=["", "NIL"])


class SapBertLinker(Pipe):
    """Links spans to the concepts of a knowledge base by the nearest names in an encoder's space (Liu et al., NAACL 2021).

    model (Model[List[str], Floats2d]): n names -> (n, d), L2-normalised.
    index (VectorIndex): used to build a linker; one that is loaded brings the engine it was built with.
    linker_name (Optional[str]): a registered linker or a linker's folder; None is "hpo", or "hpo-fast" with the fast encoder. Read on first use, or
        by `initialize`.
    encoder (Optional[str]): "fast" for the static encoder that comes with this package, in place of `model`: see StaticEncoder. None: `model`,
        and of a linker's folder what it was built with.
    resolve_abbreviations (bool): look up long forms that scispaCy's `abbreviation_detector` found.
    k (int): names fetched per mention.
    threshold (float): a concept's score (cosine, -1 … 1; 1.0 for a name found verbatim) must be above it.
        0.8: with the default linker 86% of the links above it are right on GSC+ dev, 87% on GSC+ test (see README).
    no_definition_threshold, filter_for_definitions: see `Rules`. max_entities_per_mention (int): candidates kept.
    target_precision (Optional[float]): 0 … 1; link only what is so probable that this share of links is right, as measured on the mentions
        that the linker's calibration was fit on. It takes the place of `threshold`.
    coverage (Optional[float]): 0 … 1; give as many candidates as it takes for this share of mentions to have the right concept among
        them (conformal prediction), whether the mention is linked or not. It takes the place of `max_entities_per_mention`.
    spans_key (SpansKey): None for doc.ents, else one or several span groups.
    attr_name (str): the Span attribute for candidates; "x_ents" also makes x_codes, x_explain and x_prob.
    labels_discard (List[str]): spans with these labels are left alone.
    overwrite (bool): replace a kb_id that is there. nil (str): kb_id where nothing is near enough: "" or "NIL".
    types (Types): semantic types, groups ("DISO") or names to keep, or a map from entity label to those. Applied before the
        top k. vocabularies (Optional[List[str]]): keep concepts that have a name or a code in one of these.
    languages (Optional[List[str]]): look among names in these alone (["en"]); default: among all that the knowledge base holds, since an
        encoder that knows the text's language finds English names too.
    language (str): of the texts, spaCy's code; a factory gives its pipeline's. It decides lower case (Turkish), and whether abbreviations are
        read by English rules ("", "en", "xx").
    exact_match (bool): a name found verbatim links at 1.0 without encoding (SapBERT's dictionary back-off).
    candidates_batch_size (int): mentions encoded and searched at once. cache_size (int): mentions remembered; 0 for none.
    RAISES: SapbertError E001, E002, E005, E006, E104 for settings.
    """

    def __init__(
        self,
        model: Model[List[str], Floats2d],
        index: VectorIndex,
        name: str = "sapbert_linker",
        *,
        linker_name: Optional[str] = None,
        encoder: Optional[str] = None,
        resolve_abbreviations: bool = True,
        k: int = 30,
        threshold: float = 0.8,
        no_definition_threshold: float = 0.95,
        filter_for_definitions: bool = False,
        max_entities_per_mention: int = 5,
        target_precision: Optional[float] = None,
        coverage: Optional[float] = None,
        spans_key: SpansKey = None,
        attr_name: str = "kb_ents",
        labels_discard: Iterable[str] = (),
        overwrite: bool = True,
        nil: str = "",
        types: Types = None,
        vocabularies: Optional[List[str]] = None,
        languages: Optional[List[str]] = None,
        language: str = "",
        exact_match: bool = True,
        candidates_batch_size: int = 4096,
        cache_size: int = 100_000,
        scorer: Optional[Callable] = None,
    ) -> None:
        self.name = name
        for what, part, kind in (("model", model, Model), ("index", index, VectorIndex)):
            if not isinstance(part, kind):
                raise fail("E006", what=what, got=type(part).__name__, expected=kind.__name__)
        counts = {
            "k": k,
            "max_entities_per_mention": max_entities_per_mention,
            "cache_size": cache_size,
            "candidates_batch_size": candidates_batch_size,
        }
        for setting, number in counts.items():  # spaCy lets "30" pass for 30
            self._require(setting, number, isinstance(number, int), "it must be a whole number.")
        self._require("k", k, k >= 1, "it must be at least 1.")
        self._require("max_entities_per_mention", max_entities_per_mention, max_entities_per_mention >= 1, "it must be at least 1.")
        for setting, value in (("threshold", threshold), ("no_definition_threshold", no_definition_threshold)):
            self._require(setting, value, isinstance(value, (int, float)) and -1.0 <= value <= 1.0, "it must be a cosine, between -1 and 1.")
        self._check_shares(target_precision, coverage)
        self._require("candidates_batch_size", candidates_batch_size, candidates_batch_size >= 1, "it must be at least 1.")
        self._require("cache_size", cache_size, cache_size >= 0, "it must not be negative.")
        self._require("nil", nil, nil in ("", "NIL"), "it must be '' or 'NIL'.")
        self._require("attr_name", attr_name, attr_name.isidentifier(), "it must be a Python name.")
        self._require("spans_key", spans_key, spans_key is None or bool(spans_key), "name a span group, or null for doc.ents.")
        lists = list(types.values()) if isinstance(types, dict) else [] if types is None else [types]
        self._require("types", types, all(lists), "nothing could be linked. Name semantic types, or null for all; see also labels_discard.")
        self._require("vocabularies", vocabularies, vocabularies is None or bool(vocabularies), "name vocabularies, or null for all.")
        self._require("languages", languages, languages is None or bool(languages), "name languages, or null for all.")
        if filter_for_definitions and no_definition_threshold < threshold:
            why = f"it contradicts threshold={threshold}: concepts without a definition would pass what others must not. Raise it."
            raise fail("E002", setting="no_definition_threshold", component=name, value=no_definition_threshold, why=why)
        bundles.check_linker_name(linker_name)
        self._require("encoder", encoder, encoder is None or linker_name != bundles.HPO, "linker 'hpo' has the default one. Leave linker_name out.")
        self.model, self.index = self._pick_encoder(encoder, model), index
        self._configured = self.model  # a linker's folder may bring another kind
        self._encoder_name = str(self.model.attrs.get("name") or "")  # what was asked for; a linker's folder brings its own
        self._fast = bundles.is_fast(self.model)
        self.scorer = scorer
        self.linker_name, self.k, self.spans_key, self.attr_name = linker_name, k, spans_key, attr_name
        self.resolve_abbreviations, self.exact_match, self.overwrite, self.nil = resolve_abbreviations, exact_match, overwrite, nil
        self.labels_discard, self.vocabularies, self.languages = list(labels_discard), vocabularies, languages
        self.language, self._english = language, language in ENGLISH
        self.types: Dict[str, FrozenSet[str]] = {}  # label -> TUIs, "" for labels that are not named
        if types is not None:
            by_label = types if isinstance(types, dict) else {"": types}
            self.types = {label: semantic_types.expand(wanted) for label, wanted in by_label.items()}
        self.rules = Rules(threshold, max_entities_per_mention, filter_for_definitions, no_definition_threshold)
        self.target_precision, self.coverage = target_precision, coverage
        self._calibration: Optional[Calibration] = None
        self._lowest: Optional[float] = None  # probability of a link
        self._reach: Optional[float] = None  # how far behind the top one a candidate may score
        self.candidates_batch_size, self.cache_size = candidates_batch_size, cache_size
        self._cache: OrderedDict[Tuple[str, FilterKey], Answer] = OrderedDict()
        self._masks: Dict[FilterKey, Mask] = {}
        self.additions = Additions()  # what add_alias and add_concept added
        self._kb: Optional[KnowledgeBase] = None
        self._folder: Optional[Path] = None
        self._temporary: Optional[tempfile.TemporaryDirectory] = None  # keeps from_bytes's files alive
        self._lock = threading.RLock()  # neither loading a model nor a fast tokenizer bears two threads
        set_extensions(attr_name, name)

    def _require(self, setting: str, value: Any, condition: bool, why: str) -> None:
        if not condition:
            raise fail("E002", setting=setting, component=self.name, value=value, why=why)

    def _pick_encoder(self, encoder: Optional[str], model: Model) -> Model:
        """RAISES: SapbertError E002 for an encoder that is not known, or beside a model that was named too."""
        self._require("encoder", encoder, encoder in (None, bundles.FAST), "it must be 'fast', or null for what `model` says.")
        if encoder is None or bundles.is_fast(model):
            return model
        named = model.attrs.get("architecture") != bundles.NAME_ENCODER or bool(model.attrs.get("name"))
        self._require("encoder", encoder, not named, "`model` names another encoder. Leave one of the two out.")
        return util.registry.get("architectures", bundles.STATIC_ENCODER)()

    def _check_shares(self, target_precision: Optional[float], coverage: Optional[float]) -> None:
        for setting, share in (("target_precision", target_precision), ("coverage", coverage)):
            fits = share is None or (isinstance(share, (int, float)) and 0.0 < share < 1.0)
            self._require(setting, share, fits, "it must be a share, between 0 and 1, or null.")

    # -- parts ----------------------------------------------------------------------------------------------------------

    @property
    def kb(self) -> KnowledgeBase:
        """The knowledge base, with scispaCy's `cui_to_entity`, `alias_to_cuis` and `semantic_type_tree`."""
        self.load()
        assert self._kb is not None
        return self._kb

    @property
    def umls(self) -> KnowledgeBase:
        """scispaCy's old name of `kb`."""
        return self.kb

    @property
    def folder(self) -> Optional[Path]:
        """Where the files in use lie, None before anything was loaded."""
        return self._folder

    def load(self) -> None:
        """Load the linker that `linker_name` names, if nothing is loaded yet. The default one is built on its first use.

        RAISES: SapbertError E001, E1xx, E2xx, E3xx.
        """
        if self._kb is None:
            with self._lock:
                if self._kb is None:
                    self.set_folder(bundles.find_linker(self.linker_name or (bundles.HPO_FAST if self._fast else None)))

    def set_folder(
        self,
        folder: Union[str, Path],
        *,
        exclude: Iterable[str] = (),
        calibration: Optional[Calibration] = None,
        additions: Optional[Additions] = None,
    ) -> None:
        """Use the knowledge base, encoder and index of a linker's folder. They are memory-mapped, not read. calibration, additions: instead of
        the folder's.

        RAISES: SapbertError E203 where index, names and encoder were not built for each other; E105 for a vocabulary; E107 for a language; E003 where
            something excluded was never there.
        """
        with self._lock:
            self._set_folder(Path(folder), set(exclude), calibration, additions)

    def _set_folder(self, folder: Path, exclude: Set[str], calibration: Optional[Calibration], additions: Optional[Additions]) -> None:
        with ThreadPoolExecutor(1) as beside:  # to open a graph of millions takes a second or two, as long as to load the encoder
            opening = None if "index" in exclude else beside.submit(bundles.open_index, folder, self.index)
            kb = self._kb if "kb" in exclude and self._kb is not None else KnowledgeBase(folder / bundles.KB)
            added = Additions.from_disk(folder) if additions is None else additions
            if self.vocabularies:
                kb.allowed_vocabulary_sets(self.vocabularies)  # an unknown one is refused now, not at the first Doc
            if self.languages:
                kb.check_languages(self.languages)
            model = self.model
            if "model" not in exclude:
                model = bundles.open_encoder(folder / bundles.ENCODER, self._configured)
            elif not self.model.has_dim("nO"):
                raise fail("E003", component=self.name, what="encoder")
            index = self.index if opening is None else opening.result()
        built_for = getattr(index, "report", {}).get("built_for", {})
        width, encoder, name = model.get_dim("nO"), bundles.fingerprint(model), str(model.attrs.get("name") or "")
        asked = self._encoder_name or name
        other = asked != name or (self._fast and not bundles.is_fast(model))
        if (
            len(index) != kb.n_surface_forms
            or index.dim != width
            or built_for.get("encoder", encoder) != encoder
            or built_for.get("kb", kb.fingerprint) != kb.fingerprint
            or other
        ):
            raise fail(
                "E203",
                index=len(index),
                dim=index.dim,
                built=built_for.get("encoder_name", "unknown"),
                names=kb.n_surface_forms,
                encoder=bundles.FAST if self._fast else asked or "all-MiniLM-L6-v2",
                width=width,
            )
        self.model = model
        self._decide(folder, *((calibration, "") if calibration is not None else bundles.open_calibration(folder, encoder, kb.fingerprint)))
        self.index, self._folder = index, folder
        try:
            self._extend(kb, added)
        except BaseException:  # the index is the new one already: without a knowledge base the next use loads all again
            self._kb = None
            raise
        self._kb = kb

    def _extend(self, kb: KnowledgeBase, additions: Additions) -> None:
        """Lay additions over the knowledge base; their vectors are this encoder's. RAISES: SapbertError E022; then what was there before stays."""
        encoder = bundles.fingerprint(self.model)
        if additions.encoder != encoder:
            additions = Additions(dict(additions.concepts), list(additions.names), {}, encoder)
        normal = dict.fromkeys(normalise(name.text, name.language) for name in additions.names)
        missing = [norm for norm in normal if norm not in additions.vectors]
        if missing:
            additions.vectors.update(zip(missing, np.asarray(self.model.predict(missing), dtype=np.float32)))
        before = self.additions
        try:
            kb.extend(additions)
        except SapbertError:
            if kb is self._kb:
                kb.extend(before)
            raise
        self.additions = additions
        self._masks.clear()
        self._cache.clear()

    @property
    def calibration(self) -> Optional[Calibration]:
        """What turns scores into probabilities; None where none was fit for this encoder and knowledge base."""
        self.load()
        return self._calibration

    def _decide(self, folder: Path, calibration: Optional[Calibration], why: str = "") -> None:
        """Take over a calibration: what `target_precision` and `coverage` come to with it. RAISES: SapbertError E010, E011."""
        if calibration is not None:
            now = self._searched_with()
            different = {key: value for key, value in calibration.settings.items() if key in now and now[key] != value}
            if different:
                said = ", ".join(f"{key}={value!r}, not {now[key]!r}" for key, value in different.items())
                warn("W004", stacklevel=2, path=folder, differences=said)
        asked = {"target_precision": self.target_precision, "coverage": self.coverage}
        for setting in (setting for setting, share in asked.items() if share is not None and calibration is None):
            raise fail("E010", setting=setting, component=self.name, path=folder, why=why)
        lowest = calibration.lowest(self.target_precision) if calibration is not None and self.target_precision is not None else None
        reach = calibration.reach(self.coverage) if calibration is not None and self.coverage is not None else None
        self._cache.clear()
        self._calibration, self._lowest, self._reach = calibration, lowest, reach

    # -- calling --------------------------------------------------------------------------------------------------------

    def __call__(self, doc: Doc) -> Doc:
        """Link one Doc in place. Errors in it go to spaCy's error handler."""
        self.load()
        try:
            self.set_annotations([doc], self.predict([doc]))
        except Exception as error:
            self.get_error_handler()(self.name, self, [doc], error)
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Link a stream; mentions are folded, encoded and searched across `batch_size` Docs. An error in one Doc goes to spaCy's
        error handler, and the others of its batch go on."""
        self.load()
        for docs in util.minibatch(stream, size=batch_size):
            try:
                predictions = self.predict(docs)
            except Exception:  # find the Doc it is: one by one
                for doc in docs:
                    try:
                        self.set_annotations([doc], self.predict([doc]))
                    except Exception as error:
                        self.get_error_handler()(self.name, self, [doc], error)
                    else:
                        yield doc
                continue
            for doc, prediction in zip(docs, predictions):
                try:
                    self.set_annotations([doc], [prediction])
                except Exception as error:
                    self.get_error_handler()(self.name, self, [doc], error)
                else:
                    yield doc

    # -- predicting: looks, writes nothing ------------------------------------------------------------------------------

    def predict(self, docs: Iterable[Doc]) -> List[Prediction]:
        """The concepts of every span of every Doc; the Docs are left as they are."""
        gathered: List[Tuple[Spans, List[Mention]]] = []
        wanted: List[Tuple[str, FilterKey]] = []
        for doc in docs:
            spans = get_spans(doc, self.spans_key, self.labels_discard)
            forms = long_forms(doc, english=self._english) if self.resolve_abbreviations else {}
            mentions = [get_mention(span, forms, english=self._english) for _, _, span in spans]
            gathered.append((spans, mentions))
            wanted.extend((m.text, self._filter(span.label_)) for m, (_, _, span) in zip(mentions, spans))
        found = iter(self.find(wanted))
        return [Prediction(spans, mentions, [next(found) for _ in spans]) for spans, mentions in gathered]

    def _filter(self, label: str) -> FilterKey:
        return self.types.get(label, self.types.get("")) if self.types else None

    def find(self, wanted: List[Tuple[str, FilterKey]]) -> List[Found]:
        """(mention, semantic types or None) -> what is found, equal mentions looked up once."""
        keys = [(self._normal(text), types) for text, types in wanted]
        with self._lock:
            known, fresh = self._look_up(keys)
        return [Found(known[key], True) if key in known else Found(fresh[key], False) for key in keys]

    def _normal(self, text: str) -> str:
        """A mention as names are compared and encoded: in the language's own lower case, or where only that finds it, in everybody's (HIV, MRI in
        Turkish)."""
        text = text[:MAX_MENTION_CHARS]
        own = normalise(text, self.language)
        if self.language in DOTLESS and not self.kb.find([text], self.language) and self.kb.find([text]):
            return normalise(text)
        return own

    def _look_up(self, keys: List[Tuple[str, FilterKey]]) -> Tuple[Dict, Dict]:
        """Answers that the cache holds, and new ones."""
        known = {key: self._cache[key] for key in dict.fromkeys(keys) if key in self._cache}
        fresh: Dict[Tuple[str, FilterKey], Answer] = {}
        new = [key for key in dict.fromkeys(keys) if key not in known]
        for start in range(0, len(new), self.candidates_batch_size):
            batch = new[start : start + self.candidates_batch_size]
            for types in dict.fromkeys(types for _, types in batch):
                texts = [text for text, kind in batch if kind == types]
                for text, answer in zip(texts, self._search(texts, types)):
                    fresh[text, types] = answer
        self._remember(known, fresh)
        return known, fresh

    def _remember(self, known: Dict, fresh: Dict) -> None:
        if self.cache_size:
            for key in known:
                self._cache.move_to_end(key)
            self._cache.update(fresh)
            while len(self._cache) > self.cache_size:
                self._cache.popitem(last=False)

    def forget(self) -> None:
        """Drop the remembered answers. A vector depends, in its last bits, on the batch it was made in: after this, what is found depends on what
        comes and not on what was before."""
        with self._lock:
            self._cache.clear()

    def _search(self, texts: List[str], types: FilterKey) -> List[Answer]:
        """Distinct normalised mentions -> answers."""
        rules = self.rules
        if self._lowest is not None or self._reach is not None:  # then what is a link, and which candidates are given, is decided below
            rules = replace(rules, threshold=NO_THRESHOLD, max_entities=self.k if self._reach is not None else rules.max_entities)
        return [self._answer(ranking, exact) for ranking, exact in self._rankings(texts, types, rules)]

    def _rankings(self, texts: List[str], types: FilterKey, rules: Rules) -> List[Tuple[Ranking, bool]]:
        """Distinct normalised mentions -> ranked concepts, and whether the mention was found verbatim. Mentions without a letter or digit
        find nothing."""
        mask = self._mask(types)
        useful = [i for i, text in enumerate(texts) if any(c.isalnum() for c in text)]
        answers: List[Tuple[Ranking, bool]] = [(EMPTY, False)] * len(texts)
        if not useful:
            return answers
        names = [texts[i] for i in useful]
        rows = self.kb.find(names) if self.exact_match else {}
        exact = [rows.get(name) for name in names]
        n = len(self.index)
        if mask.names is not None and mask.added_names is not None:
            every = np.concatenate([mask.names, mask.added_names]) if len(mask.added_names) else mask.names
            exact = [row if row is not None and every[row] else None for row in exact]
        vectors = np.zeros((len(names), self.index.dim), dtype=np.float32)
        sure = [i for i, row in enumerate(exact) if row is not None]
        unsure = [i for i, row in enumerate(exact) if row is None]
        added = self.kb.added
        stored = [i for i in sure if (exact[i] or 0) < n]
        if stored:  # the vector of a name in the knowledge base is in the index already
            vectors[stored] = self.index.vectors(np.array([exact[i] for i in stored], dtype=np.int64))
        for i in sure:
            if added is not None and (row := exact[i]) is not None and row >= n:
                vectors[i] = added.vectors[row - n]
        if unsure:
            vectors[unsure] = self.model.predict([names[i] for i in unsure])
        k = min(self.k, n)
        found, cosines = np.full((len(names), k), -1, dtype=np.int64), np.full((len(names), k), -np.inf, dtype=np.float32)
        for part, effort in ((sure, KNOWN_EFFORT), (unsure, 1.0)):
            if part:
                found[part], cosines[part] = self.index.query(vectors[part], k, allowed=mask.names, effort=effort)
        found, cosines = self._with_added(vectors, found, cosines, mask.added_names)
        found[~vectors.any(axis=1)] = -1  # of which the encoder knows nothing: near to all, and to nothing
        rankings = rank(
            found,
            cosines,
            self.kb.name_table,
            rules,
            exact=exact,
            allowed=mask.lines,
            added=None if added is None else added.name_table,
            added_allowed=mask.added_lines,
        )
        for i, ranking, row in zip(useful, rankings, exact):
            answers[i] = ranking, row is not None
        return answers

    def _answer(self, ranking: Ranking, exact: bool) -> Answer:
        kb = self.kb
        top = ranking.kept[0] if ranking.kept else ranking.best
        probability = None
        if self._calibration is not None and top is not None:
            probability = self._calibration.probability(top.score, _margin(top, ranking), exact)
        linked = bool(ranking.kept) and top is not None and top.score > self.rules.threshold
        if self._lowest is not None and probability is not None:
            linked = bool(ranking.kept) and probability >= self._lowest - NOISE
        chosen = ranking.kept if linked else []
        if self._reach is not None and top is not None:
            chosen = [c for c in ranking.kept if round(top.score - c.score, DECIMALS) <= self._reach]
        kept = [(kb.concept_id(c.concept), c.score) for c in chosen]
        explain: Dict[str, Any] = {"linked": linked, "exact": exact, "threshold": self.rules.threshold}
        if probability is not None:
            probability = round(probability, DECIMALS)
            explain["probability"] = probability
        if self._lowest is not None:
            explain.update(threshold=None, target_precision=self.target_precision, least_probability=round(self._lowest, DECIMALS))
        if top is not None:
            name = kb.matched_name(top.surface_form, top.concept)
            explain.update(id=kb.concept_id(top.concept), name=name.text, source=name.source, term_type=name.term_type, score=top.score)
            second = ranking.runner_up
            explain["runner_up"] = None if second is None else self._shown(second)
            explain["margin"] = None if second is None else _margin(top, ranking)
            explain["ties"] = [kb.concept_id(concept) for concept in ranking.tied]
        return Answer(kept, kb.codes(chosen[0].concept) if linked else {}, explain, linked, probability if kept else None)

    def _shown(self, candidate: Candidate) -> List[Any]:
        return [self.kb.concept_id(candidate.concept), self.kb.matched_name(candidate.surface_form, candidate.concept).text, candidate.score]

    def _with_added(self, vectors: Floats2d, rows: Ints2d, cosines: Floats2d, allowed: Optional[Bools1d] = None) -> Tuple[Ints2d, Floats2d]:
        """What the index found, and every added name: they are few."""
        added = self.kb.added
        if added is None or not len(added.vectors):
            return rows, cosines
        near = vectors @ added.vectors.T  # (q, a)
        here = np.arange(len(added.vectors)) + added.first_surface_form
        if allowed is not None:
            here = np.where(allowed, here, -1)
        return np.hstack([rows, np.broadcast_to(here, near.shape)]), np.hstack([cosines, near])

    def _mask(self, types: FilterKey) -> Mask:
        """Semantic types, vocabularies and languages as masks: over names for the search, over the array's columns for their concepts."""
        if types is None and not self.vocabularies and not self.languages:
            return Mask()
        if types not in self._masks:
            table, added = self.kb.name_table, self.kb.added
            lines = np.ones(len(table), dtype=np.bool_)
            if types is not None:
                lines &= self.kb.allowed_type_sets(types)[table.types]
            if self.vocabularies:
                lines &= self.kb.allowed_vocabulary_sets(self.vocabularies)[table.vocabularies]
            if self.languages:
                lines &= self.kb.rows_of_languages(self.languages)
            names = table.surface_forms_of(lines, self.kb.n_surface_forms)
            if added is None:
                self._masks[types] = Mask(names, lines, np.zeros(0, dtype=np.bool_))
            else:
                added_lines = added.allowed(lambda concept, name: self._may_be_found(concept, name, types))
                both = np.concatenate([names, np.zeros(len(added.vectors), dtype=np.bool_)])
                both[added.name_table.surface_form[added_lines]] = True
                self._masks[types] = Mask(both[: len(names)], lines, both[len(names) :], added_lines)
        return self._masks[types]

    def _may_be_found(self, row: int, name: Name, types: FilterKey) -> bool:
        """An added name, by the settings."""
        concept = self.kb.concept(row)
        vocabularies = {vocabulary for vocabulary, _ in concept.codes} | {other.source for other in concept.names}
        return (
            (types is None or not types.isdisjoint(concept.types))
            and (not self.vocabularies or not vocabularies.isdisjoint(self.vocabularies))
            and (not self.languages or name.language in self.languages)
        )

    # -- adding ---------------------------------------------------------------------------------------------------------

    def add_alias(self, concept_id: str, *names: str) -> None:
        """Give a concept of the knowledge base further names, from the next Doc on. Nothing is built anew; `to_disk` keeps them, `nlp.initialize`
        reads the linker's folder anew and so forgets those that were not saved. Where such a name stands for other concepts too, this one
        comes first.

        RAISES: SapbertError E022 for a concept that is not there, E024 for what is no name; then nothing is added.
        """
        self._add({}, concept_id, names)

    def add_concept(
        self,
        concept_id: str,
        names: Union[str, Iterable[str]],
        *,
        types: Iterable[str] = (),
        definition: Optional[str] = None,
        codes: Iterable[Tuple[str, str]] = (),
    ) -> None:
        """Add a concept that the knowledge base does not have, from the next Doc on; `to_disk` keeps it.

        names: the first is its canonical name. types: semantic types (TUIs), groups or names. codes: (vocabulary, code).
        RAISES: SapbertError E025 where the knowledge base has it, E024 for what is no name, E104 for a type; then nothing is added.
        """
        self.load()
        if concept_id in self.kb:
            raise fail("E025", id=concept_id, name=self.kb.cui_to_entity[concept_id].canonical_name)
        given = [names] if isinstance(names, str) else list(names)
        self._require("names", given, bool(given), "a concept needs a name.")
        self._require("concept_id", concept_id, isinstance(concept_id, str) and bool(concept_id.strip()), "it must be a text.")
        tuis = sorted(semantic_types.expand(types)) if types else []
        concept = Concept(concept_id, "ADDED", types=tuis, definition=definition, codes=[(str(v), str(c)) for v, c in codes])
        self._add({concept_id: concept}, concept_id, given)

    def _add(self, concepts: Dict[str, Concept], concept_id: str, names: Iterable[str]) -> None:
        with self._lock:
            self.load()
            now = self.additions
            language = "en" if self._english else self.language
            known = {(name.concept_id, name.text) for name in now.names}
            new = [AddedName(concept_id, text, language) for text in check_names(list(names), language, MAX_NAME_CHARS)]
            fresh = [name for name in dict.fromkeys(new) if (concept_id, name.text) not in known]
            self._extend(self.kb, Additions({**now.concepts, **concepts}, [*now.names, *fresh], dict(now.vectors), now.encoder))

    def export_additions(self, path: Union[str, Path]) -> int:
        """Write what was added as a table that `kb build` reads beside other sources, with the names that the concepts had: so training gets
        its pairs of an added name and an old one. RETURNS (int): concepts in it."""

        def names_of(concept_id: str) -> List[Name]:
            return self.kb.names_of(self.kb.row_of(concept_id))

        return to_tsv(self.additions, names_of, Path(path))

    # -- annotating -----------------------------------------------------------------------------------------------------

    def set_annotations(self, docs: Iterable[Doc], predictions: List[Prediction]) -> None:
        """Write token.ent_kb_id_ (or the group's spans' kb_id), candidates, codes and explanation."""
        for doc, prediction in zip(docs, predictions):
            links = [self._link(mention, *found) for mention, found in zip(prediction.mentions, prediction.found)]
            write_links(doc, prediction.spans, links, self.attr_name, self.overwrite)

    def _link(self, mention: Mention, answer: Answer, cached: bool) -> Link:
        # copies: what a user does to one span's lists must not reach the cache and other spans
        explain: Dict[str, Any] = {"mention": mention.text, "long_form": mention.long_form, "cached": cached}
        explain.update((key, list(value) if isinstance(value, list) else value) for key, value in answer.explain.items())
        codes = {vocabulary: list(codes) for vocabulary, codes in answer.codes.items()}
        return Link(answer.candidates[0][0] if answer.linked else self.nil, list(answer.candidates), codes, explain, answer.probability)

    # -- scispaCy's surface ---------------------------------------------------------------------------------------------

    def candidate_generator(self, mention_texts: List[str], k: int) -> List[List[MentionCandidate]]:
        """Candidates of plain strings, best first (scispaCy gives them in the order of their ids)."""
        self.load()
        rules = Rules(threshold=NO_THRESHOLD, max_entities=k)
        names = [self._normal(text) for text in mention_texts]
        with self._lock:
            vectors = self.model.predict(names)
        rows, cosines = self._with_added(vectors, *self.index.query(vectors, min(k, len(self.index))))
        said = np.array([any(c.isalnum() for c in name) for name in names], dtype=np.bool_)
        rows[~(said & vectors.any(axis=1))] = -1  # nothing to go by
        found = []
        added = None if self.kb.added is None else self.kb.added.name_table
        for ranking, line, scores in zip(rank(rows, cosines, self.kb.name_table, rules, added=added), rows, cosines):
            by_concept: Dict[int, Tuple[List[str], List[float]]] = {}
            for row, score in zip(line.tolist(), scores.tolist()):
                for concept, name in self.kb.names_of_surface_form(row) if row >= 0 else ():
                    aliases, similarities = by_concept.setdefault(concept, ([], []))
                    if name.text not in aliases:
                        aliases.append(name.text)
                        similarities.append(float(score))
            found.append([MentionCandidate(self.kb.concept_id(c.concept), *by_concept[c.concept]) for c in ranking.kept])
        return found

    # -- calibration ----------------------------------------------------------------------------------------------------

    def calibrate(self, docs: Iterable[Union[Doc, Example]], *, fit_on: str) -> Calibration:
        """Learn from annotated Docs what scores are worth with this linker's settings, and use it from now on; `to_disk` keeps it,
        `nlp.initialize` reads the linker's folder anew and so forgets it.

        docs (Iterable[Union[Doc, Example]]): their spans (`spans_key`, or the entities) have the gold concept's id as `kb_id_`, with `|`
            between alternatives; "NIL" where the knowledge base has none. Of an Example the reference counts.
        fit_on (str): which data that is, in words: it is kept in the file and shown.
        WARNS: W005 for gold ids that the knowledge base does not have.
        RAISES: SapbertError E011 where `target_precision` or `coverage` is not reached, E012 for too few mentions, E013, E014, E016.
        """
        with self._targets_aside():
            self.load()
            assert self._folder is not None
            given = [example.reference if isinstance(example, Example) else example for example in docs]
            observed = self.observe(given)
            if not observed:
                raise fail("E014", where=f"looked in {self.spans_key or 'doc.ents'}")
            self._tell_unknown(given)
            built_for = {"encoder": bundles.fingerprint(self.model), "kb": self.kb.fingerprint}
            calibration = fit_calibration(observed, fit_on=fit_on, built_for=built_for, settings=self._searched_with())
            folder, kb = self._folder, self._kb
        with self._lock:
            self._decide(folder, calibration)
            self._kb = kb
        return calibration

    @contextmanager
    def _targets_aside(self) -> Iterator[None]:
        """Load without deciding what `target_precision` and `coverage` come to: that needs the calibration which is about to be made."""
        asked = self.target_precision, self.coverage
        self.target_precision = self.coverage = None
        try:
            yield
        finally:
            self.target_precision, self.coverage = asked
            if asked != (None, None) and self._lowest is None and self._reach is None:
                self._kb = None  # the next use decides

    def _tell_unknown(self, docs: List[Doc]) -> None:
        """WARNS: W005. RAISES: SapbertError E016 where no gold id is known."""
        ids = [span.kb_id_ for doc in docs for _, _, span in get_spans(doc, self.spans_key, self.labels_discard) if span.kb_id_ not in ("", "NIL")]
        unknown = Counter(i for i in ids if not any(part.strip() in self.kb for alternative in i.split("|") for part in alternative.split("+")))
        count, examples = sum(unknown.values()), ", ".join(i for i, _ in unknown.most_common(3))
        if ids and count == len(ids):
            raise fail("E016", n=count, examples=examples, known=self.kb.concept_id(0))
        if count:
            warn("W005", stacklevel=3, count=count, n=len(ids), examples=examples)

    def aim(self, *, target_precision: Optional[float] = None, coverage: Optional[float] = None) -> None:
        """Set both anew, for now: `nlp.to_disk` keeps a pipeline's config, so put them there for good. See the settings of these names.

        RAISES: SapbertError E002, E010, E011; then nothing is changed.
        """
        self._check_shares(target_precision, coverage)
        with self._lock:
            before = self.target_precision, self.coverage
            with self._targets_aside():
                self.load()
                folder, kb = self._folder, self._kb
            assert folder is not None
            self.target_precision, self.coverage = target_precision, coverage
            try:
                self._decide(folder, self._calibration)
            except SapbertError:
                self.target_precision, self.coverage = before
                raise
            self._kb = kb

    def observe(self, docs: Iterable[Union[Doc, Example]]) -> List[Observed]:
        """Annotated mentions as `calibrate` sees them, in their order; spans without a kb_id are passed over."""
        with self._targets_aside():
            return self._observe(docs)

    def _observe(self, docs: Iterable[Union[Doc, Example]]) -> List[Observed]:
        self.load()
        rules = replace(self.rules, threshold=NO_THRESHOLD, max_entities=self.k)
        keys: List[Tuple[str, FilterKey]] = []
        golds: List[str] = []
        for given in docs:
            doc = given.reference if isinstance(given, Example) else given
            forms = long_forms(doc, english=self._english) if self.resolve_abbreviations else {}
            for _, _, span in get_spans(doc, self.spans_key, self.labels_discard):
                if span.kb_id_:
                    keys.append((self._normal(get_mention(span, forms, english=self._english).text), self._filter(span.label_)))
                    golds.append(span.kb_id_)
        found: Dict[Tuple[str, FilterKey], Tuple[Ranking, bool]] = {}
        with self._lock:
            for types in dict.fromkeys(types for _, types in keys):
                texts = list(dict.fromkeys(text for text, kind in keys if kind == types))
                for batch in util.minibatch(texts, self.candidates_batch_size):
                    found.update(zip(((text, types) for text in batch), self._rankings(batch, types, rules)))
        return [self._observed(*found[key], self._gold(gold)) for key, gold in zip(keys, golds)]

    def _gold(self, kb_id: str) -> List[int]:
        """Rows of the alternatives that the knowledge base has; retired ids are followed. A composite ("A+B") is no one concept."""
        rows = []
        for alternative in kb_id.split("|"):
            with suppress(KeyError):
                rows.append(self.kb.row_of(alternative.strip()))
        return rows

    def _observed(self, ranking: Ranking, exact: bool, gold: List[int]) -> Observed:
        if not ranking.kept:
            return Observed(-1.0, 0.0, False, False, math.inf if gold else None)
        top = ranking.kept[0]
        scores = [c.score for c in ranking.kept if c.concept in gold]
        behind = None if not gold else round(top.score - max(scores), DECIMALS) if scores else math.inf
        return Observed(top.score, _margin(top, ranking), exact, top.concept in gold, behind)

    def _searched_with(self) -> Dict[str, Any]:
        """The settings that scores depend on."""
        types = {label: sorted(tuis) for label, tuis in self.types.items()} or None
        definitions: Dict[str, Any] = {"filter_for_definitions": self.rules.filter_for_definitions}
        if self.rules.filter_for_definitions:
            definitions["no_definition_threshold"] = self.rules.no_definition_threshold
        settings = {"k": self.k, "exact_match": self.exact_match, "resolve_abbreviations": self.resolve_abbreviations, **definitions}
        return {**settings, "types": types, "vocabularies": self.vocabularies, "languages": self.languages}

    # -- training surface -----------------------------------------------------------------------------------------------

    def score(self, examples: Iterable[Example], **kwargs: Any) -> Dict[str, Any]:
        """nel_micro_p/r/f and the like, by `spacy-sapbert.linker_scorer.v1`; only entities with gold boundaries count."""
        if self.scorer is None:
            return {}
        return dict(self.scorer(examples, **kwargs))

    def initialize(
        self,
        get_examples: Optional[Callable[[], Iterable[Example]]] = None,
        *,
        nlp: Optional[Language] = None,
        kb_loader=None,  # an annotation would be looked up in spaCy's module, not in this one
    ) -> None:
        """Read, or build, knowledge base, encoder and index.

        kb_loader (Optional[bundles.Loader]): `spacy-sapbert.Folder.v1` or `spacy-sapbert.Sources.v1`; without one, what `linker_name` names.
        """
        if kb_loader is None:
            self._kb = None
            self.load()
        else:
            if not callable(kb_loader):
                raise fail("E006", what="kb_loader", got=type(kb_loader).__name__, expected="function, such as spacy-sapbert.Folder.v1 makes")
            self.set_folder(kb_loader(self._configured, self.index))

    # -- files ----------------------------------------------------------------------------------------------------------

    def to_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> None:
        """Copy the linker's files, so that the pipeline's folder is complete. exclude: "kb", "model", "index"."""
        self.load()
        assert self._folder is not None
        target = Path(path) / LINKER_FOLDER
        target.mkdir(parents=True, exist_ok=True)
        if target.resolve() == self._folder.resolve():
            bundles.write_calibration(target, self._calibration)
            self.additions.to_disk(target)
            return
        for part in self._parts(exclude):
            shutil.rmtree(target / part, ignore_errors=True)
            shutil.copytree(self._folder / part, target / part)
        shutil.copyfile(self._folder / "manifest.json", target / "manifest.json")
        bundles.write_calibration(target, self._calibration)
        self.additions.to_disk(target)

    def from_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> SapBertLinker:
        """RAISES: SapbertError E1xx, E2xx, E3xx where files are missing, damaged or do not belong together."""
        self.set_folder(Path(path) / LINKER_FOLDER, exclude=exclude)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Every file of the linker; for UMLS these are gigabytes, and `to_disk` is better."""
        with tempfile.TemporaryDirectory() as folder:
            self.to_disk(folder, exclude=exclude)
            return srsly.msgpack_dumps(folder_to_bytes(Path(folder)))

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> SapBertLinker:
        temporary = tempfile.TemporaryDirectory(prefix="spacy-sapbert-")
        folder_from_bytes(srsly.msgpack_loads(bytes_data), Path(temporary.name))
        self.from_disk(temporary.name, exclude=exclude)
        self._temporary = temporary
        return self

    @staticmethod
    def _parts(exclude: Iterable[str]) -> List[str]:
        folders = {"kb": bundles.KB, "model": bundles.ENCODER, "index": bundles.INDEX}
        return [folder for part, folder in folders.items() if part not in set(exclude)]

    # a worker process that is spawned gets the folder's name, not the files. Pipe is a C class: its own __reduce__ knows only
    # how to copy __dict__
    def __reduce__(self) -> Any:
        return copyreg.__newobj__, (type(self),), self.__getstate__()  # type: ignore[attr-defined]

    def __getstate__(self) -> Dict[str, Any]:
        left = ("_cache", "_masks", "_kb", "index", "model", "_configured", "_temporary", "_lock")
        state = {key: value for key, value in self.__dict__.items() if key not in left}
        ours = {key: self.model.attrs[key] for key in ("name", "pooling", "max_length", "dtype", "batch_tokens") if key in self.model.attrs}
        model = (self.model.attrs["architecture"], ours) if {"architecture", "from_folder"} <= set(self.model.attrs) else self.model
        return {**state, "name": self.name, "index": (type(self.index), self.index.get_config()), "model": model}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        (make, settings), model = state.pop("index"), state.pop("model")
        self.name = state.pop("name")
        self.model = util.registry.get("architectures", model[0])(**model[1]) if isinstance(model, tuple) else model
        self.index, self._configured = make(**settings), self.model
        self.__dict__.update(state, _cache=OrderedDict(), _masks={}, _kb=None, _temporary=None, _lock=threading.RLock())
        set_extensions(self.attr_name, self.name)
        if self._folder is not None:
            self.set_folder(self._folder, calibration=self._calibration, additions=self.additions)
