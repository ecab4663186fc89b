"""The targets of fuzzing: every reader, notes, corpora, requests, and everything that opens a saved artefact. Each starts from small valid files."""

from __future__ import annotations

import gzip
import io
import lzma
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from .base import DATA, DIM, Target, blank, content_of, must, small_linker
from .corpora import corpus_targets
from .notes import note_targets
from .service import service_targets

NAMES = 300  # in the indexes
KINDS = {
    "babelon": "tiny_babelon.tsv", "biosyn": "tiny_medic.txt", "ctd": "tiny_ctd.tsv", "mondo_json": "tiny_mondo.json", "obo": "tiny.obo",
    "obograph": "tiny_graph.json", "scispacy": "tiny_scispacy.jsonl", "sssom": "tiny.sssom.tsv", "table": "tiny_table.tsv",
}  # fmt: skip


def make_targets(scratch: Path) -> Iterator[Target]:
    """Yield all targets.

    Args:
        scratch: folder for their files.
    """
    for kind, file in KINDS.items():
        yield Target(f"reader-{kind}", 6, {file: (DATA / file).read_bytes()}, _reads(kind), scratch / kind)
    yield Target("reader-rrf", 1, _release(scratch / "release"), _reads_release, scratch / "rrf")
    yield Target("sniff", 4, {file: (DATA / file).read_bytes() for file in KINDS.values()}, _sniffs, scratch / "sniff")
    yield Target("archives", 6, _archives(), _reads_lines, scratch / "archives")
    yield from note_targets(scratch)
    yield from corpus_targets(scratch)
    yield from service_targets(scratch)
    yield from _of_a_linker(scratch)
    for engine in ("exact", "annoy", "usearch", "faiss", "faiss-lists", "lists"):
        yield Target(f"index-{engine}", 3, _index(engine, scratch / "made" / engine), _searches(engine), scratch / f"index-{engine}", sealed=True)


# -- readers ------------------------------------------------------------------------------------------------------------


def _reads(kind: str) -> Callable[[Path, str], None]:
    def consume(folder: Path, name: str) -> None:
        from spacy_sapbert.readers import read

        _use(read(folder / name, kind=kind))

    return consume


def _reads_release(folder: Path, name: str) -> None:
    from spacy_sapbert.readers import read

    _use(read(folder, kind="rrf", languages=None, relations=None))


def _use(concepts: Iterable[Any]) -> None:
    """Check the types of what a knowledge base takes from each concept."""
    for concept in concepts:
        must(isinstance(concept.concept_id, str) and isinstance(concept.source, str), "an id that is no text")
        for name in concept.names:
            must(
                isinstance(name.text, str) and isinstance(name.rank, int) and isinstance(name.language, str),
                f"a name that is none: {type(name.text)}",
            )
        must(concept.definition is None or isinstance(concept.definition, str), "a definition that is no text")
        for values in (concept.cuis, concept.types, concept.parents, concept.retired, concept.same_as):
            must(all(isinstance(value, str) for value in values), "a value that is no text")
        must(all(isinstance(part, str) for pair in (*concept.codes, *concept.relations) for part in pair), "a code that is no text")


def _sniffs(folder: Path, name: str) -> None:
    from spacy_sapbert.readers import sniff

    sniff(folder / name)


def _reads_lines(folder: Path, name: str) -> None:
    from spacy_sapbert.readers.text import lines

    for _ in lines(folder / name):
        pass


def _release(folder: Path) -> dict[str, bytes]:
    from ..umls_release import write_release

    write_release(folder, 12)
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.RRF"))}


def _archives() -> dict[str, bytes]:
    import zstandard

    text = (DATA / "tiny.obo").read_bytes()
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tiny.obo", text)
    return {"a.gz": gzip.compress(text), "a.xz": lzma.compress(text), "a.zst": zstandard.compress(text), "a.zip": zipped.getvalue()}


# -- saved artefacts ----------------------------------------------------------------------------------------------------


