"""Make the pages of docs/ that are generated from the code and from figures/data/*.json (`make docs-pages`).

The pages are committed, so that GitHub shows them too. A test checks that they are current. With a folder of new results,
`python docs/generate.py --metrics metrics` first writes the results into figures/data/*.json and into the tables that quote them.
"""

from __future__ import annotations

import inspect
import json
import re
import string
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

DOCS = Path(__file__).parent
QUOTED = re.compile(r"^<!-- figures: (?P<file>[\w-]+)(?: (?P<table>[\w-]+))? -->\n(?P<body>(?:\|.*\|\n)+)", re.MULTILINE)  # table and its comment
DATA = DOCS / "figures" / "data"
ENGINES = [
    ("exact", "ExactIndex"),
    ("annoy", "AnnoyIndex"),
    ("lists", "ListsIndex"),
    ("usearch", "UsearchIndex"),
    ("faiss", "FaissIndex"),
    ("milvus.index", "MilvusIndex"),
]
MADE = "<!-- Made by docs/generate.py (`make docs-pages`). Do not edit this page. -->\n"
CODE = re.compile(r"[EW]\d{3}")
FIELD = re.compile(r"\{(\w+)[^}]*\}")
END = re.compile(r"\. |(?<=\{why\}) (?=[A-Z])|\n(?=[A-Z])")  # end of the first sentence; `{why}` already ends with a full stop
GROUPS = {  # first digits of a code -> what the errors are about
    "E0": "Set-up, settings and files",
    "E1": "Knowledge base",
    "E2": "Index",
    "E3": "Encoder",
    "E4": "Data files",
    "E5": "Training, evaluation and report",
    "E6": "Training across languages, distillation",
    "W0": "Warnings",
}


def pages() -> dict[str, str]:
    """Return the generated pages: path below docs/ -> Markdown."""
    made = {"reference/errors.md": errors_page(), "reference/command-line.md": command_line_page(), "figures/index.md": figures_index()}
    made["reference/engine-settings.md"] = engine_settings_page()
    made["evaluation/benchmarks.md"] = benchmarks_page()
    made.update({f"figures/{path.stem}.md": figures_page(json.loads(path.read_text(encoding="utf-8"))) for path in data_files()})
    return {path: f"{MADE}\n{text.rstrip()}\n" for path, text in made.items()}


def write() -> None:
    """Write all generated pages into docs/, and remove pages of figures that have no data file any more."""
    made = pages()
    for path in (DOCS / "figures").glob("*.md"):
        if path.relative_to(DOCS).as_posix() not in made:
            path.unlink()
    for name, text in made.items():
        (DOCS / name).write_text(text, encoding="utf-8")


# -- figures ------------------------------------------------------------------------------------------------------------


def data_files() -> list[Path]:
    """Return the data files of the figures, sorted by name."""
    return sorted(DATA.glob("*.json"))


def figures_index() -> str:
    """Return the page that lists all figures, with the command that measures each."""
    lines = ["# Figures", "", "Every measured number of this documentation is on one of these pages, with the command that measures it.", ""]
    lines += [
        "The numbers of version 0.1.0 were copied from the README of commit f457012. `python docs/generate.py --metrics metrics` writes the results of "
        "new runs into these pages. A table is replaced if the results have all of its cells; it then says at which commit, when and on which machine "
        "it was measured. The sentences below the tables are written by hand.",
        "",
        "`DATA` is a folder with the files of the section `assets` of `project.yml`, under the same paths without `assets/` "
        "(`corpora/ncbi_disease/test.pubtator.txt.gz`). `python -m training assets hpo ontologies corpora dictionaries similarity` makes such a "
        "folder, `assets`. `throughput`, `pipeline`, `load` and `size` also read the clinical notes of MTSamples from `DATA`; no command downloads these.",
        "",
    ]
    rows = [(path.stem, json.loads(path.read_text(encoding="utf-8"))) for path in data_files()]
    lines += table(["page", "command"], [[f"[{data['title']}]({stem}.md)", f"`{data['command']}`"] for stem, data in rows])
    return "\n".join(lines) + "\n"


