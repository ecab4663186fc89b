"""Measure pipelines on whole texts: `python -m training end-to-end --system default= --benchmarks gsc-dev` counts right mentions and links.

Mention level: span and concept. Document level: the set of concepts. Unlike in `python -m training evaluate`, a pipeline gets only the text.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from spacy_sapbert.corpus.pipeline import make_pipeline
from spacy_sapbert.doc.spans import get_spans, spans_to_link
from spacy_sapbert.files import checksum, write_text
from spacy_sapbert.kb import curies, semantic_types
from spacy_sapbert.kb.concept import normalise

from ..corpora import Corpus, read_corpus
from ..corpora.mention import GoldMention, Ids, missing_ids, resolve_gold
from ..errors import fail
from ..loop.encoders import use_gpu
from .evaluate import header
from .gold_notes import ALL, GOLD, Status, judge, read_gold_notes
from .metrics import (
    MISSING,
    NOT_FOUND,
    OTHER_ID,
    RIGHT,
    WRONG_MEANING,
    WRONG_SPAN,
    MatchCounts,
    PredictedMention,
    document_match,
    mention_match,
    outcome,
    span_match,
)
from .results import write_absent
from .significance import ratio_interval

FORMAT = 1


class TextBenchmark(NamedTuple):
    """A corpus of which a pipeline gets only the texts.

    Attributes:
        title: Its name in tables.
        file: Its file or folder below the data folder; for the gold notes, below the project's folder.
        layout: Its layout, one of `corpora.LAYOUTS`, or GOLD_NOTES.
        vocabularies: Vocabularies of its gold; only links to concepts with a code of one of them count.
        groups: Semantic groups that it annotates; only mentions of these count. Empty: all.
        kinds: Its kinds of mentions -> their semantic groups; mentions of other kinds are left out. None: it has no kinds.
        nested: Whether it annotates mentions within mentions. If so, mentions of the span group "sapbert" count, too.
    """

    title: str
    file: str
    layout: str
    vocabularies: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    kinds: Mapping[str, str] | None = None
    nested: bool = False


GOLD_NOTES = "gold-notes"
_DISEASES = dict.fromkeys(("SpecificDisease", "DiseaseClass", "Modifier", "CompositeMention"), "DISO")
BENCHMARKS = {
    "gsc-dev": TextBenchmark("GSC+ dev", "corpora/gsc_plus/GSCplus_dev_gold.tsv", "gsc", ("HPO",), ("DISO",), nested=True),
    "gsc-test": TextBenchmark("GSC+ test", "corpora/gsc_plus/GSCplus_test_gold.tsv", "gsc", ("HPO",), ("DISO",), nested=True),
    "jax": TextBenchmark("JAX", "corpora/jax", "jax", ("HPO",)),
    "ncbi-dev": TextBenchmark("NCBI-disease dev", "corpora/ncbi_disease/devel.pubtator.txt.gz", "pubtator", ("MSH", "OMIM"), ("DISO",), _DISEASES),
    "ncbi-test": TextBenchmark("NCBI-disease test", "corpora/ncbi_disease/test.pubtator.txt.gz", "pubtator", ("MSH", "OMIM"), ("DISO",), _DISEASES),
    "bc5cdr-dev": TextBenchmark(
        "BC5CDR dev", "corpora/bc5cdr/dev.pubtator.txt.gz", "pubtator", ("MSH",), ("DISO", "CHEM"), {"Disease": "DISO", "Chemical": "CHEM"}
    ),
    "labeledin": TextBenchmark(
        "LabeledIn", "corpora/labeledin/LabeledIn_annotated_XML.txt.gz", "labeledin", ("UMLS",), ("DISO",), {"Disease": "DISO"}
    ),
    "bionne-train": TextBenchmark(
        "BioNNE-L train",
        "corpora/bionne_l/bionne_l_en_train.tar.gz",
        "bionne",
        ("UMLS",),
        ("DISO", "CHEM"),
        {"DISO": "DISO", "CHEM": "CHEM"},
        nested=True,
    ),
    "gold": TextBenchmark("gold notes", "examples/gold/gold.jsonl", GOLD_NOTES),
}
ABSENT = "No pipeline was measured on whole texts: no corpus was given (--benchmarks)."
PROTOCOL = (
    "Only the text is given: the pipeline finds and links the mentions. Mention level, micro: a gold mention counts once, if the span is the "
    "same (exact) or shares a character (overlap) and the first concept is a gold one. Document level, micro: the set of first concepts of a "
    "document against the set of its gold ids. The gold is of one vocabulary, so links to concepts without a code of it do not count as "
    "found. Retired ids are replaced by current ones; ids that the knowledge base joins in one concept count as one; gold ids that it does not have "
    "count as missed. In a corpus with nested mentions (GSC+, BioNNE-L), nested mentions that the pipeline finds count, too; GSC+ annotates only disorders."
)


def gold_of(corpus: Corpus, kb: Any) -> list[GoldMention]:
    """Return the gold mentions with the knowledge base's own ids, as `resolve_gold` finds them. An unknown id is not changed."""

    def known(mention: GoldMention) -> Iterator[Ids]:
        for ids in mention.gold:
            for rows in resolve_gold(mention._replace(gold=(ids,)), kb.rows_of).alternatives:
                yield tuple(dict.fromkeys(given if row is None else str(kb.concept_id(row)) for given, row in zip(ids, rows)))

    return [mention._replace(gold=tuple(known(mention))) for mention in corpus.mentions]


