"""The settings of `sapbert_linker`, each with its type, its default and its meaning. They are defined only here."""

import inspect  # no `from __future__ import annotations`: spaCy reads the types of registered functions
from collections.abc import Callable
from dataclasses import InitVar, dataclass, fields
from functools import cached_property
from typing import Any, Dict, Generic, List, Optional, Tuple, TypeVar, Union, overload

from .candidates import Rules
from .doc.spans import SpansKey
from .errors import fail
from .kb import semantic_types
from .kb.concept import ENGLISH

LEARNED, COSINE = "learned", "cosine"  # values of `rank`
NAMES, CROSS_ENCODER, CONTEXT = "names", "cross_encoder", "context"  # values of `rerank`
READING = (CROSS_ENCODER, CONTEXT)  # those that need the cross-encoder
SAMPLED, FULL = "sampled", "full"  # values of `verify`
FAST = "fast"  # the static encoder that comes with this package
PAIRED = "paired"  # both encoders that come with this package, as one
SHOWN_ITEMS = 5  # most items of a list in a message
Names = Union[List[str], Tuple[str, ...]]  # given as a list, kept as a tuple, because a list could be changed later without a check
Types = Union[None, str, Names, Dict[str, Names]]  # a text is one type
Filter = Optional[frozenset[str]]  # semantic types (TUIs) that may be found; None is all
Factory = TypeVar("Factory", bound=Callable[..., Any])
Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of `sapbert_linker`, checked.

    Args:
        linker_name: a registered linker or a linker folder; None is "open".
        encoder: "fast" for the static encoder that comes with this package, instead of `model`; None is `model`.
        resolve_abbreviations: look up the long form of an abbreviation that the text defines, or that scispaCy's `abbreviation_detector` found.
        k: number of names that are fetched for each mention.
        threshold: a concept's score (cosine, -1 to 1; 1.0 for an exact match) must be above this to be linked.
        new_words: allow links to a name with words that the mention does not have ("renal function" to "loss of renal function"). False is
            better for the mentions of a recogniser, which often mean no concept.
        no_definition_threshold: with `filter_for_definitions`, the score that a concept without a definition must reach.
        filter_for_definitions: require a higher score of concepts without a definition, see `no_definition_threshold`.
        max_entities_per_mention: number of candidates that are kept for each mention.
        target_precision: 0 to 1; link only if the link is probable enough by the linker's calibration, so that this share of links is right;
            replaces `threshold`.
        coverage: 0 to 1; give as many candidates as are needed so that this share of mentions has the right concept among them; replaces
            `max_entities_per_mention`.
        spans_key: the span group or groups to link; None is `doc.ents`.
        attr_name: attribute of a span for its candidates; "x_ents" also makes `x_codes`, `x_explain` and `x_prob`.
        labels_discard: spans with these labels are left alone.
        overwrite: replace a `kb_id` that a span already has.
        nil: the `kb_id` of a mention without a link: "" or "NIL".
        types: semantic types, groups ("DISO") or names that may be found, or a map from entity label to those; None is all.
        vocabularies: find concepts with a name or a code in one of these vocabularies; None is all.
        languages: search names in these languages only ("en"); None is all that the knowledge base has.
        rank: how candidates are ordered: "learned" by the linker's ranker, "cosine" by their scores alone; None is "learned" if the linker has a
            ranker.
        rerank: reranks close calls. "cross_encoder": a transformer reads the mention and the names of each candidate together; needs the default, the fast or
            the paired encoder. "context": it also reads the text around the mention and the definitions. "names": the first ten candidates are compared
            by up to fifty of their names, also by the fast encoder; for a linker with the default encoder and without a ranker. None does not rerank.
        exact_match: give a mention that equals a name the score 1.0, without encoding it.
        candidates_batch_size: number of mentions that are encoded and searched at once.
        cache_size: number of mentions whose answers are cached; 0 is none. `concept_matcher` in the same pipeline caches at most as many words.
        verify: how the linker's files are checked when they are opened: "sampled" hashes files up to 64 MiB completely and samples of larger ones,
            "full" hashes every byte and checks every page, node and value.
        language: spaCy's code of the texts' language; the factory takes the pipeline's. Lower case and the rules of abbreviations depend on it.
        component: name of the component, for messages.

    Raises:
        SapbertError: E002, a setting has a wrong value; E104, a semantic type is not known.

    Source:
        threshold: with the linker `hpo`, an earlier encoder and no ranker, 84% of the links above 0.8 were right on GSC+ dev, 87% on GSC+ test.
        coverage: conformal prediction, see `Calibration.score_gap`.
        exact_match: the dictionary back-off of SapBERT (Liu et al., NAACL 2021).
    """

    linker_name: Optional[str] = None
    encoder: Optional[str] = None
    resolve_abbreviations: bool = True
    k: int = 30
    threshold: float = 0.8
    new_words: bool = True
    no_definition_threshold: float = 0.95
    filter_for_definitions: bool = False
    max_entities_per_mention: int = 5
    target_precision: Optional[float] = None
    coverage: Optional[float] = None
    spans_key: SpansKey = None
    attr_name: str = "kb_ents"
    labels_discard: Names = ()
    overwrite: bool = True
    nil: str = ""
    types: Types = None
    vocabularies: Optional[Names] = None
    languages: Optional[Names] = None
    rank: Optional[str] = None
    rerank: Optional[str] = None
    exact_match: bool = True
    candidates_batch_size: int = 4096
    cache_size: int = 100_000
    verify: str = SAMPLED
    language: str = ""
    component: InitVar[str] = "sapbert_linker"

    def __post_init__(self, component: str) -> None:
        def require(setting: str, condition: bool, why: str) -> None:
            if not condition:
                raise fail("E002", setting=setting, component=component, value=getattr(self, setting), why=why)

        if isinstance(self.types, str):
            object.__setattr__(self, "types", (self.types,))
        for setting in ("spans_key", "labels_discard", "types", "vocabularies", "languages"):
            value = getattr(self, setting)
            require(setting, setting == "spans_key" or not isinstance(value, str), "it must be a list of texts.")
            object.__setattr__(self, setting, _without_lists(value))
        for setting, least in (("k", 1), ("max_entities_per_mention", 1), ("candidates_batch_size", 1), ("cache_size", 0)):
            number = getattr(self, setting)
            require(setting, isinstance(number, int), "it must be a whole number.")  # spaCy accepts "30" for 30
            require(setting, number >= least, f"it must be at least {least}.")
        for setting in ("threshold", "no_definition_threshold"):
            number = getattr(self, setting)
            require(setting, isinstance(number, (int, float)) and -1.0 <= number <= 1.0, "it must be a cosine, between -1 and 1.")
        for setting in ("target_precision", "coverage"):
            share = getattr(self, setting)
            fits = share is None or (isinstance(share, (int, float)) and 0.0 < share < 1.0)
            require(setting, fits, "it must be a share, between 0 and 1, or null.")
        require("rank", self.rank in (None, LEARNED, COSINE), f"it must be '{LEARNED}', '{COSINE}', or null.")
        require("rerank", self.rerank in (None, NAMES, *READING), f"it must be '{NAMES}', '{CROSS_ENCODER}', '{CONTEXT}', or null.")
        require("verify", self.verify in (SAMPLED, FULL), f"it must be '{SAMPLED}' or '{FULL}'.")
        require("nil", self.nil in ("", "NIL"), "it must be '' or 'NIL'.")
        require("attr_name", self.attr_name.isidentifier(), "it must be a Python name.")
        require("spans_key", self.spans_key is None or bool(self.spans_key), "name a span group, or null for doc.ents.")
        lists = list(self.types.values()) if isinstance(self.types, dict) else [] if self.types is None else [self.types]
        require("types", all(lists), "nothing could be linked. Name semantic types, or null for all; see also labels_discard.")
        require("vocabularies", self.vocabularies is None or bool(self.vocabularies), "name vocabularies, or null for all.")
        require("languages", self.languages is None or bool(self.languages), "name languages, or null for all.")
        contradicts = self.filter_for_definitions and self.no_definition_threshold < self.threshold
        why = f"it contradicts threshold={self.threshold}: concepts without a definition would need a lower score than others. Raise it."
        require("no_definition_threshold", not contradicts, why)
        require("encoder", self.encoder in (None, FAST), f"it must be '{FAST}', or null for what `model` says.")
        require("encoder", self.encoder is None or self.linker_name != "hpo", "linker 'hpo' has the default one. Leave linker_name out.")
        _ = self.types_of_labels  # an unknown type is refused now

    @cached_property
    def rules(self) -> Rules:
        """The settings that decide which concepts are kept."""
        return Rules(self.threshold, self.max_entities_per_mention, self.filter_for_definitions, self.no_definition_threshold)

    @cached_property
    def types_of_labels(self) -> Dict[str, frozenset[str]]:
        """Entity label -> semantic types; "" is for all other labels."""
        by_label = self.types if isinstance(self.types, dict) else {} if self.types is None else {"": self.types}
        return {label: semantic_types.expand(wanted) for label, wanted in by_label.items()}

    @property
    def english(self) -> bool:
        """Whether the rules of English apply to the texts."""
        return self.language in ENGLISH

    def types_of(self, label: str) -> Filter:
        """Return the semantic types that a span of this label may be linked to."""
        return self.types_of_labels.get(label, self.types_of_labels.get(""))

    def scores_depend_on(self) -> Dict[str, Any]:
        """Return the settings that scores depend on, in the form that a calibration stores."""
        definitions: Dict[str, Any] = {"filter_for_definitions": self.filter_for_definitions}
        if self.filter_for_definitions:
            definitions["no_definition_threshold"] = self.no_definition_threshold
        return {
            "k": self.k,
            "exact_match": self.exact_match,
            "rank": COSINE if self.rank == COSINE else LEARNED,
            "resolve_abbreviations": self.resolve_abbreviations,
            **({} if self.rerank is None else {"rerank": self.rerank}),
            **definitions,
            "types": {label: sorted(tuis) for label, tuis in self.types_of_labels.items()} or None,
            "vocabularies": None if self.vocabularies is None else list(self.vocabularies),
            "languages": None if self.languages is None else list(self.languages),
        }


def shown_setting(value: Any) -> str:
    """Return a value of `Settings.scores_depend_on` for a message. Of a list, the first items and their number are shown."""
    if isinstance(value, dict):
        return "; ".join(f"{label}: {shown_setting(values)}" if label else shown_setting(values) for label, values in value.items())
    if isinstance(value, (list, tuple)):
        more = f", … ({len(value)} in all)" if len(value) > SHOWN_ITEMS else ""
        return ", ".join(map(str, value[:SHOWN_ITEMS])) + more
    return repr(value)


def default_config() -> Dict[str, Any]:
    """Return the settings of the component's config with their defaults. `language` is the pipeline's."""
    defaults = Settings()
    values = {setting.name: getattr(defaults, setting.name) for setting in fields(Settings) if setting.name != "language"}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _without_lists(value: Any) -> Any:
    """Return a value with tuples instead of lists and iterators. Texts and None stay as they are."""
    if value is None or isinstance(value, str):
        return value
    return {key: _without_lists(each) for key, each in value.items()} if isinstance(value, dict) else tuple(value)


def takes_settings(factory: Factory) -> Factory:
    """Give a factory with `**settings` the parameters of `Settings`: spaCy checks a config by the names and types in the signature."""
    signature = inspect.signature(factory)
    own = [parameter for parameter in signature.parameters.values() if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
    types = {setting.name: setting.type for setting in fields(Settings)}
    more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=types[name]) for name in default_config()]
    factory.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
    return factory


class Setting(Generic[Value]):
    """A setting that is an attribute of a component with `settings` and `change_settings`."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, component: None, owner: type) -> "Setting[Value]": ...
    @overload
    def __get__(self, component: object, owner: type) -> Value: ...
    def __get__(self, component: Any, owner: type) -> Any:
        return self if component is None else getattr(component.settings, self._name)

    def __set__(self, component: Any, value: Value) -> None:
        component.change_settings(**{self._name: value})
