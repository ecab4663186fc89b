"""Join the sources of the open vocabulary into the table that the package ships: `python -m training vocabulary make`.

`spacy_sapbert.readers.table` reads the table, which is compressed with xz. It has a row for each name of each concept, with the vocabulary that the
name comes from. The comment at its top gives the release and licence of each vocabulary. A second table has the abbreviations, with the frequency of
each of their senses.
"""

from __future__ import annotations

import json
import lzma
import tempfile
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from spacy_sapbert.files import checksum, write_text
from spacy_sapbert.kb.builder import WEAK, build_kb
from spacy_sapbert.kb.concept import OWN, Concept, Name, normalise
from spacy_sapbert.kb.joining import Joins
from spacy_sapbert.kb.knowledge_base import KnowledgeBase

from .eponyms import short_names
from .mesh import ENTRY
from .senses import joined, read_senses
from .sources import ORIGINS, PATIENTS, file_of, is_there, listed_cuis, open_sources, own_rows, release_of

WRONG = Path(__file__).with_name("wrong_names.tsv")
COLUMNS = ("concept_id", "name", "source", "term_type", "rank", "types", "codes", "terms", "retired", "definition")
SENSES = tuple(
    f"dictionaries/abbreviations/{name}.txt.gz" for name in ("vanderbilt_clinic_notes", "vanderbilt_discharge_sums", "stetson_sense_distribution_448")
)
SENSE_COLUMNS = "abbreviation\tlong_form\tcui\tfrequency\tsource"
NOTE = "# Senses of clinical abbreviations (Vanderbilt, Stetson; CC BY 4.0). frequency: mean share of the occurrences in the sources that have it."
SHOWN_CODES = frozenset(
    {
        "HPO",
        "MONDO",
        "DOID",
        "NCI",
        "ORDO",
        "UBERON",
        "MAXO",
        "SYMP",
        "ONCOTREE",
        "ICD10CM",
        "RXNORM",
        "DRUGBANK",
        "MSH",
        "OMIM",
        "SNOMEDCT_US",
        "UMLS",
    }
)
WEIGHTS = {"PT": 3, "LAY": 1, "NRW": 0, "REL": 0, "BRD": 0, "OB": 0}  # weight of a source that gives a name, by the term type; 2 for other term types
MOST_DEFINITION = 400  # greatest number of characters


def make(assets: Path, out: Path, senses: Path, report: Path, *, kb: Path | None = None, progress: bool = True) -> dict[str, Any]:
    """Make the table of the open vocabulary.

    Args:
        assets: Folder with the files of the assets.
        out: The table to write, open.tsv.xz.
        senses: The table of abbreviations to write.
        report: Folder for the list of joined terms and for the counts.
        kb: Folder for the joined knowledge base; None: it is deleted.
        progress: Whether to show progress bars.

    Returns:
        The counts, as in report/vocabulary.json.

    Raises:
        SapbertError: E004, E401, see `sources.file_of`; and the errors of the readers.
    """
    joins = Joins(listed=listed_cuis())
    with tempfile.TemporaryDirectory() as scratch:
        folder = kb or Path(scratch) / "kb"
        made = build_kb(open_sources(assets), folder, joins=joins, progress=progress)
        counts = _write_table(made, out, assets)
        ids = _cuis(made)
        rows = joined(read_senses([file_of(name, assets) for name in SENSES]), ids)
    write_text(
        senses, "\n".join([NOTE, SENSE_COLUMNS, *(f"{r.abbreviation}\t{r.long_form}\t{r.cui}\t{r.frequency:g}\t{r.source}" for r in rows)]) + "\n"
    )
    decided = Counter(decision.what for decision in joins.decisions)
    counts |= {"decisions": dict(decided), "senses": len(rows), "manifest": made.manifest["counts"], "bytes": out.stat().st_size}
    report.mkdir(parents=True, exist_ok=True)
    lines = ["\t".join(("what", "term", "concept", "name", "reason")), *("\t".join(decision) for decision in joins.decisions)]
    write_text(report / "joined.tsv", "\n".join(lines) + "\n")
    write_text(report / "vocabulary.json", json.dumps(counts, indent=1) + "\n")
    return counts


def _cuis(kb: KnowledgeBase) -> dict[str, str]:
    """Return CUI -> id of its concept. A CUI that is itself the id of a concept belongs to that concept, even if others list it too."""
    found: dict[str, str] = {}
    for cui, row in kb.concepts_of_codes("UMLS"):
        concept_id = kb.concept_id(row)
        if concept_id == cui or cui not in found:
            found[cui] = concept_id
    return found


def _write_table(kb: KnowledgeBase, out: Path, assets: Path) -> dict[str, Any]:
    """Write the table, and return the counts. The same knowledge base always gives the same bytes."""
    names: Counter[str] = Counter()
    terms = kb.terms()
    borne = _borne(kb)
    wrong = wrong_names()
    firsts = _firsts(kb)
    short = short_names({row: concept.names for row, concept in enumerate(kb.concepts()) if concept.types})
    body: list[str] = ["\t".join(COLUMNS)]
    concepts = 0
    for row, concept in enumerate(kb.concepts()):
        if not concept.types:  # a sense of an abbreviation that is in no vocabulary: "weekly", "Kentucky"
            continue
        others = {form for form in (normalise(name.text) for name in concept.names) if firsts.get(form, set()) - {row}}
        right = [name for name in _kept(concept, others) if (concept.concept_id, normalise(name.text)) not in wrong]
        kept = [name for place, name in enumerate(right) if place == 0 or not _yields(name, row, borne)] + short.get(row, [])
        concepts += bool(kept)
        for place, name in enumerate(kept):
            names[name.source] += 1
            kind = "PT" if place == 0 else "SY" if name.term_type == "PT" else name.term_type
            more = _more(concept, terms.get(row, [])) if place == 0 else []
            rank = str(_rank(concept, name, canonical=place == 0))
            body.append("\t".join([concept.concept_id, name.text, name.source, kind, rank, *more]))
    head = ["# The open vocabulary of spacy-sapbert: made by `python -m training vocabulary make`. Names are as their sources write them."]
    listed = {}
    for origin in ORIGINS:
        if not is_there(origin, assets):
            continue
        files = {name: checksum(file_of(name, assets)) for name in origin.files}
        listed[origin.vocabulary] = {"title": release_of(origin), "licence": origin.licence, "names": names[origin.vocabulary], "files": files}
        head.append(f"# {origin.vocabulary}: {release_of(origin)}. Licence: {origin.licence}. {names[origin.vocabulary]} names")
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f".{out.name}.tmp")
    temporary.write_bytes(lzma.compress("\n".join([*head, *body, ""]).encode(), preset=9 | lzma.PRESET_EXTREME))
    temporary.replace(out)
    return {"concepts": concepts, "names": sum(names.values()), "sources": listed}


