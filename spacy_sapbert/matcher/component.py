"""`concept_matcher`: finds the knowledge base's own names in text, so that a blank pipeline annotates with no trained recogniser.

Names and text are compared as runs of words, lower-cased, in English without possessive and plural endings; the longest run wins, from left
to right. One look-up for each possible length of a run that begins with a word (`phrases.py`): tokenised phrase patterns would take longer
to make than to use, and know no plurals.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Dict, FrozenSet, List, Optional, Set, Tuple, Union

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
from ..errors import DamagedFile, MissingFile, SapbertError, fail, warn
from ..files import writing_folder
from ..kb import semantic_types
from ..kb.additions import Additions
from ..kb.concept import ENGLISH, lower_case, normalise
from ..kb.knowledge_base import KnowledgeBase
from ..registry import check_linker_name
from .phrases import MAX_WORDS, VERSION, Collected, Phrases, union, word_hash

# letters and digits ("'s" stays with its word and is cut by `stem`), or what parts the words of a name: punctuation and empty
# lines. Spaces, hyphens, slashes and apostrophes do not
_WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?|[^\s\w\-‐‑–/'’]|_|\n\s*\n")
KEPT_FROM = 20_000  # names: what is made of so many, in part of a second or in minutes, is kept in the cache
SHOWN_FROM = 1_000_000  # names: making takes more than ten seconds
RULES = 1  # of what is kept: one more with every change to how a name becomes words (`_form`, `stem`, `_collect`) or words a hash
FOLDER = "phrases"  # in the component's folder of a saved pipeline
_REMEMBERED = 500_000  # words, while names are read
_LONG = 64  # letters; longer runs (base64) are not worth remembering
Names = Iterable[Tuple[str, Optional[str]]]  # (normalised name, semantic type)


def stem(word: str) -> str:
    """A lower-cased word without possessive and English plural ending: "crohn's" -> "crohn", "palates" -> "palate", "biopsies" ->
    "biopsy". Endings that are no plural ("-ss", "-us", "-is") and words under four letters stay."""
    word = word.replace("’", "'").removesuffix("'s").removesuffix("'")
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "shes", "ches", "xes", "zes")):
        return word[:-2]
    return word[:-1]


def words(text: str, language: str = "") -> List[Tuple[str, int, int]]:
    """(word or mark, start, end) of a text; offsets in characters. language: of the text; English words are stemmed."""
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
    """Build the component; see ConceptMatcher. Nothing is read from disk."""
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
    """Sets doc.ents, or a span group, to the knowledge base's names found in the text.

    linker_name (Optional[str]): a registered linker, a linker's folder or a knowledge base's folder; None: the knowledge base of a
        `sapbert_linker` in the same pipeline, else "hpo".
    spans_key (Optional[str]): a span group; None for doc.ents.
    types (Optional[List[str]]): semantic types or groups whose names are looked for; None for all.
    label (str): "group" (DISO, ANAT, PROC …) or "type" (T047 …) of the name's first concept, or any other text as it stands.
    overwrite (bool): for doc.ents, whether matches displace entities that overlap them; else entities that are there stay.
    min_chars (int): shorter names are ignored. Names of one letter, or of stop words or digits alone, always are.
    weak_names (bool): look for narrower, related, broader and lay names too.
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
        # what was added to linkers of the pipeline, by their names: where it was read from, and the phrases
        self._added: Dict[str, Tuple[Additions, Phrases]] = {}
        self._more: Optional[Phrases] = None  # of all of them

    def __len__(self) -> int:
        return 0 if self._phrases is None else len(self._phrases)

    def load(self) -> None:
        """Read the names, if that was not done yet."""
        if self._phrases is None:
            self.set_kb(self._find_kb())
        changed = False
        for name, component in self.nlp.pipeline:
            linker: Any = component
            if isinstance(getattr(linker, "additions", None), Additions):
                linker.load()  # its folder may hold some
                if self._added.get(name, (None, None))[0] is not linker.additions:  # each change is an object of its own
                    self._added[name] = linker.additions, self._collect(self._added_names(linker.kb, linker.additions))
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
                if hasattr(component, "kb") and isinstance(component.kb, KnowledgeBase):
                    return component.kb
        if self.linker_name is not None and _is_kb(Path(self.linker_name)):
            return KnowledgeBase(self.linker_name)
        return KnowledgeBase(default_linkers.find_linker(self.linker_name) / bundle.KB)

    def set_kb(self, kb: KnowledgeBase) -> None:
        """Look for the names of this knowledge base; where they are many, they are made ready once, and kept in the cache as hashes.

        WARNS: W009 where the cache can't be written. RAISES: SapbertError E103 where no name is left.
        """
        if kb.n_surface_forms < KEPT_FROM:
            self._phrases = self._of(kb)
            return
        # all that they depend on
        rules = [RULES, VERSION, MAX_WORDS, {tui: kind.group for tui, kind in semantic_types.load().items()}]
        own = [self.min_chars, self.weak_names, self.label, sorted(self.types or ()), self.types is None]
        text = [self._language if self._language not in ENGLISH else "en", sorted(self._stop_words), _WORD.pattern]

        def build(folder: Path) -> None:
            with writing_folder(folder) as fresh:
                self._of(kb).to_disk(fresh)

        try:
            folder = default_linkers.cached("names", [kb.fingerprint, default_linkers.digest([*rules, *own, *text])], build)
            try:
                self._phrases = Phrases.from_disk(folder)
            except DamagedFile:  # it can be made again
                build(folder)
                self._phrases = Phrases.from_disk(folder)
        except (OSError, SapbertError) as error:
            if isinstance(error, SapbertError) and error.code not in ("E007", "E008"):
                raise
            warn("W009", stacklevel=2, component=self.name, path=default_linkers.cache_folder(), error=error, env=default_linkers.CACHE_VARIABLE)
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
        known: Dict[str, Tuple[int, bool]] = {}
        labels: Dict[Optional[str], str] = {}
        for text, tui in names:
            found = _WORD.findall(text)
            if not found or len(found) > MAX_WORDS or len(text) < self.min_chars:
                continue
            if len(known) > _REMEMBERED:
                known.clear()
            looked = [known.get(word) or known.setdefault(word, self._looked_at(word)) for word in found]
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
        """A word's hash, and whether a name of such words alone is none. Stemmed too: "Wells" must not find "well"."""
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
        self.load()
        try:
            self.set_annotations([doc], self.predict([doc]))
        except Exception as error:
            self.get_error_handler()(self.name, self, [doc], error)
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        self.load()
        for doc in stream:
            try:
                self.set_annotations([doc], self.predict([doc]))
            except Exception as error:
                self.get_error_handler()(self.name, self, [doc], error)
            else:
                yield doc

    def predict(self, docs: Iterable[Doc]) -> List[List[Span]]:
        """The longest names found, left to right, without overlap."""
        self.load()
        return [list(self._match(doc)) for doc in docs]

    def _match(self, doc: Doc) -> Iterator[Span]:
        found = list(_WORD.finditer(doc.text))
        words = np.fromiter((_hash(match.group(), self._language) for match in found), dtype=np.uint64, count=len(found))
        phrases, more = self._phrases, self._more  # as they are now: `load` in another thread may put others in their places
        assert phrases is not None  # `load`
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
        for doc, spans in zip(docs, predictions):
            if self.spans_key is None:
                first, second = (spans, list(doc.ents)) if self.overwrite else (list(doc.ents), spans)
                taken = {token.i for span in first for token in span}
                set_spans(doc, None, filter_spans([*first, *(span for span in second if not any(t.i in taken for t in span))]))
            else:
                set_spans(doc, self.spans_key, spans)

    def score(self, examples: Iterable[Any], **kwargs: Any) -> Dict[str, Any]:
        return dict(self.scorer(examples, **kwargs)) if self.scorer else {}

    def initialize(self, get_examples: Optional[Callable[[], Iterable[Example]]] = None, *, nlp: Optional[Language] = None) -> None:
        """Read the names of the knowledge base anew: now, or where it is that of a linker that may not be initialised yet, on first use."""
        self._phrases, self._added, self._more = None, {}, None
        if self.linker_name is not None:
            self.load()

    # -- files ----------------------------------------------------------------------------------------------------------

    def to_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> None:
        """Write what is looked for, so that a saved pipeline needs nothing else; as hashes, which say no name."""
        whole = self._whole()
        with writing_folder(Path(path) / FOLDER) as folder:  # a new one: the old one's files may be mapped
            whole.to_disk(folder)

    def from_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> "ConceptMatcher":
        """RAISES: SapbertError E030."""
        if (Path(path) / "names.jsonl.gz").is_file() and not (Path(path) / FOLDER).is_dir():
            raise fail("E030", MissingFile, path=path, why="an earlier version wrote its names.jsonl.gz.")
        self._phrases = Phrases.from_disk(Path(path) / FOLDER)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        import srsly

        return bytes(srsly.msgpack_dumps(self._whole().to_dict()))

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "ConceptMatcher":
        import srsly

        self._phrases = Phrases.from_dict(srsly.msgpack_loads(bytes_data))
        return self

    def _whole(self) -> Phrases:
        self.load()
        assert self._phrases is not None
        return self._phrases if self._more is None else union([self._phrases, self._more])


def _is_kb(folder: Path) -> bool:
    return (folder / "kb.sqlite").is_file()
