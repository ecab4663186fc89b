"""Which mentions are chosen if names and entities of a recogniser overlap, and names whose words are apart in the text."""

from __future__ import annotations

import pytest
import spacy
from fake_names import Names
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, Span

from spacy_sapbert.doc.spans import CORRECTED, get_mention, is_part
from spacy_sapbert.kb.knowledge_base import MatchableName
from spacy_sapbert.matcher.component import ConceptMatcher
from spacy_sapbert.matcher.joining import Match, Places, chosen, with_items


def matcher(*names: str, all_key: str | None = None) -> ConceptMatcher:
    made = ConceptMatcher(spacy.blank("en"), all_key=all_key)
    made.set_kb(Names(MatchableName(name, "T047", ("T047",), (name,)) for name in names))  # type: ignore[arg-type]
    return made


def ent(text: str, part: str) -> Match:
    start = text.index(part)
    return Match(start, start + len(part), "DISO", ent=part)


def name(text: str, part: str, **kind: bool) -> Match:
    start = text.index(part)
    return Match(start, start + len(part), "NAME", **kind)


@pytest.mark.parametrize(
    ("text", "entity", "names", "expected"),
    [
        ("severe chest pain today", "severe chest pain", ["chest pain"], ["chest pain"]),
        ("fever, odd pain", "odd pain", ["fever"], ["fever", "odd pain"]),
        ("chest pain", "chest pain", ["chest pain"], ["chest pain"]),
        ("deep vein thrombosis", "vein thrombosis", ["deep vein thrombosis"], ["deep vein thrombosis"]),
        ("chest pain and fever", "chest pain and fever", ["chest pain", "fever"], ["chest pain", "fever"]),
        ("grandmother,,headaches", "grandmother,,headaches", ["headaches"], ["headaches"]),
        ("an odd dysaesthesia", "odd dysaesthesia", [], ["odd dysaesthesia"]),
        ("the overall quality", "overall quality", [], []),  # plain English words
        ("lungs:,Neck supple", ",Neck", [], ["Neck"]),  # without the sign before it
        ("Respiratory\n- Auscultation", "Respiratory\n- Auscultation", [], ["Auscultation"]),  # without the item before it
        ("well.,Lymphatic: none", ".,Lymphatic", [], ["Lymphatic"]),
        ("had 5)venous stasis", "5)venous stasis", [], ["venous stasis"]),
        ("Anti-HCV neg; HBsAg neg.", "HBsAg neg", [], ["HBsAg"]),  # the result of a test
        ("Tzanck smear pos", "Tzanck smear pos", [], ["Tzanck smear"]),
        ("HBsAg-neg donor", "HBsAg-neg donor", [], ["HBsAg-neg donor"]),
        ("Murphy's neg.", "neg", [], []),
        ("Bro has RA", "Bro", [], []),
        ("NEG of it", "NEG", [], ["NEG"]),  # in capitals, it may be an acronym
        ("Failed 2012 -pls ignore", "-pls", [], []),
        ("seen -dysaesthesia", "-dysaesthesia", [], ["dysaesthesia"]),
        ("wide RV\ndilatation", "RV\ndilatation", [], ["RV\ndilatation"]),  # a line that was wrapped
        ("seen on 8/31/92.", "8/31/92", [], []),  # no letter
        ("an intra-abdominal mass", "abdominal", [], []),  # a part of a compound
        ("symptoms of CA", "symptoms", [], []),  # a plain English word
        ("symptoms of CA", "CA", [], []),
        ("a leptospirosis titer", "leptospirosis titer", [], []),  # a test, marked as a finding
        ("a leptospirosis titer", "leptospirosis", [], []),
    ],
)
def test_a_name_and_an_entity(text: str, entity: str, names: list[str], expected: list[str]):
    kept, _ = chosen([ent(text, entity)], [name(text, each) for each in names], text=text, join=True, overwrite=False)
    assert [text[one.start : one.end] for one in kept] == expected