def wrong_names(path: Path = WRONG) -> set[tuple[str, str]]:
    """Read the names that are left out for one concept. Return pairs of concept id and normalised name."""
    return {(concept, normalise(name)) for concept, name in own_rows(path, 2)}


def _borne(kb: KnowledgeBase) -> dict[str, set[int]]:
    """Return name -> concepts that have this name, not counting entry terms of MeSH."""
    found: dict[str, set[int]] = defaultdict(set)
    for row, concept in enumerate(kb.concepts()):
        for name in concept.names:
            if name.term_type != ENTRY:
                found[normalise(name.text)].add(row)
    return found


def _firsts(kb: KnowledgeBase) -> dict[str, set[int]]:
    """Return name -> concepts whose first name it is, before `_agreed_first`."""
    found: dict[str, set[int]] = defaultdict(set)
    for row, concept in enumerate(kb.concepts()):
        found[normalise(_plain_first(concept.names)[0].text)].add(row)
    return found


def _yields(name: Name, row: int, borne: dict[str, set[int]]) -> bool:
    """Return whether a name must be left out: another concept has it, too, and it is an entry term of MeSH (often narrower) or a phrase of patients."""
    return (name.term_type == ENTRY or name.source == PATIENTS) and bool(borne.get(normalise(name.text), set()) - {row})


def _plain_first(names: Sequence[Name]) -> list[Name]:
    """Put our own preferred name first where UBERON's would be: it calls the thigh "hindlimb stylopod", as in all vertebrates.

    A phrase of patients comes first only if there is no other name.
    """
    names = sorted(names, key=lambda name: name.source == PATIENTS)
    own = next((name for name in names if name.source == OWN and name.term_type == "PT"), None)
    if own is None or names[0].source != "UBERON":
        return list(names)
    return [own, *(name for name in names if name is not own)]


def _agreed_first(names: Sequence[Name], others: Collection[str] = ()) -> list[Name]:
    """Put the name first that most sources prefer, if at least two do, and only one prefers the first name.

    HPO alone calls acromegaly "elevated circulating growth hormone concentration". The first name stays if the other one only adds words to it
    ("isolated ectopia lentis", "congenital laryngeal cyst"), or is the first name of another concept.

    Args:
        names: the names of a concept.
        others: normalised names that come first in other concepts.
    """
    preferred: dict[str, set[str]] = defaultdict(set)  # name -> sources that prefer it
    for name in names:
        if name.term_type == "PT":
            preferred[normalise(name.text)].add(name.source)
    first = normalise(names[0].text)
    if len(preferred[first]) > 1:
        return list(names)
    best = max(preferred, key=lambda form: len(preferred[form]))  # the first of those with as many sources
    if best in others or len(preferred[best]) < 2 or set(first.split()) <= set(best.split()):
        return list(names)
    chosen = next(name for name in names if name.term_type == "PT" and normalise(name.text) == best)
    return [chosen, *(name for name in names if name is not chosen)]


def _kept(concept: Concept, others: Collection[str]) -> list[Name]:
    """Return one name for each surface form, the canonical one first: the first that is not weak, else the first. For `others` see `_agreed_first`."""
    found: dict[str, Name] = {}
    for name in _agreed_first(_plain_first(concept.names), others):
        norm = normalise(name.text)
        if norm not in found or (found[norm].term_type in WEAK and name.term_type not in WEAK):
            found[norm] = name
    return list(found.values())


def _rank(concept: Concept, name: Name, *, canonical: bool) -> int:
    """Return the rank of a name, to choose between concepts that have the same name. It is lower, thus better, if more sources give this name.

    Canonical names have the ranks 0 to 3, others 4 to 8, weak ones 9.
    """
    if name.term_type in WEAK and not canonical:
        return 9
    norm = normalise(name.text)
    weight = sum({other.source: WEIGHTS.get(other.term_type, 2) for other in reversed(concept.names) if normalise(other.text) == norm}.values())
    return max(0, 3 - max(0, weight - 3) // 2) if canonical else max(4, 8 - max(0, weight - 1) // 2)


def _more(concept: Concept, terms: list[str]) -> list[str]:
    codes = [
        f"{vocabulary}:{code.rpartition(':')[2]}" for vocabulary, code in concept.codes if vocabulary in SHOWN_CODES and code != concept.concept_id
    ]
    definition = (concept.definition or "").replace("\t", " ")
    if len(definition) > MOST_DEFINITION:
        definition = definition[:MOST_DEFINITION].rsplit(" ", 1)[0] + " …"
    columns = (concept.types, codes, terms, concept.retired)
    return [*("|".join(dict.fromkeys(values)) for values in columns), definition]
