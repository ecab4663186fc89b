"""`concept_matcher`: finds the knowledge base's own names in text, so that a blank pipeline annotates with no trained recogniser.

Names and text are compared as runs of words, lower-cased, in English without possessive and plural endings; the longest run wins, from left
to right. One dictionary look-up for each possible length of a run that begins with a word: tokenised phrase patterns would take longer
to make than to use, and know no plurals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Dict, FrozenSet, List, Optional, Set, Tuple, Union

from spacy.lang.en.stop_words import STOP_WORDS
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from . import bundles, semantic_types
from .additions import Additions
from .concept import ENGLISH, lower_case, normalise
from .errors import MissingFile, fail
from .kb import KnowledgeBase
from .spans import set_spans

# letters and digits ("'s" stays with its word and is cut by `stem`), or what parts the words of a name: punctuation and empty
# lines. Spaces, hyphens, slashes and apostrophes do not
_WORD = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)?|[^\s\w\-‐‑–/'’]|_|\n\s*\n")
MAX_WORDS = 12
Key = Tuple[str, ...]


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
    scorer: Optional[Callable],
) -> ConceptMatcher:
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
        scorer: Optional[Callable] = None,
    ) -> None:
        if min_chars < 1:
            raise fail("E002", setting="min_chars", component=name, value=min_chars, why="it must be at least 1.")
        if linker_name is not None and not _is_kb(Path(linker_name)):
            bundles.check_linker_name(linker_name)
        self.nlp, self.name, self.scorer = nlp, name, scorer
        self.linker_name, self.spans_key, self.label, self.overwrite = linker_name, spans_key, label, overwrite
        self.min_chars, self.weak_names = max(2, min_chars), weak_names
        self.types: Optional[FrozenSet[str]] = None if types is None else semantic_types.expand(types)
        self._language = getattr(nlp, "lang", "")
        own = set() if self._language in ENGLISH else nlp.Defaults.stop_words
        self._stop_words: Set[str] = STOP_WORDS | own  # a knowledge base may hold English names beside those of the text's language
        self._names: Dict[Key, str] = {}  # words -> label
        self._lengths: Dict[str, List[int]] = {}  # first word -> lengths of names, longest first
        # what was added to linkers of the pipeline, by their names: where it was read from, and words -> label
        self._added: Dict[str, Tuple[Additions, Dict[Key, str]]] = {}
        self._more: Dict[Key, str] = {}  # of all of them
        self._more_lengths: Dict[str, List[int]] = {}

    def __len__(self) -> int:
        return len(self._names)

    def load(self) -> None:
        """Read the names, if that was not done yet."""
        if not self._names:
            self.set_kb(self._find_kb())
        changed = False
        for name, component in self.nlp.pipeline:
            linker: Any = component
            if isinstance(getattr(linker, "additions", None), Additions):
                linker.load()  # its folder may hold some
                if self._added.get(name, (None, {}))[0] is not linker.additions:  # each change is an object of its own
                    self._added[name] = linker.additions, self._keys_of(linker.kb, linker.additions)
                    changed = True
        if changed:
            self._more = {key: label for _, keys in self._added.values() for key, label in keys.items() if key not in self._names}
            self._more_lengths = _lengths(self._more)

    def _keys_of(self, kb: KnowledgeBase, additions: Additions) -> Dict[Key, str]:
        keys: Dict[Key, str] = {}
        for concept_id, text, language in additions.names:
            tuis = kb.concept(kb.row_of(concept_id)).types
            if (self.types is None or not self.types.isdisjoint(tuis)) and (key := self._key(normalise(text, language))):
                keys.setdefault(key, self._label(tuis[0] if tuis else None))
        return keys

    def _find_kb(self) -> KnowledgeBase:
        if self.linker_name is None:
            for _, component in self.nlp.pipeline:
                if hasattr(component, "kb") and isinstance(component.kb, KnowledgeBase):
                    return component.kb
        if self.linker_name is not None and _is_kb(Path(self.linker_name)):
            return KnowledgeBase(self.linker_name)
        return KnowledgeBase(bundles.find_linker(self.linker_name) / bundles.KB)

    def set_kb(self, kb: KnowledgeBase) -> None:
        """Look for the names of this knowledge base. RAISES: SapbertError E103 where none is left."""
        names: Dict[Key, str] = {}
        unmarked: Dict[Key, str] = {}  # "hypotonia, generalized" is also found without its comma
        for text, tui in kb.matchable_names(weak_names=self.weak_names, tuis=self.types):
            if key := self._key(text):
                names.setdefault(key, self._label(tui))
                unmarked.setdefault(tuple(word for word in key if word[0].isalnum()), names[key])
        names = {**unmarked, **names}
        if not names:
            raise fail("E103", detail="no name of these types is long enough to look for")
        self._set_names(names)

    def _set_names(self, names: Dict[Key, str]) -> None:
        self._lengths = _lengths(names)
        self._names = names  # last: `load` in another thread looks at it

    def _key(self, text: str) -> Optional[Key]:
        found = _WORD.findall(text)
        if not found or len(found) > MAX_WORDS or len(text) < self.min_chars:
            return None
        key = tuple(_form(word, self._language) for word in found)
        if all(word in self._stop_words or stemmed in self._stop_words or word.isdigit() or len(stemmed) == 1 for word, stemmed in zip(found, key)):
            return None  # stemmed too: "Wells" must not find "well"
        return key

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
        text = doc.text
        found = words(text, self._language)
        names, lengths, more, more_lengths = self._names, self._lengths, self._more, self._more_lengths
        at, end_token = 0, 0
        while at < len(found):
            first = found[at][0]
            known = lengths.get(first, ())
            for length in known if first not in more_lengths else sorted({*known, *more_lengths[first]}, reverse=True):
                run = found[at : at + length]
                key = tuple(word for word, _, _ in run)
                if len(run) == length and (label := names.get(key) or more.get(key)):
                    span = doc.char_span(run[0][1], run[-1][2], label=label, alignment_mode="expand")
                    if span is not None and span.start >= end_token:
                        yield span
                        end_token = span.end
                        at += length - 1
                        break
            at += 1

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

    def initialize(self, get_examples: Optional[Callable] = None, *, nlp: Optional[Language] = None) -> None:
        """Read the names of the knowledge base anew: now, or where it is that of a linker that may not be initialised yet, on first use."""
        self._names = {}
        self._added, self._more, self._more_lengths = {}, {}, {}
        if self.linker_name is not None:
            self.load()

    # -- files ----------------------------------------------------------------------------------------------------------

    def to_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> None:
        """Write the names that are looked for, so that a saved pipeline needs nothing else."""
        import srsly

        self.load()
        Path(path).mkdir(parents=True, exist_ok=True)
        srsly.write_gzip_jsonl(Path(path) / "names.jsonl.gz", ([" ".join(key), label] for key, label in {**self._more, **self._names}.items()))

    def from_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> ConceptMatcher:
        import srsly

        file = Path(path) / "names.jsonl.gz"
        if not file.is_file():
            raise fail("E101", MissingFile, path=path, why="it holds no names.jsonl.gz, so no concept_matcher was saved there.")
        self._set_names({tuple(name.split(" ")): label for name, label in srsly.read_gzip_jsonl(file)})
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        import srsly

        self.load()
        return srsly.msgpack_dumps([[" ".join(key), label] for key, label in {**self._more, **self._names}.items()])

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> ConceptMatcher:
        import srsly

        self._set_names({tuple(name.split(" ")): label for name, label in srsly.msgpack_loads(bytes_data)})
        return self


def _lengths(names: Iterable[Key]) -> Dict[str, List[int]]:
    """First word -> lengths of names, longest first."""
    lengths: Dict[str, Set[int]] = {}
    for key in names:
        lengths.setdefault(key[0], set()).add(len(key))
    return {first: sorted(found, reverse=True) for first, found in lengths.items()}


def _is_kb(folder: Path) -> bool:
    return (folder / "kb.sqlite").is_file()