def _of_a_linker(scratch: Path) -> Iterator[Target]:
    """Yield the targets that read the parts of a linker or of a saved pipeline."""
    from spacy_sapbert.context.sense_model import SenseModel

    made = small_linker(scratch)
    linker: Any = blank().create_pipe("sapbert_linker", config={"linker_name": str(made)})
    linker.add_alias(next(iter(linker.kb)), "nickname of this concept")
    linker.to_disk(scratch / "made" / "saved")
    saved = content_of(scratch / "made" / "saved" / "linker")
    saved["ranker.json"] = _ranker(linker.model.fingerprint)
    saved["calibration.json"] = _calibration(linker)
    kb = {name.removeprefix("kb/"): content for name, content in saved.items() if name.startswith("kb/")}
    yield Target("kb", 4, kb, _uses_kb, scratch / "kb", sealed=True)
    encoder = {name.removeprefix("encoder/"): content for name, content in saved.items() if name.startswith("encoder/")}
    yield Target("encoder-static", 3, encoder, _opens_encoder, scratch / "encoder", sealed=True)
    yield Target("linker", 2, saved, _links, scratch / "linker", sealed=True)
    extras = {name: saved[name] for name in ("ranker.json", "calibration.json", "additions.json", "additions.npy")}
    yield Target("linker-extras", 6, extras, _reads_extras, scratch / "extras")
    matcher: Any = blank().create_pipe("concept_matcher", config={"linker_name": str(made)})
    matcher.to_disk(scratch / "made" / "matcher")
    yield Target("matcher", 1, content_of(scratch / "made" / "matcher"), _matches, scratch / "matcher", sealed=True)
    yield Target("recogniser", 0.3, content_of(_package_data("mentions")), _recognises, scratch / "recogniser", sealed=True)
    yield Target("senses", 0.2, content_of(_package_data("senses")), lambda folder, name: _use_senses(SenseModel.load(folder)), scratch / "senses")


def _package_data(name: str) -> Path:
    import spacy_sapbert

    return Path(spacy_sapbert.__file__).parent / "data" / name


def _ranker(encoder: str) -> bytes:
    from spacy_sapbert.ranking.ranker import FEATURES, Ranker

    return Ranker(tuple([1.0] * len(FEATURES)), encoder, "toys").to_json().encode()


def _calibration(linker: Any) -> bytes:
    from spacy_sapbert.calibration import Calibration

    built_for = {"encoder": linker.model.fingerprint, "kb": linker.kb.fingerprint}
    return Calibration((0.0, 1.0, 1.0, 1.0, *[0.0] * 7), "toys", built_for, {}, (0.1, 0.9), (False, True), (0.0, 0.2)).to_json().encode()


def _uses_kb(folder: Path, name: str) -> None:
    from spacy_sapbert.kb.knowledge_base import KnowledgeBase

    kb = KnowledgeBase(folder)
    kb.find(["fever", "cough", "x"])
    forms = list(islice(kb.surface_forms(), 5000))
    must(len(forms) <= kb.n_surface_forms, f"{len(forms)} surface forms, not {kb.n_surface_forms}")
    table = kb.name_table
    _, rows = table.find(np.arange(min(kb.n_surface_forms, 500)))
    for row in table.concept[rows][:50].tolist():
        kb.concept(row)
        kb.codes(row)
    for concept_id in islice(kb, 20):
        kb.get(concept_id)
    for _ in islice(kb.matchable_names(), 200):
        pass
    kb.allowed_type_sets(["T047"])
    must(isinstance(len(kb), int), "a length that is no number")


def _opens_encoder(folder: Path, name: str) -> None:
    from spacy_sapbert.bundle import open_encoder
    from spacy_sapbert.encoders.static import StaticEncoder

    vectors = open_encoder(folder, StaticEncoder()).encode(["fever", "word3 pain", ""])
    must(bool(np.isfinite(vectors).all()), "vectors with NaN")


