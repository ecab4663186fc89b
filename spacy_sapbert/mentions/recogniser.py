"""The component `clinical_mentions`: it finds problems, drugs, tests, treatments and anatomy with a trained network, even if no dictionary has them.

It runs on a CPU, needs no sentence boundaries, and reads only tokens. The labels of its spans are semantic groups of UMLS, as with
`concept_matcher`.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Dict, FrozenSet, List, Optional, Union

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from ..doc.component import DocComponent
from ..doc.spans import set_spans
from ..errors import fail
from .labels import GROUP_OF, KINDS

FOLDER = "model"  # name of a folder in a saved component


@Language.factory(
    "clinical_mentions",
    assigns=["doc.ents", "token.ent_iob", "token.ent_type"],
    default_config={
        "model": None,
        "kinds": None,
        "label": "group",
        "spans_key": None,
        "overwrite": False,
        "threshold": 0.0,
        "scorer": {"@scorers": "spacy.ner_scorer.v1"},
    },
    default_score_weights={"ents_f": 1.0, "ents_p": 0.0, "ents_r": 0.0, "ents_per_type": None},
)
def make_clinical_mentions(
    nlp: Language,
    name: str,
    model: Optional[str],
    kinds: Optional[List[str]],
    label: str,
    spans_key: Optional[str],
    overwrite: bool,
    threshold: float,
    scorer: Optional[Callable[..., Any]],
) -> "ClinicalMentions":
    """Create the component, see `ClinicalMentions`. Nothing is read from disk yet."""
    return ClinicalMentions(
        nlp, name, model=model, kinds=kinds, label=label, spans_key=spans_key, overwrite=overwrite, threshold=threshold, scorer=scorer
    )


class ClinicalMentions(DocComponent):
    """Find mentions with a trained recogniser, and set `doc.ents` or a span group to them.

    Args:
        nlp: The pipeline.
        name: Name of the component in the pipeline.
        model: Folder of a recogniser that `python -m training recogniser` wrote; None: the one that comes with this package.
        kinds: Kinds of mentions to find: problem, drug, test, treatment, anatomy; None for all.
        label: "group": the semantic group (problem is DISO, drug CHEM, test and treatment PROC, anatomy ANAT); "kind": the kind itself.
        spans_key: A span group; None for `doc.ents`. The group's attribute `scores` holds the scores of the spans.
        overwrite: With `doc.ents`: True: mentions replace entities that overlap them; False: those entities stay.
        threshold: Mentions with a lower score are left out, 0 to 1; 0: all are kept.
        scorer: spaCy's scorer of entities.

    Raises:
        SapbertError: E002, a setting is wrong.
    """

    def __init__(
        self,
        nlp: Language,
        name: str = "clinical_mentions",
        *,
        model: Optional[str] = None,
        kinds: Optional[List[str]] = None,
        label: str = "group",
        spans_key: Optional[str] = None,
        overwrite: bool = False,
        threshold: float = 0.0,
        scorer: Optional[Callable[..., Any]] = None,
    ) -> None:
        chosen = [kinds] if isinstance(kinds, str) else kinds
        if unknown := sorted(set(chosen or ()) - set(KINDS)):
            raise fail("E002", setting="kinds", component=name, value=", ".join(unknown), why=f"it must be of {', '.join(KINDS)}.")
        if label not in ("group", "kind"):
            raise fail("E002", setting="label", component=name, value=label, why='it must be "group" or "kind".')
        if not 0 <= threshold <= 1:
            raise fail("E002", setting="threshold", component=name, value=threshold, why="it must be from 0 to 1.")
        self.nlp, self.name, self.scorer = nlp, name, scorer
        self.model_name, self.label, self.spans_key, self.overwrite, self.threshold = model, label, spans_key, overwrite, threshold
        self.kinds: FrozenSet[str] = frozenset(KINDS if chosen is None else chosen)
        self._model: Optional[Any] = None

    @property
    def recogniser(self) -> Any:
        """The `MentionModel`; it is read on first use. It is not named `model`, because spaCy reads that attribute when a component is added."""
        self.load()
        return self._model

    def load(self) -> None:
        """Read the recogniser, if it has not been read yet.

        Raises:
            SapbertError: E040, the recogniser is missing or damaged.
        """
        if self._model is None:
            from .model import SHIPPED, MentionModel

            self._model = MentionModel.from_disk(self.model_name or SHIPPED)

    # -- calling --------------------------------------------------------------------------------------------------------

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 64) -> Iterator[Doc]:
        """Find mentions in a stream of Docs, a batch at a time. If a batch fails, its Docs are tried one by one."""
        self.load()
        stream = iter(stream)
        while docs := list(islice(stream, batch_size)):
            try:
                self.set_annotations(docs, self.predict(docs))
            except Exception:
                yield from filter(self._annotate, docs)
            else:
                yield from docs

    def predict(self, docs: Iterable[Doc]) -> List[List["tuple[Span, float]"]]:
        """Return the mentions of each Doc, from left to right, without overlap, each with its score.

        A score is the geometric mean of the probabilities of the mention's tags. It is 1 if neither `threshold` nor `spans_key` is set.
        """
        docs = list(docs)
        found = []
        for doc, mentions in zip(docs, self.recogniser.find(docs, scores=self.threshold > 0 or self.spans_key is not None)):
            kept = [m for m in mentions if m.kind in self.kinds and m.score >= self.threshold]
            found.append([(Span(doc, m.start, m.end, label=GROUP_OF[m.kind] if self.label == "group" else m.kind), m.score) for m in kept])
        return found

    def set_annotations(self, docs: Iterable[Doc], predictions: List[List["tuple[Span, float]"]]) -> None:
        """Write the mentions that were found into the Docs."""
        for doc, scored in zip(docs, predictions):
            spans = [span for span, _ in scored]
            if self.spans_key is not None:
                set_spans(doc, self.spans_key, spans)
                doc.spans[self.spans_key].attrs["scores"] = [score for _, score in scored]
                continue
            first, second = (spans, list(doc.ents)) if self.overwrite else (list(doc.ents), spans)
            taken = {token.i for span in first for token in span}
            set_spans(doc, None, filter_spans([*first, *(span for span in second if not any(t.i in taken for t in span))]))

    def score(self, examples: Iterable[Any], **kwargs: Any) -> Dict[str, Any]:
        """Score annotated Docs with the scorer of the settings."""
        return dict(self.scorer(examples, **kwargs)) if self.scorer else {}

    # -- files ----------------------------------------------------------------------------------------------------------

    def to_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> None:
        """Write the recogniser, so that a saved pipeline needs no other file."""
        self.recogniser.to_disk(Path(path) / FOLDER)

    def from_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> "ClinicalMentions":
        """Read what `to_disk` wrote.

        Raises:
            SapbertError: E040, E030: the folder is missing or damaged.
        """
        from .model import MentionModel

        self._model = MentionModel.from_disk(Path(path) / FOLDER)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return what `to_disk` writes as bytes."""
        import srsly

        return bytes(srsly.msgpack_dumps(self.recogniser.to_dict()))

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "ClinicalMentions":
        """Read what `to_bytes` returned.

        Raises:
            SapbertError: E040, E030: the bytes cannot be read.
        """
        from .model import from_bytes

        self._model = from_bytes(bytes_data)
        return self
