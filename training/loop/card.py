"""Write the model card of a trained encoder: use, data, counts, settings, figures, licence, and how to train it again."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from ..recipe import Words

BASE = "sentence-transformers/all-MiniLM-L6-v2"  # the base that an empty name means
PACKAGES = ("sentence-transformers", "transformers", "torch", "pytorch-metric-learning", "peft")

TEMPLATE = """\
---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
language: {{ words.language }}
base_model: {{ base }}
tags: [entity-linking, biomedical, {{ words.tag }}, spacy]
---
# Names of biomedical concepts to vectors

Trained by {{ words.method }} from `{{ base }}`: {{ words.what }}. For linking
mentions to concepts by nearest neighbour; use it with spacy-sapbert, sentence-transformers or transformers ({{ pooling }} pooling, L2-normalised,
{{ settings["encoder.max_length"] }} tokens, lower-cased names).

## Data

{{ words.data }}

## Figures

{{ words.measured or "Nothing was measured during the training." }}

{% for table in words.tables if table.rows -%}
| | {% for when in ("before", "after") %}{{ when }} {{ table.columns | join(" | ") }} | {% endfor %}
|---|{% for _ in table.columns %}---|---|{% endfor %}
{% for title, keys in table.rows -%}
| {{ title }} | {% for figures in (before, after) %}{% for key in keys %}{{ figures[key] }} | {% endfor %}{% endfor %}
{% endfor %}
{% endfor -%}
{{ steps }} steps (the weights are those of step {{ best_step }}), {{ "{:,}".format(names) }} names encoded, {{ names_per_second }} names/s by {{ settings.processes }} process(es), peak
memory {{ "{:,}".format(peak_memory_mb) }} MB (of the first process), {{ "{:,}".format(trainable_parameters) }} of
{{ "{:,}".format(parameters) }} parameters trained.

## Settings

```json
{{ settings | tojson(indent=1) }}
```

To train it again from the same data, give `recipe.cfg` in this folder to `python -m training train`, with: {{ versions }}.

## Licence and limits

The weights come from those of the base and from the texts of the sources. Check the licence of each before you pass the model on; with UMLS data,
UMLS's licence applies. {{ words.limits }}
"""


def write_card(path: Path, report: dict[str, Any], words: Words) -> None:
    """Write the model card of a trained encoder.

    Args:
        path: The file.
        report: What `training.fit.fit` returns.
        words: The task's texts about the training.
    """
    settings = report["settings"]
    environment = Environment(undefined=StrictUndefined, autoescape=False)  # Markdown, not HTML
    text = environment.from_string(TEMPLATE).render(
        **{**report, "base": settings.get("paths.base") or BASE},
        words=words,
        versions=", ".join(f"{package} {version(package)}" for package in PACKAGES),
    )
    path.write_text(text, encoding="utf-8")


SOUP = """\
---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
base_model: {{ base or default }}
tags: [entity-linking, biomedical, model-soup, spacy]
---
# Names of biomedical concepts to vectors

The mean of the weights of {{ models | length }} encoders{% if base or default %} trained from `{{ base or default }}`{% endif %} ({{ "greedy" if metric is defined else "uniform" }} soup: Wortsman et al., ICML 2022).
{{ pooling }} pooling, L2-normalised.

| encoder | share{% if metric is defined %} | {{ metric }}{% endif %} |
|---|---{% if metric is defined %}|---{% endif %}|
{% for name, share in models.items() -%}
| {{ name }} | {{ share }}{% if metric is defined %} | {{ alone[loop.index0] }}{% endif %} |
{% endfor %}
{% if metric is defined %}The mean: {{ metric }} {{ averaged }}.

{% endif -%}
Sources: {{ sources | join(", ") or "see the cards of the encoders" }}. The weights come from those of the base and from the texts of the sources.
Check the licence of each before you pass the model on; with UMLS data, UMLS's licence applies. Made by `python -m training soup` with {{ versions }}.
"""


def write_soup_card(path: Path, report: dict[str, Any]) -> None:
    """Write the model card of a soup.

    Args:
        path: The file.
        report: What `training.soup.make_soup` returns.
    """
    environment = Environment(undefined=StrictUndefined, autoescape=False)
    versions = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    path.write_text(environment.from_string(SOUP).render(**report, default=BASE, versions=versions), encoding="utf-8")
