"""The targets of fuzzing: every reader, notes, and everything that opens a saved artefact. Each target starts from small valid files."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import random
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from spacy_sapbert.files import MANIFEST, checksum

from ..common import ROOT

DATA = ROOT / "tests" / "data"
NAMES, DIM = 300, 16  # size of the indexes
Mutate = Callable[[bytes, list[bytes], random.Random], bytes]
KINDS = {
    "babelon": "tiny_babelon.tsv", "biosyn": "tiny_medic.txt", "ctd": "tiny_ctd.tsv", "mondo_json": "tiny_mondo.json", "obo": "tiny.obo",
    "obograph": "tiny_graph.json", "scispacy": "tiny_scispacy.jsonl", "sssom": "tiny.sssom.tsv", "table": "tiny_table.tsv",
}  # fmt: skip


@dataclass
class Target:
    """Something that reads files.

    Attributes:
        name: its name.
        share: weight of this target when the inputs are divided among the targets; slow targets get fewer.
        files: content of small valid files by name.
        consume: reads a folder (first argument) in which one file (second argument, its name) was changed.
        folder: folder into which the files are written.
        sealed: whether checksums in manifests are corrected after a change.
    """

    name: str
    share: float
    files: dict[str, bytes]
    consume: Callable[[Path, str], None]
    folder: Path
    sealed: bool = False

    def mutate(self, chance: random.Random, mutated: Mutate) -> bytes:
        """Return an input: the name of a file, a line end, and its changed content."""
        name = chance.choice(sorted(self.files))
        return name.encode() + b"\n" + mutated(self.files[name], list(self.files.values()), chance)

    def try_input(self, data: bytes) -> None:
        """Read an input.

        Raises:
            SapbertError: the input was refused.
            Exception: the input made the target fail.
        """
        line, _, content = data.partition(b"\n")
        name = line.decode()
        self.lay_out()
        path = self.folder / name
        try:
            path.write_bytes(content)
            if self.sealed:
                seal(self.folder, name)
            self.consume(self.folder, name)
        finally:
            path.unlink(missing_ok=True)  # a memory map of the changed file stays valid
            path.write_bytes(self.files[name])
            if self.sealed:
                seal(self.folder, name)

    def lay_out(self) -> None:
        """Write the valid files, if they are not there yet."""
        if not self.folder.is_dir():
            for name, content in self.files.items():
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / name).write_bytes(content)


def seal(folder: Path, name: str) -> None:
    """Write the size and checksum of a changed file into the manifests that list it."""
    for above in (folder / name).parents:
        path = above / MANIFEST
        if path.is_file() and path != folder / name:
            try:
                content = json.loads(path.read_text(encoding="utf-8"))
            except (ValueError, RecursionError):
                continue
            listed = (folder / name).relative_to(above).as_posix()
            if isinstance(content, dict) and isinstance(content.get("files"), dict) and listed in content["files"]:
                content["files"][listed] = {"bytes": (folder / name).stat().st_size, "blake2b": checksum(folder / name)}
                path.write_text(json.dumps(content), encoding="utf-8")
        if above == folder:
            return


def make_targets(scratch: Path) -> Iterator[Target]:
    """Yield all targets.

    Args:
        scratch: folder for their files.
    """
    for kind, file in KINDS.items():
        yield Target(f"reader-{kind}", 6, {file: (DATA / file).read_bytes()}, _reads(kind), scratch / kind)
    yield Target("reader-rrf", 2, _release(scratch / "release"), _reads_release, scratch / "rrf")
    yield Target("sniff", 4, {file: (DATA / file).read_bytes() for file in KINDS.values()}, _sniffs, scratch / "sniff")
    yield Target("archives", 6, _archives(), _reads_lines, scratch / "archives")
    yield Target("notes-jsonl", 6, {"notes.jsonl": _notes()}, _reads_notes, scratch / "notes")
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
        _must(isinstance(concept.concept_id, str) and isinstance(concept.source, str), "an id that is no text")
        for name in concept.names:
            _must(
                isinstance(name.text, str) and isinstance(name.rank, int) and isinstance(name.language, str),
                f"a name that is none: {type(name.text)}",
            )
        _must(concept.definition is None or isinstance(concept.definition, str), "a definition that is no text")
        for values in (concept.cuis, concept.types, concept.parents, concept.retired, concept.same_as):
            _must(all(isinstance(value, str) for value in values), "a value that is no text")
        _must(all(isinstance(part, str) for pair in (*concept.codes, *concept.relations) for part in pair), "a code that is no text")


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(what)


def _sniffs(folder: Path, name: str) -> None:
    from spacy_sapbert.readers import sniff

    sniff(folder / name)


def _reads_lines(folder: Path, name: str) -> None:
    from spacy_sapbert.readers.text import lines

    for _ in lines(folder / name):
        pass


def _reads_notes(folder: Path, name: str) -> None:
    from spacy_sapbert.corpus.notes import NoteReader, open_corpus

    corpus, reader = open_corpus(folder / name, 2), NoteReader()
    for partition in corpus.partitions:
        for note in reader.read(partition):
            _must(note.text is not None or bool(note.error), "a note without text and without a reason")
            note.note_id.encode("utf-8")


def _notes() -> bytes:
    notes = [{"id": f"n{i}", "text": f"Fever and cough for {i} days."} for i in range(5)]
    return "".join(json.dumps(note) + "\n" for note in notes).encode()


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


def _files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _of_a_linker(scratch: Path) -> Iterator[Target]:
    """Yield the targets that read the parts of a linker or of a saved pipeline."""
    from spacy_sapbert.build.linker import build_linker, read_source
    from spacy_sapbert.context.sense_model import SenseModel
    from spacy_sapbert.encoders.static import StaticEncoder
    from spacy_sapbert.indexes.exact import ExactIndex

    made, small = scratch / "made" / "linker", _small_encoder(scratch / "made" / "table")
    build_linker(
        [read_source(DATA / "tiny_clinic.tsv"), read_source(DATA / "tiny.obo")],
        made,
        model=StaticEncoder(str(small)),
        index=ExactIndex(),
        progress=False,
    )
    linker: Any = _blank().create_pipe("sapbert_linker", config={"linker_name": str(made)})
    linker.add_alias(next(iter(linker.kb)), "nickname of this concept")
    linker.to_disk(scratch / "made" / "saved")
    saved = _files(scratch / "made" / "saved" / "linker")
    saved["ranker.json"] = _ranker(linker.model.fingerprint)
    saved["calibration.json"] = _calibration(linker)
    kb = {name.removeprefix("kb/"): content for name, content in saved.items() if name.startswith("kb/")}
    yield Target("kb", 4, kb, _uses_kb, scratch / "kb", sealed=True)
    encoder = {name.removeprefix("encoder/"): content for name, content in saved.items() if name.startswith("encoder/")}
    yield Target("encoder-static", 3, encoder, _opens_encoder, scratch / "encoder", sealed=True)
    yield Target("linker", 2, saved, _links(scratch / "made" / "table"), scratch / "linker", sealed=True)
    extras = {name: saved[name] for name in ("ranker.json", "calibration.json", "additions.json", "additions.npy")}
    yield Target("linker-extras", 6, extras, _reads_extras, scratch / "extras")
    matcher: Any = _blank().create_pipe("concept_matcher", config={"linker_name": str(made)})
    matcher.to_disk(scratch / "made" / "matcher")
    yield Target("matcher", 1, _files(scratch / "made" / "matcher"), _matches, scratch / "matcher", sealed=True)
    yield Target("recogniser", 0.3, _files(_package_data("mentions")), _recognises, scratch / "recogniser", sealed=True)
    yield Target("senses", 0.2, _files(_package_data("senses")), lambda folder, name: _use_senses(SenseModel.load(folder)), scratch / "senses")


def _package_data(name: str) -> Path:
    import spacy_sapbert

    return Path(spacy_sapbert.__file__).parent / "data" / name


def _small_encoder(folder: Path) -> Path:
    """Write a static encoder of 40 words and 64 buckets."""
    from safetensors.numpy import save_file

    from spacy_sapbert.encoders.static import CONFIG, KIND, TABLE, WORDS

    folder.mkdir(parents=True)
    words = [f"word{i}" for i in range(37)] + ["fever", "cough", "pain"]
    (folder / CONFIG).write_text(json.dumps({"model_type": KIND, "shortest": 3, "longest": 4, "buckets": 64}), encoding="utf-8")
    (folder / WORDS).write_text("\n".join(words), encoding="utf-8")
    save_file({"embeddings": np.random.default_rng(3).standard_normal((len(words) + 64, DIM)).astype(np.float32)}, folder / TABLE)
    return folder


def _ranker(encoder: str) -> bytes:
    from spacy_sapbert.ranking.features import FEATURES
    from spacy_sapbert.ranking.ranker import Ranker

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
    _must(len(forms) <= kb.n_surface_forms, f"{len(forms)} surface forms, not {kb.n_surface_forms}")
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
    _must(isinstance(len(kb), int), "a length that is no number")


def _opens_encoder(folder: Path, name: str) -> None:
    from spacy_sapbert.bundle import open_encoder
    from spacy_sapbert.encoders.static import StaticEncoder

    vectors = open_encoder(folder, StaticEncoder()).encode(["fever", "word3 pain", ""])
    _must(bool(np.isfinite(vectors).all()), "vectors with NaN")


@lru_cache(maxsize=1)
def _blank() -> Any:
    import spacy

    return spacy.blank("en")


def _links(table: Path) -> Callable[[Path, str], None]:
    def consume(folder: Path, name: str) -> None:
        nlp = _blank()
        linker: Any = nlp.create_pipe("sapbert_linker", config={"linker_name": str(folder)})
        doc = nlp.make_doc("Fever and dry cough .")
        doc.ents = [doc.char_span(0, 5, label="DISO"), doc.char_span(10, 19, label="DISO")]
        linker(doc)
        for span in doc.ents:
            _must(all(np.isfinite(score) for _, score in span._.kb_ents), "a score that is not finite")

    return consume


def _reads_extras(folder: Path, name: str) -> None:
    from spacy_sapbert.calibration import Evidence, read_calibration
    from spacy_sapbert.kb.additions import Additions
    from spacy_sapbert.ranking.ranker import read_ranker

    if name == "ranker.json":
        read_ranker(folder / name)
    elif name == "calibration.json":
        found = read_calibration(folder / name)
        _must(0.0 <= found.probability(Evidence(0.5, 0.1, False)) <= 1.0, "a probability outside 0 to 1")
    else:
        Additions.from_disk(folder)


def _matches(folder: Path, name: str) -> None:
    nlp = _blank()
    matcher: Any = nlp.create_pipe("concept_matcher", config={"linker_name": "hpo"})
    matcher.from_disk(folder)
    matcher(nlp.make_doc("Fever, dry cogh and pain in the chest."))


def _recognises(folder: Path, name: str) -> None:
    from spacy_sapbert.mentions.model import MentionModel

    model = MentionModel.from_disk(folder)
    model.find([_blank().make_doc("Fever and dry cough for 3 days.")])


def _use_senses(model: Any) -> None:
    _must(len(model.meanings) >= 0, "no meanings")


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
    return _files(folder)


def _searches(engine: str) -> Callable[[Path, str], None]:
    def consume(folder: Path, name: str) -> None:
        from spacy_sapbert.indexes.base import report_of

        index = _engine(engine).from_disk(folder)
        _must(isinstance(report_of(index).get("built_for", {}), dict), "a report that is none")
        for allowed in (None, np.arange(len(index)) % 3 == 0):
            rows, cosines = index.query(_vectors(4)[:, : index.dim], 5, allowed=allowed)
            _must(bool(((rows >= -1) & (rows < len(index))).all()), "rows that are not there")
            _must(not bool(np.isnan(cosines).any()), "cosines that are NaN")

    return consume
