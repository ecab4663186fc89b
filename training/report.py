"""The evaluation as one page: `python -m training.report --metrics metrics --encoder artifacts/encoder --out artifacts/report/index.html`.

One HTML file without a script, a picture or an address that is fetched: it opens from disk, on a phone and on paper. Training is shown
as a table of train_log.jsonl: none of the project's requirements draws plots.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional

from jinja2 import Environment, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from spacy_sapbert.errors import MissingFile, SapbertError

from .errors import fail
from .evaluate import cell, check_encoder, own_protocol, remarks, write_text

LOG, CARD = "train_log.jsonl", "README.md"
STEPS_SHOWN = 30


class Log(NamedTuple):
    """columns: keys with a number, in the order in which they were first seen. rows: shown steps. total: steps in the file."""

    columns: List[str]
    rows: List[List[str]]
    total: int


TEMPLATE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>spacy-sapbert: evaluation</title>
<style>
:root { color-scheme: light dark; --line: #8886; --soft: #8882; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.3rem; margin-top: 2.5rem; } h3 { font-size: 1.05rem; margin: 2rem 0 .25rem; }
.table { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tr.best td { font-weight: 600; }
p.protocol { font-size: .875rem; margin: .25rem 0; max-width: 48rem; }
pre { overflow-x: auto; background: var(--soft); padding: .75rem; white-space: pre-wrap; overflow-wrap: anywhere; }
code { overflow-wrap: anywhere; }
@media print {
  body { font-size: 10pt; max-width: none; padding: 0; }
  .table { overflow: visible; }
  tr, h2, h3 { break-inside: avoid; } h2, h3 { break-after: avoid; }
}
</style>
</head>
<body>
<h1>How well the encoder finds concepts</h1>
<p>@1 and @5: per cent of queries whose concept is first, or among the first five. ±: standard deviation over seeds. The best system of a
set is bold. The protocol stands under each table; figures of different protocols do not compare.</p>
{% for name, result in evaluations.items() %}
<h2>{{ name }}</h2>
<p>{{ result.search }}</p>
{% if result.limit or result.pool %}<p><strong>Not the full evaluation:</strong>
{% if result.limit %}at most {{ result.limit }} queries of each set{% endif %}{% if result.limit and result.pool %}, and {% endif -%}
{% if result.pool %}dictionaries cut down{% endif %}.</p>{% endif %}
{% for key, entry in result.sets.items() %}
<h3>{{ entry.title }}</h3>
<div class="table"><table>
<thead><tr><th>system</th>
{%- if entry.metric == "accuracy" %}<th class="number">@1/@5, {{ entry.rule }}</th><th class="number">@1/@5, {{ other(entry.rule) }}</th>
{%- else %}<th class="number">Spearman × 100</th>{% endif %}</tr></thead>
<tbody>
{% for system, found in entry.systems.items() %}<tr{% if system in best(entry) %} class="best"{% endif %}><td>{{ system }}
{%- if found.seeds > 1 %} ({{ found.seeds }} seeds){% endif %}</td><td class="number">{{ cell(entry, system) }}</td>
{%- if entry.metric == "accuracy" %}<td class="number">{{ "%.1f/%.1f"|format(found[other(entry.rule) ~ "_at1"], found[other(entry.rule) ~ "_at5"]) }}</td>{% endif %}</tr>
{% endfor %}</tbody></table></div>
<p class="protocol">{{ key }}: n = {{ "{:,}".format(entry.n) }}
{%- if entry.get('dictionary') %}; {{ "{:,}".format(entry.dictionary.names) }} names of {{ "{:,}".format(entry.dictionary.concepts) }} concepts{% endif %}.
{{ own_protocol(result, entry) }}{{ remarks(entry.counts) }}</p>
{% endfor %}
<h3>Measured with</h3>
<div class="table"><table>
{% for system, used in result.encoders.items() %}<tr><th>{{ system }}</th><td>fingerprint <code>{{ used.fingerprint }}</code></td></tr>
{% endfor %}{% for package, number in result.versions.items() %}<tr><th>{{ package }}</th><td>{{ number }}</td></tr>
{% endfor %}<tr><th>seed</th><td>{{ result.seed }}</td></tr></table></div>
{% endfor %}
<h2>Training</h2>
{% if log %}<p>{{ log.rows|length }} of {{ "{:,}".format(log.total) }} logged steps, evenly spaced, the last included.</p>
<div class="table"><table>
<thead><tr>{% for column in log.columns %}<th class="number">{{ column }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in log.rows %}<tr>{% for value in row %}<td class="number">{{ value }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table></div>
{% else %}<p>The encoder's folder holds no {{ log_name }}: it was not trained here.</p>{% endif %}
<h2>Model card</h2>
{% if settings %}<pre>{{ settings }}</pre>{% endif %}
{% if card %}{{ card }}{% elif not settings %}<p>The encoder's folder holds no model card.</p>{% endif %}
</body>
</html>
"""


