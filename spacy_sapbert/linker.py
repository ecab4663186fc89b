"""`sapbert_linker`: links spans of a Doc to the concepts of a knowledge base.

Reads top to bottom: config, factory, class, loading, calling, predicting, annotating, additions, calibration, files.
"""

import copyreg  # no `from __future__ import annotations`: spaCy reads the factory's types
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

import srsly
from spacy import util
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.scorer import Scorer
from spacy.tokens import Doc, Span
from spacy.training import Example

from .build.default_linkers import HPO_FAST, find_linker
from .build.loaders import Loader
from .bundle import NAME_ENCODER, STATIC_ENCODER, LinkerBundle, is_fast, make_encoder
from .calibration import Calibration, Observed, fit_calibration
from .candidates import Rules
from .doc.spans import Link, Mention, SpansKey, get_mention, get_spans, long_forms, set_extensions, write_links
from .encoders.base import Encoder, as_encoder
from .errors import fail
from .files import clear_abandoned, folder_from_bytes, folder_to_bytes
from .kb import semantic_types
from .kb.additions import SOURCE, AddedName, Additions, check_names, to_tsv
from .kb.concept import MAX_NAME_CHARS, Concept, Name
from .kb.knowledge_base import KnowledgeBase
from .registry import check_linker_name
from .search import CandidateSearch, Found, MentionCandidate, Query
from .settings import Names, Setting, Settings, Types, default_config, takes_settings
from .types import VectorIndex

LINKER_FOLDER = "linker"  # in the component's folder of a saved pipeline
DEFAULT_CONFIG = {
    **default_config(),
    "model": {"@architectures": NAME_ENCODER},
    "index": {"@sapbert_indexes": "spacy-sapbert.AnnoyIndex.v1"},
    "scorer": {"@scorers": "spacy-sapbert.linker_scorer.v1"},
}
FIXED = ("linker_name", "encoder")  # settings that decide what is loaded

Spans = list[tuple[Optional[str], int, Span]]  # group or None for doc.ents, place in it, span


class Prediction(NamedTuple):
    """What the spans of one Doc are linked to, by which settings: the lists are of one length."""

    spans: Spans
    mentions: list[Mention]
    found: list[Found]
    settings: Settings


@Language.factory(
    "sapbert_linker",
    default_config=DEFAULT_CONFIG,
    assigns=["token.ent_kb_id", "span._.kb_ents", "span._.kb_codes", "span._.kb_explain", "span._.kb_prob"],
    requires=["doc.ents"],
    default_score_weights={"nel_micro_f": 1.0, "nel_micro_r": None, "nel_micro_p": None},
)
@takes_settings
def make_sapbert_linker(
    nlp: Language, name: str, model: Any, index: VectorIndex, scorer: Optional[Callable[..., Any]], **settings: Any
) -> "SapBertLinker":
    """Make the component; see `Settings`. Nothing is read from disk."""
    return SapBertLinker(model, index, name, scorer=scorer, language=nlp.lang or "", **settings)


def make_linker_scorer() -> Callable[..., dict[str, Any]]:
    """Return spaCy's `Scorer.score_links` with "NIL" and "" as no link: `spacy-sapbert.linker_scorer.v1`."""
    return partial(Scorer.score_links, negative_labels=["", "NIL"])


