"""The model card of a trained encoder: what it is for, data, counts, settings, figures, licence, how to make it again."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any, Dict

from jinja2 import Environment, StrictUndefined

from .pairs import MENTIONS

PACKAGES = ("sentence-transformers", "transformers", "torch", "pytorch-metric-learning", "peft")

TEMPLATE = """\
---
library_name: sentence-transformers
pipeline_tag: sentence-similarity
language: en
base_model: {{ base }}
tags: [entity-linking, biomedical, sapbert, spacy]
---
# Names of biomedical concepts to vectors

Trained by self-alignment (SapBERT: Liu et al., NAACL 2021) from `{{ base }}`: names of one concept are pulled together. For linking
mentions to concepts by nearest neighbour; use it with spacy-sapbert, sentence-transformers or transformers ({{ pooling }} pooling, L2-normalised,
{{ settings["encoder.max_length"] }} tokens, lower-cased names).

## Data

Sources: {{ sources | join(", ") }}. {{ "{:,}".format(pairs.labels_in_pairs) }} concepts with {{ "{:,}".format(pairs.names_in_pairs) }} names gave
{{ "{:,}".format(pairs.pairs) }} pairs (of {{ "{:,}".format(pairs.pairs_before_trimming) }}, at most {{ pairs_settings.max_pairs }} a concept); {{ "{:,}".format(pairs.ambiguous_names) }} names of several
concepts are in none. Kept out: one synonym of {{ "{:,}".format(pairs.held_out_queries) }} concepts, and {{ "{:,}".format(pairs.zero_shot_queries) }} concepts whole.
{{ note }}

## Figures

Held-out synonyms by exact search, ties as their expectation, over a sample of {{ "{:,}".format(held_out.names) }} names ({{ "{:,}".format(held_out.queries) }} queries); higher than
over the whole knowledge base.

| | before @1 | @5 | after @1 | @5 |
|---|---|---|---|---|
{% for split, words in (("held_out", "a synonym kept out, concept seen"), ("zero_shot", "concept not seen at all")) if split ~ "_at1" in after -%}
| {{ words }} | {{ before[split ~ "_at1"] }} | {{ before[split ~ "_at5"] }} | {{ after[split ~ "_at1"] }} | {{ after[split ~ "_at5"] }} |
{% endfor %}
{{ steps }} steps (the weights are those of step {{ best_step }}), {{ "{:,}".format(names) }} names encoded, {{ names_per_second }} names/s by {{ settings.processes }} process(es), peak
memory {{ "{:,}".format(peak_memory_mb) }} MB (of the first process), {{ "{:,}".format(trainable_parameters) }} of
{{ "{:,}".format(parameters) }} parameters learnt.

## Settings

```json
{{ settings | tojson(indent=1) }}
```

`recipe.cfg` beside this file, given to `python -m training.train`, makes it again from the same pairs with: {{ versions }}.

## Licence and limits

The weights come from those of the base, and from the names of the sources: see the licence of each before passing the model on; with UMLS data, UMLS's licence applies.
A name that is not English, a whole sentence, or an abbreviation without its long form will be placed badly.
"""


def write_card(path: Path, report: Dict[str, Any]) -> None:
    """report (Dict[str, Any]): what `training.train.train` gives."""
    settings = report["settings"]
    used = [source for source in report["sources"] if "medic" in source.lower() or "ctd_diseases" in source.lower()]
    if MENTIONS in report["sources"]:
        note = "The pairs are of a task's training mentions: what they were taken from must not be measured on."
    else:
        note = "No text and no mention of a corpus was used"
        note += f"; but the dictionary {', '.join(used)}, whose names a benchmark is scored against, was among the sources." if used else "."
    environment = Environment(undefined=StrictUndefined, autoescape=False)  # Markdown, not HTML
    text = environment.from_string(TEMPLATE).render(
        **report,
        base=settings.get("paths.base") or "sentence-transformers/all-MiniLM-L6-v2",
        note=note,
        versions=", ".join(f"{package} {version(package)}" for package in PACKAGES),
    )
    path.write_text(text, encoding="utf-8")
