"""Pipelines on whole texts: `python -m training.evaluation.end_to_end --system default= --sets gsc-dev` finds mentions, links them, and counts what is right.

Mention level: span and concept. Document level: the set of concepts. Unlike training.evaluation.evaluate, nothing is given but the text.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
from tqdm import tqdm

from spacy_sapbert.about import __version__
from spacy_sapbert.cli import make_pipeline
from spacy_sapbert.doc.spans import get_spans
from spacy_sapbert.errors import SapbertError
from spacy_sapbert.files import checksum, write_text

from ..corpora import Corpus, read_corpus
from ..errors import fail
from .benchmarks import by_commas
from .evaluate import versions
from .metrics import Found, Matched, Mention, document_match, mention_match, missing_ids, resolve
from .results import write_absent
from .significance import ratio_interval

FORMAT = 1
SETS = {  # name -> title, file or folder, layout, vocabulary that its gold is of
    "gsc-dev": ("GSC+ dev", "corpora/gsc_plus/GSCplus_dev_gold.tsv", "gsc", "HPO"),
    "gsc-test": ("GSC+ test", "corpora/gsc_plus/GSCplus_test_gold.tsv", "gsc", "HPO"),
    "jax": ("JAX", "corpora/jax", "jax", "HPO"),
}
ABSENT = "No pipeline was measured on whole texts: no corpus was named (--sets)."
PROTOCOL = (
    "Only the text is given: mentions are found and linked by the pipeline. Mention level, micro: a gold mention counts once, if the span is the "
    "same (exact) or shares a character (overlap) and the first concept is a gold one. Document level, micro: the set of first concepts of a "
    "document against the set of its gold ids. The gold is of one vocabulary, so what is linked to a concept without a code of it does not count "
    "as found. Retired ids are followed; ids that the knowledge base joins in one concept count as one; gold ids that it does not have count as "
    "missed."
)


def gold_of(corpus: Corpus, kb: Any) -> List[Mention]:
    """The gold in the knowledge base's own ids; an id that it does not have stays as it is."""

    def known(concept_id: str) -> str:
        try:
            return str(kb.concept_id(kb.row_of(concept_id)))
        except KeyError:
            return concept_id

    return [m._replace(gold=tuple(tuple(dict.fromkeys(known(i) for i in ids)) for ids in m.gold)) for m in corpus.mentions]


def found_by(nlp: Any, corpus: Corpus, vocabulary: str = "", *, progress: bool = False) -> List[Found]:
    """What a pipeline that ends in sapbert_linker finds and links to a concept with a code of the vocabulary; "": of any."""
    linker = nlp.get_pipe("sapbert_linker")
    texts = [(text, document) for document, text in corpus.documents.items()]
    found = []
    for doc, document in tqdm(nlp.pipe(texts, as_tuples=True), total=len(texts), desc="annotating", unit=" documents", disable=not progress):
        for _, _, span in get_spans(doc, linker.spans_key):
            if span.kb_id_ not in ("", "NIL") and (not vocabulary or vocabulary in linker.kb.codes(linker.kb.row_of(span.kb_id_))):
                ranked = [concept_id for concept_id, _ in span._.get(linker.attr_name)]
                ids = tuple(dict.fromkeys([span.kb_id_, *ranked]))
                found.append(Found(document, span.start_char, span.end_char, ids))
    return found


Match = Callable[[Sequence[Found], Sequence[Mention]], Matched]


def shown(match: Match, found: Sequence[Found], gold: Sequence[Mention], documents: Sequence[str]) -> Dict[str, Any]:
    """Per cent, with the 95% interval of F1 by bootstrap over documents. match: matches within documents, so that these add up."""
    mine: Dict[str, Tuple[List[Found], List[Mention]]] = {document: ([], []) for document in documents}
    for one in found:
        mine[one.document][0].append(one)
    for mention in gold:
        mine[mention.document][1].append(mention)
    each = [match(*both) for both in mine.values()]
    whole = Matched(sum(m.right for m in each), sum(m.found for m in each), sum(m.gold for m in each))
    over, under = np.array([200.0 * m.right for m in each]), np.array([float(m.found + m.gold) for m in each])
    return {"precision": whole.precision, "recall": whole.recall, "f1": whole.f1, "f1_ci": list(ratio_interval(over, under))}


def measure(nlp: Any, corpus: Corpus, vocabulary: str = "", *, progress: bool = False) -> Dict[str, Any]:
    """Figures of one pipeline on one corpus. Corpora without offsets (JAX) have the document level only."""
    kb = nlp.get_pipe("sapbert_linker").kb
    start = time.perf_counter()
    found = found_by(nlp, corpus, vocabulary, progress=progress)
    seconds = time.perf_counter() - start
    gold = gold_of(corpus, kb)
    documents = list(corpus.documents)
    missing = sorted(missing_ids([resolve(mention, kb.row_of) for mention in corpus.mentions]))
    made: Dict[str, Any] = {"n_documents": len(corpus.documents), "n_gold": len(gold), "n_predicted": len(found)}
    if any(mention.end for mention in gold):
        made["mention_exact"] = shown(mention_match, found, gold, documents)
        made["mention_overlap"] = shown(partial(mention_match, overlap=True), found, gold, documents)
    made["document"] = shown(document_match, found, gold, documents)
    made["documents_per_second"] = len(corpus.documents) / seconds
    made["note"] = f"gold ids that the knowledge base does not have: {len(missing)}{', ' * bool(missing)}{', '.join(missing[:10])}"
    return made


