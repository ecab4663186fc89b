"""Findings in ordinary words, which are names only together with the words around them: "after a fall", "broke her left hip", "hypo- or hyperthyroidism"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .beside import OF_VALUE
from .listed import Listed

# each of these is found by its rarest part first, because a search from word to word takes long
_FALL = re.compile(
    r"\bfalls?\b"
    # "to fall asleep", "a fall in attendance", "the fall of 1998"
    r"(?![ \t]+(?:asleep|back|below|in[ \t]+(?!(?:the|a|an|his|her|their)[ \t]+[a-z])|into|of[ \t]+(?:\d+|the)|out|season|under|within)\b)"
    rf"(?!{OF_VALUE.pattern})",
    re.IGNORECASE,
)
_BEFORE_FALL = re.compile(
    r"\b(?:a|adm|admitted|another|after|any|denie[sd]|following|frequent|from|her|his|multiple|no|of|post|prior|their|w|(?<!in )(?<!during )(?<!of )(?<!since )the|with|without)[ \t]+"
    r"(?:recent[ \t]+|significant[ \t]+|simple[ \t]+)?$"
    r"|\bw/[ \t]*$|\b(?:admitted|adm|presented|presents|seen)[ \t]+(?:with|w/?)[ \t]+[^\s,.;]+[ \t]+and[ \t]+$",  # "seen with cough and fall"
    re.IGNORECASE,
)
# "lost 4 kg", "has lost about 10 lbs", but not "lost 4 L of blood"
_LOST = re.compile(
    r"\b(?:lost|losing|loses)[ \t]+(?:(?:about|approximately|around|almost|nearly|over|another|up[ \t]+to|>|~)[ \t]*)?\d+(?:\.\d+)?(?:[ \t]?[-–][ \t]?\d+)?[ \t-]?"
    r"(?:kgs?|kilos?|lbs?|pounds?|stones?)\b(?![ \t]+(?:of[ \t]+)?(?:fluid|water))",
    re.IGNORECASE,
)
_METS = re.compile(r"(?<![\w/-])mets\b(?![ \t]*(?:[<>=:/]|\d|equivalent|of[ \t]+(?:activity|exercise)))")
_OF_EXERCISE = re.compile(  # "4 mets" of exercise
    r"(?:\d|[<>=≥≤]|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|few|good|poor|several))[ \t+-]*$|\b(?:exercise|exertion|functional capacity)\b[^\n.]*$",
    re.IGNORECASE,
)
_NEAR = 32  # characters before a word that are read
A_FALL = "accidental fall"
# "unable to keep fluids down", "not keeping any food or water down", but not "keep her leg down"
_EATEN = (
    r"(?:anything|breakfast|dinner|drinks?|feeds?|fluids?|foods?|formula|it|liquids?|lunch|meals?|medications?|medicines?|meds|milk|much|pills?|sips|solids?|"
    r"supper|tablets?|them|things|water)"
)
_KEPT_DOWN = re.compile(
    rf"\bke(?:ep(?:ing)?|pt)[ \t]+(?:(?:any|clear|enough|even|her|his|much|my|oral|solid|the|their)[ \t]+){{0,2}}{_EATEN}"
    rf"(?:(?:[ \t]*[,/&][ \t]*|[ \t]+)(?:(?:and|or|nor)[ \t]+)?(?:even[ \t]+)?{_EATEN}){{0,3}}[ \t]+down\b",
    re.IGNORECASE,
)
_CANNOT = re.compile(
    r"\b(?:(?:(?:is|are|was|were|has|have|had|been)(?:[ \t]+not|n['’]?t)[ \t]+|not[ \t]+)(?:been[ \t]+)?able[ \t]+to|(?:inability|struggl(?:es|ed|ing)|unable)[ \t]+to|"
    r"(?:difficulty|problems?|trouble)[ \t]+(?:with[ \t]+)?|cannot|(?:ca|could|did|do|does|had|has|have|is|was|wo|would)n['’]?t|"
    r"(?:(?:can|could|did|do|does|had|has|have|is|was|will|would)[ \t]+)?not)(?:[ \t]+(?:always|been|even|really))?[ \t]*$",
    re.IGNORECASE,
)
# what is said to be absent where its absence is the finding: "no appetite", but not "no appetite change" and "no appetite or sleep disturbance"
_LACKED = re.compile(
    r"\b(?:no|zero|w/o|without)[ \t]+(?:(?:any|great|much|real)[ \t]+)?(?P<what>appetite|energy|libido|motivation)\b"
    r"(?![ \t/-]*(?:(?:or|and|nor)[ \t]+)?(?:(?!(?:but|despite|for|since|with)\b)[a-z]+[ \t/]+)?(?:abnormalit|alteration|change|complaint|concern|decrease|deliver|device|difficult|disturbance|drink|enhanc|expenditure|fluctuation|gain|"
    r"impairment|increase|issue|level|loss|problem|reduction|stimula|suppress))"
    # the last word of a list, too: "no appetite, sleep, or energy changes"
    r"(?!(?:[ \t]*,[ \t]*[a-z]+){0,3},?[ \t]+(?:or|nor)[ \t]+(?:[a-z]+[ \t]+(?:or[ \t]+[a-z]+[ \t]+)?)?(?:changes?|complaints?|concerns?|disturbances?|issues?|problems?)\b)",
    re.IGNORECASE,
)
_LACK = {"appetite": "poor appetite", "energy": "lack of energy", "libido": "loss of libido", "motivation": "lack of motivation"}
_INJURIES = {
    "broke": "fracture",
    "broken": "fracture",
    "fractured": "fracture",
    "fracturing": "fracture",
    "breaking": "fracture",
    "dislocated": "dislocation",
    "sprained": "sprain",
    "injured": "injury",
}
_VERB = re.compile(rf"\b(?:{'|'.join(_INJURIES)})\b", re.IGNORECASE)
_INJURED = re.compile(
    r"[ \t]+(?:(?:his|her|their|the|my|a|an|both|one|two|three|several)[ \t]+)?(?:(?:left|right|l|r|lt|rt)[ \t]+)?(?P<site>[a-z]{3,}(?:[ \t]+[a-z]{3,})?)",
    re.IGNORECASE,
)
# verbs of operations, and what they are called: "hernia was repaired", "had her gallbladder removed" -> "hernia repair", "gallbladder removal"
_OPERATIONS = {
    "biopsied": "biopsy",
    "debrided": "debridement",
    "decompressed": "decompression",
    "drained": "drainage",
    "fused": "fusion",
    "reconstructed": "reconstruction",
    "removed": "removal",
    "repaired": "repair",
    "replaced": "replacement",
    "resected": "resection",
    "transplanted": "transplant",
}
_OPERATION = re.compile(rf"\b(?:{'|'.join(_OPERATIONS)})\b", re.IGNORECASE)
_HELP = r"(?:is|are|was|were|been|being|has|have|had|then|also|subsequently|successfully|surgically)"
_NO_SITE = r"(?:the|his|her|their|this|that|these|those|all|and|both|patient|she|ports?)"  # a port of a laparoscopy
_SITE = rf"(?!{_HELP}\b|{_NO_SITE}\b)[a-z]{{3,}}"
_OPERATED = re.compile(rf"(?<![a-z-])(?P<site>{_SITE}(?:[ \t]+{_SITE}){{0,2}})[ \t]+(?:{_HELP}[ \t]+){{0,3}}$", re.IGNORECASE)
_DISCHARGES = frozenset(["ear", "eye", "nose", "pus", "sinus", "wound"])  # "wound drainage" and "pus drainage" are findings, no operations
_NEAR_OPERATION = 64  # characters before the verb that are read
# between the part of a word and the word: "nephro-/ureterolithiasis"
_PART = re.compile(r"-(?:[ \t]*/[ \t]*|,?[ \t]*(?:and/or|and|or|to)[ \t]+)", re.IGNORECASE)
_HYPO_OR_HYPER = re.compile(r"(?<=hypo)[ \t]?/[ \t]?(?=hyper)|(?<=hyper)[ \t]?/[ \t]?(?=hypo)", re.IGNORECASE)
_WORD = re.compile(r"[a-z]+", re.IGNORECASE)
_FIRST = re.compile(r"(?<![\w-])[a-z]{4,12}$", re.IGNORECASE)
_SECOND = re.compile(r"(?P<word>[a-z]{8,})\b(?P<more>(?:[ \t]+[a-z]{4,}){0,2})", re.IGNORECASE)
_TAIL = 5  # fewest letters that both words share: "algia"


def worded(text: str) -> Iterator[Listed]:
    """Yield what may be a finding in ordinary words, with its name. A longer one comes before a shorter one that begins at the same place.

    - Falls: "after a fall", but not "a fall in hemoglobin".
    - Metastases: "no mets", but not "4 mets" of exercise.
    - Weight: "lost 4 kg" is weight loss.
    - What is lacking: "no appetite" is poor appetite, but "no appetite change" is not.
    - Food: "not keeping fluids down", "unable to keep anything down".
    - Injuries with a verb: "broke her left hip" is a hip fracture.
    - Operations with a verb: "hernia was repaired", "had her hernia repaired" is a hernia repair.
    - Words that share their end: "hypo" in "hypo- or hyperthyroidism" is hypothyroidism, "micro" in "micro- and macrocytic anemia" microcytic anemia. All ends are tried.

    Args:
        text: the note.
    """
    lowered = text.lower()  # most notes hold none of these words, and the patterns are slow
    for match in _FALL.finditer(text) if "fall" in lowered else ():
        if _BEFORE_FALL.search(text, max(0, match.start() - _NEAR), match.start()):
            yield Listed(match.start(), match.end(), A_FALL)
    for mets in _METS.finditer(text) if "mets" in text else ():
        if _OF_EXERCISE.search(text, max(0, mets.start() - _NEAR), mets.start()) is None:
            yield Listed(mets.start(), mets.end(), "metastases")
    for lost in _LOST.finditer(text) if "los" in lowered else ():
        yield Listed(lost.start(), lost.end(), "weight loss")
    for lacked in _LACKED.finditer(text) if any(word in lowered for word in _LACK) else ():
        if (lack := _LACK.get(lacked["what"].lower())) is not None:  # a pattern without case takes "ı" for "i"
            yield Listed(lacked.start(), lacked.end(), lack)
    for kept in _KEPT_DOWN.finditer(text) if "down" in lowered else ():
        if (cannot := _CANNOT.search(text, max(0, kept.start() - _NEAR), kept.start())) is not None:
            yield Listed(cannot.start(), kept.end(), "can't keep anything down")
    for verb in _VERB.finditer(text) if any(word in lowered for word in _INJURIES) else ():
        injury = _INJURIES.get(verb[0].lower())
        if injury is not None and (after := _INJURED.match(text, verb.end())) is not None:
            words = after["site"].split()
            for size in range(len(words), 0, -1):
                end = after.end() if size == len(words) else after.start("site") + len(words[0])
                yield Listed(verb.start(), end, f"{' '.join(words[:size])} {injury}")
    for verb in _OPERATION.finditer(text) if any(word in lowered for word in _OPERATIONS) else ():
        before = _OPERATED.search(text, max(0, verb.start() - _NEAR_OPERATION), verb.start())
        operation = _OPERATIONS.get(verb[0].lower())
        if before is None or operation is None:
            continue
        sites = list(_WORD.finditer(text, before.start("site"), before.end("site")))
        if operation == "drainage" and sites[-1][0].lower() in _DISCHARGES:
            continue
        for first_word in sites:
            yield Listed(first_word.start(), verb.end(), f"{text[first_word.start() : before.end('site')]} {operation}")
    for between in (*_PART.finditer(text), *(_HYPO_OR_HYPER.finditer(text) if "hyp" in lowered else ())):
        first = _FIRST.search(text, max(0, between.start() - _NEAR), between.start())
        second = _SECOND.match(text, between.end())
        if first is not None and second is not None:
            word, more = second["word"], second["more"].split()
            for size in range(len(more), -1, -1):
                for at in range(1, len(word) - _TAIL + 1):
                    yield Listed(first.start(), first.end(), " ".join([first[0] + word[at:], *more[:size]]))