@pytest.mark.parametrize(
    ("word", "label", "expected"),
    [
        ("retracted", "PROC", False),
        ("Distended", "DISO", False),
        ("dissecting", "PROC", False),
        ("cramping", "DISO", True),
        ("re-excised", "PROC", True),
        ("not retracted", "PROC", True),
        ("steroid-induced", "DISO", True),
        ("retracted", "DEVI", True),
    ],
)
def test_an_entity_that_is_only_a_verb_is_no_mention(word: str, label: str, expected: bool):
    entity = Match(0, len(word), label, ent=word)
    assert chosen([entity], [], text=word, join=True, overwrite=False)[0] == [entity] * expected


@pytest.mark.parametrize(
    ("text", "word", "expected"),
    [
        ("cultures were sent", "cultures", True),
        ("a midline Incision", "Incision", True),
        ("some narrowing", "narrowing", True),
        ("Vicryl sutures", "sutures", True),
        ("Fontanelles soft, sutures open", "sutures", False),  # of the skull
        ("overriding sutures", "sutures", False),
        ("no difficulty", "difficulty", False),
    ],
)
def test_some_plain_words_are_mentions_if_a_recogniser_marks_them(text: str, word: str, expected: bool):
    entity = ent(text, word)._replace(label="PROC")
    assert chosen([entity], [], text=text, join=True, overwrite=False)[0] == [entity] * expected


def test_a_habit_replaces_the_substance_of_a_coordination():
    # "alcohol or drug use"
    alcohol, use = Match(0, 7, "CHEM"), Match(11, 19, "ACTI")
    part = Match(0, 19, "ACTI", "alcohol use", part=True, item=(0, 7))
    assert with_items([alcohol, use], [part], {(0, 7), (11, 19)}) == [Match(0, 7, "ACTI", "alcohol use"), use]


def test_an_entity_in_a_skipped_part_is_no_mention():
    text = "[**Name**] seen for odd pain"
    entities = [ent(text, "**Name**"), ent(text, "odd pain")]
    assert chosen(entities, [], text=text, join=True, overwrite=False, skipped=[(0, 10)])[0] == entities[1:]


def test_a_service_is_no_mention_of_a_recogniser():
    text = "General Surgery was consulted before general surgery."
    entities = [Match(0, 15, "PROC", ent=0), Match(37, 52, "PROC", ent=1)]
    assert chosen(entities, [], text=text, join=True, overwrite=False)[0] == entities[1:]


def test_what_was_removed_from_a_note_is_no_mention_of_a_recogniser():
    component = ConceptMatcher(spacy.blank("en"), join=True)
    component.set_kb(Names([MatchableName("fever", "T047", ("T047",), ("fever",))]))  # type: ignore[arg-type]
    doc = component.nlp.make_doc("[**Name**] has odd pain and fever")
    doc.set_ents([doc.char_span(2, 8, label="DISO", alignment_mode="expand"), doc.char_span(15, 23, label="DISO")])
    assert [each.text for each in component(doc).ents] == ["odd pain", "fever"]


interval = st.tuples(st.integers(0, 30), st.integers(1, 8)).map(lambda each: (each[0], each[0] + each[1]))


@given(st.lists(interval), interval)
def test_places_overlap_as_a_search_through_all_says(places: list[tuple[int, int]], asked: tuple[int, int]):
    expected = any(start < asked[1] and asked[0] < end for start, end in places)
    assert Places(places).overlap(*asked) == expected


def test_without_joining_entities_stay_or_go():
    text = "severe chest pain"
    entity, found = ent(text, "severe chest"), name(text, "chest pain")
    assert chosen([entity], [found], text=text, join=False, overwrite=False)[0] == [entity]
    assert chosen([entity], [found], text=text, join=False, overwrite=True)[0] == [found]


def grouped(component: ConceptMatcher, text: str) -> tuple[list[str], list[tuple[str, str]]]:
    doc: Doc = component(component.nlp.make_doc(text))
    return [e.text for e in doc.ents], [(span.text, span.id_) for span in doc.spans["all"]]