def read_set(name: str, data: Path) -> Corpus:
    """RAISES: SapbertError E540, E401, and what the reader raises."""
    if name not in SETS:
        raise fail("E540", name=name, known=", ".join(SETS), groups="none here")
    _, file, layout, _ = SETS[name]
    return read_corpus(data / file, layout)


def table(found: Dict[str, Any]) -> str:
    """Systems by sets as Markdown: F1 (precision/recall)."""
    lines = ["| system | set | mention, exact span | mention, overlap | document | documents/s |", "|---|---|---|---|---|---|"]
    for system, entry in found["systems"].items():
        for name, figures in entry["sets"].items():
            cells = [
                "–" if key not in figures else "{f1:.1f} [{f1_ci[0]:.1f}–{f1_ci[1]:.1f}] ({precision:.1f}/{recall:.1f})".format(**figures[key])
                for key in ("mention_exact", "mention_overlap", "document")
            ]
            lines.append(f"| {system} | {name} | {' | '.join(cells)} | {figures['documents_per_second']:.1f} |")
    return "\n".join([*lines, "", f"F1 [95% interval by bootstrap over documents] (precision/recall), per cent. {found['protocol']}"]) + "\n"


def end_to_end(systems: Dict[str, str], sets: Sequence[str], data: Path, config: Dict[str, Any], *, progress: bool = False) -> Dict[str, Any]:
    """systems: name -> a pipeline's folder or package, "" for concept_matcher and the default linker with `config`."""
    corpora = {name: read_set(name, data) for name in sets}
    content: Dict[str, Any] = {}
    for system, pipeline in systems.items():
        nlp = make_pipeline(config if not pipeline else {}, pipeline or None, abbreviations=not pipeline)  # a given one stays as it is
        linker = nlp.get_pipe("sapbert_linker")
        made_of = {"kb": linker.kb.fingerprint, "encoder": linker.model.fingerprint}  # the knowledge base first: it loads both
        content[system] = {"made_of": made_of, "pipeline": pipeline or "concept_matcher, sapbert_linker", "components": list(nlp.pipe_names)}
        content[system]["sets"] = {
            name: {"title": SETS[name][0], **measure(nlp, corpus, SETS[name][3], progress=progress)} for name, corpus in corpora.items()
        }
    files = {SETS[name][1]: checksum(data / SETS[name][1])[:16] for name in sets if (data / SETS[name][1]).is_file()}
    about = {
        "kind": "end-to-end",
        "format": FORMAT,
        "made_by": __version__,
        "versions": versions(),
        "protocol": PROTOCOL,
        "settings": config,
        "files": files,
    }
    return {**about, "systems": content}


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m training.evaluation.end_to_end", description="Measure pipelines on whole texts.")
    parser.add_argument(
        "--system",
        action="append",
        default=[],
        metavar="NAME=PIPELINE",
        help="repeatable; a pipeline's folder or package; NAME= is concept_matcher and the default linker (default)",
    )
    parser.add_argument("--sets", default="gsc-dev", help=f"by commas: {', '.join(SETS)}; '': none is measured, and it is said so")
    parser.add_argument("--linker", default=None, help="of NAME=: a registered linker or a linker's folder")
    parser.add_argument("--threshold", type=float, default=None, help="of NAME=: score that a link must exceed")
    parser.add_argument("--target-precision", type=float, default=None, help="of NAME=: link only what is so probable")
    parser.add_argument("--types", default="", help="of NAME=: semantic types or groups to keep, by commas (DISO); default: all")
    parser.add_argument("--data", type=Path, default=Path("assets"), help="folder of corpora")
    parser.add_argument("--out", type=Path, default=Path("metrics/end-to-end.json"), help="the Markdown table goes beside it")
    options = parser.parse_args(arguments)
    sets = by_commas(options.sets)
    if not sets:
        write_text(options.out.with_suffix(".md"), ABSENT + "\n")
        write_absent(options.out, "end-to-end", ABSENT)
        return 0
    try:
        systems: Dict[str, str] = {}
        for value in options.system or ["default="]:
            name, sign, pipeline = value.partition("=")
            if not sign or not name.strip() or name in systems:
                raise fail("E548", setting="--system", value=value, why="it must be NAME=PIPELINE, each name once; NAME= for the default")
            systems[name] = pipeline
        given = {"linker_name": options.linker, "threshold": options.threshold, "target_precision": options.target_precision}
        config: Dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        if types := by_commas(options.types):
            config["types"] = types
        found = end_to_end(systems, sets, options.data, config, progress=True)
        write_text(options.out, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
        write_text(options.out.with_suffix(".md"), table(found))
    except SapbertError as error:
        print(error, file=sys.stderr)
        return 1
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
