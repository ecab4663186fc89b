"""The component `concept_matcher`: it finds names of the knowledge base in text, so that a pipeline needs no trained recogniser.

Names and text are compared as runs of lower-cased words, in English without possessive and plural endings. The longest run is taken, from
left to right. At each word there is one look-up for every possible length of a run (`phrases.py`). With spaCy's PhraseMatcher, building the
patterns would take longer than the search, and plurals would not be found.

The names of a knowledge base become phrases in `collecting.py`; a text is read and searched in `finding.py`; `doc_spans.py` writes the Doc.
"""

from collections.abc import Callable, Iterable  # no `from __future__ import annotations`: spaCy reads the factory's types
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, FrozenSet, List, Optional, Union

from spacy.lang.en.stop_words import STOP_WORDS
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from ..doc.component import DocComponent
from ..doc.spans import set_corrected_extension
from ..errors import fail
from ..files import writing_folder
from ..kb import semantic_types
from ..kb.concept import ENGLISH
from ..kb.knowledge_base import KnowledgeBase
from ..registry import check_linker_name
from . import stored
from .collecting import NameCollector
from .doc_spans import write_names
from .finding import find_names
from .joining import Match
from .linkers import Linkers, first_kb
from .lookup import Lookup
from .phrases import Phrases, union
from .spelling import Spelling
from .word_forms import WordForms

FOLDER = "phrases"  # name of a folder in a saved component


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
        "qualifiers": False,
        "spelling": True,
        "join": False,
        "all_key": None,
        "scorer": {"@scorers": "spacy.ner_scorer.v1"},
    },
    default_score_weights={"ents_f": 1.0, "ents_p": 0.0, "ents_r": 0.0, "ents_per_type": None},
)
def make_concept_matcher(
    nlp: Language,
    name: str,
    linker_name: Optional[str],
    spans_key: Optional[str],
    types: Union[str, List[str], None],
    label: str,
    overwrite: bool,
    min_chars: int,
    weak_names: bool,
    qualifiers: bool,
    spelling: bool,
    join: bool,
    all_key: Optional[str],
    scorer: Optional[Callable[..., Any]],
) -> "ConceptMatcher":
    """Create the component, see `ConceptMatcher`. Nothing is read from disk yet."""
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
        qualifiers=qualifiers,
        spelling=spelling,
        join=join,
        all_key=all_key,
        scorer=scorer,
    )