@pytest.mark.parametrize(
    ("names", "text", "part"),
    [
        (["cleft lip", "cleft palate"], "cleft lip and palate", "cleft palate"),
        (["aplastic nails", "hypoplastic nails"], "aplastic or hypoplastic nails", "aplastic nails"),
        (["renal anomalies", "ectodermal anomalies"], "renal and ectodermal anomalies", "renal anomalies"),
        (["swelling of hands", "swelling of feet"], "swelling of hands and feet", "swelling of feet"),
        (["swelling of hands", "feet swelling"], "swelling of hands and feet", "feet swelling"),
        (["pain in her legs", "neck pain", "hand pain"], "pain in her legs, neck, and hand", "neck pain"),
        (["pain in her legs", "neck pain", "hand pain"], "pain in her legs, neck, and hand", "hand pain"),
        (["pain in the back", "shoulder blade pain"], "pain in the back, neck or shoulder blade", "shoulder blade pain"),
        (["septal defect", "ventricular septal defect"], "septal defect of the ventricular septum", "ventricular septal defect"),
    ],
)
def test_parts(names: list[str], text: str, part: str):
    _, every = grouped(matcher(*names, all_key="all"), text)
    assert part in [identity for _, identity in every]


@pytest.mark.parametrize(
    ("after", "ends"),
    [
        ("extending to the wrist", True),
        ("measured today", True),
        ("shows nothing", True),
        ("shaft", False),
        ("lining", False),
        ("bed", False),
    ],
)
def test_a_verb_ends_a_phrase(after: str, ends: bool):
    ents, _ = grouped(matcher("forearm swelling", "swelling", all_key="all"), f"swelling of the forearm {after}")
    assert ents == ["swelling of the forearm" if ends else "swelling"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("OA R knee", ["OA R knee"]),
        ("PMH: OA L knee, gout", ["OA L knee"]),
        ("fracture left wrist and cough", ["fracture left wrist"]),
        ("old fracture left wrist, healed", ["fracture left wrist"]),
        ("fracture left wrist swelling", []),
        ("fracture. left wrist", []),
        ("fracture right and left wrist", []),
    ],
)
def test_a_side_stands_between_a_finding_and_its_site(text: str, expected: list[str]):
    ents, _ = grouped(matcher("knee OA", "wrist fracture", all_key="all"), text)
    assert ents == expected


def test_a_lobe_is_a_part_of_the_lung():
    doc = (component := matcher("lung nodule")).nlp.make_doc("RLL nodule, LUL")
    assert [(ent.text, get_mention(ent, {}).text) for ent in component(doc).ents] == [("RLL nodule", "lung nodule")]


def test_a_finding_is_not_shared_beyond_its_list():
    component = matcher("pain in the legs", "neck pain", all_key="all")
    for text in ("pain in the legs, stiff neck and cough", "pain in the legs; neck and hands", "pain in the legs. neck and hands"):
        assert "neck pain" not in [identity for _, identity in grouped(component, text)[1]]


@pytest.mark.parametrize("text", ["does not smoke or drink", "does not smoke, drink, or eat", "never smoke or drink"])
def test_a_denial_is_not_shared_with_the_next_item(text: str):
    """The status of "drink" says that it is denied; as "does not drink", it would be denied twice."""
    component = matcher("does not smoke", "does not drink", "never drink", "smoke", all_key="all")
    assert not {"does not drink", "never drink"} & {identity for _, identity in grouped(component, text)[1]}


def test_a_name_in_another_order_is_one_mention():
    component = matcher("neck webbing", "webbing", all_key="all")
    assert grouped(component, "webbing of the neck") == (["webbing of the neck"], [("webbing of the neck", ""), ("webbing", "")])
    assert component(component.nlp.make_doc("webbing of the neck")).ents[0]._.corrected_text == "neck webbing"


def test_no_part_across_a_sentence_or_without_a_conjunction():
    component = matcher("cleft palate", "cleft lip", all_key="all")
    assert grouped(component, "cleft lip. And palate") == (["cleft lip"], [("cleft lip", "")])
    assert grouped(component, "cleft lip with palate") == (["cleft lip"], [("cleft lip", "")])


def test_nested_and_overlapping_names_are_in_the_group():
    ents, every = grouped(matcher("breast cancer", "breast", "cancer care", all_key="all"), "breast cancer care")
    assert ents == ["breast cancer"]
    assert every == [("breast cancer", ""), ("breast", ""), ("cancer care", "")]


def test_a_part_is_looked_up_by_its_id():
    doc = spacy.blank("en")("cleft lip and palate")
    span = Span(doc, 0, 4, label="DISO", span_id="cleft palate")
    assert is_part("sapbert", span)
    assert not is_part("other", span)
    assert get_mention(span, {}, part=True).text == "cleft palate"
    assert get_mention(span, {}).text == "cleft lip and palate"