def found_by(nlp: Any, corpus: Corpus, benchmark: TextBenchmark, *, progress: bool = False) -> list[PredictedMention]:
    """Run a pipeline that has `sapbert_linker` on a corpus, and return the mentions that it finds, with their links.

    Args:
        nlp: The pipeline.
        corpus: The corpus.
        benchmark: Decides which links and mentions count. A mention whose link does not count is returned without a link.
        progress: Show a progress bar.
    """
    linker = nlp.get_pipe("sapbert_linker")
    kinds = semantic_types.load()
    texts = [(text, document) for document, text in corpus.documents.items()]
    found = []
    for doc, document in tqdm(nlp.pipe(texts, as_tuples=True), total=len(texts), desc="annotating", unit=" documents", disable=not progress):
        keys = spans_to_link(doc, linker.spans_key) if benchmark.nested else get_spans(doc, linker.spans_key)
        for span in {(span.start_char, span.end_char, span.kb_id_): span for _, _, span in keys}.values():
            ids: Ids = ()
            kind = span.label_
            if span.kb_id_ not in ("", "NIL"):
                row = linker.kb.row_of(span.kb_id_)
                kind = next((kinds[tui].group for tui in linker.kb.concept(row).types if tui in kinds), kind)
                if not benchmark.vocabularies or not linker.kb.codes(row).keys().isdisjoint(benchmark.vocabularies):
                    ids = tuple(dict.fromkeys([span.kb_id_, *(concept_id for concept_id, _ in span._.get(linker.attr_name))]))
            if not benchmark.groups or kind in benchmark.groups:
                status = span._.get("assertion") if span.has_extension("assertion") else None
                found.append(PredictedMention(document, span.start_char, span.end_char, ids, kind, status))
    return found


Match = Callable[[Sequence[PredictedMention], Sequence[GoldMention]], MatchCounts]


def shown(match: Match, found: Sequence[PredictedMention], gold: Sequence[GoldMention], documents: Sequence[str]) -> dict[str, Any]:
    """Compute precision, recall and F1 in per cent, with the bootstrap interval of F1 over documents.

    Args:
        match: Matches found and gold mentions within documents, so that the counts of documents can be added.
        found: The mentions that the pipeline found.
        gold: The gold mentions.
        documents: All documents.
    """
    mine: dict[str, tuple[list[PredictedMention], list[GoldMention]]] = {document: ([], []) for document in documents}
    for one in found:
        mine[one.document][0].append(one)
    for mention in gold:
        mine[mention.document][1].append(mention)
    each = [match(*both) for both in mine.values()]
    whole = MatchCounts(sum(m.right for m in each), sum(m.found for m in each), sum(m.gold for m in each))
    over, under = np.array([200.0 * m.right for m in each]), np.array([float(m.found + m.gold) for m in each])
    return {"precision": whole.precision, "recall": whole.recall, "f1": whole.f1, "f1_ci": list(ratio_interval(over, under))}


