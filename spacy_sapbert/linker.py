"""The component `sapbert_linker`, which links spans of a Doc to the concepts of a knowledge base.

From top to bottom: config, factory, class, settings, what is opened, calling, additions, calibration, training, files.
"""

import copyreg  # no `from __future__ import annotations`: spaCy reads the factory's types
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

import srsly
from spacy import util
from spacy.language import Language
from spacy.scorer import Scorer
from spacy.tokens import Doc
from spacy.training import Example

from .acronyms import as_written, is_short_word
from .annotated import calibrated, get_mentions, observe, query_of, ranked
from .build.loaders import Loader
from .bundle import NAME_ENCODER, LinkerBundle
from .calibration import Calibration, Observed
from .candidates import Rules
from .context.base import Candidates, Disambiguator
from .doc.component import DocComponent
from .doc.spans import Link, Mention, Spans, SpansKey, set_extensions, write_links
from .encoders.base import Encoder, as_encoder
from .errors import ServerError, fail
from .files import folder_from_bytes, folder_to_bytes
from .kb.additions import Additions, check_names, to_tsv
from .kb.concept import MAX_NAME_CHARS, Name
from .kb.knowledge_base import KnowledgeBase
from .kb.removals import same_name
from .kb.writing import in_capitals
from .ranking.ranker import Ranker
from .registry import check_linker_name
from .search import LISTS, CandidateSearch, Found, MentionCandidate, Query
from .settings import COSINE, Names, Setting, Settings, Types, default_config, takes_settings
from .state import LinkerState
from .types import VectorIndex

LINKER_FOLDER = "linker"  # in the component's folder of a saved pipeline
NAMES_SHOWN = 8  # in an error message
TOKENS_AROUND = 15  # tokens on each side of a span that are read to see whether its text is written in capitals
DEFAULT_CONFIG = {
    **default_config(),
    "model": {"@architectures": NAME_ENCODER},
    "index": {"@sapbert_indexes": "spacy-sapbert.AnnoyIndex.v1"},
    "disambiguator": {"@misc": "spacy-sapbert.Senses.v1"},
    "scorer": {"@scorers": "spacy-sapbert.linker_scorer.v1"},
}


class Prediction(NamedTuple):
    """The spans of one Doc, what was found for them, and the settings that were used. The three lists have the same length."""

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
    nlp: Language,
    name: str,
    model: Any,
    index: VectorIndex,
    disambiguator: Optional[Any],
    scorer: Optional[Callable[..., Any]],
    **settings: Any,
) -> "SapBertLinker":
    """Make the component; see `Settings`. Nothing is read from disk."""
    return SapBertLinker(model, index, name, disambiguator=disambiguator, scorer=scorer, language=nlp.lang or "", **settings)


def make_linker_scorer() -> Callable[..., dict[str, Any]]:
    """Return spaCy's `Scorer.score_links`, where "NIL" and "" mean no link. It is registered as `spacy-sapbert.linker_scorer.v1`."""
    return partial(Scorer.score_links, negative_labels=["", "NIL"])