def figures_page(data: dict[str, Any]) -> str:
    """Return one page of figures.

    Args:
        data: the content of a file of figures/data: title, command, protocol, machine, date, tables and facts.
    """
    lines = [f"# {data['title']}", "", f"Measured by `{data['command']}`; {data['machine']}; {data['date']}.", ""]
    lines += [f"- {sentence}" for sentence in data["protocol"]] + [""]
    for made in data["tables"]:
        lines += [f"## {made['title']}", "", *table(made["columns"], made["rows"]), ""]
        lines += [f"Measured at {made['measured']}.", ""] if "measured" in made else []
    if data["facts"]:
        lines += ["## More numbers", "", *(f"- {fact}" for fact in data["facts"].values()), ""]
    return "\n".join(lines)


def table(columns: list[str], rows: list[list[str]]) -> list[str]:
    """Return the lines of a Markdown table."""
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (columns, ["---"] * len(columns), *rows)]


# -- new results --------------------------------------------------------------------------------------------------------


def take_results(metrics: Path) -> list[str]:
    """Write the results of new runs into the data files and into the pages that quote them.

    A table is replaced as a whole. If the results lack one of its cells, it is kept.

    Args:
        metrics: Folder of results, *.json, at any depth.

    Returns:
        One line for each table that says what happened to it.
    """
    results = {path.stem: path for path in sorted(metrics.rglob("*.json"))}
    content = {stem: keyed(json.loads(path.read_text(encoding="utf-8"))) for stem, path in results.items()}
    messages = []
    for file in data_files():
        data = json.loads(file.read_text(encoding="utf-8"))
        for made in data["tables"]:
            try:
                rows = measured_rows(made, content)
            except KeyError as missing:
                messages.append(f"{file.stem} {made['name']}: kept, the results lack {missing}")
                continue
            made.update(rows=rows, measured=origin(made, content, results))
            messages.append(f"{file.stem} {made['name']}: measured at {made['measured']}")
        file.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for page in (DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))):
        text = page.read_text(encoding="utf-8")
        if (new := QUOTED.sub(requoted, text)) != text:
            page.write_text(new, encoding="utf-8")
    return messages


def keyed(value: Any) -> Any:
    """Return results in which every list of rows is a dict, so that a template can name a row.

    Args:
        value: the content of a JSON file. The key of a row is its leading texts, joined by ", ", or its first value.
    """
    if isinstance(value, dict):
        return {key: keyed(inner) for key, inner in value.items()}
    if isinstance(value, list) and value and all(isinstance(row, dict) and row for row in value):
        return {_key(list(row.values())): keyed(row) for row in value}
    return value


def _key(values: list[Any]) -> str:
    count = next((i for i, value in enumerate(values) if not isinstance(value, str)), len(values))
    return ", ".join(values[:count]) or str(values[0])


def templates(made: dict[str, Any]) -> list[list[str]]:
    """Return the template of each cell of a table, row by row, without the first column; "" for a cell that stays empty.

    Args:
        made: a table. For each row, `source.rows` has the word that replaces ROW in `source.cells`, or the row's own templates.
    """
    source = made.get("source", {"rows": {}, "cells": {}})
    found = []
    for row in made["rows"]:
        given = source["rows"].get(row[0], "")
        own = given if isinstance(given, dict) else {column: cell.replace("ROW", given) for column, cell in source["cells"].items()}
        found.append([own.get(column, "") for column in made["columns"][1:]])
    return found


def measured_rows(made: dict[str, Any], content: dict[str, Any]) -> list[list[str]]:
    """Return the rows of a table with the figures of new results.

    Raises:
        KeyError: the results lack a figure, or are of another linker than `source.linkers` says, or the run used only a sample.
    """
    if "source" not in made:
        raise KeyError("a command that measures it")
    for stem in stems(made):
        if not made["source"].get("sample") and (content.get(stem, {}).get("limit") or content.get(stem, {}).get("pool")):
            raise KeyError(f"a whole run: {stem}.json is over a sample")
        linker = made["source"].get("linkers", {}).get(stem)
        if stem in content and linker not in (None, content[stem].get("linker")):
            raise KeyError(f"the linker {linker}: {stem}.json is of {content[stem].get('linker')}")
    try:
        return [[row[0], *(cell.format_map(content) for cell in cells)] for row, cells in zip(made["rows"], templates(made))]
    except (TypeError, ValueError, IndexError) as error:  # the value has another type, such as null
        raise KeyError(str(error)) from error


