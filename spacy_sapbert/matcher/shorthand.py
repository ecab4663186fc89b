"""Write out shortened words and change British to American spelling: "abdo pain" is "abdominal pain", "haemorrhagic" is "hemorrhagic".

A shortened word only counts in a name of several words ("pulm" alone is not a name), and only where the unchanged words give no name of that length.
"""

from __future__ import annotations

import re
from functools import lru_cache

SHORT = {
    "abd": "abdominal",
    "abdo": "abdominal",
    "abn": "abnormal",
    "acq": "acquired",
    "alc": "alcoholic",
    "ant": "anterior",
    "assoc": "associated",
    "bact": "bacterial",
    "bilat": "bilateral",
    "ca": "cancer",
    "card": "cardiac",
    "cerv": "cervical",
    "chr": "chronic",
    "chron": "chronic",
    "cong": "congenital",
    "congen": "congenital",
    "decr": "decreased",
    "defic": "deficiency",
    "dis": "disease",
    "dysfxn": "dysfunction",
    "dz": "disease",
    "exac": "exacerbation",
    "exp": "expiratory",
    "fam": "familial",
    "freq": "frequency",
    "fx": "fracture",
    "gen": "generalized",
    "hep": "hepatic",
    "idiop": "idiopathic",
    "incr": "increased",
    "inf": "inferior",
    "infl": "inflammation",
    "infn": "infection",
    "infxn": "infection",
    "ing": "inguinal",
    "inj": "injury",
    "insp": "inspiratory",
    "insuff": "insufficiency",
    "intest": "intestinal",
    "irreg": "irregular",
    "lat": "lateral",
    "lll": "lung",  # a lobe of it
    "lul": "lung",
    "lumb": "lumbar",
    "malig": "malignant",
    "metab": "metabolic",
    "mult": "multiple",
    "musc": "muscle",
    "obs": "obstruction",
    "obst": "obstruction",
    "obstr": "obstruction",
    "perf": "perforation",
    "periph": "peripheral",
    "prim": "primary",
    "prox": "proximal",
    "pulm": "pulmonary",
    "resp": "respiratory",
    "rheum": "rheumatoid",
    "rll": "lung",
    "rml": "lung",
    "rul": "lung",
    "sens": "sensory",
    "sev": "severe",
    "sup": "superior",
    "supf": "superficial",
    "symp": "symptom",
    "synd": "syndrome",
    "thor": "thoracic",
    "tox": "toxicity",
    "ulc": "ulcerative",
    "urin": "urinary",
    "vag": "vaginal",
    "vasc": "vascular",
    "vent": "ventricular",
}
# British -> American spelling, because most names of the sources are in American spelling
_BRITISH = tuple(
    (re.compile(british), american)
    for british, american in (
        ("haem", "hem"),
        ("aemi", "emi"),
        ("oedem", "edem"),
        ("oesoph", "esoph"),
        ("oestr", "estr"),
        ("rrhoe", "rrhe"),
        ("pnoe", "pne"),
        ("paed", "ped"),
        ("gynaec", "gynec"),
        ("anaes", "anes"),
        ("aesth", "esth"),
        ("caec", "cec"),
        ("faec", "fec"),
        ("foet", "fet"),
        ("naev", "nev"),
        ("coeli", "celi"),
        ("leuc", "leuk"),
        ("tumour", "tumor"),
        ("colour", "color"),
        ("behaviour", "behavior"),
        ("sulph", "sulf"),
        ("isation", "ization"),
        ("ised$", "ized"),
        ("ising$", "izing"),
        ("goitre", "goiter"),
        ("fibre", "fiber"),
        ("calibre", "caliber"),
        ("grey", "gray"),
        ("praec", "prec"),
        ("caes", "ces"),
        ("aeti", "eti"),
        ("dilatation", "dilation"),
    )
)


@lru_cache(maxsize=20_000)
def written_out(word: str) -> str | None:
    """Return the full word in American spelling for a word in lower case; None if the word needs no change."""
    full = SHORT.get(word)
    if full is not None:
        return full
    if len(word) < 5 or not any(pair in word for pair in ("ae", "oe", "our", "is", "ou", "ph", "tre", "bre", "uc", "rey", "lata")):
        return None
    changed = word
    for british, american in _BRITISH:
        changed = british.sub(american, changed)
    return changed if changed != word else None