@lru_cache(maxsize=1)
def _linker() -> Any:
    return blank().create_pipe("sapbert_linker")  # spaCy needs longer to fill its settings than the linker to open a folder


def _links(folder: Path, name: str) -> None:
    linker = _linker()
    linker.set_folder(folder)
    doc = blank().make_doc("Fever and dry cough .")
    doc.ents = [doc.char_span(0, 5, label="DISO"), doc.char_span(10, 19, label="DISO")]
    linker(doc)
    for span in doc.ents:
        must(all(np.isfinite(score) for _, score in span._.kb_ents), "a score that is not finite")


def _reads_extras(folder: Path, name: str) -> None:
    from spacy_sapbert.calibration import Evidence, read_calibration
    from spacy_sapbert.kb.additions import Additions
    from spacy_sapbert.ranking.ranker import read_ranker

    if name == "ranker.json":
        read_ranker(folder / name)
    elif name == "calibration.json":
        found = read_calibration(folder / name)
        must(0.0 <= found.probability(Evidence(0.5, 0.1, False)) <= 1.0, "a probability outside 0 to 1")
    else:
        Additions.from_disk(folder)


def _matches(folder: Path, name: str) -> None:
    nlp = blank()
    matcher: Any = nlp.create_pipe("concept_matcher", config={"linker_name": "hpo"})
    matcher.from_disk(folder)
    matcher(nlp.make_doc("Fever, dry cogh and pain in the chest."))


def _recognises(folder: Path, name: str) -> None:
    from spacy_sapbert.mentions.model import MentionModel

    model = MentionModel.from_disk(folder)
    model.find([blank().make_doc("Fever and dry cough for 3 days.")])


def _use_senses(model: Any) -> None:
    must(len(model.meanings) >= 0, "no meanings")


# -- indexes ------------------------------------------------------------------------------------------------------------


def _engine(name: str) -> Any:
    from spacy_sapbert.indexes.annoy import AnnoyIndex
    from spacy_sapbert.indexes.exact import ExactIndex
    from spacy_sapbert.indexes.faiss import FaissIndex
    from spacy_sapbert.indexes.lists import ListsIndex
    from spacy_sapbert.indexes.usearch import UsearchIndex

    makers: dict[str, Callable[[], Any]] = {
        "exact": ExactIndex,
        "annoy": lambda: AnnoyIndex(n_trees=3, pca=8, search_k=500, rescore=20, threads=1),
        "usearch": lambda: UsearchIndex(connectivity=4, rescore=20, threads=1),
        "faiss": lambda: FaissIndex(factory="HNSW8", rescore=20, threads=1),
        "faiss-lists": lambda: FaissIndex(factory="IVF4,SQ8", rescore=20, threads=1),
        "lists": lambda: ListsIndex(pca=8, rescore=20, threads=1),
    }
    return makers[name]()


def _vectors(count: int) -> Any:
    vectors = np.random.default_rng(7).standard_normal((count, DIM)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _index(engine: str, folder: Path) -> dict[str, bytes]:
    index = _engine(engine)
    index.build(_vectors(NAMES))
    index.report = {"built_for": {"kb": "x", "encoder": "y"}}
    shutil.rmtree(folder, ignore_errors=True)
    index.to_disk(folder)
    return content_of(folder)


def _searches(engine: str) -> Callable[[Path, str], None]:
    def consume(folder: Path, name: str) -> None:
        from spacy_sapbert.indexes.base import report_of

        index = _engine(engine).from_disk(folder)
        must(isinstance(report_of(index).get("built_for", {}), dict), "a report that is none")
        for allowed in (None, np.arange(len(index)) % 3 == 0):
            rows, cosines = index.query(_vectors(4)[:, : index.dim], 5, allowed=allowed)
            must(bool(((rows >= -1) & (rows < len(index))).all()), "rows that are not there")
            must(not bool(np.isnan(cosines).any()), "cosines that are NaN")

    return consume