def read_evaluations(folder: Path) -> Dict[str, Dict[str, Any]]:
    """Every `evaluation*.json` of a folder: file name without its ending -> content. RAISES: SapbertError E545, E547."""
    paths = sorted(folder.glob("evaluation*.json"))
    if not paths:
        raise fail("E545", MissingFile, path=folder)
    found = {}
    for path in paths:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise fail("E547", path=path, expected="JSON", why=str(error)) from error
        if not isinstance(content, dict) or content.get("kind") != "evaluation":
            raise fail("E547", path=path, expected="what `python -m training.evaluate` writes", why="its kind is not 'evaluation'")
        found[path.stem] = content
    return found


def read_log(path: Path, shown: int = STEPS_SHOWN) -> Optional[Log]:
    """train_log.jsonl, thinned to `shown` lines; None where there is none, or nothing in it. RAISES: SapbertError E547."""
    if not path.is_file():
        return None
    lines: List[Dict[str, Any]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            try:
                lines.append(dict(json.loads(line)))
            except (ValueError, TypeError) as error:
                raise fail("E547", path=path, expected="a JSON object on each line", why=f"line {number}: {error}") from error
    if not lines:
        return None
    columns = list(dict.fromkeys(key for line in lines for key, value in line.items() if isinstance(value, (int, float))))
    places = sorted({round(i * (len(lines) - 1) / max(1, min(shown, len(lines)) - 1)) for i in range(min(shown, len(lines)))})
    return Log(columns, [[show(lines[i].get(column)) for column in columns] for i in places], len(lines))


def show(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def read_card(path: Path) -> List[str]:
    """A model card -> its settings (the YAML at the head, as it stands) and its text as HTML without raw HTML or images."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    settings = ""
    if text.startswith("---\n") and "\n---\n" in text[3:]:
        settings, _, text = text[4:].partition("\n---\n")
    return [settings.strip(), MarkdownIt("commonmark", {"html": False}).enable("table").disable("image").render(text)]


def best(entry: Dict[str, Any]) -> List[str]:
    """The systems of a set whose figure is the highest, to a tenth."""
    key = "at1" if entry["metric"] == "accuracy" else "spearman"
    rounded = {system: round(found[key], 1) for system, found in entry["systems"].items()}
    return [system for system, value in rounded.items() if value == max(rounded.values())]


def render(evaluations: Dict[str, Dict[str, Any]], encoder: Path) -> str:
    """The page. encoder: a folder that `training.train` wrote."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    settings, card = read_card(encoder / CARD)
    return environment.from_string(TEMPLATE).render(
        evaluations=evaluations,
        log=read_log(encoder / LOG),
        log_name=LOG,
        settings=settings,
        card=Markup(card),  # markdown-it has escaped it
        cell=cell,
        remarks=remarks,
        own_protocol=own_protocol,
        best=best,
        other={"strict": "lenient", "lenient": "strict"}.__getitem__,
    )


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m training.report", description="Write the evaluation as one HTML page.")
    parser.add_argument("--metrics", type=Path, default=Path("metrics"), help="folder of evaluation*.json")
    parser.add_argument("--encoder", type=Path, default=Path("artifacts/encoder"), help="the trained encoder: its log and model card")
    parser.add_argument("--out", type=Path, default=Path("artifacts/report/index.html"))
    options = parser.parse_args(arguments)
    try:
        evaluations = read_evaluations(options.metrics)
        check_encoder(options.encoder)
        write_text(options.out, render(evaluations, options.encoder))
    except SapbertError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
