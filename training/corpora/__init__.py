"""Read corpora of any layout into documents and gold mentions, and read notes.

corpus = read_corpus("NCBItestset_corpus.txt")
print(describe(corpus))
for doc, mentions in make_docs(corpus, spacy.blank("en")): ...

`corpus` defines what all readers return, `ids` the canonical spelling of ids. The readers are in `pubtator`, `hpo`, `bars`, `tables`, `brat`,
`cadec`, `psytar`, `bionne`, `labeledin` and `docbin`. A reader takes lines, so that it is easy to test, or a path if the layout is a folder or a
binary file. `layouts` chooses the reader.
"""

from .bars import read_biosyn, read_dictionary, read_xlbel
from .bionne import read_bionne
from .brat import read_brat
from .cadec import read_cadec
from .corpus import Corpus, open_lines, placed
from .describe import describe, overlapping
from .docbin import read_docbin
from .docs import GOLD, aligned, by_document, fitting, make_docs, resolved_texts
from .hpo import read_gsc, read_jax
from .ids import NIL, gold_id, gold_ids
from .labeledin import read_labeledin
from .layouts import LAYOUTS, read_corpus, read_split, recognise, vocabulary_of_layout
from .psytar import read_psytar
from .pubtator import read_pubtator
from .sharing import Shared, shared_documents, sharing_report
from .tables import read_askapatient, read_biomap, read_cometa, read_smm4h, read_tsv
from .texts import read_notes

__all__ = [
    "GOLD",
    "LAYOUTS",
    "NIL",
    "Corpus",
    "Shared",
    "aligned",
    "by_document",
    "describe",
    "fitting",
    "gold_id",
    "gold_ids",
    "make_docs",
    "open_lines",
    "overlapping",
    "placed",
    "read_askapatient",
    "read_biomap",
    "read_bionne",
    "read_biosyn",
    "read_brat",
    "read_cadec",
    "read_cometa",
    "read_corpus",
    "read_dictionary",
    "read_docbin",
    "read_gsc",
    "read_jax",
    "read_labeledin",
    "read_notes",
    "read_psytar",
    "read_pubtator",
    "read_smm4h",
    "read_split",
    "read_tsv",
    "read_xlbel",
    "recognise",
    "resolved_texts",
    "shared_documents",
    "sharing_report",
    "vocabulary_of_layout",
]