def measure_pipeline(
    nlp: Any, corpus: Corpus, benchmark: TextBenchmark, statuses: Sequence[Status] = (), *, progress: bool = False
) -> dict[str, Any]:
    """Measure one pipeline on one corpus. A corpus without offsets (JAX) has only the document level.

    Args:
        nlp: The pipeline.
        corpus: The corpus.
        benchmark: The benchmark; it decides what counts.
        statuses: The status of each mention, if the corpus has it. Mentions are then also judged by kind (`gold_notes.judge`).
        progress: Show a progress bar.
    """
    kb = nlp.get_pipe("sapbert_linker").kb
    start = time.perf_counter()
    found = found_by(nlp, corpus, benchmark, progress=progress)
    seconds = time.perf_counter() - start
    gold = gold_of(corpus, kb)
    documents = list(corpus.documents)
    resolved = [resolve_gold(mention, kb.rows_of) for mention in corpus.mentions]
    missing = sorted(missing_ids(resolved))
    linked = [one for one in found if one.ids]
    made: dict[str, Any] = {"n_documents": len(corpus.documents), "n_gold": len(gold), "n_predicted": len(linked)}
    if any(mention.end for mention in gold):
        made["mention_exact"] = shown(mention_match, linked, gold, documents)
        made["mention_overlap"] = shown(partial(mention_match, overlap=True), linked, gold, documents)
        made["span_exact"] = shown(span_match, found, gold, documents)
        made["span_overlap"] = shown(partial(span_match, overlap=True), found, gold, documents)
        made["outcomes"] = outcomes_of(found, gold, [one.answerable for one in resolved], kb)
    made["document"] = shown(document_match, linked, gold, documents)
    if benchmark.kinds and len(benchmark.groups) > 1:
        made["kinds"] = {group: _of_kind(group, found, gold, documents, benchmark.kinds) for group in benchmark.groups}
    if statuses:
        made["judged"] = judge(found, gold, statuses)
    made["documents_per_second"] = len(corpus.documents) / seconds
    made["note"] = f"gold ids that the knowledge base does not have: {len(missing)}{', ' * bool(missing)}{', '.join(missing[:10])}"
    if len(missing) == len({i for mention in corpus.mentions for ids in mention.gold for i in ids}):
        known = ", ".join(kb.vocabularies_by_size[:12])
        made["note"] += f". It has none of them: they are of {curies.vocabularies_in_words(missing)}, and it has {known}"
    return made


def _of_kind(
    group: str, found: Sequence[PredictedMention], gold: Sequence[GoldMention], documents: Sequence[str], kinds: Mapping[str, str]
) -> dict[str, Any]:
    found = [one for one in found if one.kind == group]
    gold = [mention for mention in gold if kinds[mention.kind] == group]
    linked = [one for one in found if one.ids]
    return {
        "n_gold": len(gold),
        "n_predicted": len(linked),
        "span_exact": shown(span_match, found, gold, documents),
        "mention_exact": shown(mention_match, linked, gold, documents),
        "document": shown(document_match, linked, gold, documents),
    }


def outcomes_of(found: Sequence[PredictedMention], gold: Sequence[GoldMention], known: Sequence[bool], kb: Any) -> dict[str, int]:
    """Count the gold mentions by outcome: right, or one of five classes of errors (`metrics.outcome`).

    Two concepts have the same meaning if a preferred name of one is a name of the other.

    Args:
        found: The mentions that a pipeline found.
        gold: The gold mentions, with the knowledge base's own ids.
        known: (gold,) whether the knowledge base has a gold concept of each mention.
        kb: The knowledge base.
    """
    names = cache(lambda concept_id: [normalise(name.text) for name in kb.concept(kb.row_of(concept_id)).names] if concept_id in kb else [])

    def same(one: str, other: str) -> bool:
        return bool(names(one)[:1] and names(other)[:1]) and (names(one)[0] in names(other) or names(other)[0] in names(one))

    of_document: dict[str, list[PredictedMention]] = {}
    for one in found:
        of_document.setdefault(one.document, []).append(one)
    made = dict.fromkeys((RIGHT, MISSING, NOT_FOUND, WRONG_SPAN, WRONG_MEANING, OTHER_ID), 0)
    for mention, has in zip(gold, known):
        if mention.gold:
            made[outcome(mention, of_document.get(mention.document, ()), known=has, same=same)] += 1
    return made