class SapBertLinker(Pipe):
    """Links spans to the concepts with the nearest names in an encoder's space.

    Each setting is also an attribute. `linker.threshold = 0.85` checks the value and takes effect with the next Doc; `linker_name` and
    `encoder` are fixed.

    Args:
        model: the encoder that is asked for, an `Encoder` or a Thinc model from names to (n, d). A linker folder brings its own of this kind.
        index: the engine to build a linker with; a linker folder brings its own, which takes these settings if it is of the same engine.
        name: of the component in its pipeline.
        scorer: for `nlp.evaluate`.
        settings: see `Settings`.

    Raises:
        SapbertError: E001, E002, E104, a setting is wrong; E005, `attr_name` is taken; E006, `model` or `index` is something else.

    Source:
        Liu et al., Self-Alignment Pretraining for Biomedical Entity Representations, NAACL 2021.
    """

    linker_name = Setting[Optional[str]]()
    encoder = Setting[Optional[str]]()
    resolve_abbreviations = Setting[bool]()
    k = Setting[int]()
    threshold = Setting[float]()
    no_definition_threshold = Setting[float]()
    filter_for_definitions = Setting[bool]()
    max_entities_per_mention = Setting[int]()
    target_precision = Setting[Optional[float]]()
    coverage = Setting[Optional[float]]()
    spans_key = Setting[SpansKey]()
    attr_name = Setting[str]()
    labels_discard = Setting[Names]()
    overwrite = Setting[bool]()
    nil = Setting[str]()
    types = Setting[Types]()
    vocabularies = Setting[Optional[Names]]()
    languages = Setting[Optional[Names]]()
    exact_match = Setting[bool]()
    candidates_batch_size = Setting[int]()
    cache_size = Setting[int]()
    language = Setting[str]()

    def __init__(
        self,
        model: object,
        index: VectorIndex,
        name: str = "sapbert_linker",
        *,
        scorer: Optional[Callable[..., Any]] = None,
        **settings: Any,
    ) -> None:
        self.name = name
        if not isinstance(index, VectorIndex):
            raise fail("E006", what="index", got=type(index).__name__, expected="VectorIndex")
        self._settings = Settings(**settings, component=name)
        check_linker_name(self._settings.linker_name)
        self._asked_model, self._asked_index = self._pick_encoder(as_encoder(model)), index  # a linker folder brings its own
        self.scorer = scorer
        self._search: Optional[CandidateSearch] = None  # all that was opened; None before the first use
        self._opened: Optional[LinkerBundle] = None  # opened by `observe`, while a target of the settings may need a calibration that is not there
        self._lock = threading.RLock()  # neither loading a model nor a fast tokenizer bears two threads
        set_extensions(self._settings.attr_name, name)

    def _pick_encoder(self, model: Encoder) -> Encoder:
        """Return the encoder that `encoder` and `model` ask for.

        Raises:
            SapbertError: E002, they ask for different ones.
        """
        if self._settings.encoder is None or is_fast(model):
            return model
        if model.architecture != NAME_ENCODER or model.name:
            why = "`model` names another encoder. Leave one of the two out."
            raise fail("E002", setting="encoder", component=self.name, value=self._settings.encoder, why=why)
        return make_encoder(STATIC_ENCODER, {})

    # -- what is opened -------------------------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """The settings. New ones take effect with the next Doc, if they fit the linker that is loaded.

        Raises:
            SapbertError: E002, `linker_name` or `encoder` would change; see `CandidateSearch` for others.
        """
        return self._settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        with self._lock:
            for setting in FIXED:
                if getattr(settings, setting) != getattr(self._settings, setting):
                    why = "it cannot change after the component was added. Add another component with this value."
                    raise fail("E002", setting=setting, component=self.name, value=getattr(settings, setting), why=why)
            set_extensions(settings.attr_name, self.name)
            if self._search is None:
                self._settings = settings
            else:
                self._use(self._search.bundle, settings)

    def change_settings(self, **changes: Any) -> None:
        """Change some settings at once, and keep the others.

        Raises:
            SapbertError: see `settings`; then nothing is changed.
        """
        with self._lock:
            self.settings = replace(self._settings, component=self.name, **changes)

    @property
    def rules(self) -> Rules:
        """The settings by which concepts are kept."""
        return self._settings.rules

    @property
    def bundle(self) -> LinkerBundle:
        """Everything that is opened; it is loaded on first use. Another value takes its place at once."""
        return self.search.bundle

    @bundle.setter
    def bundle(self, bundle: LinkerBundle) -> None:
        self._use(bundle, self._settings)

    @property
    def search(self) -> CandidateSearch:
        """What answers mentions. Loaded on first use."""
        if self._search is None:
            with self._lock:
                if self._search is None:
                    self._use(self._open_named(), self._settings)
        assert self._search is not None
        return self._search

    @property
    def model(self) -> Encoder:
        """The encoder in use; before anything is loaded, the one that was asked for."""
        return self._asked_model if self._search is None else self._search.bundle.encoder

    @property
    def index(self) -> VectorIndex:
        """The index in use; before anything is loaded, the one that was asked for."""
        return self._asked_index if self._search is None else self._search.bundle.index

    @property
    def kb(self) -> KnowledgeBase:
        """The knowledge base, with scispaCy's `cui_to_entity`, `alias_to_cuis` and `semantic_type_tree`. Loaded on first use."""
        return self.bundle.kb

    @property
    def umls(self) -> KnowledgeBase:
        """The knowledge base, by scispaCy's old name."""
        return self.kb

    @property
    def calibration(self) -> Optional[Calibration]:
        """The calibration; None where none was fit for this encoder and knowledge base. Loaded on first use."""
        return self.bundle.calibration

    @property
    def additions(self) -> Additions:
        """What `add_alias` and `add_concept` added."""
        return Additions() if self._search is None else self._search.bundle.additions

    @property
    def folder(self) -> Optional[Path]:
        """The linker folder in use; None before anything is loaded."""
        return None if self._search is None else self._search.bundle.folder

    def load(self) -> None:
        """Load the linker that `linker_name` names, if none is loaded. The default one is built on its first use.

        Raises:
            SapbertError: E001, E010, E011, E1xx, E2xx, E3xx, see `LinkerBundle.open` and `CandidateSearch`.
        """
        _ = self.search

    def set_folder(
        self,
        folder: Union[str, Path],
        *,
        exclude: Iterable[str] = (),
        calibration: Optional[Calibration] = None,
        additions: Optional[Additions] = None,
        parts: Optional[Mapping[str, Path]] = None,
    ) -> None:
        """Use a linker folder from now on. If it is refused, the linker stays as it was.

        Args:
            folder: the linker folder.
            exclude: parts that are kept instead: "kb", "model", "index".
            calibration: to use instead of the folder's.
            additions: to use instead of the folder's.
            parts: folders of parts that are not in `folder`, by the names that `exclude` has.

        Raises:
            SapbertError: see `LinkerBundle.open` and `CandidateSearch`.
        """
        with self._lock:
            self.bundle = self._open(folder, exclude=exclude, calibration=calibration, additions=additions, parts=parts)

    def _named_folder(self) -> Path:
        return find_linker(self._settings.linker_name or (HPO_FAST if is_fast(self._asked_model) else None))

    def _open(self, folder: Union[str, Path], *, exclude: Iterable[str] = (), **more: Any) -> LinkerBundle:
        opened = None if self._search is None else self._search.bundle
        return LinkerBundle.open(folder, self._asked_model, self._asked_index, component=self.name, exclude=set(exclude), opened=opened, **more)

    def _open_named(self) -> LinkerBundle:
        return self._open(self._named_folder()) if self._opened is None else self._opened

    def _use(self, bundle: LinkerBundle, settings: Settings) -> None:
        """Swap everything at once: the one place where what is opened changes. Warns W004 of a calibration fit with other settings."""
        with self._lock:
            before = self._search
            search = CandidateSearch(bundle, settings, component=self.name, lock=self._lock)
            same = before is not None and before.calibration is bundle.calibration
            if before is None or not same or before.settings.scores_depend_on() != settings.scores_depend_on():
                bundle.check_settings(settings)
            self._search, self._settings, self._opened = search, settings, None

    # -- calling --------------------------------------------------------------------------------------------------------

    def __call__(self, doc: Doc) -> Doc:
        """Link one Doc in place. An error in it goes to spaCy's error handler."""
        self.load()
        try:
            self.set_annotations([doc], self.predict([doc]))
        except Exception as error:
            self.get_error_handler()(self.name, self, [doc], error)
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Link a stream of Docs. Mentions are joined, encoded and searched across the Docs of a batch.

        An error in one Doc goes to spaCy's error handler; the other Docs of its batch are linked.
        """
        self.load()
        for docs in util.minibatch(stream, size=batch_size):  # type: ignore[no-untyped-call]
            try:
                predictions: Sequence[Optional[Prediction]] = self.predict(docs)
            except Exception:  # in one of them: predict one by one
                predictions = [None] * len(docs)
            for doc, prediction in zip(docs, predictions):
                try:
                    self.set_annotations([doc], self.predict([doc]) if prediction is None else [prediction])
                except Exception as error:
                    self.get_error_handler()(self.name, self, [doc], error)
                else:
                    yield doc

    def predict(self, docs: Iterable[Doc]) -> list[Prediction]:
        """Return the concepts of every span of every Doc. The Docs are not changed."""
        search = self.search
        gathered: list[tuple[Spans, list[Mention]]] = []
        queries: list[Query] = []
        for doc in docs:
            spans, mentions = self._mentions(doc, search.settings)
            gathered.append((spans, mentions))
            queries.extend((mention.text, search.settings.types_of(span.label_)) for mention, (_, _, span) in zip(mentions, spans))
        found = iter(search.find(queries))
        return [Prediction(spans, mentions, [next(found) for _ in spans], search.settings) for spans, mentions in gathered]

    def _mentions(self, doc: Doc, settings: Settings) -> tuple[Spans, list[Mention]]:
        """Return the spans of a Doc that are to be linked, and the text to look up for each."""
        spans = get_spans(doc, settings.spans_key, settings.labels_discard)
        forms = long_forms(doc, english=settings.english) if settings.resolve_abbreviations else {}
        return spans, [get_mention(span, forms, english=settings.english) for _, _, span in spans]

    def find(self, queries: Sequence[Query]) -> list[Found]:
        """Return an answer for each (mention, semantic types or None)."""
        return self.search.find(queries)

    def forget(self) -> None:
        """Empty the cache of answers.

        The last bits of a vector depend on the batch that it was made in: after this, answers depend only on what comes next.
        """
        if self._search is not None:
            self._search.forget()

    def set_annotations(self, docs: Iterable[Doc], predictions: Sequence[Prediction]) -> None:
        """Write `token.ent_kb_id_` (or `kb_id` of a group's spans), candidates, codes, explanation and probability."""
        for doc, prediction in zip(docs, predictions):
            settings = prediction.settings
            links = [_link(mention, found, settings.nil) for mention, found in zip(prediction.mentions, prediction.found)]
            write_links(doc, prediction.spans, links, settings.attr_name, settings.overwrite)

    def candidate_generator(self, mention_texts: list[str], k: int) -> list[list[MentionCandidate]]:
        """Return candidates of plain texts, best first, as scispaCy's `candidate_generator` does (there in the order of their ids)."""
        return self.search.nearest(mention_texts, k)

    # -- additions ------------------------------------------------------------------------------------------------------

    def add_alias(self, concept_id: str, *names: str) -> None:
        """Give a concept of the knowledge base more names, from the next Doc on. A code names its best concept: add_alias("MESH:D003924", "sugar").

        `to_disk` keeps them; `nlp.initialize` reads the linker folder again and forgets those that were not saved. Where such a name belongs
        to other concepts too, this concept comes first.

        Raises:
            SapbertError: E022, the concept is not there; E024, a name can't be one. Then nothing is added.
        """
        kb = self.kb
        self._add({}, kb.concept_id(kb.row_of(concept_id)) if concept_id in kb else concept_id, names)

    def add_concept(
        self,
        concept_id: str,
        names: Union[str, Iterable[str]],
        *,
        types: Iterable[str] = (),
        definition: Optional[str] = None,
        codes: Iterable[tuple[str, str]] = (),
    ) -> None:
        """Add a concept that the knowledge base does not have, from the next Doc on; `to_disk` keeps it.

        Args:
            concept_id: its identifier.
            names: its names, the canonical one first.
            types: semantic types (TUIs), groups or names.
            definition: in words.
            codes: (vocabulary, code).

        Raises:
            SapbertError: E002, there is no identifier or name, or the definition is no text; E024, a name can't be one; E025, the knowledge base has the concept; E104, a type
                is not known. Then nothing is added.
        """
        if concept_id in self.kb:
            raise fail("E025", id=concept_id, name=self.kb.cui_to_entity[concept_id].canonical_name)
        given = [names] if isinstance(names, str) else list(names)
        if not given:
            raise fail("E002", setting="names", component=self.name, value=given, why="a concept needs a name.")
        if not isinstance(concept_id, str) or not concept_id.strip():
            raise fail("E002", setting="concept_id", component=self.name, value=concept_id, why="it must be a text.")
        if not (definition is None or isinstance(definition, str)):
            raise fail("E002", setting="definition", component=self.name, value=definition, why="it must be a text, or None.")
        tuis = sorted(semantic_types.expand(types)) if types else []
        concept = Concept(concept_id, SOURCE, types=tuis, definition=definition, codes=[(str(v), str(c)) for v, c in codes])
        self._add({concept_id: concept}, concept_id, given)

    def _add(self, concepts: dict[str, Concept], concept_id: str, names: Iterable[str]) -> None:
        with self._lock:
            bundle = self.bundle
            now = bundle.additions
            language = "en" if self._settings.english else self._settings.language
            known = {(name.concept_id, name.text) for name in now.names}
            new = [AddedName(concept_id, text, language) for text in check_names(list(names), language, MAX_NAME_CHARS)]
            fresh = [name for name in dict.fromkeys(new) if (concept_id, name.text) not in known]
            self.bundle = bundle.with_additions(replace(now, concepts={**now.concepts, **concepts}, names=[*now.names, *fresh]))

    def export_additions(self, path: Union[str, Path]) -> int:
        """Write the additions as a table that `kb build` reads beside other sources.

        It also holds the names that the concepts had before, so that a training gets pairs of an added name and an old one.

        Returns:
            The number of concepts in it.
        """
        kb = self.kb

        def names_of(concept_id: str) -> list[Name]:
            return kb.names_of(kb.row_of(concept_id))

        return to_tsv(self.additions, names_of, Path(path))

    # -- calibration ----------------------------------------------------------------------------------------------------

    def calibrate(self, docs: Iterable[Union[Doc, Example]], *, fit_on: str) -> Calibration:
        """Fit a calibration for this linker and its settings, and use it from now on.

        `to_disk` keeps it; `nlp.initialize` reads the linker folder again and forgets it.

        Args:
            docs: annotated; their spans (`spans_key`, or the entities) have the gold concept's id as `kb_id_`, with `|` between alternatives,
                and "NIL" where the knowledge base has none. Of an Example the reference counts.
            fit_on: which data this is, in words; it is kept in the file and shown.

        Returns:
            The calibration. Warns W005 for gold ids that the knowledge base does not have.

        Raises:
            SapbertError: E011, `target_precision` or `coverage` is not reached; E012, too few mentions; E013, scikit-learn is not installed;
                E014, no annotated span; E016, no gold id is known.
        """
        annotated = list(docs)  # before the lock is taken: making them may use this linker in another thread
        with self._lock:
            search = self._without_targets()
            queries, gold = self._annotated(annotated, search.settings)
            if not queries:
                raise fail("E014", where=f"looked in {self._settings.spans_key or 'doc.ents'}")
            search.check_gold(gold)
            observed, bundle = search.observe(queries, gold), search.bundle
            built_for = {"encoder": bundle.encoder.fingerprint, "kb": bundle.kb.fingerprint}
            made = fit_calibration(observed, fit_on=fit_on, built_for=built_for, settings=search.settings.scores_depend_on())
            self.bundle = replace(bundle, calibration=made, why_not_calibrated="")
        return made

    def set_targets(self, *, target_precision: Optional[float] = None, coverage: Optional[float] = None) -> None:
        """Set both targets, for now; `nlp.to_disk` keeps the pipeline's config, so put them there to keep them.

        Args:
            target_precision: see `Settings`.
            coverage: see `Settings`.

        Raises:
            SapbertError: E002, E010, E011; then nothing is changed.
        """
        settings = replace(self._settings, component=self.name, target_precision=target_precision, coverage=coverage)
        with self._lock:
            self._use(self._without_targets().bundle, settings)

    def observe(self, docs: Iterable[Union[Doc, Example]]) -> list[Observed]:
        """Return annotated mentions as `calibrate` sees them, in their order. Spans without a `kb_id` are left out."""
        search = self._without_targets()
        return search.observe(*self._annotated(docs, search.settings))

    def _without_targets(self) -> CandidateSearch:
        """Return a search of the linker without targets: these need the calibration that is about to be fit."""
        with self._lock:
            if self._search is None:
                bundle = self._opened = self._open_named()
            else:
                bundle = self._search.bundle
            settings = replace(self._settings, component=self.name, target_precision=None, coverage=None)
            return CandidateSearch(bundle, settings, component=self.name, lock=self._lock)

    def _annotated(self, docs: Iterable[Union[Doc, Example]], settings: Settings) -> tuple[list[Query], list[str]]:
        """Return the mentions of spans with a `kb_id`, and these gold ids."""
        queries: list[Query] = []
        gold: list[str] = []
        for given in docs:
            spans, mentions = self._mentions(given.reference if isinstance(given, Example) else given, settings)
            for (_, _, span), mention in zip(spans, mentions):
                if span.kb_id_:
                    queries.append((mention.text, settings.types_of(span.label_)))
                    gold.append(span.kb_id_)
        return queries, gold

    # -- training surface -----------------------------------------------------------------------------------------------

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """Return nel_micro_p/r/f and the like, by the scorer. Only entities with gold boundaries count."""
        if self.scorer is None:
            return {}
        return dict(self.scorer(examples, **kwargs))

    def initialize(
        self,
        get_examples: Optional[Callable[[], Iterable[Example]]] = None,
        *,
        nlp: Optional[Language] = None,
        kb_loader: Optional[Loader] = None,
    ) -> None:
        """Read, or build, knowledge base, encoder and index.

        Args:
            get_examples: not used.
            nlp: not used.
            kb_loader: made by `spacy-sapbert.Folder.v1` or `spacy-sapbert.Sources.v1`; None reads what `linker_name` names.
        """
        if kb_loader is None:
            self.set_folder(self._named_folder())
        elif callable(kb_loader):
            asked = self._asked_model  # a loader may load the encoder: it gets one of its own
            fresh = make_encoder(asked.architecture, asked.get_config()) if asked.architecture else asked
            self.set_folder(kb_loader(fresh, self._asked_index))
        else:
            raise fail("E006", what="kb_loader", got=type(kb_loader).__name__, expected="function, such as spacy-sapbert.Folder.v1 makes")

    # -- files ----------------------------------------------------------------------------------------------------------

    def to_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> None:
        """Save the linker's files, so that the pipeline's folder is complete; see `LinkerBundle.save`.

        Args:
            path: the component's folder.
            exclude: parts that are not written: "kb", "model", "index". What was saved there before stays.

        Raises:
            SapbertError: E008, the disk is full; then what was there before is unchanged.
        """
        self.bundle.save(Path(path) / LINKER_FOLDER, exclude=exclude)

    def from_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> "SapBertLinker":
        """Use the linker that `to_disk` wrote.

        Args:
            path: the component's folder.
            exclude: parts that are kept instead: "kb", "model", "index".

        Raises:
            SapbertError: E1xx, E2xx, E3xx, files are missing, damaged or do not belong together.
        """
        folder = Path(path) / LINKER_FOLDER
        if not folder.is_dir():
            clear_abandoned(folder)  # a process that was killed while it replaced the folder left the old one beside it
        self.set_folder(folder, exclude=exclude)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return every file of the linker; for UMLS these are gigabytes, and `to_disk` is better."""
        with tempfile.TemporaryDirectory() as folder:
            self.to_disk(folder, exclude=exclude)
            data: bytes = srsly.msgpack_dumps(folder_to_bytes(Path(folder)))
            return data

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "SapBertLinker":
        """Use the linker that `to_bytes` returned. Its files are kept in a temporary folder as long as they are used."""
        temporary = tempfile.TemporaryDirectory(prefix="spacy-sapbert-")
        folder_from_bytes(srsly.msgpack_loads(bytes_data), Path(temporary.name))
        with self._lock:
            self.bundle = self._open(Path(temporary.name) / LINKER_FOLDER, exclude=exclude, temporary=temporary)
        return self

    # a process that is spawned gets the folder's name, not the files. Pipe is a C class: its own __reduce__ only copies __dict__
    def __reduce__(self) -> Any:
        return copyreg.__newobj__, (type(self),), self.__getstate__()  # type: ignore[attr-defined]

    def __getstate__(self) -> dict[str, Any]:
        left_out = ("_search", "_opened", "_lock", "_asked_model", "_asked_index")
        state = {key: value for key, value in self.__dict__.items() if key not in left_out}
        asked = self._asked_model
        state["model"] = (asked.architecture, asked.get_config()) if asked.architecture else asked
        state["index"] = type(self._asked_index), self._asked_index.get_config()
        if self._search is not None:
            bundle = self._search.bundle
            state["opened"] = bundle.folder, bundle.calibration, bundle.additions, dict(bundle.parts)
        return {**state, "name": self.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        model, (make_index, settings), opened = state.pop("model"), state.pop("index"), state.pop("opened", None)
        self.name = state.pop("name")
        self.__dict__.update(state, _search=None, _opened=None, _lock=threading.RLock())
        self._asked_model = make_encoder(*model) if isinstance(model, tuple) else model
        self._asked_index = make_index(**settings)
        set_extensions(self._settings.attr_name, self.name)
        if opened is not None:
            folder, calibration, additions, parts = opened
            self.set_folder(folder, calibration=calibration, additions=additions, parts=parts)


def _link(mention: Mention, found: Found, nil: str) -> Link:
    """Return what is written on a span: copies, because a user may change a span's lists and the answer is shared with others."""
    answer, cached = found
    explain: dict[str, Any] = {"mention": mention.text, "long_form": mention.long_form, "cached": cached}
    explain.update((key, list(value) if isinstance(value, list) else value) for key, value in answer.explain.items())
    codes = {vocabulary: list(codes) for vocabulary, codes in answer.codes.items()}
    return Link(answer.candidates[0][0] if answer.linked else nil, list(answer.candidates), codes, explain, answer.probability)
