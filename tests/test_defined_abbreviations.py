"""The text that is looked up for a mention with an abbreviation that its note defines."""

from __future__ import annotations

import pytest
import spacy

from spacy_sapbert.annotated import get_mentions
from spacy_sapbert.kb.builder import Source, build_kb
from spacy_sapbert.kb.concept import Concept, Name
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.settings import Settings

NAMES = {
    "T:1": ["chronic lung disease", "CLD"],
    "T:2": ["flare of chronic lung disease", "CLD flare"],
    "T:3": ["CLD"],  # a name of two concepts
    "T:4": ["vein clot", "VC"],
    "T:5": ["VC prophylaxis"],  # VC has one meaning
    "T:6": ["right atrium", "RA"],
    "T:7": ["rheumatic arthritis", "RA"],
    "T:8": ["RA factor"],
    "T:9": ["vein clot scan"],
    "T:10": ["VC scan"],
    "T:11": ["vital capacity"],
}


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    concepts = [Concept(number, "T", names=[Name(name, "T", "en", "SY", 1) for name in names]) for number, names in NAMES.items()]
    return build_kb([Source("test", concepts)], tmp_path_factory.mktemp("defined") / "kb")


@pytest.mark.parametrize(
    ("text", "span", "looked_up", "long_form"),
    [
        ("Chronic lung disease (CLD). Now a CLD flare.", "CLD flare", "CLD flare", None),  # its concept has a name with the long form
        ("Vein clot (VC). VC prophylaxis given.", "VC prophylaxis", "VC prophylaxis", None),  # the short form has one meaning
        ("Vein clot (VC). A VC scan.", "VC scan", "Vein clot scan", "Vein clot"),  # with the long form it is a name
        ("Vein clot (VC). VC again.", "VC", "Vein clot", "Vein clot"),
        ("Vein clot (VC). VC in the arm.", "VC in the arm", "Vein clot in the arm", "Vein clot"),  # no name as it is written
        ("The right atrium (RA) is large. RA factor is negative.", "RA factor", "right atrium factor", "right atrium"),  # RA has two meanings
        ("Vital capacity (VC) is low. VC prophylaxis.", "VC prophylaxis", "Vital capacity prophylaxis", "Vital capacity"),  # defined otherwise
        ("A CLD flare.", "CLD flare", "CLD flare", None),
    ],
)
def test_a_name_with_a_defined_abbreviation_is_looked_up_as_it_is_written(
    kb: KnowledgeBase, text: str, span: str, looked_up: str, long_form: str | None
) -> None:
    doc = spacy.blank("en")(text)
    start = text.rindex(span)
    doc.ents = [doc.char_span(start, start + len(span), label="DISO")]
    _, mentions = get_mentions(doc, Settings(), kb)
    assert mentions == [(looked_up, long_form)]