def test_a_recognisers_entity_that_is_a_heading_is_no_mention() -> None:
    nlp = spacy.blank("en")
    made = ConceptMatcher(spacy.blank("en"), all_key="sapbert", join=True)
    kinds = {"fever": "T047", "lungs": "T023"}
    made.set_kb(Names(MatchableName(name, tui, (tui,), (name,)) for name, tui in kinds.items()))  # type: ignore[arg-type]
    doc = nlp("PMH: fever.\nLungs: clear.\nMusculoskeletal: normal.\nGOUTY ARTHRITIS: stable.")
    headings = ("PMH", "Lungs", "Musculoskeletal", "GOUTY ARTHRITIS")
    doc.ents = [doc.char_span(doc.text.index(part), doc.text.index(part) + len(part), "DISO") for part in headings]
    assert [ent.text for ent in made(doc).ents] == ["fever", "Lungs", "GOUTY ARTHRITIS"]


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ("neck and back pain", ["neck pain", "back pain"], [("neck", "neck pain"), ("back pain", None)]),
        (
            "back, buttock, and leg pain",
            ["back pain", "buttock pain", "leg pain"],
            [("back", "back pain"), ("buttock", "buttock pain"), ("leg pain", None)],
        ),
        ("pain in the hands and feet", ["pain in the hands", "pain in the feet"], [("pain in the hands", None), ("feet", "pain in the feet")]),
        ("fever and back pain", ["fever", "fever pain", "back pain"], [("fever", None), ("back pain", None)]),  # the item is a name of its own
        ("neck and back pain", ["neck pain"], []),  # "back pain" is no name, so nothing says that the two share "pain"
        ("neck and back pain", ["back pain"], [("back pain", None)]),
        (
            "Sodium, zinc and urine sodium were low",
            ["low sodium", "low zinc", "low urine sodium"],
            [("Sodium", "low Sodium"), ("zinc", "low zinc"), ("urine sodium were low", "low urine sodium")],
        ),
        ("Sodium or zinc not low", ["low sodium", "low zinc"], [("Sodium", "low Sodium"), ("zinc not low", "low zinc")]),
        ("Sodium and zinc were low", ["low sodium"], []),
    ],
)
def test_the_items_of_a_coordination_are_mentions(text: str, names: list[str], expected: list[tuple[str, str | None]]):
    doc = matcher(*names, all_key="all")(spacy.blank("en")(text))
    assert [(ent.text, ent._.get(CORRECTED)) for ent in doc.ents] == expected


def test_an_item_replaces_a_part_of_the_body_and_an_entity_but_no_other_name():
    text = "chest and back pain"
    part = Match(0, len(text), "DISO", "chest pain", part=True, item=(0, 5))
    pain = Match(10, 19, "DISO")
    new = Match(0, 5, "DISO", "chest pain")
    site, finding = Match(0, 5, "ANAT"), Match(0, 5, "DISO")
    assert with_items([site, pain], [part], {(0, 5), (10, 19)}) == [new, pain]
    assert with_items([finding, pain], [part], {(10, 19)}) == [new, pain]  # an entity of the recogniser
    assert with_items([finding, pain], [part], {(0, 5), (10, 19)}) == [finding, pain]
    assert with_items([pain._replace(label="PROC")], [part], {(10, 19)}) == [pain._replace(label="PROC")]  # of another group
    assert with_items([pain], [part._replace(item=())], {(10, 19)}) == [pain]
    assert with_items([site._replace(label="CHEM"), pain], [part], {(0, 5), (10, 19)}) == [new, pain]  # "iron" in "iron and zinc deficiency"
    procedure = pain._replace(label="PROC")
    level = part._replace(label="PROC")
    assert with_items([site._replace(label="CHEM"), procedure], [level], {(0, 5), (10, 19)}) == [site._replace(label="CHEM"), procedure]
    entity = Match(0, 5, "ANAT", ent="a user's entity")
    assert with_items([entity, pain], [part], {(10, 19)}) == [new, pain]
    assert with_items([entity, pain], [part], {(10, 19)}, join=False) == [entity, pain]
    longer = Match(0, 9, "DISO", ent="chest and")
    assert with_items([longer, pain], [part], {(10, 19)}) == [longer, pain]
    assert with_items([longer._replace(label="ANAT"), pain], [part], {(10, 19)}) == [new, pain]


