"""The component `clinical_status`: it says of each mention whether it is negated, uncertain, hypothetical, historical or of the family."""

import re
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple, Union

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example

from ..doc.component import DocComponent
from ..doc.spans import corrected_text, extension_key
from ..errors import MissingFile, fail
from ..files import writing_folder
from ..kb.knowledge_base import KnowledgeBase
from ..kb.semantic_types import groups, groups_of
from .rules import Rules
from .triggers import DRUG, FINDING, OTHER, PROCEDURE, SHIPPED

FILE = "status_rules.tsv"
# labels of spans that are not findings: groups of semantic types (CONC: "fish oil"), and usual labels of other recognisers
KINDS = {
    **dict.fromkeys(["CHEM", "CONC", "CHEMICAL", "DRUG", "MEDICATION", "TREATMENT"], DRUG),
    **dict.fromkeys(["PROC", "DEVI", "ACTI", "PROCEDURE", "TEST", "DEVICE"], PROCEDURE),
}
STATED = 60  # characters after a mention in which the rest of its statement may stand: "liver" in "liver and spleen are not enlarged"
NO_PROBLEM = frozenset(["ANAT", "GEOG", "OBJC", "OCCU", "ORGA", "PHYS"])  # labels of spans that are findings for most rules, but no problems
PROBLEM = "DISO"
MOST_GROUPS = 20_000  # concepts whose groups are kept
_DENIALS = frozenset(["no", "not", "never", "without"])  # words of a name that is a denial: "does not use tobacco"
ANATOMY = "ANAT"  # a part of the body is neither absent nor a diagnosis: in "no abdominal pain", the pain is negated


@Language.factory(
    "clinical_status",
    assigns=["span._.assertion"],
    default_config={"attr_name": "assertion", "rules": None},
)
def make_clinical_status(nlp: Language, name: str, attr_name: str, rules: Optional[str]) -> "ClinicalStatus":
    """Create the component, see `ClinicalStatus`. Nothing is read from disk yet."""
    return ClinicalStatus(nlp, name, attr_name=attr_name, rules=rules)