class SapBertLinker(DocComponent):
    """Links spans to the concepts whose names are nearest to them in the encoder's vector space.

    Each setting is also an attribute. `linker.threshold = 0.85` checks the value and takes effect with the next Doc; `linker_name`,
    `encoder` and `verify` are fixed.

    Args:
        model: the configured encoder: an `Encoder`, or a Thinc model from n names to (n, d). A linker folder has its own encoder, which takes
            these settings if it has the same architecture.
        index: the engine to build a linker with. A linker folder has its own index, which takes these settings if it is of the same engine.
        name: name of the component in its pipeline.
        disambiguator: chooses which meaning a span has in its Doc, after its text alone found candidates; None does not look at the Doc.
        scorer: for `nlp.evaluate`.
        settings: see `Settings`.

    Raises:
        SapbertError: E001, E002, E104, a setting is wrong; E005, `attr_name` is taken; E006, `model`, `index` or `disambiguator` has a wrong type.

    Source:
        Liu et al., Self-Alignment Pretraining for Biomedical Entity Representations, NAACL 2021.
    """

    linker_name = Setting[Optional[str]]()
    encoder = Setting[Optional[str]]()
    resolve_abbreviations = Setting[bool]()
    k = Setting[int]()
    threshold = Setting[float]()
    new_words = Setting[bool]()
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
    rank = Setting[Optional[str]]()
    rerank = Setting[Optional[str]]()
    exact_match = Setting[bool]()
    candidates_batch_size = Setting[int]()
    cache_size = Setting[int]()
    verify = Setting[str]()
    language = Setting[str]()

    def __init__(
        self,
        model: object,
        index: VectorIndex,
        name: str = "sapbert_linker",
        *,
        disambiguator: Optional[Disambiguator] = None,
        scorer: Optional[Callable[..., Any]] = None,
        **settings: Any,
    ) -> None:
        self.name = name
        if not isinstance(index, VectorIndex):
            raise fail("E006", what="index", got=type(index).__name__, expected="VectorIndex")
        if not (disambiguator is None or isinstance(disambiguator, Disambiguator)):
            raise fail("E006", what="disambiguator", got=type(disambiguator).__name__, expected="Disambiguator, such as spacy-sapbert.Senses.v1")
        checked = Settings(**settings, component=name)
        check_linker_name(checked.linker_name)
        self._state = LinkerState(as_encoder(model), index, checked, name)
        self.disambiguator = disambiguator
        self.scorer = scorer
        set_extensions(checked.attr_name, name)

    # -- settings -------------------------------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """The settings. New ones take effect with the next Doc, if they fit the linker that is loaded.

        Raises:
            SapbertError: E002, `linker_name`, `encoder` or `verify` would change; see `CandidateSearch` for others.
        """
        return self._state.settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        with self._state.lock:
            self._state.check_fixed(settings)
            set_extensions(settings.attr_name, self.name)
            self._state.settings = settings

    def change_settings(self, **changes: Any) -> None:
        """Change some settings at once, and keep the others.

        Raises:
            SapbertError: see `settings`; then nothing is changed.
        """
        with self._state.lock:
            self.settings = replace(self.settings, component=self.name, **changes)

    @property
    def rules(self) -> Rules:
        """The settings that decide which concepts are kept."""
        return self.settings.rules

    # -- what is opened -------------------------------------------------------------------------------------------------

    @property
    def bundle(self) -> LinkerBundle:
        """The opened linker, loaded on first use. Assign another bundle to replace all its parts at once."""
        return self.search.bundle

    @bundle.setter
    def bundle(self, bundle: LinkerBundle) -> None:
        self._state.use(bundle)

    @property
    def search(self) -> CandidateSearch:
        """The search that finds concepts for mentions. Loaded on first use."""
        return self._state.search

    @property
    def model(self) -> Encoder:
        """The encoder in use; before anything is loaded, the configured one."""
        return self._state.encoder

    @property
    def index(self) -> VectorIndex:
        """The index in use; before anything is loaded, the configured one."""
        return self._state.index

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
        """The calibration; None if none was fit for this encoder and knowledge base. Loaded on first use."""
        return self.bundle.calibration

    @property
    def ranker(self) -> Optional[Ranker]:
        """The ranker; None if none was trained for this encoder. Loaded on first use."""
        return self.bundle.ranker

    @property
    def additions(self) -> Additions:
        """What `add_alias` and `add_concept` added, and what `remove_alias` and `add_stop_names` removed."""
        return Additions() if self._state.opened is None else self._state.opened.additions

    @property
    def folder(self) -> Optional[Path]:
        """The linker folder in use; None before anything is loaded."""
        return None if self._state.opened is None else self._state.opened.folder

    def load(self) -> None:
        """Load the linker that `linker_name` names, if none is loaded. The default one is built on its first use.

        Raises:
            SapbertError: E001, E010, E011, E1xx, E2xx, E3xx, see `LinkerBundle.open` and `CandidateSearch`.
        """
        _ = self.search

    def set_folder(self, folder: Union[str, Path], *, exclude: Iterable[str] = ()) -> None:
        """Use a linker folder from now on. If it is refused, the linker stays as it was.

        Args:
            folder: the linker folder.
            exclude: parts that are not read from it but kept: "kb", "model", "index".

        Raises:
            SapbertError: see `LinkerBundle.open` and `CandidateSearch`.
        """
        with self._state.lock:
            self._state.use(self._state.open(folder, exclude=exclude))

    # -- calling --------------------------------------------------------------------------------------------------------

    def search_with(self, **changes: Any) -> CandidateSearch:
        """Return a search that uses this linker with some settings changed, for `pipe`. The linker's own settings stay as they are.

        Args:
            changes: settings and their values.

        Raises:
            SapbertError: E002, a setting is wrong, or can't change because it decides what is opened; see `CandidateSearch` for others.
        """
        return self._state.search_with(**changes)

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128, search: Optional[CandidateSearch] = None) -> Iterator[Doc]:
        """Link a stream of Docs. Mentions are joined, encoded and searched across the Docs of a batch.

        An error in one Doc goes to spaCy's error handler; the other Docs of its batch are linked. If a server of the index does not answer,
        the whole batch goes to the error handler.

        Args:
            stream: the Docs.
            batch_size: number of Docs that are linked together.
            search: what `search_with` returned, to link these Docs with other settings:
                `nlp.pipe(texts, component_cfg={"sapbert_linker": {"search": search}})`. None is the linker's own search.
        """
        self.load()
        for docs in util.minibatch(stream, size=batch_size):  # type: ignore[no-untyped-call]
            try:
                predictions: Sequence[Optional[Prediction]] = self.predict(docs, search)
            except ServerError as error:  # no Doc is at fault, and each of them would wait for the server again
                self.get_error_handler()(self.name, self, docs, error)
                continue
            except Exception:  # one Doc has an error: predict one by one
                predictions = [None] * len(docs)
            for doc, prediction in zip(docs, predictions):
                try:
                    self.set_annotations([doc], self.predict([doc], search) if prediction is None else [prediction])
                except Exception as error:
                    self.get_error_handler()(self.name, self, [doc], error)
                else:
                    yield doc

    def predict(self, docs: Iterable[Doc], search: Optional[CandidateSearch] = None) -> list[Prediction]:
        """Return what each span of each Doc is linked to, with a search of `search_with` or the linker's own. The Docs are not changed."""
        search = self.search if search is None else search
        gathered: list[tuple[Spans, list[Mention]]] = []
        queries: list[Query] = []
        for doc in docs:
            spans, mentions = get_mentions(doc, search.settings, search.bundle.kb)
            gathered.append((spans, mentions))
            queries.extend(query_of(mention, span, search.settings) for mention, (_, _, span) in zip(mentions, spans))
        found = iter(search.find(queries))
        predictions = [
            Prediction(
                spans,
                mentions,
                [search.of_kind(self._as_written(search, *each, next(found)), each[0][2].label_) for each in zip(spans, mentions)],
                search.settings,
            )
            for spans, mentions in gathered
        ]
        return predictions if self.disambiguator is None else [self._in_context(search, each) for each in predictions]

    def _as_written(self, search: CandidateSearch, place: tuple[Any, int, Any], mention: Mention, found: Found) -> Found:
        """Remove concepts whose only matching name is an acronym, if the span is not written as an acronym."""
        if not search.settings.english or not is_short_word(mention.text):
            return found
        span = place[2]
        capitals = mention.text.isupper() and mention.text == span.text and _among_capitals(span)
        return as_written(search, mention.text, search.settings.types_of(span.label_), found, capitals=capitals)

    def _in_context(self, search: CandidateSearch, prediction: Prediction) -> Prediction:
        """Return the prediction of a Doc with the meanings that the disambiguator chose in its context."""
        assert self.disambiguator is not None
        spans, mentions, found, settings = prediction
        given = [
            Candidates(span, mention.text, search.meanings(answer), bool(answer.explain["exact"]), answer.linked)
            for (_, _, span), mention, (answer, _) in zip(spans, mentions, found)
        ]
        choices = self.disambiguator.choose(given, search.bundle.kb, search.bundle.senses)
        decided = [
            each if choice is None else Found(search.decided(each.answer, choice, settings.types_of(span.label_), mention.text), each.cached)
            for each, choice, (_, _, span), mention in zip(found, choices, spans, mentions)
        ]
        return Prediction(spans, mentions, decided, settings)

    def find(self, queries: Sequence[Query]) -> list[Found]:
        """Return what is found for each query (mention, semantic types or None)."""
        return self.search.find(queries)

    def forget(self) -> None:
        """Empty the cache of answers.

        The last bits of a vector depend on the batch that it was encoded in. With an empty cache, answers depend only on the Docs that follow.
        """
        if self._state.opened is not None:
            self.search.forget()

    def set_annotations(self, docs: Iterable[Doc], predictions: Sequence[Prediction]) -> None:
        """Write `token.ent_kb_id_` (or the `kb_id` of a group's spans), candidates, codes, explanation and probability into the Docs."""
        for doc, prediction in zip(docs, predictions):
            settings = prediction.settings
            links = [_link(mention, found, settings.nil) for mention, found in zip(prediction.mentions, prediction.found)]
            write_links(doc, prediction.spans, links, settings.attr_name, settings.overwrite)

    def candidate_generator(self, mention_texts: list[str], k: int) -> list[list[MentionCandidate]]:
        """Return candidates for plain texts, best first. This is scispaCy's `candidate_generator`, which returns them in the order of their ids."""
        return self.search.nearest(mention_texts, k)

    # -- additions ------------------------------------------------------------------------------------------------------

    def add_alias(self, concept_id: str, *names: str) -> None:
        """Add names to a concept of the knowledge base: add_alias("MESH:D003924", "sugar"). They are used from the next Doc on.

        `to_disk` saves them; `nlp.initialize` reads the linker folder again, and names that were not saved are lost. If a name also belongs
        to other concepts, this concept comes first.

        Args:
            concept_id: its identifier, or a code; a code of several concepts means the best of them.
            names: the new names.

        Raises:
            SapbertError: E002, no name is given; E022, there is no such concept; E024, a name is empty, too long or has no letter or digit. Then
                nothing is added.
        """
        if not names:
            why = f"no name was given for '{concept_id}'. Give at least one: add_alias('{concept_id}', 'name')."
            raise fail("E002", setting="names", component=self.name, value=[], why=why)
        with self._state.lock:
            kb = self.kb
            known = kb.concept_id(kb.row_of(concept_id)) if concept_id in kb else concept_id
            self._use_additions(self.bundle.additions.with_names(known, names, self._language))

    def add_concept(
        self,
        concept_id: str,
        names: Union[str, Iterable[str]],
        *,
        types: Iterable[str] = (),
        definition: Optional[str] = None,
        codes: Iterable[tuple[str, str]] = (),
    ) -> None:
        """Add a concept that the knowledge base does not have. It is used from the next Doc on; `to_disk` saves it.

        Args:
            concept_id: its identifier.
            names: its names, the canonical one first.
            types: semantic types (TUIs), groups or names.
            definition: its definition, as a text.
            codes: (vocabulary, code).

        Raises:
            SapbertError: E002, there is no identifier or name, or the definition is not a text; E024, a name is empty, too long or has no letter or
                digit; E025, the knowledge base already has the concept; E104, a type is not known. Then nothing is added.
        """
        given = [names] if isinstance(names, str) else list(names)
        with self._state.lock:
            if concept_id in self.kb:
                raise fail("E025", id=concept_id, name=self.kb.cui_to_entity[concept_id].canonical_name)
            about: dict[str, Any] = {"types": types, "definition": definition, "codes": codes, "component": self.name}
            self._use_additions(self.bundle.additions.with_concept(concept_id, given, self._language, **about))

    def remove_alias(self, concept_id: str, *names: str) -> None:
        """Remove names from a concept: remove_alias("C0011849", "sugar"). From the next Doc on, a mention with this text is not linked to it.

        It is not linked to the concept by a similar name or by its context, either. Other concepts with the name keep it. A name also stands for its
        English singular and plural; upper and lower case are the same. Names of the knowledge base and names that `add_alias` added can be removed.
        The concept is still shown with its canonical name, even if this name was removed. A concept of `add_concept` that loses its last name is
        removed. `add_alias` adds a name again. `to_disk` saves removed names beside the linker's files, which stay as they are.

        Args:
            concept_id: its identifier, or a code; a code of several concepts means the best of them.
            names: the names.

        Raises:
            SapbertError: E002, no name is given; E024, a name is empty, too long or has no letter or digit; E031, there is no such concept; E032, the
                concept does not have a name. Then nothing is removed.
        """
        if not names:
            why = f"no name was given for '{concept_id}'. Give at least one: remove_alias('{concept_id}', 'name')."
            raise fail("E002", setting="names", component=self.name, value=[], why=why)
        with self._state.lock:
            kb = self.kb
            if concept_id not in kb:
                raise fail("E031", id=concept_id, why=kb.why_unknown(concept_id))
            row = kb.row_of(concept_id)
            known = {same_name(name.text, name.language): name.text for name in kb.names_of(row)}
            for name in check_names(names, self._language, MAX_NAME_CHARS):
                if same_name(name, self._language) not in known:
                    shown = ", ".join(list(dict.fromkeys(known.values()))[:NAMES_SHOWN])
                    raise fail("E032", id=kb.concept_id(row), name=name[:60], known=shown)
            self._use_additions(self.bundle.additions.without_names(kb.concept_id(row), names, self._language))

    def add_stop_names(self, *names: str) -> None:
        """Link no mention with one of these texts to any concept from now on, and do not look for them in text. `to_disk` saves them.

        A name also stands for its English singular and plural; upper and lower case are the same. A name that `add_alias` adds to a concept later is
        linked to this concept only.

        Args:
            names: the names. No concept need have them.

        Raises:
            SapbertError: E002, no name is given; E024, a name is empty, too long or has no letter or digit. Then nothing is changed.
        """
        if not names:
            raise fail("E002", setting="names", component=self.name, value=[], why="no name was given. Give at least one: add_stop_names('name').")
        with self._state.lock:
            self._use_additions(self.bundle.additions.without_names(None, names, self._language))

    def remove_stop_names(self, *names: str) -> None:
        """Link mentions with these texts again, see `add_stop_names`. Added names that were lost then do not come back.

        Args:
            names: the names.

        Raises:
            SapbertError: E002, no name is given; E024, a name is empty, too long or has no letter or digit; E033, a name is not on the stop list. Then
                nothing is changed.
        """
        if not names:
            why = "no name was given. Give at least one: remove_stop_names('name')."
            raise fail("E002", setting="names", component=self.name, value=[], why=why)
        with self._state.lock:
            additions = self.bundle.additions
            stopped = {same_name(each.text, each.language): each.text for each in additions.removed if each.concept_id is None}
            for name in check_names(names, self._language, MAX_NAME_CHARS):
                if same_name(name, self._language) not in stopped:
                    raise fail("E033", name=name[:60], known=", ".join(list(stopped.values())[:NAMES_SHOWN]) or "nothing")
            self._use_additions(additions.without_stop_names(names, self._language))

    @property
    def _language(self) -> str:
        """Language of the names that are added and removed."""
        return "en" if self.settings.english else self.settings.language

    def _use_additions(self, additions: Additions) -> None:
        self.bundle = self.bundle.with_additions(additions)

    def export_additions(self, path: Union[str, Path]) -> int:
        """Write the additions as a table that `kb build` reads beside other sources.

        The table also holds the other names of these concepts, so that a training gets pairs of an added name and an old one.

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

        `to_disk` saves it; `nlp.initialize` reads the linker folder again, and a calibration that was not saved is lost.

        Args:
            docs: annotated Docs. Their spans (`spans_key`, or the entities) have the gold concept's id as `kb_id_`, with `|` between alternatives,
                and "NIL" if the knowledge base has none. For an Example, its reference Doc is read.
            fit_on: a description of the data, in words; it is saved in the file and shown.

        Returns:
            The calibration. Warns W005 for gold ids that the knowledge base does not have.

        Raises:
            SapbertError: E011, `target_precision` or `coverage` can't be reached; E012, too few mentions;
                E014, no annotated span; E016, no gold id is known.
        """
        annotated = list(docs)  # read before the lock is taken, because making the Docs may use this linker in another thread
        with self._state.lock:
            self.bundle = bundle = calibrated(self._state.without_targets(), annotated, fit_on)
        assert bundle.calibration is not None
        return bundle.calibration

    def train_ranker(self, docs: Iterable[Union[Doc, Example]], *, fit_on: str) -> Ranker:
        """Train a ranker for this linker, and use it from now on. A calibration that was fit before is removed: fit it again.

        Args:
            docs: annotated Docs, see `calibrate`.
            fit_on: a description of the data, in words; it is saved in the file.

        Returns:
            The ranker. Warns W005 for gold ids that the knowledge base does not have.

        Raises:
            SapbertError: E002, `rank` is "cosine"; E010, `target_precision` or `coverage` is set; E014, no annotated span; E016, no gold id is
                known; E047, too few mentions; E051, the encoder has no fingerprint.
        """
        annotated = list(docs)
        if self.settings.rank == COSINE:
            raise fail("E002", setting="rank", component=self.name, value=COSINE, why="with this value no ranker is used. Leave `rank` out.")
        with self._state.lock:
            self.bundle = bundle = ranked(self._state.without_targets(rank=None), [annotated], fit_on)
        assert bundle.ranker is not None
        return bundle.ranker

    def set_targets(self, *, target_precision: Optional[float] = None, coverage: Optional[float] = None) -> None:
        """Set both targets of this linker. `nlp.to_disk` does not save them: it saves the pipeline's config, so put them there to keep them.

        Args:
            target_precision: share of links that should be right, 0 to 1, see `Settings`; None for no target.
            coverage: share of mentions, 0 to 1, see `Settings`; None for no target.

        Raises:
            SapbertError: E002, E010, E011; then nothing is changed.
        """
        settings = replace(self.settings, component=self.name, target_precision=target_precision, coverage=coverage)
        with self._state.lock:
            self._state.use(self._state.without_targets().bundle, settings)

    def observe(self, docs: Iterable[Union[Doc, Example]]) -> list[Observed]:
        """Return the observations that `calibrate` fits on, in the order of the mentions. Spans without a `kb_id` are left out."""
        return observe(self._state.without_targets(), docs)

    # -- training surface -----------------------------------------------------------------------------------------------

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """Return the scores that the scorer computes, such as nel_micro_p, _r and _f. Only entities with gold boundaries count."""
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
        """Read or build knowledge base, encoder and index.

        Args:
            get_examples: not used.
            nlp: not used.
            kb_loader: made by `spacy-sapbert.Folder.v1` or `spacy-sapbert.Sources.v1`; None reads the linker that `linker_name` names.
        """
        if kb_loader is None:
            self.set_folder(self._state.named_folder())
        elif callable(kb_loader):
            self.set_folder(kb_loader(*self._state.asked()))
        else:
            raise fail("E006", what="kb_loader", got=type(kb_loader).__name__, expected="function, such as spacy-sapbert.Folder.v1 makes")

    # -- files ----------------------------------------------------------------------------------------------------------

    def to_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> None:
        """Save the linker's files, so that the pipeline's folder is complete; see `LinkerBundle.save`.

        Args:
            path: the component's folder.
            exclude: parts that are not written: "kb", "model", "index". Parts that were saved there before stay.

        Raises:
            SapbertError: E008, the disk is full; then the old folder is unchanged.
        """
        self.bundle.save(Path(path) / LINKER_FOLDER, exclude=exclude)

    def from_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> "SapBertLinker":
        """Use the linker that `to_disk` wrote.

        Args:
            path: the component's folder.
            exclude: parts that are not read from it but kept: "kb", "model", "index".

        Raises:
            SapbertError: E1xx, E2xx, E3xx, files are missing, damaged or do not belong together.
        """
        self.set_folder(Path(path) / LINKER_FOLDER, exclude=exclude)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return all files of the linker as bytes. For UMLS these are gigabytes, so `to_disk` is better."""
        with tempfile.TemporaryDirectory() as folder:
            self.to_disk(folder, exclude=exclude)
            data: bytes = srsly.msgpack_dumps(folder_to_bytes(Path(folder)))
            return data

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "SapBertLinker":
        """Use the linker that `to_bytes` returned. Its files stay in a temporary folder as long as they are used."""
        temporary = tempfile.TemporaryDirectory(prefix="spacy-sapbert-")
        folder_from_bytes(srsly.msgpack_loads(bytes_data), Path(temporary.name))
        with self._state.lock:
            self.bundle = self._state.open(Path(temporary.name) / LINKER_FOLDER, exclude=exclude, temporary=temporary)
        return self

    # Pipe is a C class, and its own __reduce__ copies only __dict__
    def __reduce__(self) -> Any:
        return copyreg.__newobj__, (type(self),), self.__getstate__()  # type: ignore[attr-defined]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "name": self.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.name = state.pop("name")
        self.__dict__.update(state)
        set_extensions(self.settings.attr_name, self.name)


def _among_capitals(span: Any) -> bool:
    """Return whether the text around a span is written in capitals. Only the tokens near it are read, because `doc.text` joins all tokens."""
    around = span.doc[max(0, span.start - TOKENS_AROUND) : min(len(span.doc), span.end + TOKENS_AROUND)]
    return in_capitals(around.text, span.start_char - around.start_char, span.end_char - around.start_char)


def _link(mention: Mention, found: Found, nil: str) -> Link:
    """Return what is written on a span. Lists are copied, because a user may change them and other spans share the answer."""
    answer, cached = found
    explain: dict[str, Any] = {"mention": mention.text, "long_form": mention.long_form, "cached": cached, **answer.explain}
    for key in LISTS:
        if (value := explain.get(key)) is not None:
            explain[key] = list(value)
    codes = {vocabulary: list(codes) for vocabulary, codes in answer.codes.items()}
    return Link(answer.candidates[0][0] if answer.linked else nil, list(answer.candidates), codes, explain, answer.probability)