def test_an_entity_that_is_cut_within_a_token():
    made = matcher("fever")
    made.join = True
    doc = made.nlp.make_doc("clear to A&P.,Hypotonia today")
    doc.ents = [Span(doc, 2, 3, label="DISO")]
    assert doc.ents[0].text == "A&P.,Hypotonia"
    assert [ent.text for ent in made(doc).ents] == ["Hypotonia"]


@pytest.mark.parametrize(
    ("text", "names", "expected"),
    [
        ("Ammonia elevated.", ["elevated ammonia", "ammonia"], [("Ammonia elevated", "elevated Ammonia")]),
        ("Serum ammonia elevated.", ["elevated ammonia", "ammonia"], [("ammonia", None)]),  # "serum ammonia" may be something else
        ("Right leg swollen", ["swollen leg"], [("leg swollen", "swollen leg")]),
        ("She has an allergy to penicillin.", ["penicillin allergy", "allergy"], [("allergy to penicillin", "penicillin allergy")]),
        ("He went to penicillin.", ["penicillin went"], []),
        ("nausea, vomiting", ["nausea, vomiting", "nausea", "vomiting"], [("nausea", None), ("vomiting", None)]),
        ("dystonia, generalized", ["dystonia, generalized", "dystonia"], [("dystonia, generalized", None)]),
    ],
)
def test_words_in_another_order_and_lists(text: str, names: list[str], expected: list[tuple[str, str | None]]):
    doc = matcher(*names, all_key="all")(spacy.blank("en")(text))
    assert [(ent.text, ent._.get(CORRECTED)) for ent in doc.ents] == expected


def test_a_finding_is_chosen_rather_than_the_part_of_the_body_before_it():
    made = ConceptMatcher(spacy.blank("en"))
    names = [MatchableName("right leg", "T023", ("T023",), ("right leg",)), MatchableName("leg edema", "T184", ("T184",), ("leg edema",))]
    made.set_kb(Names(names))  # type: ignore[arg-type]
    assert [ent.text for ent in made(made.nlp.make_doc("distal right leg edema")).ents] == ["leg edema"]
    assert [ent.text for ent in made(made.nlp.make_doc("right leg, edema")).ents] == ["right leg"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("She has lupus nephritis.", ["lupus nephritis"]),
        ("She has lupus. He has lupus, nephritis", ["has lupus", "has lupus"]),
        ("Atypical cells on pap smear", ["pap smear"]),
        ("Started on pip/tazo", ["pip/tazo"]),
        ("on pip since", ["on pip"]),
        ("systemic lupus nephritis", ["systemic lupus"]),  # it begins with a word that says something
    ],
)
def test_a_name_that_begins_with_a_little_word_gives_way(text: str, expected: list[str]):
    names = ("has lupus", "lupus nephritis", "on pap", "pap smear", "on pip", "pip tazo", "systemic lupus", "nephritis panel")
    assert grouped(matcher(*names, all_key="all"), text)[0] == expected


def test_a_name_of_a_substance_and_of_a_finding_is_a_finding():
    made = ConceptMatcher(spacy.blank("en"))
    names = [MatchableName("nipple discharge", "T031", ("T031", "T033"), ("nipple discharge",))]
    made.set_kb(Names(names))  # type: ignore[arg-type]
    assert [ent.label_ for ent in made(made.nlp.make_doc("no nipple discharge")).ents] == ["DISO"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("alert and oriented to person and place", ["oriented to person and place"]),  # five words against two
        ("kidney disease, old heart failure", ["kidney disease"]),
        ("chest pain that radiated", ["chest pain"]),
        ("back pain with hip flexion", ["back pain"]),  # four words against two, but the pain is in the back
    ],
)
def test_of_two_names_that_overlap_the_much_longer_one_is_chosen(text: str, expected: list[str]):
    names = [
        "and oriented",
        "oriented to person and place",
        "kidney disease",
        "disease, old heart failure",
        "chest pain",
        "pain that radiated",
        "back pain",
    ]
    names += ["pain with hip flexion"]
    assert grouped(matcher(*names, all_key="all"), text)[0] == expected
