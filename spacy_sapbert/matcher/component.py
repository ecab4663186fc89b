"""The component `concept_matcher`: find names of the knowledge base in text, so that a pipeline needs no trained recogniser.

Names and text are compared as runs of lower-cased words, in English without possessive and plural endings. The longest run is taken, from
left to right. At each word there is one look-up for every possible length of a run (`phrases.py`). spaCy's phrase patterns would take longer
to make than to use, and would not find plurals.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Dict, FrozenSet, List, Optional, Protocol, Set, Tuple, Union, runtime_checkable

import numpy as np
from spacy.lang.en.stop_words import STOP_WORDS
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import filter_spans
from tqdm import tqdm

from .. import bundle
from ..build import default_linkers
from ..doc.spans import set_spans
from ..errors import DamagedFile, SapbertError, fail, warn
from ..files import writing_folder
from ..kb import semantic_types
from ..kb.additions import Additions
from ..kb.concept import ENGLISH, lower_case, normalise
from ..kb.knowledge_base import KnowledgeBase
from ..registry import check_linker_name
from .phrases import MAX_WORDS, VERSION, Collected, Phrases, union, word_hash

# A word is letters and digits; "'s" belongs to its word, and `stem` removes it. Punctuation and empty lines are words, too, as no name
# crosses them. Spaces, hyphens, slashes and apostrophes only separate words
_WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?|[^\s\w\-‐‑–/'’]|_|\n\s*\n")
KEPT_FROM = 20_000  # from so many names on, the phrases are kept in the cache
SHOWN_FROM = 1_000_000  # from so many names on, making the phrases takes more than ten seconds, and progress is shown
RULES = 1  # add one with every change to how a name becomes words (`_form`, `stem`, `_collect`), so that older caches are not used
FOLDER = "phrases"  # name of a folder in a saved component
_REMEMBERED = 500_000  # words kept in memory while names are read
_LONG = 64  # letters; hashes of longer words (base64) are not kept
Names = Iterable[Tuple[str, Optional[str]]]  # (normalised name, semantic type)


@runtime_checkable
class HasKnowledgeBase(Protocol):
    """A component of the pipeline, such as `sapbert_linker`, whose knowledge base and additions are looked for in text."""

    @property
    def kb(self) -> KnowledgeBase:
        """The knowledge base."""
        ...

    @property
    def additions(self) -> Additions:
        """Names and concepts that a user added; each change makes a new object."""
        ...

    def load(self) -> None:
        """Read the files, unless they were read before."""
        ...


def stem(word: str) -> str:
    """Return a lower-cased English word without its possessive and plural endings.

    "crohn's" becomes "crohn", "palates" "palate", "biopsies" "biopsy". Words that end in "-ss", "-us" or "-is" are no plurals; they and
    words of fewer than four letters stay as they are.
    """
    word = word.replace("’", "'").removesuffix("'s").removesuffix("'")
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    return word[:-1]


def words(text: str, language: str = "") -> List[Tuple[str, int, int]]:
    """Return (word or punctuation mark, start, end) of a text, with offsets in characters.

    Args:
        text: a text.
        language: language of the text, ISO 639-1; English words are stemmed.
    """
    return [(_form(m.group(), language), m.start(), m.end()) for m in _WORD.finditer(text)]


def _form(word: str, language: str) -> str:
    lowered = lower_case(word, language).replace("’", "'")
    return stem(lowered) if language in ENGLISH else lowered


def _hash(word: str, language: str) -> int:
    return _known_hash(word, language) if len(word) <= _LONG else word_hash(_form(word, language))


@lru_cache(maxsize=20_000)
def _known_hash(word: str, language: str) -> int:
    return word_hash(_form(word, language))


@Language.factory(
    "concept_matcher",
    assigns=["doc.ents", "token.ent_iob", "token.ent_type"],
    default_config={
        "linker_name": None,
        "spans_key": None,
        "types": None,
        "label": "group",
        "overwrite": False,
        "min_chars": 2,
        "weak_names": True,
        "scorer": {"@scorers": "spacy.ner_scorer.v1"},
    },
    default_score_weights={"ents_f": 1.0, "ents_p": 0.0, "ents_r": 0.0, "ents_per_type": None},
)
def make_concept_matcher(
    nlp: Language,
    name: str,
    linker_name: Optional[str],
    spans_key: Optional[str],
    types: Optional[List[str]],
    label: str,
    overwrite: bool,
    min_chars: int,
    weak_names: bool,
    scorer: Optional[Callable[..., Any]],
) -> "ConceptMatcher":
    """Make the component, see `ConceptMatcher`, without reading anything from disk."""
    return ConceptMatcher(
        nlp,
        name,
        linker_name=linker_name,
        spans_key=spans_key,
        types=types,
        label=label,
        overwrite=overwrite,
        min_chars=min_chars,
        weak_names=weak_names,
        scorer=scorer,
    )


class ConceptMatcher(Pipe):
    """Find names of the knowledge base in text, and set `doc.ents` or a span group to them.

    Args:
        nlp: the pipeline.
        name: name of the component in the pipeline.
        linker_name: a registered linker, or the folder of a linker or a knowledge base. None: the knowledge base of a `sapbert_linker` in
            the same pipeline, else "hpo".
        spans_key: a span group; None for `doc.ents`.
        types: semantic types or groups whose names are looked for; None for all.
        label: "group" (DISO, ANAT, PROC …) or "type" (T047 …) of the name's first concept; any other text is the label itself.
        overwrite: for `doc.ents`, matches replace entities that overlap them; else these entities stay.
        min_chars: shorter names are ignored. Names of one letter, and names of only stop words or digits, are always ignored.
        weak_names: look for narrower, related, broader and lay names, too.
        scorer: spaCy's scorer of entities.

    Raises:
        SapbertError: E001, linker_name is not known; E002, a setting is wrong; E104, a type is not known.
    """

    def __init__(
        self,
        nlp: Language,
        name: str = "concept_matcher",
        *,
        linker_name: Optional[str] = None,
        spans_key: Optional[str] = None,
        types: Optional[List[str]] = None,
        label: str = "group",
        overwrite: bool = False,
        min_chars: int = 2,
        weak_names: bool = True,
        scorer: Optional[Callable[..., Any]] = None,
    ) -> None:
        if min_chars < 1:
            raise fail("E002", setting="min_chars", component=name, value=min_chars, why="it must be at least 1.")
        if linker_name is not None and not _is_kb(Path(linker_name)):
            check_linker_name(linker_name)
        self.nlp, self.name, self.scorer = nlp, name, scorer
        self.linker_name, self.spans_key, self.label, self.overwrite = linker_name, spans_key, label, overwrite
        self.min_chars, self.weak_names = max(2, min_chars), weak_names
        self.types: Optional[FrozenSet[str]] = None if types is None else semantic_types.expand(types)
        self._language = getattr(nlp, "lang", "")
        own = set() if self._language in ENGLISH else nlp.Defaults.stop_words
        self._stop_words: Set[str] = STOP_WORDS | own  # a knowledge base may hold English names beside those of the text's language
        self._phrases: Optional[Phrases] = None
        # additions of the linkers in the pipeline, by the linkers' names, and their phrases
        self._added: Dict[str, Tuple[Additions, Phrases]] = {}
        self._more: Optional[Phrases] = None  # the phrases of all additions

    def __len__(self) -> int:
        """Return the number of phrases that are looked for."""
        return 0 if self._phrases is None else len(self._phrases)

    def load(self) -> None:
        """Read the names, unless they were read before."""
        if self._phrases is None:
            self.set_kb(self._find_kb())
        changed = False
        for name, component in self.nlp.pipeline:
            if isinstance(component, HasKnowledgeBase):
                component.load()  # its folder may hold additions
                if self._added.get(name, (None, None))[0] is not component.additions:  # each change makes a new object
                    self._added[name] = component.additions, self._collect(self._added_names(component.kb, component.additions))
                    changed = True
        if changed:
            self._more = union(phrases for _, phrases in self._added.values())

    def _added_names(self, kb: KnowledgeBase, additions: Additions) -> Iterator[Tuple[str, Optional[str]]]:
        for concept_id, text, language in additions.names:
            tuis = kb.concept(kb.row_of(concept_id)).types
            if self.types is None or not self.types.isdisjoint(tuis):
                yield normalise(text, language), tuis[0] if tuis else None

    def _find_kb(self) -> KnowledgeBase:
        if self.linker_name is None:
            for _, component in self.nlp.pipeline:
                if isinstance(component, HasKnowledgeBase):
                    return component.kb
        if self.linker_name is not None and _is_kb(Path(self.linker_name)):
            return KnowledgeBase(self.linker_name)
        return KnowledgeBase(default_linkers.find_linker(self.linker_name) / bundle.KB)

    def set_kb(self, kb: KnowledgeBase) -> None:
        """Look for the names of a knowledge base. If there are many, their hashes are made once and kept in the cache.

        Warns with W009 if the cache cannot be written.

        Raises:
            SapbertError: E103, no name is left.
        """
        if kb.n_surface_forms < KEPT_FROM:
            self._phrases = self._of(kb)
            return
        # everything that the phrases depend on
        rules = [RULES, VERSION, MAX_WORDS, {tui: kind.group for tui, kind in semantic_types.load().items()}]
        own = [self.min_chars, self.weak_names, self.label, sorted(self.types or ()), self.types is None]
        text = [self._language if self._language not in ENGLISH else "en", sorted(self._stop_words), _WORD.pattern]

        def build(folder: Path) -> None:
            with writing_folder(folder) as fresh:
                self._of(kb).to_disk(fresh)

        try:
            folder = default_linkers.cached("names", [kb.fingerprint, default_linkers.fingerprint_of([*rules, *own, *text])], build)
            try:
                self._phrases = Phrases.from_disk(folder)
            except DamagedFile:
                build(folder)
                self._phrases = Phrases.from_disk(folder)
        except (OSError, SapbertError) as error:
            if isinstance(error, SapbertError) and error.code not in ("E007", "E008"):
                raise
            warn("W009", component=self.name, path=default_linkers.cache_folder(), error=error, env=default_linkers.CACHE_VARIABLE)
            self._phrases = self._of(kb)

    def _of(self, kb: KnowledgeBase) -> Phrases:
        names = kb.matchable_names(weak_names=self.weak_names, tuis=self.types)
        with tqdm(names, desc="reading names to look for", unit=" names", total=kb.n_surface_forms, disable=kb.n_surface_forms < SHOWN_FROM) as shown:
            found = self._collect(shown)
        if not len(found):
            raise fail("E103", detail="no name of these types is long enough to look for")
        return found

    def _collect(self, names: Names) -> Phrases:
        whole, unmarked = Collected(), Collected()  # "hypotonia, generalized" is also found without its comma
        look = lru_cache(_REMEMBERED)(self._looked_at)
        labels: Dict[Optional[str], str] = {}
        for text, tui in names:
            found = _WORD.findall(text)
            if not found or len(found) > MAX_WORDS or len(text) < self.min_chars:
                continue
            looked = [look(word) for word in found]
            if all(says_little for _, says_little in looked):
                continue
            label = labels.get(tui) or labels.setdefault(tui, self._label(tui))
            hashes = [hashed for hashed, _ in looked]
            whole.add(hashes, label)
            bare = [hashed for hashed, word in zip(hashes, found) if word[0].isalnum()]
            if bare and len(bare) < len(hashes):
                unmarked.add(bare, label)
        return union([whole.phrases(), unmarked.phrases()])

    def _looked_at(self, word: str) -> Tuple[int, bool]:
        """Return a word's hash, and whether it says too little to be a name alone.

        The stemmed form is tested, too: "Wells" must not find "well".
        """
        form = _form(word, self._language)
        return word_hash(form), word in self._stop_words or form in self._stop_words or word.isdigit() or len(form) == 1

    def _label(self, tui: Optional[str]) -> str:
        if self.label == "type":
            return tui or "UNKNOWN"
        if self.label == "group":
            kind = semantic_types.load().get(tui or "")
            return kind.group if kind else "CONC"
        return self.label

    # -- calling --------------------------------------------------------------------------------------------------------

    def __call__(self, doc: Doc) -> Doc:
        """Find names in one Doc."""
        self.load()
        try:
            self.set_annotations([doc], self.predict([doc]))
        except Exception as error:
            self.get_error_handler()(self.name, self, [doc], error)
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Find names in a stream of Docs."""
        self.load()
        for doc in stream:
            try:
                self.set_annotations([doc], self.predict([doc]))
            except Exception as error:
                self.get_error_handler()(self.name, self, [doc], error)
            else:
                yield doc

    def predict(self, docs: Iterable[Doc]) -> List[List[Span]]:
        """Return the longest names in each Doc, from left to right, without overlap."""
        self.load()
        return [list(self._match(doc)) for doc in docs]

    def _match(self, doc: Doc) -> Iterator[Span]:
        found = list(_WORD.finditer(doc.text))
        words = np.fromiter((_hash(match.group(), self._language) for match in found), dtype=np.uint64, count=len(found))
        phrases, more = self._phrases, self._more  # read once: `load` in another thread may replace them
        assert phrases is not None
        lengths, labels = phrases.longest(words)
        added: Dict[int, str] = {}
        if more is not None:
            others, their_labels = more.longest(words)
            for at in np.flatnonzero(others > lengths).tolist():
                lengths[at], added[at] = others[at], more.names[their_labels[at]]
        next_word, end_token = 0, 0
        for at in np.flatnonzero(lengths).tolist():
            if at < next_word:
                continue
            end = at + int(lengths[at])
            label = added.get(at) or phrases.names[labels[at]]
            span = doc.char_span(found[at].start(), found[end - 1].end(), label=label, alignment_mode="expand")
            if span is not None and span.start >= end_token:
                yield span
                next_word, end_token = end, span.end

    def set_annotations(self, docs: Iterable[Doc], predictions: List[List[Span]]) -> None:
        """Write the names that were found into the Docs."""
        for doc, spans in zip(docs, predictions):
            if self.spans_key is None:
                first, second = (spans, list(doc.ents)) if self.overwrite else (list(doc.ents), spans)
                taken = {token.i for span in first for token in span}
                set_spans(doc, None, filter_spans([*first, *(span for span in second if not any(t.i in taken for t in span))]))
            else:
                set_spans(doc, self.spans_key, spans)

    def score(self, examples: Iterable[Any], **kwargs: Any) -> Dict[str, Any]:
        """Score annotated Docs with the scorer."""
        return dict(self.scorer(examples, **kwargs)) if self.scorer else {}

    def initialize(self, get_examples: Optional[Callable[[], Iterable[Example]]] = None, *, nlp: Optional[Language] = None) -> None:
        """Read the names of the knowledge base again: now, or on first use if the knowledge base is that of a linker in the pipeline.

        A linker in the pipeline may be initialised after this component.
        """
        self._phrases, self._added, self._more = None, {}, None
        if self.linker_name is not None:
            self.load()

    # -- files ----------------------------------------------------------------------------------------------------------

    def to_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> None:
        """Write the phrases as hashes, so that a saved pipeline needs no knowledge base to find names. No name can be read from them."""
        whole = self._whole()
        with writing_folder(Path(path) / FOLDER) as folder:  # a new folder, as files of the old one may be mapped
            whole.to_disk(folder)

    def from_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> "ConceptMatcher":
        """Read what `to_disk` wrote.

        Raises:
            SapbertError: E030, the folder holds nothing that can be read.
        """
        self._phrases = Phrases.from_disk(Path(path) / FOLDER)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return what `to_disk` writes as bytes."""
        import srsly

        return bytes(srsly.msgpack_dumps(self._whole().to_dict()))

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "ConceptMatcher":
        """Read what `to_bytes` returned.

        Raises:
            SapbertError: E030, the bytes cannot be read.
        """
        import srsly

        self._phrases = Phrases.from_dict(srsly.msgpack_loads(bytes_data))
        return self

    def _whole(self) -> Phrases:
        self.load()
        assert self._phrases is not None
        return self._phrases if self._more is None else union([self._phrases, self._more])


def _is_kb(folder: Path) -> bool:
    return (folder / "kb.sqlite").is_file()