class ClinicalStatus(DocComponent):
    """Set `span._.assertion` of all entities and of the spans of all groups: a dict of five booleans.

    Its keys are `negated`, `uncertain`, `hypothetical`, `historical` and `family`. Spans with the same offsets share the dict. Parts of the body
    (label ANAT) have no status, unless another span has the same offsets: all five are False. Sentence boundaries are not needed; if the Doc has
    some, no scope crosses them.

    Args:
        nlp: the pipeline.
        name: name of the component in the pipeline.
        attr_name: name of the Span extension.
        rules: file of rules, in the format of data/status_rules.tsv; None: the rules of this package.

    Raises:
        SapbertError: E005, the extension exists with other settings; E002, `attr_name` is not a valid Python name.
    """

    def __init__(self, nlp: Language, name: str = "clinical_status", *, attr_name: str = "assertion", rules: Optional[str] = None) -> None:
        self.nlp, self.name, self.attr_name = nlp, name, attr_name
        if not attr_name.isidentifier():
            raise fail("E002", setting="attr_name", component=name, value=attr_name, why="it must be a name that Python allows.")
        self.rules_path = rules
        self._rules: Optional[Rules] = None
        self._groups: Dict[str, Tuple[str, ...]] = {}
        self._kb: Optional[KnowledgeBase] = None
        if not Span.has_extension(attr_name):
            Span.set_extension(attr_name, default=None)
        elif Span.get_extension(attr_name) != (None, None, None, None):
            raise fail("E005", attr=attr_name, component=name)

    def load(self) -> None:
        """Read the rules, if they have not been read yet.

        Raises:
            SapbertError: E401, the file is missing; E403, a row is not a rule.
        """
        if self._rules is None:
            self._rules = _read(Path(self.rules_path) if self.rules_path else SHIPPED)

    def initialize(self, get_examples: Optional[Callable[[], Iterable[Example]]] = None, *, nlp: Optional[Language] = None) -> None:
        """Read the rules again."""
        self._rules = None
        self.load()

    def predict(self, docs: Iterable[Doc]) -> List[Dict[Tuple[int, int], Dict[str, bool]]]:
        """Return (start, end) in characters -> status for all spans of each Doc."""
        self.load()
        assert self._rules is not None
        found = []
        for doc in docs:
            spans, text = list(_spans(doc)), doc.text
            places = sorted({(span.start_char, span.end_char) for span in spans})
            breaks = [sent.start_char for sent in doc.sents] if places and doc.has_annotation("SENT_START") else []
            kinds = _kinds(spans, self._labels(spans))
            statuses = dict(zip(places, self._rules.statuses(text, places, breaks, kinds)))
            for span in spans:
                if (denied := _is_denied(span, text)) is not None:
                    status = statuses[span.start_char, span.end_char]
                    status.update(negated=denied, historical=status["historical"] and not denied)
            found.append(statuses)
        return found

    def set_annotations(self, docs: Iterable[Doc], predictions: List[Dict[Tuple[int, int], Dict[str, bool]]]) -> None:
        """Write the status on the spans."""
        assert self._rules is not None
        substances = self._rules.substances
        for doc, statuses in zip(docs, predictions):
            spans = list(_spans(doc))
            user_data: Dict[Any, Any] = doc.user_data
            # spaCy stores an extension by a span's offsets, so all spans at one place have one status
            labels = self._labels(spans)
            others = {(span.start_char, span.end_char) for span, label in zip(spans, labels) if label != ANATOMY or span.text.lower() in substances}
            for span in spans:
                place = span.start_char, span.end_char
                status = statuses[place] if place in others else dict.fromkeys(statuses[place], False)
                user_data[extension_key(self.attr_name, span)] = status  # what spaCy's `span._.set` does, which is slow

    def _labels(self, spans: List[Span]) -> List[str]:
        """Return what each span is: the semantic group of the concept that a linker of this package chose, or its label.

        A recogniser may say "PROC" of "PE", which is then linked to an embolism. The label stays if the concept is no problem, drug or procedure.
        """
        if not any(span.kb_id_ for span in spans):
            return [span.label_ for span in spans]
        kbs = (kb for _, component in self.nlp.pipeline if isinstance(kb := getattr(component, "kb", None), KnowledgeBase))
        if (kb := next(kbs, None)) is not self._kb or len(self._groups) > MOST_GROUPS:  # names that a user adds make a new object
            self._kb, self._groups = kb, {}
        given = [(span.label_, span.kb_id_) for span in spans]
        if self._kb is not None:
            self._read_groups(self._kb, {kb_id for _, kb_id in given if kb_id and kb_id not in self._groups})
        return [self._label(*each) for each in given]

    def _read_groups(self, kb: KnowledgeBase, ids: AbstractSet[str]) -> None:
        """Read the semantic groups of some concepts."""
        rows: Dict[str, int] = {}
        for kb_id in ids:
            with suppress(KeyError):  # the id of another linker
                rows[kb_id] = kb.row_of(kb_id)
        types = kb.types_of_all(rows.values())
        for kb_id in ids:
            known = groups_of(types[rows[kb_id]]) if kb_id in rows else []
            self._groups[kb_id] = tuple(group for group in known if group not in NO_PROBLEM)  # white cells are counted, too

    def _label(self, label: str, kb_id: str) -> str:
        found = self._groups.get(kb_id) if self._kb is not None and kb_id else None
        if not found or label in found:
            return label
        return PROBLEM if PROBLEM in found else found[0]

    # -- files ----------------------------------------------------------------------------------------------------------

    def to_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> None:
        """Write the rules, so that a saved pipeline needs no other file."""
        self.load()
        assert self._rules is not None
        with writing_folder(Path(path)) as folder:
            (folder / FILE).write_text(self._rules.text, encoding="utf-8")

    def from_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> "ClinicalStatus":
        """Read what `to_disk` wrote.

        Raises:
            SapbertError: E401, the file is missing; E403, a row is not a rule.
        """
        self._rules = _read(Path(path) / FILE)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Return the rules as bytes."""
        self.load()
        assert self._rules is not None
        return self._rules.text.encode("utf-8")

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "ClinicalStatus":
        """Read what `to_bytes` returned.

        Raises:
            SapbertError: E403, a row is not a rule.
        """
        self._rules = _ready(bytes_data.decode("utf-8"), "the component's bytes")
        return self


@lru_cache(maxsize=1024)
def kind_of(label: str) -> str:
    """Return what spans with a label are for the rules: "drug", "procedure" or "finding". Labels are semantic groups, their types, or other words."""
    plain = label.upper()
    if plain.startswith("T") and plain[1:].isdigit():
        plain = next((name for name, tuis in groups().items() if plain in tuis), "")
    return KINDS.get(plain, FINDING)


def _is_denied(span: Span, text: str) -> Optional[bool]:
    """Return whether a statement is denied: "liver is not enlarged", which the matcher found as "enlarged liver"; None if the status rules decide.

    The rules don't see a "not" that is inside a mention, or after it, as in "liver and spleen are not enlarged". And some names are a denial or a result
    themselves: "negative EKG", which was found for "EKG" in "EKG and CXR were negative", and "does not use tobacco" for "tobacco" in "does not use alcohol or
    tobacco". Words that are a part of the name do not deny it.
    """
    words = (corrected_text(span) or str(span.id_)).lower().split()
    if len(words) < 2:
        return None
    own = text[span.start_char : span.end_char].lower()
    if not _DENIALS.isdisjoint(set(words) - set(own.split())):
        return False
    after = [] if words[0] in own and words[-1] in own else [word for word in words if word not in own]
    rest = re.split(r"[.;\n]", text[span.end_char : span.end_char + STATED].lower(), maxsplit=1)[0] if after else ""
    stated = "|".join(map(re.escape, after or words[:1]))
    if said := list(filter(None, (re.search(rf"\b{re.escape(word)}\b", rest) for word in after if word in rest))):
        # what follows is another statement: "liver and spleen are enlarged, and kidneys are not enlarged"
        rest = rest[: max(word.end() for word in said)]
    if "not " in own + rest and re.search(rf"\bnot (?:\w+ )?(?:{stated})\b", own + rest) is not None:
        return True
    return False if "negative" in after and "negative" in rest else None


def _kinds(spans: Iterable[Span], labels: Iterable[str]) -> Dict[Tuple[int, int], str]:
    """Return (start, end) in characters -> kind. At one place, a finding counts more than other kinds, and all more than e.g. a part of the body."""
    found: Dict[Tuple[int, int], str] = {}
    for span, label in zip(spans, labels):
        place, kind = (span.start_char, span.end_char), OTHER if label in NO_PROBLEM else kind_of(label)
        if kind == FINDING or found.get(place, OTHER) == OTHER:
            found[place] = kind
    return found


def _spans(doc: Doc) -> Iterator[Span]:
    yield from doc.ents
    for group in doc.spans.values():
        yield from group


@lru_cache(maxsize=4)  # rules never change after they are read, so all pipelines of a process share them
def _ready(text: str, name: str) -> Rules:
    return Rules(text, name)


def _read(path: Path) -> Rules:
    try:
        return _ready(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError as error:
        raise fail("E401", MissingFile, path=path) from error
    except (OSError, UnicodeDecodeError) as error:
        raise fail("E402", path=path, expected="a table of rules", why=str(error)) from error
