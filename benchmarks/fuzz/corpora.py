"""The target of fuzzing that reads annotated corpora: small invented ones in every layout of `training.corpora`."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .base import Target, blank, must

LONG = 20_000  # characters; of longer texts no Docs are made, because that takes most of the time
LINES = {
    "gsc": "100\nShort stature and low muscle tone.\n0\t13\tShort stature\tHP:0004322\n18\t33\tlow muscle tone\tHP:0001252\n\n200\nNo finding here.\n",
    "pubtator": "7|t|WD and cancer.\n7|a|Wilson disease (WD) is rare.\n7\t0\t2\tWD\tModifier\tD006527\n7\t15\t29\tWilson disease\tDisease\tC535918+D006527\n"
    "7\tCID\tD006527\tD006528\n7\t18\t22\tmice\tOrganismTaxon\t10090\n",
    "cometa": 'ID\tTerm\tGeneral SNOMED Label\tGeneral SNOMED ID\tSpecific SNOMED Label\tSpecific SNOMED ID\tExample\n11\theart attack\tMI\t22298006\tMI\t22298006\t"My ""heart attack""."\n',
    "biomap": 'pmid,mention,cui,mondo_id\n7,cancer,C1,MONDO:1\n7,"cancer, lung",C1,MONDO:2\n',
    "tsv": "ids\tmention\tstart\tend\tdocument\nD006527\tWD\t3\t5\tn1\nC0000001|C0000002\tscar\t0\t4\tn2\n",
    "askapatient": "22298006\tMyocardial infarction\tmy heart stopped\n",
    "xlbel": "C0000001||ciegos||Los <tgt>ciegos</tgt> y <tgt>otros</tgt>.\nC0000002|C0000003||oro\n",
    "dictionary": "D006527|277900||Wilson disease\nD006527||hepatolenticular degeneration|WD\n",
    "smm4h": "tweet_id\tbegin\tend\ttype\textraction\tdrug\ttweet\tmeddra_code\tmeddra_term\n7\t3\t12\tADR\tso sleepy\tx\tI'm so sleepy\t10041349\tsomnolence\n",
    "labeledin": '10|a-1| For <br> <annotation cui="C0000001">Acid <i>reflux</i></annotation> if <18; <annotation cui="C0000002;C0000003">bone ills</annotation>|a-1;b-2;\n',
}  # fmt: skip
FOLDERS = {
    "bionne": {
        "tsv/train.tsv": "document_id\ttext\tentity_type\tspans\tUMLS_CUI\n7_en\tcleft lip\tDISO\t2-11\tC0000001\n7_en\tcleft palate\tDISO\t2-7,16-22\tC0000003\n",
        "texts/en/7_en.txt": "A cleft lip and palate.",
    },
    "biosyn": {"10.concept": "10||0|13||Composite||liver disease|lung disease||D008107|D008171\n10||20|22||Modifier||wd||D006527|C535918\n"},
    "brat": {
        "a.ann": "T1\tDisease 8 13;23 30\tliver disease\nT2\tDisease 18 30\tlung disease\nN1\tReference T1 UMLS:C0023895\tLiver diseases\n"
        "#1\tAnnotatorNotes T2\tC0024115\nR1\tWith Arg1:T1 Arg2:T2\n",
        "a.txt": "He has: liver and\nlung disease. Fever, chills.",
    },
    "cadec": {
        "sct/L.1.ann": "TT1\t271782001 | Drowsy | 10 20\tbit drowsy\nTT2\tCONCEPT_LESS 30 38\tweird eye\nTT3\t76948002|Severe pain| + 57676002 Arthralgia | 43 47;55 61\tpain joints\n",
        "original/L.1.ann": "T1\tADR 10 20\tbit drowsy\nT2\tSymptom 30 38\tweird eye\nT3\tADR 43 47;55 61\tpain joints\n",
        "text/L.1.txt": "I feel, e, bit drowsy and one weird eye and pain in all joints agony by B12.",
    },
    "psytar": {
        "ADR_Mapped.csv": "id,drug_id,sentence_index,ADRs,UMLS1,UMLS2,SNOMED-CT,SNOMED-CT\n1,lexapro.1,2,no  sleep,C0917801 / Insomnia,,193462001 / Insomnia (disorder),\n",
        "WD-Mapped.csv": "id,drug_id,sentence_id,WDs,UMLS1,UMLS2,SNOMED-CT,SNOMED-CT\n1,zoloft.7,1,brain zaps,C0000001 / Zaps,,-,\n",
        "SSI_Mapped.csv": "id,drug_id,sentence_index,SSI,UMLS1,UMLS2,SNOMED-CT,SNOMED-CT\n",
        "DI_Mapped.csv": "id,drug_id,sentence_index,DIs,UMLS1,UMLS2,SNOMED-CT,SNOMED-CT\n1,zoloft.7,1,panic,C0030319 / Panic,,35489007 / Panic,\n",
    },
}  # fmt: skip


def corpus_targets(scratch: Path) -> Iterator[Target]:
    """Yield this target.

    Args:
        scratch: folder for its files.
    """
    files = {f"{layout}/corpus": text.encode() for layout, text in LINES.items()}
    files |= {f"{layout}/{name}": text.encode() for layout, texts in FOLDERS.items() for name, text in texts.items()}
    files |= {"jax/JAX_gold.json": json.dumps({"1": {"HP:0000256": "Macrocephaly"}, "2": {"HP:0001250": "Seizure"}}).encode()}
    files |= {"jax/jax_txt.tar.gz": _archive({"txt/1.txt": b"A large head\r\nand dystonia.", "txt/3.txt": b"Nothing."}), "docbin/corpus": _docbin()}
    yield Target("corpora", 4, files, _reads_corpus, scratch / "corpora")


def _archive(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def _docbin() -> bytes:
    from spacy.tokens import DocBin

    doc = blank()("Wilson disease and cystic fibrosis.")
    doc.ents = [doc.char_span(0, 14, label="Disease", kb_id="D006527")]
    made: bytes = DocBin(docs=[doc]).to_bytes()
    return made


def _reads_corpus(folder: Path, name: str) -> None:
    from training.corpora import fitting, make_docs, read_corpus, recognise

    layout, _, file = name.partition("/")
    path: Any = folder / layout / "corpus" if file == "corpus" else folder / layout
    corpus = read_corpus(path, layout)
    for mention in corpus.mentions:
        must(isinstance(mention.start, int) and isinstance(mention.end, int) and isinstance(mention.text, str), "a mention that is none")
        must(all(isinstance(part, str) and part for ids in mention.gold for part in ids), "an id that is no text")
    if all(len(text) < LONG for text in corpus.documents.values()):
        make_docs(fitting(corpus)[0], blank())
    recognise(path)
