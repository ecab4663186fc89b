"""Other forms of an English word that are looked up when a mention is no name: plurals from Latin and Greek, and the nouns of adjectives.

English plurals and possessives are in `concept.other_numbers`, because the matcher forgives them too.
"""

from __future__ import annotations

SHORTEST = 6  # letters of an adjective: shorter ones ("lytic", "otic") have too many meanings
MOST_WORDS = 6  # of a name that is looked up with "s" after one of its first two words
SHORTEST_GREEK = 5  # letters of a plural whose singular ends in "-on" ("ganglia"): "cola" is no colon

# Ending of a plural -> endings of its singular: "thromboses", "stenoses", "scotomata", "fistulae", "cortices", "keratoses"
_PLURALS: dict[str, tuple[str, ...]] = {
    "omata": ("oma",),
    "nges": ("nx",),
    "ices": ("ix", "ex"),
    "ides": ("is",),
    "oses": ("osis",),
    "ases": ("asis",),
    "eses": ("esis",),
    "yses": ("ysis",),
    "ata": ("a",),
    "iae": (),  # of a species: "Streptococcus pneumoniae"
    "zae": (),  # "Haemophilus influenzae"
    "ae": ("a",),
    "i": ("us",),
    "a": ("um", "on"),
}
# Ending of an adjective -> endings of its noun. Each noun is a finding: other endings, such as "-al", make too many words of other kinds
_ADJECTIVES: dict[str, tuple[str, ...]] = {
    "ematous": ("ema",),
    "parkinsonian": ("parkinsonism",),
    "aneurysmal": ("aneurysm",),
    "cephalic": ("cephaly", "cephalus"),
    "cephalous": ("cephaly",),
    "kinetic": ("kinesia", "kinesis"),
    "tensive": ("tension",),
    "arthric": ("arthria",),
    "rrhagic": ("rrhage",),
    "rrhoeic": ("rrhoea",),
    "rrheic": ("rrhea",),
    "trophic": ("trophy",),
    "plastic": ("plasia",),
    "paretic": ("paresis",),
    "plegic": ("plegia",),
    "pathic": ("pathy",),
    "phasic": ("phasia",),
    "phagic": ("phagia",),
    "leptic": ("lepsy",),
    "thermic": ("thermia",),
    "cardic": ("cardia",),
    "static": ("stasis",),
    "ctatic": ("ctasis",),
    "toxic": ("toxicity",),
    "aemic": ("aemia",),
    "tonic": ("tonia",),
    "penic": ("penia",),
    "algic": ("algia",),
    "lytic": ("lysis",),
    "pneic": ("pnea",),
    "otoid": ("otosis",),
    "etoid": ("etosis",),
    "emic": ("emia",),
    "uric": ("uria",),
    "oxic": ("oxia",),
    "axic": ("axia",),
    "otic": ("osis",),
    "itic": ("itis",),
}
LONGEST = max(map(len, [*_PLURALS, *_ADJECTIVES]))  # letters of an ending


def singulars(name: str) -> list[str]:
    """Return a normalised name with its last word in the singular, if that word may be a plural from Latin or Greek.

    "coronary stenoses" gives "coronary stenosis"; "cortices" gives "cortix" and "cortex". A form need not be a word: it counts only if it is a name.
    """
    return _with_endings(name, _PLURALS)


def nouns(name: str) -> list[str]:
    """Return the nouns that an adjective may come from: "hypovolemic" gives "hypovolemia", "dyskinetic" "dyskinesia" and "dyskinesis".

    Only a mention of one word has such forms: in a longer one, an adjective describes a noun.
    """
    return _with_endings(name, _ADJECTIVES) if name.isalpha() and len(name) >= SHORTEST else []


def inner_plurals(name: str) -> list[str]:
    """Return a normalised name of several words with one of its first two words, but not the last word, in the form with "s", as a verb may have it.

    "wet himself" gives "wets himself"; the matcher forgives this "s", too. Names of more than `MOST_WORDS` words have no such forms.
    """
    words = name.split()
    if not 1 < len(words) <= MOST_WORDS:
        return []
    return [
        " ".join([*words[:at], _with_s(word), *words[at + 1 :]])
        for at, word in enumerate(words[:-1][:2])
        if len(word) > 2 and word.isalpha() and word.isascii() and not word.endswith("s")
    ]


def _with_s(word: str) -> str:
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("ch", "sh", "x", "z")) else f"{word}s"


def _with_endings(name: str, endings: dict[str, tuple[str, ...]]) -> list[str]:
    """Return a name with the longest of its possible endings replaced by each of that ending's alternatives."""
    for size in range(min(LONGEST, len(name) - 1), 0, -1):
        if name[-size:] in endings:
            return [name[:-size] + other for other in endings[name[-size:]] if other != "on" or len(name.split()[-1]) >= SHORTEST_GREEK]
    return []
