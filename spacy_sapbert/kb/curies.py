"""One spelling for vocabularies, identifiers and codes.

Sources write identifiers in different ways, such as `SCTID:84757009`, `SNOMEDCT_US_2018_03_01:84757009`, `mesh:D012640` or
`http://purl.obolibrary.org/obo/DOID_8718`. In this project, a *CURIE* is `prefix:local` in one spelling; it is used as concept id.
A *code* is `(vocabulary, code)` as in UMLS's MRCONSO (SAB, CODE). It has no prefix if UMLS's codes have none (NCI "C2985",
SNOMEDCT_US "84757009", MSH "D012640", OMIM "215600", FMA "7088", MDR "10064063"; also ORDO "124"). It has its prefix if UMLS writes
it so or does not have the vocabulary (HPO "HP:0001250", GO, MONDO, DOID, UBERON, EFO, CHEBI, MAXO, SYMP …).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from .concept import is_cui


class Vocabulary(NamedTuple):
    """A vocabulary that this package knows.

    Attributes:
        name: Its abbreviation in UMLS.
        prefix: Prefix of its CURIEs.
        bare: Whether its codes are written without the prefix.
    """

    name: str
    prefix: str
    bare: bool


# UMLS abbreviation, CURIE prefix, whether codes are written without the prefix, other spellings of the prefix
_TABLE = """
HPO HP no HPO
MONDO MONDO no
DOID DOID no
UBERON UBERON no
MAXO MAXO no
SYMP SYMP no
EFO EFO no
CHEBI CHEBI no
GO GO no
CL CL no
PATO PATO no
HGNC HGNC no
MPATH MPATH no
MP MP no
NCI NCIT yes NCI NCI_THESAURUS
SNOMEDCT_US SNOMEDCT_US yes SNOMEDCT SNOMED_CT SNOMED-CT SCTID SNOMED SCT SNOMEDCT_CORE
MSH MESH yes MSH
OMIM OMIM yes MIM
OMIMPS OMIMPS yes MIMPS
ORDO Orphanet yes ORPHA ORDO ORPHANET
ICD10 ICD10 yes ICD-10 ICD10WHO
ICD10CM ICD10CM yes ICD-10-CM
ICD9CM ICD9CM yes ICD9 ICD-9 ICD-9-CM
ICD11 ICD11 yes ICD-11
ICDO ICDO yes ICD-O
MTHICD9 MTHICD9 yes
MDR MEDDRA yes MDR
FMA FMA yes
RXNORM RXNORM yes RXCUI
ATC ATC yes
NDFRT NDFRT yes
DRUGBANK DRUGBANK yes
UNII UNII yes
GARD GARD yes
CSP CSP yes
LNC LNC yes LOINC
CPT CPT yes
NCBI NCBITaxon yes NCBITAXON
PHARMGKB pharmgkb.drug yes PHARMGKB
MTH MTH yes
"""
_UMLS = frozenset({"UMLS", "UMLS_CUI", "CUI"})
_RELEASE = re.compile(r"_?(?:19|20)\d\d(?:_\d\d_\d\d|A[A-D])?$")  # NCI2004_11_17, ICD9CM_2006, SNOMEDCT_US_2018_03_01
_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_LOCAL = re.compile(r"(?=\S*\d)[A-Za-z0-9_.:-]+")
_IRI = re.compile(r"https?://[^\s]*[/#]([A-Za-z][A-Za-z0-9.]*)_([A-Za-z0-9-]+)$")


def _load() -> dict[str, Vocabulary]:
    known = {}
    for line in _TABLE.split("\n"):
        if fields := line.split():
            vocabulary = Vocabulary(fields[0], fields[1], fields[2] == "yes")
            known.update({spelling.upper(): vocabulary for spelling in (fields[0], fields[1], *fields[3:])})
    return known


_KNOWN = _load()


@lru_cache(maxsize=4096)
def known(prefix: str) -> Vocabulary | None:
    """Return the vocabulary of a CURIE prefix in any spelling, with or without a release date; None if it is not known."""
    prefix = prefix.strip().upper()
    return _KNOWN.get(prefix) or _KNOWN.get(_RELEASE.sub("", prefix))


def from_iri(text: str) -> str:
    """Turn an OBO PURL or ORDO IRI into a CURIE: `…/obo/DOID_8718` -> `DOID:8718`. Return other texts as they are."""
    match = _IRI.match(text)
    return f"{match[1]}:{match[2]}" if match else text


def split(curie: str) -> tuple[str, str]:
    """Split a CURIE or IRI into (prefix, local part); the prefix is "" if there is none."""
    prefix, colon, local = from_iri(curie.strip()).partition(":")
    prefix = prefix.strip()
    return (prefix, local.strip()) if prefix and colon and not local.startswith("//") else ("", curie.strip())


def cui(curie: str) -> str | None:
    """Return the CUI that `UMLS:C…`, `UMLS_CUI:C…` or a bare CUI names; None for others.

    The C-numbers of MeSH and NCIt are not CUIs: they have other prefixes.
    """
    prefix, local = split(curie)
    return local if (not prefix or prefix.upper() in _UMLS) and is_cui(local) else None


def canonical(curie: str) -> str:
    """Return the one spelling of an identifier.

    `mesh:D1` -> `MESH:D1`, `SCTID:7` -> `SNOMEDCT_US:7`, `ORDO:124` -> `Orphanet:124`, `UMLS:C0000001` -> `C0000001`. Prefixes that are not known
    stay as they are.
    """
    if found := cui(curie):
        return found
    prefix, local = split(curie)
    vocabulary = known(prefix)
    return f"{vocabulary.prefix if vocabulary else prefix}:{local}" if prefix else local


def code(curie: str) -> tuple[str, str] | None:
    """Return (vocabulary, code) as UMLS writes it; None for a vocabulary that is not known, a CUI or `NOCODE`."""
    prefix, local = split(curie)
    vocabulary = known(prefix)
    if vocabulary is None or not local or local == "NOCODE":
        return None
    return vocabulary.name, local if vocabulary.bare else f"{vocabulary.prefix}:{local}"


def vocabulary_key(vocabulary: str) -> str:
    """Return one key for all spellings of a vocabulary: `MSH`, `mesh` and `MeSH` give "MSH", `ORPHANET` and `ORPHA` give "ORDO"."""
    found = known(vocabulary)
    return found.name if found else vocabulary.strip().upper()


def code_spellings(curie: str) -> list[str]:
    """Return all ways in which a knowledge base may write the code of a CURIE: with or without its prefix, as written or in capitals."""
    prefix, local = split(curie)
    vocabulary = known(prefix)
    prefixes = [vocabulary.prefix] if vocabulary else [prefix, prefix.upper()]
    return list(dict.fromkeys(spelt for code in (local, local.upper()) for spelt in (code, *(f"{each}:{code}" for each in prefixes))))


def vocabulary_of(curie: str, default: str = "LOCAL") -> str:
    """Return the vocabulary of an identifier: "HPO" for `HP:…`, "UMLS" for CUIs, the prefix itself if it is not known."""
    if cui(curie):
        return "UMLS"
    prefix, _ = split(curie)
    vocabulary = known(prefix)
    return vocabulary.name if vocabulary else prefix or default


def looks_like_id(text: str) -> bool:
    """Return whether a text has the form of an identifier: a CUI, an IRI, or PREFIX:CODE with a digit in the code and no blanks."""
    prefix, local = split(text)
    return cui(text) is not None or bool(prefix and _PREFIX.fullmatch(prefix) and _LOCAL.fullmatch(local))


def why_unknown(curie: str, vocabularies: Sequence[str]) -> str:
    """Say why no concept has an identifier.

    Args:
        curie: The identifier.
        vocabularies: The vocabularies of the knowledge base, the largest first.
    """
    found = vocabulary_of(curie, "")
    if not found:
        return f"no concept has the id '{curie}'"
    if found in vocabularies or found == "UMLS":
        return f"no concept has the code '{curie}' of {found}"
    return f"the knowledge base has no code of {found}. It has codes of {', '.join(vocabularies[:12])}"


def vocabularies_in_words(ids: Iterable[str]) -> str:
    """Return the vocabularies of some identifiers as text, the most frequent first: "MSH (12), OMIM (3), no vocabulary (1)"."""
    counts = Counter(vocabulary_of(each, "no vocabulary") for each in ids)
    return ", ".join(f"{vocabulary} ({count:,})" for vocabulary, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:6])
