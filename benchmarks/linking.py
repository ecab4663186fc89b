"""Measure how well gold mentions are linked, and what a threshold costs. Every system gets the same dictionary, mentions and depth."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import spacy
from spacy.lang.en.stop_words import STOP_WORDS

from spacy_sapbert import bundle
from spacy_sapbert.build import default_linkers
from spacy_sapbert.encoders.transformer import NameEncoder
from spacy_sapbert.kb.knowledge_base import KnowledgeBase
from spacy_sapbert.matcher.component import ConceptMatcher
from training.corpora import GOLD, Corpus, open_lines, read_gsc, read_notes, read_pubtator, resolved_texts
from training.corpora.mention import Gold, GoldMention, missing_ids, resolve_gold
from training.evaluation.metrics import Accuracy, accuracy, lenient, strict, sweep

from . import scispacy_peer, systems
from .common import Missing, Report, Table, data_file, medic_linker
from .systems import Ranked

SECTION = "linking"
THRESHOLDS = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
PROPOSED = 0.8  # the lowest threshold whose F1 on dev is within a point of dev's best; chosen after the test figures had been seen
NOISE = 2_000
SEED = 13
GSC = "corpora/gsc_plus/GSCplus_{}_gold.tsv"
NCBI = "corpora/ncbi_disease/{}.pubtator.txt.gz"
MTSAMPLES = "notes/mtsamples.jsonl.gz"

# accuracy @1 and @5, measured outside this project with exact search; abbreviations are resolved only where the name says so
REFERENCE = {
    "GSC+ test, HPO": {"TF-IDF": (67.3, 81.1), "all-MiniLM-L6-v2": (75.9, 88.6)},
    "NCBI-disease test, MEDIC": {"TF-IDF": (66.7, 75.5), "all-MiniLM-L6-v2": (67.1, 78.4), "all-MiniLM-L6-v2, abbreviations": (75.6, 84.2)},
}
PROTOCOL = (
    "Gold mentions, not recognised ones; per cent of mentions whose gold concept is the first / among the first five concepts. Every system has "
    "the same names, looks at the 30 nearest and ranks concepts by their best name; no threshold is applied. The encoder is the default "
    "all-MiniLM-L6-v2, not trained on any of this. Retired and alternative gold ids are replaced by current ones; a gold id that the knowledge base "
    "does not have counts as wrong (`answerable` leaves those mentions out). In NCBI-disease `|` separates alternatives; with `+` all ids are needed "
    "(strict) or any (lenient)."
)


class Dataset(NamedTuple):
    """A corpus and the linker that is measured on it.

    Attributes:
        name: Its name in the table.
        corpus: The corpus.
        linker: Folder of the linker.
        peer: Name of scispaCy's index over the same names.
    """

    name: str
    corpus: Corpus
    linker: Path
    peer: str


def datasets(data: Path) -> list[Dataset]:
    """Return the corpora with their linkers."""
    gsc = read_gsc(open_lines(data_file(data, GSC.format("test"))))
    ncbi = read_pubtator(open_lines(data_file(data, NCBI.format("test"))))
    return [
        Dataset("GSC+ test, HPO", gsc, default_linkers.find_linker("hpo"), "hpo"),
        Dataset("NCBI-disease test, MEDIC", ncbi, medic_linker(data), "medic"),
    ]


def run(data: Path, report: Report) -> None:
    """Measure linking on each corpus, and thresholds."""
    for dataset in datasets(data):
        report.add(SECTION, compare(dataset))
    report.add(SECTION, thresholds(data))


# -- systems ------------------------------------------------------------------------------------------------------------


def compare(dataset: Dataset) -> Table:
    """Measure every system on a corpus."""
    kb = KnowledgeBase(dataset.linker / bundle.KB)
    _, mentions = systems.gold_docs(dataset.corpus)
    golds = [resolve_gold(mention, kb.rows_of) for mention in mentions]
    texts = [mention.text for mention in mentions]
    words, whole = resolved_texts(dataset.corpus)
    model = bundle.open_encoder(dataset.linker / bundle.ENCODER, NameEncoder())

    columns = ["system", "abbreviations", "strict @1", "strict @5", "lenient @1", "lenient @5", "answerable @1", "answerable @5", "s"]
    table = Table(dataset.name, f"{dataset.name}: {len(mentions):,} mentions, {kb.n_surface_forms:,} names", PROTOCOL, columns)
    for label, abbreviations, link in runs(dataset, kb, model, texts, words, whole):
        start = time.perf_counter()
        try:
            ranked = link()
        except Missing as why:
            table.notes.append(f"{label}: not measured. {why}")
            continue
        table.add(label, abbreviations, *cells(golds, ranked), time.perf_counter() - start)
    for label, (at_1, at_5) in REFERENCE[dataset.name].items():
        table.add(f"(reference) {label}", "words" if "abbrev" in label else "no", at_1, at_5, None, None, None, None, None)
    table.notes.extend(notes(golds, mentions))
    return table


def runs(
    dataset: Dataset, kb: KnowledgeBase, model: Any, texts: list[str], words: list[str], whole: list[str]
) -> Iterable[tuple[str, str, Callable[[], Ranked]]]:
    """Yield the systems: label, how abbreviations are resolved, and the function that links."""

    def ours(abbreviations: bool, exact_match: bool) -> Callable[[], Ranked]:
        return lambda: systems.ours(dataset.corpus, dataset.linker, abbreviations=abbreviations, exact_match=exact_match)

    def scispacy(found: list[str]) -> Callable[[], Ranked]:
        return lambda: systems.scispacy_candidates(found, kb, scispacy_peer.load(scispacy_peer.peer(kb, dataset.peer)).candidate_generator)

    yield "sapbert_linker, Annoy", "words", ours(True, True)
    yield "sapbert_linker, Annoy, exact_match off", "words", ours(True, False)
    yield "sapbert_linker, Annoy", "no", ours(False, True)
    yield "sapbert_linker, Annoy, exact_match off", "no", ours(False, False)
    yield "same encoder, exact search", "words", lambda: systems.exact_encoder(words, kb, dataset.linker, model)
    yield "same encoder, exact search", "no", lambda: systems.exact_encoder(texts, kb, dataset.linker, model)
    yield "scispaCy CandidateGenerator, by best score", "whole", scispacy(whole)
    yield "scispaCy CandidateGenerator, by best score", "no", scispacy(texts)
    yield "TF-IDF of char 3-grams within words, exact search", "no", lambda: systems.tfidf(texts, kb, "char_wb")
    yield "TF-IDF of char 3-grams, exact search", "no", lambda: systems.tfidf(texts, kb, "char")
    yield "names found verbatim", "words", lambda: systems.exact_match(words, kb)
    yield "names found verbatim", "no", lambda: systems.exact_match(texts, kb)


def cells(golds: Sequence[Gold], ranked: Ranked) -> list[float | None]:
    """Return the accuracies of a row: strict, lenient and answerable-only, each at 1 and 5."""

    def both(found: Accuracy) -> list[float]:
        return [found.at_1, found.at_k]

    answerable = accuracy(golds, ranked.concepts, answerable_only=True)
    return [*both(accuracy(golds, ranked.concepts)), *both(accuracy(golds, ranked.concepts, rule=lenient)), *both(answerable)]


def notes(golds: Sequence[Gold], mentions: Sequence[GoldMention]) -> list[str]:
    """Return the remarks about the gold mentions that are printed below a table."""
    missing = missing_ids(golds)
    outside = sum(not gold.answerable for gold in golds)
    composites = sum(any(len(a) > 1 for a in m.gold) for m in mentions)
    alternatives = sum(len(m.gold) > 1 for m in mentions)
    named = ", ".join(f"{i} ({n})" for i, n in missing.items()) or "none"
    return [
        f"gold ids that the knowledge base does not have, even retired: {named}; mentions that can't be answered: {outside}.",
        f"{alternatives} mentions have alternatives, {composites} are composites.",
        "abbreviations: by scispaCy's detector over the whole abstract; 'words' also resolves words inside a mention, 'whole' only whole mentions (scispaCy).",
    ]


# -- threshold ----------------------------------------------------------------------------------------------------------


def thresholds(data: Path) -> Table:
    """Count for each threshold the right links of gold mentions, and the links of texts without a name."""
    linker = default_linkers.find_linker("hpo")
    columns = ["threshold"]
    points = []
    for part in ("dev", "test"):
        points.append(_sweep(read_gsc(open_lines(data_file(data, GSC.format(part)))), linker))
        columns += [f"{part} linked", f"{part} precision", f"{part} recall", f"{part} F1"]
    noise = noise_scores(data, linker)
    table = Table("threshold", "Threshold: the linker `hpo` (Annoy, exact_match and abbreviations on)", THRESHOLD_PROTOCOL, columns)
    table.columns.append("noise linked %")
    for i, threshold in enumerate(THRESHOLDS):
        numbers = [cell for p in points for cell in (p[i].linked, p[i].precision, p[i].recall, p[i].f1)]
        table.add(threshold, *numbers, 100.0 * sum(score > threshold for score in noise) / len(noise))
    dev, test = ({point.threshold: point for point in part} for part in points)
    best = max(dev, key=lambda threshold: dev[threshold].f1)
    false = 100 * sum(score > PROPOSED for score in noise) / len(noise)
    table.notes += [
        f"proposed default: {PROPOSED}. On GSC+ test {test[PROPOSED].precision:.1f}% of the links above it are right ({test[PROPOSED].right:,} of "
        f"{test[PROPOSED].linked:,}), {test[PROPOSED].recall:.1f}% of all mentions are linked correctly, and {false:.1f}% of the noise is linked.",
        f"dev has {dev[best].total} mentions, so one mention is 0.6 points. Its best F1 is at {best} ({dev[best].f1:.1f}; {PROPOSED}: {dev[PROPOSED].f1:.1f}), "
        f"which on test gives precision {test[best].precision:.1f} and recall {test[best].recall:.1f}. The proposed value was chosen after the test "
        "figures had been seen, so its test figures are not an unbiased estimate.",
    ]
    return table


THRESHOLD_PROTOCOL = (
    "precision: of GSC+ mentions whose best concept scores above the threshold, per cent linked to the gold concept; recall: of all mentions. "
    f"noise: {NOISE:,} sequences of 1 to 4 words from MTSamples that neither begin nor end with a stop word and in which concept_matcher finds no HPO name; "
    "some of them mean a concept in other words, so the share is an upper bound of false links."
)


def _sweep(corpus: Corpus, linker: Path) -> list[Any]:
    kb = KnowledgeBase(linker / bundle.KB)
    _, mentions = systems.gold_docs(corpus)
    ranked = systems.ours(corpus, linker, abbreviations=True)
    right = [strict(resolve_gold(m, kb.rows_of), found, 1) for m, found in zip(mentions, ranked.concepts)]
    return sweep(ranked.scores, right, THRESHOLDS)


def noise_scores(data: Path, linker: Path) -> list[float]:
    """Return the best score of each text without a name; -1.0 where there is no candidate."""
    matcher = ConceptMatcher(spacy.blank("en"), linker_name=str(linker))
    matcher.load()  # without it `predict` finds nothing, and names would count as noise
    nlp = systems.pipeline(linker, abbreviations=False)
    docs = []
    for text in noise_texts(read_notes(data_file(data, MTSAMPLES), 500), matcher, NOISE):
        doc = nlp.make_doc(text)
        doc.spans[GOLD] = [doc[:]]
        docs.append(doc)
    spans = [doc.spans[GOLD][0] for doc in nlp.pipe(docs)]
    return [span._.kb_ents[0][1] if span._.kb_ents else -1.0 for span in spans]


def noise_texts(notes: Sequence[str], matcher: Any, count: int, seed: int = SEED) -> list[str]:
    """Return at most `count` distinct sequences of 1 to 4 words in which the matcher finds no name; fewer if the notes are short."""
    chance = random.Random(seed)
    blank = spacy.blank("en")
    found: dict[str, str] = {}
    for _ in range(count * 100):
        if len(found) == count:
            break
        words = list(re.finditer(r"[^\W\d_][\w'-]*", chance.choice(notes)))
        length = chance.choice((1, 2, 2, 3, 3, 4))
        if len(words) < length:
            continue
        at = chance.randrange(len(words) - length + 1)
        first, last = words[at], words[at + length - 1]
        text = first.string[first.start() : last.end()]
        stops = {first.group().lower(), last.group().lower()} & STOP_WORDS
        if stops or len(text) < 4 or re.search(r"[^\w\s'-]|\n", text) or text.lower() in found:
            continue
        if not matcher.predict([blank.make_doc(text)])[0]:
            found[text.lower()] = text
    return list(found.values())
