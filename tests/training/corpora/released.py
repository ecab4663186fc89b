"""Small invented corpora in the layouts of licensed ones: their rows look like those of the released files."""

from __future__ import annotations

from pathlib import Path

# /sct: names with `|`, some without; two concepts by `+`, alternatives by `or`; spaces instead of a tab; pieces; a name with a number
CADEC_SCT = """TT1\t271782001 | Drowsy | 10 20\tbit drowsy
TT2\tCONCEPT_LESS 30 38\tweird eye
TT3\t76948002|Severe pain| + 57676002 Arthralgia |  43 47;55 61\tpain joints
TT4\t102498003 | Agony | or 76948002|Severe pain| 62 67\tagony
TT5\t2297011000036108 | vitamin B12 | (substance) 71 74     B12
#1\tAnnotatorNotes T1\tlook again
"""
CADEC_MEDDRA = """TT1\t10013649 10 20\tbit drowsy
TT3\t10033371 + 10003239/10003240 43 47;55 61\tpain joints
"""
CADEC_ORIGINAL = """T1\tADR 10 20\tbit drowsy
#1\tAnnotatorNotes T1\tlook again
T2\tSymptom 30 38\tweird eye
T3\tADR 43 47;55 61\tpain joints
T5\tDrug 71 74\tB12
"""
CADEC_TEXT = "I feel, é, bit drowsy and one weird eye and pain in all joints agony by B12."

PSYTAR = {
    "ADR_Mapped": """id,drug_id,sentence_index,ADRs,UMLS1,UMLS2,SNOMED-CT,SNOMED-CT
1,lexapro.1,2,no  sleep,C0917801 / Insomnia,,193462001 / Insomnia (disorder),
2,lexapro.1,3,"fat, tired",C0043094/Weight Gain,C0015672 / Fatigue,8943002 / Weight gain,84229001.0
3,zoloft.7,1,odd,,,,
4,zoloft.7,1,,C0015672 / Fatigue,,,
""",
    "WD-Mapped ": "id,drug_id,sentence_id,WDs,UMLS1,UMLS2,SNOMED-CT,SNOMED-CT\n1,zoloft.7,1,brain zaps,C0000001 / Zaps,,-,\n",
    "SSI_Mapped": "id,drug_id,sentence_index,SSI,UMLS1,UMLS2,SNOMED-CT,SNOMED-CT\n",
    "DI_Mapped": "id,drug_id,sentence_index,DIs,UMLS1,UMLS2,SNOMED-CT,SNOMED-CT\n1,zoloft.7,1,panic,C0030319 / Panic,,35489007 / Panic,\n",
}

SMM4H_2017 = "44675\tso sleepy\t10041349\n40103\tweird  dreams \t10000125\n"
SMM4H_LATER = (
    "tweet_id\tbegin\tend\ttype\textraction\tdrug\ttweet\tmeddra_code\tmeddra_term\n"
    "7\t3\t12\tADR\tso sleepy\tx\tI'm so sleepy\t10041349\tsomnolence\n"
    "8\t\t\t\t\t\tnothing here\t\t\n"
)
PORTELLI = (
    ',ae,term_code,term,samp_id,term_llt_or_pt\n0,so sleepy ,10041349,somnolence,341,somnolence\n1,"veins, too",10047184,vein disorder,342,vein\n'
)

TWIMED = """T1\tDrug 4 12\tPlacebum
A1\tModality T1 Generic
N1\tReference T1 Concepts:5376\tPlacebum
T2\tSymptom 22 30\ttoo hazy
N2\tReference T2 Concepts:C0022107\tIrritable Mood
T3\tDisease 35 38\tflu
N3\tReference T3 Concepts:0\tDisagreement in Concept ID
#1\tAnnotatorNotes T3\tDisagreement in concept ID: C0678222 Vs. C3495917
R1\tOutcome-negative Arg1:T1 Arg2:T2
"""
TWIMED_TEXT = "The Placebum made me  too hazy for flu."


def cadec_folder(path: Path) -> Path:
    """Write a corpus of one post; the annotations are Latin-1, the text is UTF-8."""
    for folder, name, text, encoding in (
        ("sct", "LIPITOR.1.ann", CADEC_SCT, "latin-1"),
        ("meddra", "LIPITOR.1.ann", CADEC_MEDDRA, "latin-1"),
        ("original", "LIPITOR.1.ann", CADEC_ORIGINAL, "latin-1"),
        ("text", "LIPITOR.1.txt", CADEC_TEXT, "utf-8"),
    ):
        (path / folder).mkdir(parents=True, exist_ok=True)
        (path / folder / name).write_text(text, encoding=encoding)
    return path


def psytar_folder(path: Path) -> Path:
    """Write the mapped sheets as CSV files."""
    path.mkdir(parents=True, exist_ok=True)
    for sheet, text in PSYTAR.items():
        (path / f"{sheet.strip()}.csv").write_text(text, encoding="utf-8")
    return path


def twimed_folder(path: Path) -> Path:
    """Write a sentence with its text, and a tweet without."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "PMC1_1.ann").write_text(TWIMED, encoding="utf-8")
    (path / "PMC1_1.txt").write_text(TWIMED_TEXT, encoding="utf-8")
    (path / "641.ann").write_text("T1\tSymptom 3 9\tlow as\nN1\tReference T1 Concepts:C0011570\tDepression\n", encoding="utf-8")
    return path