class ConceptMatcher(DocComponent):
    """Find names of the knowledge base in text, and set `doc.ents` or a span group to them.

    Args:
        nlp: the pipeline.
        name: name of the component in the pipeline.
        linker_name: a registered linker, or the folder of a linker or a knowledge base. None: the knowledge base of the `sapbert_linker` in
            the same pipeline; without one, "open".
        spans_key: a span group; None for `doc.ents`.
        types: semantic types or groups whose names are looked for; None for all.
        label: "group": the semantic group of the name's first concept (DISO, ANAT, PROC …); "type": its semantic type (T047 …); any other text: that
            text.
        overwrite: with `doc.ents`: True: matches replace entities that overlap them; False: those entities stay.
        min_chars: names with fewer characters are ignored. Names that consist only of stop words or digits are always ignored. So are names of
            one letter, except a test before a value ("K 5.9").
        weak_names: look for narrower, related, broader and lay names, too.
        qualifiers: look for qualifiers, too ("right", "mild", "chronic"), if `types` is None.
        spelling: find words of seven letters and more with one wrong letter, if the knowledge base has at most a million names.
        join: choose between names and the entities of an earlier component by the rules of `joining.chosen`; `overwrite` is then ignored.
        all_key: a span group for all mentions: chosen ones, nested ones, and parts of coordinations, whose span id is the name to look up. None:
            no group. `sapbert_linker` links the group "sapbert" together with `doc.ents`.
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
        types: Union[str, List[str], None] = None,
        label: str = "group",
        overwrite: bool = False,
        min_chars: int = 2,
        weak_names: bool = True,
        qualifiers: bool = False,
        spelling: bool = True,
        join: bool = False,
        all_key: Optional[str] = None,
        scorer: Optional[Callable[..., Any]] = None,
    ) -> None:
        if min_chars < 1:
            raise fail("E002", setting="min_chars", component=name, value=min_chars, why="it must be at least 1.")
        if linker_name is not None and not stored.is_kb(Path(linker_name)):
            check_linker_name(linker_name)
        set_corrected_extension()
        self.join, self.all_key = join, all_key
        self.nlp, self.name, self.scorer = nlp, name, scorer
        self.linker_name, self.spans_key, self.label, self.overwrite = linker_name, spans_key, label, overwrite
        self.min_chars, self.weak_names, self.qualifiers, self.spelling = max(2, min_chars), weak_names, qualifiers, spelling
        self.types: Optional[FrozenSet[str]] = None if types is None else semantic_types.expand([types] if isinstance(types, str) else types)
        self._language = getattr(nlp, "lang", "")
        own = set() if self._language in ENGLISH else nlp.Defaults.stop_words
        self._stop_words = frozenset(STOP_WORDS | own)  # a knowledge base may hold English names in addition to names in the text's language
        self._lookup: Optional[Lookup] = None  # a value that is replaced, because several threads may use it
        self._linkers = Linkers()

    def __len__(self) -> int:
        """Return the number of phrases that are looked for."""
        return 0 if self._lookup is None else len(self._lookup.phrases)

    # -- names ----------------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the names, if they have not been read yet, and the additions of linkers in the pipeline, if they changed."""
        self._loaded()

    def _loaded(self) -> Lookup:
        """Load, and return what is looked for now."""
        if self._lookup is None:
            self.set_kb(self._find_kb())
        self._linkers.follow(self.nlp.pipeline, self._collector)
        assert self._lookup is not None
        self._lookup = lookup = self._lookup.following(self._linkers)
        return lookup

    def _find_kb(self) -> KnowledgeBase:
        """Return the knowledge base of the settings; without one, that of the first linker in the pipeline, or of the default linker."""
        kb = first_kb(self.nlp.pipeline) if self.linker_name is None else None
        return stored.find_kb(self.linker_name) if kb is None else kb

    def _collector(self) -> NameCollector:
        """Return what makes phrases of names by the settings."""
        return NameCollector(
            language=self._language,
            stop_words=self._stop_words,
            types=self.types,
            label=self.label,
            min_chars=self.min_chars,
            weak_names=self.weak_names,
            qualifiers=self.qualifiers,
            spelling=self.spelling,
        )

    def set_kb(self, kb: KnowledgeBase) -> None:
        """Set the knowledge base whose names are looked for. If it has many names, their hashes are computed once and stored in the cache.

        Warns with W009 if the cache cannot be written.

        Raises:
            SapbertError: E103, no name remains to look for.
        """
        self._look_for(*stored.phrases_of(kb, self._collector(), self.name))

    def _look_for(self, phrases: Phrases, spelling: Optional[Spelling]) -> None:
        """Look for other phrases from now on. What words stand for depends on them, and is found out anew."""
        forms = WordForms(self._language, self._stop_words, spelling, self._linkers.cache_size)
        self._lookup = Lookup(phrases, self._linkers.more, forms, self.label)

    # -- calling --------------------------------------------------------------------------------------------------------

    def predict(self, docs: Iterable[Doc]) -> List[List[Match]]:
        """Return the names in each Doc: the longest from left to right, then (in English) nested and overlapping names and parts of coordinations."""
        lookup = self._loaded()
        return [find_names(doc.text, lookup) for doc in docs]

    def set_annotations(self, docs: Iterable[Doc], predictions: List[List[Match]]) -> None:
        """Write the names that were found into the Docs. A token that holds more than the name ("GERD.3") is split."""
        is_body = None if self._lookup is None else self._lookup.is_body
        for doc, matches in zip(docs, predictions):
            write_names(doc, matches, spans_key=self.spans_key, all_key=self.all_key, join=self.join, overwrite=self.overwrite, is_body=is_body)

    def score(self, examples: Iterable[Any], **kwargs: Any) -> Dict[str, Any]:
        """Score annotated Docs with the scorer of the settings."""
        return dict(self.scorer(examples, **kwargs)) if self.scorer else {}

    def initialize(self, get_examples: Optional[Callable[[], Iterable[Example]]] = None, *, nlp: Optional[Language] = None) -> None:
        """Read the names of the knowledge base again: now, or on first use if they come from a linker in the pipeline.

        The reason is that this linker may be initialised after this component.
        """
        self._lookup, self._linkers = None, Linkers()
        if self.linker_name is not None:
            self.load()

    # -- files ----------------------------------------------------------------------------------------------------------

    def to_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> None:
        """Write the phrases as hashes, so that a saved pipeline finds names without a knowledge base. The hashes do not reveal the names."""
        lookup = self._loaded()
        whole = self._whole(lookup)
        with writing_folder(Path(path) / FOLDER) as folder:  # a new folder, because files of the old one may be memory-mapped
            stored.write(folder, whole, lookup.forms.spelling)

    def from_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> "ConceptMatcher":
        """Read what `to_disk` wrote.

        Raises:
            SapbertError: E030, the folder is missing or damaged.
        """
        self._look_for(*stored.read(Path(path) / FOLDER))
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return what `to_disk` writes as bytes."""
        import srsly

        lookup = self._loaded()
        spelling = lookup.forms.spelling
        return bytes(srsly.msgpack_dumps({**self._whole(lookup).to_dict(), "spelling": None if spelling is None else spelling.to_dict()}))

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "ConceptMatcher":
        """Read what `to_bytes` returned.

        Raises:
            SapbertError: E030, the bytes cannot be read.
        """
        import srsly

        content = srsly.msgpack_loads(bytes_data)
        self._look_for(Phrases.from_dict(content), Spelling.from_dict(content["spelling"]) if content.get("spelling") else None)
        return self

    def _whole(self, lookup: Lookup) -> Phrases:
        """Return all phrases as one set, to be saved."""
        # removals that a linker of the pipeline saves are not applied to what is saved: the loaded linker brings them, and can take them back
        own = replace(lookup.phrases, stopped=self._linkers.stopped_without(self.nlp.component_names)).whole()
        return own if lookup.more is None else union([own, lookup.more])
