"""Leave out wrong mappings of the sources. With one, two concepts become one: "subcutaneous adipose tissue" was a name of panniculitis."""

from __future__ import annotations

from spacy_sapbert.kb import curies
from spacy_sapbert.kb.builder import Source
from spacy_sapbert.kb.concept import Concept

# id of a term, and the code or CUI that its source gives it wrongly
WRONG = frozenset(
    [
        ("MONDO:0003019", "C1514284"),  # potassium deficiency disease. It also has the codes of hypokalemia, for which HPO gives C0020621
        ("DOID:4500", "C1514284"),
        ("HP:0003141", "C0020445"),  # high LDL cholesterol is C0549399: familial hypercholesterolemia
        ("HP:0003141", "398036000"),
        ("HP:0000141", "C2219717"),  # amenorrhea is C0002453
        ("MONDO:0001881", "D012772"),  # toxic shock syndrome: septic shock
        ("DOID:14115", "D012772"),
        ("MONDO:0002260", "C32132"),  # hidradenitis: apocrine sweat gland
        ("MONDO:0004767", "C12787"),  # vesiculitis: seminal vesicle
        ("MONDO:0004779", "C12328"),  # epididymitis: epididymis
        ("MONDO:0006591", "C33645"),  # panniculitis: subcutis
        ("MONDO:0021156", "C12399"),  # hypophysitis: pituitary gland
        ("MONDO:0012833", "C38145"),  # Crouzon syndrome-acanthosis nigricans, abbreviated CAN: chronic allograft nephropathy
        ("UBERON:0004363", "C0003489"),  # an artery of the embryo: aortic arch
    ]
)


def without_wrong_mappings(source: Source) -> Source:
    """Remove the mappings of `WRONG` from the terms of a source.

    Args:
        source: a file of a vocabulary, or of mappings.
    """

    def right(concept: Concept) -> Concept:
        term = concept.concept_id
        concept.cuis = [cui for cui in concept.cuis if (term, cui) not in WRONG]
        concept.codes = [one for one in concept.codes if (term, curies.split(one[1])[1]) not in WRONG]
        concept.same_as = [other for other in concept.same_as if (term, curies.split(other)[1]) not in WRONG]
        return concept

    source.concepts = map(right, source.concepts)
    return source