def stems(made: dict[str, Any]) -> list[str]:
    """Return the names of the result files that a table is made from, without .json."""
    cells = "".join(cell for row in templates(made) for cell in row)
    names = [name for _, name, _, _ in string.Formatter().parse(cells) if name]
    return list(dict.fromkeys(re.split(r"[.\[]", name)[0] for name in names))


def origin(made: dict[str, Any], content: dict[str, Any], results: dict[str, Path]) -> str:
    """Return a text that says at which commit, when and on which machine a table was measured."""
    origins = []
    for stem in stems(made):
        written = time.strftime("%Y-%m-%d", time.gmtime(results[stem].stat().st_mtime))
        cells = "".join(cell for row in templates(made) for cell in row)
        tables = [content[stem][section][name] for section, name in re.findall(rf"{{{stem}\[([^\]]*)\]\[([^\]]*)\]", cells)]
        if "versions" in content[stem]:
            runs = [(content[stem]["versions"], written)]
        elif all(isinstance(one, dict) and "on" in one for one in tables):  # `python -m benchmarks`: each table has its own commit and date
            runs = [(one["on"], one["measured"][:10]) for one in tables]
        else:  # counts are the same on every machine
            origins.append(written)
            continue
        origins += [f"commit {on.get('commit', 'unknown')}, {date}, {on['CPU cores']} CPU cores" for on, date in runs]
    return "; ".join(dict.fromkeys(origins))


def requoted(match: re.Match[str]) -> str:
    """Return a table of a page with the current figures of the data file that the comment above it names.

    Figures that have not changed keep their bold signs.
    """
    known = json.loads((DATA / f"{match['file']}.json").read_text(encoding="utf-8"))["tables"]
    source = next(made for made in known if made["name"] == (match["table"] or known[0]["name"]))
    rows = {row[0]: dict(zip(source["columns"], row)) for row in source["rows"]}
    lines = match["body"].splitlines()
    header = _cells(lines[0])
    for i, line in enumerate(lines[2:], 2):
        old = _cells(line)
        new = [cell if bare(cell) == bare(rows[old[0]][column]) else rows[old[0]][column] for column, cell in zip(header, old)]
        lines[i] = line if new == old else table(new, [])[0]
    return match[0].replace(match["body"], "\n".join(lines) + "\n")


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def bare(cell: str) -> str:
    """Return a cell without bold signs."""
    return cell.replace("**", "")


# -- settings of engines ------------------------------------------------------------------------------------------------


def engine_settings_page() -> str:
    """Return the page with the settings of each engine and their defaults."""
    lines = [
        "# Settings of the engines",
        "",
        "For `--setting NAME=VALUE` and for the block `index` of a config. The classes are on the page of",
        "[indexes](indexes.md).",
        "",
    ]
    for module, name in ENGINES:
        engine = getattr(import_module(f"spacy_sapbert.indexes.{module}"), name)
        meanings = arguments_of(inspect.getdoc(engine) or "")
        given = {key: parameter.default for key, parameter in inspect.signature(engine).parameters.items()}
        rows = [[f"`{key}`", f"`{json.dumps(default)}`", in_markdown(meanings[key])] for key, default in given.items()]
        lines += [f"## spacy-sapbert.{name}.v1", "", *(table(["setting", "default", "meaning"], rows) if rows else ["It has no settings."]), ""]
    return "\n".join(lines)