def read_benchmark(name: str, data: Path) -> Corpus:
    """Read the corpus of a benchmark.

    Raises:
        SapbertError: E540 (not known), E401 (no such file), and those of the reader.
    """
    check_benchmark(name)
    benchmark = BENCHMARKS[name]
    if benchmark.layout == GOLD_NOTES:
        return read_gold_notes(GOLD)[0]
    return read_corpus(data / benchmark.file, benchmark.layout, kinds=None if benchmark.kinds is None else tuple(benchmark.kinds))


def check_benchmark(name: str) -> None:
    """Check that the name of a benchmark is known.

    Raises:
        SapbertError: E540.
    """
    if name not in BENCHMARKS:
        raise fail("E540", name=name, known=", ".join(BENCHMARKS), groups="none here")


def table(found: dict[str, Any]) -> str:
    """Return Markdown tables of systems by benchmarks: F1 (precision/recall) of all mentions and by kind, and the outcomes of the gold mentions."""
    shown_keys = {"span_exact": "span, exact", "mention_exact": "linked, exact span", "mention_overlap": "linked, overlap", "document": "document"}
    lines = [f"| system | benchmark | {' | '.join(shown_keys.values())} | documents/s |", "|---" * (len(shown_keys) + 3) + "|"]
    kinds: list[str] = []
    outcome_rows: list[str] = []
    for system, entry in found["systems"].items():
        for name, figures in entry["benchmarks"].items():
            lines.append(
                f"| {system} | {name} | {' | '.join(_cell(figures.get(key)) for key in shown_keys)} | {figures['documents_per_second']:.1f} |"
            )
            for group, of in figures.get("kinds", {}).items():
                kinds.append(f"| {system} | {name}, {group} | {' | '.join(_cell(of.get(key)) for key in shown_keys)} | |")
            if total := sum(figures.get("outcomes", {}).values()):
                outcome_rows.append(f"| {system} | {name} | {' | '.join(f'{100 * n / total:.1f}' for n in figures['outcomes'].values())} |")
    lines += [*kinds, "", f"F1 [95% interval by bootstrap over documents] (precision/recall), per cent. {found['protocol']}"]
    if outcome_rows:
        classes = (RIGHT, MISSING, NOT_FOUND, WRONG_SPAN, WRONG_MEANING, OTHER_ID)
        lines += [
            "",
            "Outcomes of the gold mentions, per cent:",
            "",
            f"| system | benchmark | {' | '.join(classes)} |",
            "|---" * 8 + "|",
            *outcome_rows,
        ]
    judged = [
        f"| {system} | {'all' if kind == ALL else kind} | {of['mentions']} | {_share(of, 'found', 'mentions')} | {_share(of, 'exact', 'mentions')} | "
        f"{_share(of, 'right', 'with_concept')} | {_share(of, 'status', 'found')} | {_share(of, 'false', 'links')} | {_share(of, 'parts', 'links')} |"
        for system, entry in found["systems"].items()
        for figures in entry["benchmarks"].values()
        for kind, of in figures.get("judged", {}).items()
    ]
    if judged:
        heads = ("system", "kind", "mentions", "found", "same span", "right", "status right", "links that are false", "false: parts of a mention")
        caption = (
            "Gold notes, per cent. found: at least one shared character. right: of the mentions with a concept. status right: of the found mentions."
        )
        lines += ["", caption, "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *judged]
    return "\n".join(lines) + "\n"


def _share(of: dict[str, int], part: str, whole: str) -> str:
    return f"{100 * of[part] / of[whole]:.1f} ({of[part]}/{of[whole]})" if of[whole] else "–"


def _cell(figures: dict[str, Any] | None) -> str:
    if figures is None:
        return "–"
    return "{f1:.1f} [{f1_ci[0]:.1f}–{f1_ci[1]:.1f}] ({precision:.1f}/{recall:.1f})".format(**figures)


def evaluate_pipelines(
    systems: dict[str, str], benchmarks: Sequence[str], data: Path, config: dict[str, Any], *, gpu_id: int = -1, progress: bool = False
) -> dict[str, Any]:
    """Measure pipelines on benchmarks of whole texts.

    Args:
        systems: Name -> a pipeline's folder or package; "" is concept_matcher and the default linker.
        benchmarks: Names of BENCHMARKS.
        data: Folder of corpora.
        config: Settings of the default linker.
        gpu_id: Number of the GPU that encodes; -1 is the CPU.
        progress: Show progress bars.

    Returns:
        The result, as it is written.
    """
    corpora = {name: read_benchmark(name, data) for name in benchmarks}
    statuses = {name: read_gold_notes(GOLD)[1] for name in benchmarks if BENCHMARKS[name].layout == GOLD_NOTES}
    content: dict[str, Any] = {}
    for system, pipeline in systems.items():
        # a given pipeline gets no extra components
        nlp = make_pipeline(config if not pipeline else {}, pipeline or None, abbreviations=not pipeline, status=not pipeline)
        linker = nlp.get_pipe("sapbert_linker")
        use_gpu(linker, gpu_id)
        made_of = {"kb": linker.kb.fingerprint, "encoder": linker.model.fingerprint}  # reading kb first loads both
        content[system] = {"made_of": made_of, "pipeline": pipeline or "concept_matcher, sapbert_linker", "components": list(nlp.pipe_names)}
        content[system]["benchmarks"] = {
            name: {"title": BENCHMARKS[name].title, **measure_pipeline(nlp, corpus, BENCHMARKS[name], statuses.get(name, ()), progress=progress)}
            for name, corpus in corpora.items()
        }
    read = {one.file: GOLD if one.layout == GOLD_NOTES else data / one.file for one in (BENCHMARKS[name] for name in benchmarks)}
    files = {file: checksum(path)[:16] for file, path in read.items() if path.is_file()}
    return {**header("end-to-end", FORMAT, PROTOCOL), "settings": config, "files": files, "systems": content}


def parse_systems(given: Sequence[str]) -> dict[str, str]:
    """Read NAME=PIPELINE options.

    Args:
        given: Values of the option.

    Returns:
        Name -> a pipeline's folder or package, "" for the default.

    Raises:
        SapbertError: E548.
    """
    systems: dict[str, str] = {}
    for value in given:
        name, sign, pipeline = value.partition("=")
        if not sign or not name.strip() or name in systems:
            raise fail("E548", setting="--system", value=value, why="it must be NAME=PIPELINE, each name once; NAME= for the default")
        systems[name] = pipeline
    return systems


def evaluate_and_write(systems: dict[str, str], benchmarks: Sequence[str], data: Path, config: dict[str, Any], out: Path, *, gpu_id: int = -1) -> str:
    """Measure pipelines on whole texts, and write the figures and a Markdown table.

    Args:
        systems: Name -> a pipeline's folder or package, "" for concept_matcher and the default linker.
        benchmarks: Names of BENCHMARKS. If there are none, the files say so.
        data: Folder of corpora.
        config: Settings of the default linker.
        out: JSON file; the table is written next to it.
        gpu_id: Number of the GPU that encodes; -1 is the CPU.

    Returns:
        Text to show: the table, or why there is none.

    Raises:
        SapbertError: E540, E401, and those of corpora and pipelines.
    """
    if not benchmarks:
        write_text(out.with_suffix(".md"), ABSENT + "\n")
        return write_absent(out, "end-to-end", ABSENT)
    found = evaluate_pipelines(systems, benchmarks, data, config, gpu_id=gpu_id, progress=True)
    write_text(out, json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    write_text(out.with_suffix(".md"), table(found))
    return table(found)