def arguments_of(docstring: str) -> dict[str, str]:
    """Return argument -> its description in a Google style docstring, on one line."""
    section = re.search(r"^Args:\n((?:[ ].*\n?|\n)*)", docstring, re.MULTILINE)
    found = re.findall(r"^ {4}(\w+): ((?:.*\n?)(?: {8}.*\n?)*)", section[1] if section else "", re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


# -- benchmarks ---------------------------------------------------------------------------------------------------------


def benchmarks_page() -> str:
    """Return the page with all benchmarks: files, dictionary, protocols, metric, and where to get the files."""
    catalogue: Any = import_module("training.evaluation.catalogue")
    corpora, texts = [], []
    for key, source in catalogue.CORPORA.items():
        parts = [f"{part or 'whole'}{f' ({source.groups[part]})' if part in source.groups else ''}" for part in source.files]
        papers = [f"`{'-'.join(filter(None, (key, *place)))}`" for place in source.paper]
        files = [f"`{file}`" for of in source.files.values() for file in of[:1]]
        where = _origin(source.origin)
        shown = [f"`-{variant}`" for variant in source.variants]
        row = [source.title, ", ".join(parts), " ".join(dict.fromkeys(files)), source.dictionary, " ".join(shown), " ".join(papers), where]
        corpora.append([f"`{key}`", *row])
    for key, source in catalogue.SIMILARITY.items():
        texts.append([f"`{key}`", source.title, f"`{source.files[0]}`", source.metric.capitalize(), source.group, _origin(source.origin)])
    dictionaries = [[f"`{key}`", source.title, f"`{source.file}`", _origin(source.origin)] for key, source in catalogue.DICTIONARIES.items()]
    lines = [
        "# All benchmarks",
        "",
        "`evaluate --benchmarks` takes these names. The column *files* lists the files that a benchmark needs, as paths below the folder given by `--data`.",
        "If a corpus has several parts, add the part to its name: `ncbi-dev`. A protocol is added at the end: `ncbi-dev-sapbert`;",
        "[Protocols](protocols.md) explains them. A word in brackets after a part is the group it belongs to. The column *papers* lists the benchmarks of the",
        "group `papers`. If the last column is empty, the project fetches the files, and the results are among [our figures](../figures/accuracy.md). If it",
        "names a source, get the files there yourself; none of those corpora has been measured for this documentation.",
        "",
        "## Corpora",
        "",
        *table(["name", "corpus", "parts", "files", "dictionary", "protocols", "papers", "source, licence"], corpora),
        "",
        "If a part has ten folds, the column *files* lists only the first. `held_out` and `zero_shot` are made from your own knowledge base.",
        "",
        "## Dictionaries",
        "",
        *table(["name", "dictionary", "file", "source, licence"], dictionaries),
        "",
        "## Pairs of texts",
        "",
        "Spearman's and Pearson's correlations are both computed; the one in the table is reported first.",
        "",
        *table(["name", "texts", "file", "metric", "group", "source, licence"], texts),
        "",
        "XL-BEL is measured by [`cross-lingual`](../training/cross-lingual.md).",
    ]
    return "\n".join(lines)


def _origin(origin: Any) -> str:
    """Return the cell that says where a file is from; "" for a file that the project fetches."""
    if origin is None:
        return ""
    address, _, remark = origin.where.partition(" ")
    return f"{origin.paper}: <{address}>{' ' * bool(remark)}{remark}; {origin.licence}"


# -- errors -------------------------------------------------------------------------------------------------------------


def error_templates() -> dict[str, str]:
    """Return the message template of every code, of both packages, in the order of the codes."""
    found: dict[str, str] = {}
    for module in ("spacy_sapbert.errors", "training.errors"):
        owner = import_module(module).Errors
        found.update({name: getattr(owner, name) for name in dir(owner) if CODE.fullmatch(name)})
    return dict(sorted(found.items()))


def errors_page() -> str:
    """Return the page of errors and warnings: code, what happened, what to do."""
    lines = [
        "# Errors and warnings",
        "",
        "Every error of this package is a `SapbertError` with a code (`error.code`), and every warning a `SapbertWarning` (`warning.code`). A message says what is",
        "wrong, with which value, and what to do next. Words in *italics* are placeholders. The package's logger has the name `spacy_sapbert`.",
        "",
    ]
    group = ""
    for code, template in error_templates().items():
        if GROUPS[code[:2]] != group:
            group = GROUPS[code[:2]]
            lines += [f"## {group}", ""]
        cause, remedy = cause_and_remedy(template)
        lines += [f"### {code}", "", in_markdown(cause), ""]
        lines += [f"**What to do:** {in_markdown(remedy)}", ""] if remedy else []
    return "\n".join(lines)


def cause_and_remedy(template: str) -> tuple[str, str]:
    """Split a message after its first sentence; full stops in code are ignored.

    Args:
        template: a message with `{fields}`.

    Returns:
        What is wrong, and what to do about it ("" if the message is one sentence).
    """
    without_code = re.sub(r"`[^`]*`", lambda code: "x" * len(code[0]), template)
    end = END.search(without_code)
    parts = (template[: end.start()] + template[end.start()].strip("\n "), template[end.end() :]) if end else (template, "")
    cause, remedy = (part.replace("\n", " ") for part in parts)
    return cause, remedy


def in_markdown(template: str) -> str:
    """Return a message as Markdown: fields in italics (in code: in capitals), special characters of Markdown escaped."""
    parts = re.split(r"(`[^`]*`)", template)
    return "".join(FIELD.sub(lambda field: field[1].upper(), part) if part.startswith("`") else FIELD.sub(r"*\1*", _escaped(part)) for part in parts)


def _escaped(text: str) -> str:
    return re.sub(r"([\[\]<>*|])", r"\\\1", re.sub(r"(?<=\w)_(?=\w)(?![^{]*\})", r"\\_", text))


# -- command line -------------------------------------------------------------------------------------------------------


def command_line_page() -> str:
    """Return the page of all commands of both packages, with their arguments and options."""
    lines = [
        "# Command line",
        "",
        "`python -m spacy_sapbert` comes with the package. `python -m training` needs [the repository](../training/project.md).",
        "",
    ]
    for name in ("spacy_sapbert", "training"):
        lines += [f"## python -m {name}", ""]
        for path, command in commands(name):
            lines += [f"### {' '.join(path)}", "", plain(command.help), ""]
            lines += [f"```text\npython -m {' '.join([name, *path, *usage(command)])}\n```", ""]
            rows = [[signature(parameter), default_of(parameter), plain(getattr(parameter, "help", None))] for parameter in parameters(command)]
            lines += [*table(["argument or option", "default", "meaning"], rows), ""] if rows else []
    return "\n".join(lines)


def commands(package: str) -> Iterator[tuple[list[str], Any]]:
    """Yield every command of a package's typer app that is not a group, with the words that call it.

    Args:
        package: "spacy_sapbert" or "training".
    """
    module = import_module("spacy_sapbert.cli" if package == "spacy_sapbert" else "training.cli")
    yield from _leaves(typer.main.get_command(module.app), [])


def _leaves(command: Any, path: list[str]) -> Iterator[tuple[list[str], Any]]:
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from _leaves(inner, [*path, name])
    else:
        yield path, command


def parameters(command: Any) -> list[Any]:
    """Return a command's arguments and options, without --help."""
    return [parameter for parameter in command.params if not getattr(parameter, "hidden", False) and parameter.name != "help"]


def usage(command: Any) -> list[str]:
    """Return the words after a command's name: its arguments, and [OPTIONS]."""
    given = parameters(command)
    arguments = [signature(parameter).strip("`") for parameter in given if parameter.param_type_name == "argument"]
    return [*arguments, *(["[OPTIONS]"] if len(arguments) < len(given) else [])]


def signature(parameter: Any) -> str:
    """Return how a parameter is written: `KB`, or `--languages`."""
    if parameter.param_type_name == "argument":
        name = str(parameter.metavar or parameter.name).upper()
        return f"`{name}{'...' if parameter.nargs == -1 else ''}`"
    return " / ".join(f"`{option}`" for option in [*parameter.opts, *parameter.secondary_opts])


def default_of(parameter: Any) -> str:
    """Return a parameter's default in words."""
    value = getattr(parameter.default, "value", parameter.default)  # of an enum
    if parameter.required:
        return "required"
    return "" if value is None or value in ("", [], ()) or callable(value) else f"`{value}`"


def plain(text: str | None) -> str:
    """Return a help text on one line, with the special characters of Markdown escaped."""
    return " ".join(re.sub(r"([<>*\[\]])", r"\\\1", text or "").split())


def main(
    metrics: Annotated[Path | None, typer.Option(exists=True, file_okay=False, help="Folder of new results, which are written first.")] = None,
) -> None:
    """Write the generated pages."""
    for line in take_results(metrics) if metrics else []:
        typer.echo(line)
    write()


if __name__ == "__main__":
    sys.path.insert(0, str(DOCS.parent))  # for the package training
    typer.run(main)
