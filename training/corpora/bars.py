"""Layouts whose fields are separated by `||`: BioSyn's folders and dictionaries, XL-BEL."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from spacy_sapbert.kb.concept import normalise
from spacy_sapbert.readers.text import lines as numbered_lines

from ..errors import fail
from .corpus import MADE_UP, Corpus, misfit
from .ids import gold_ids
from .mention import GoldMention

CUI = re.compile(r"C[LN\d]\d{6}")  # XL-BEL also has provisional CUIs of a subset (CL448688) and CUIs of MedGen (CN029274)
_MARKED = re.compile(r"<tgt>(.*?)</tgt>")


def read_biosyn(path: Path, *, vocabulary: str = "") -> Corpus:
    """Read a folder of BioSyn, or one file of it.

    A file `document.concept` has lines `document||start|end||kind||mention||ids`. In a composite, `|` joins the written-out parts of the mention and
    also its ids; the mention is kept joined. If only the ids have a `|`, it separates alternatives. `processed_*` folders hold no texts:
    their mentions are lower-cased and have no offsets. If every file has a `document.txt`, the texts are read: title, two line ends, abstract.
    Offsets count one character between title and abstract.

    Args:
        path: The folder or file.
        vocabulary: Vocabulary of ids without a prefix, as in `gold_id`.

    Raises:
        SapbertError: E560 (a line), E567 (no such file).

    Source:
        Sung et al., ACL 2020.
    """
    path = Path(path)
    files = [path] if path.is_file() else sorted(path.glob("*.concept"))
    if not files:  # SapBERT's copy names them .txt
        files = sorted(path.glob("*.txt"))
    if not files:
        raise fail("E567", path=path, layout="biosyn", why="it holds no *.concept")
    mentions = [mention for file in files for mention in _concepts(file, vocabulary)]
    texts = {file.stem: file.with_suffix(".txt") for file in files if file.suffix == ".concept"}
    if not texts or not all(text.is_file() for text in texts.values()):
        return Corpus({}, mentions)
    return Corpus({document: _text(text) for document, text in texts.items()}, mentions)


def _concepts(path: Path, vocabulary: str) -> Iterator[GoldMention]:
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        fields = line.split("||")
        if len(fields) != 5 or not re.fullmatch(r"\d+\|\d+", fields[1]) or not fields[3].strip():
            raise misfit(path, number, line, "`document||start|end||kind||mention||ids`")
        document, offsets, kind, text, ids = fields
        start, _, end = offsets.partition("|")
        yield GoldMention(document, int(start), int(end), text.strip(), gold_ids(ids.replace("|", "+") if "|" in text else ids, vocabulary), kind)


def _text(path: Path) -> str:
    return "\n".join(line for _, line in numbered_lines(path)).replace("\n\n", "\n", 1)


def read_dictionary(lines: Iterable[str], *, vocabulary: str = "", source: str | Path = "dictionary") -> Corpus:
    """Read a dictionary of BioSyn: `id||name`, or `id|other id||name|synonym`.

    Args:
        lines: The lines; every name becomes a mention without a document.
        vocabulary: Vocabulary of ids without a prefix, as in `gold_id`.
        source: File name for error messages.

    Raises:
        SapbertError: E560, for a line.
    """
    mentions: list[GoldMention] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        ids, _, names = line.partition("||")
        found = [name.strip() for name in names.split("|") if name.strip()]
        if not found or not gold_ids(ids):
            raise misfit(source, number, line, "`id||name`")
        mentions.extend(GoldMention("", 0, 0, name, gold_ids(ids, vocabulary)) for name in found)
    return Corpus({}, mentions)


def read_xlbel(lines: Iterable[str], *, source: str | Path = "XL-BEL") -> Corpus:
    """Read XL-BEL: `CUI||mention`, or `CUI||mention||sentence` with the mention between <tgt> and </tgt>.

    `|` separates alternative CUIs. A sentence is a document, named by the number of its line. Some lines of the published files are irregular; they
    are counted. An id that is not a CUI (`90058`) is kept, so that its mention counts as wrong, as in the published figures. A sentence without a
    marked mention is left out, and its mention has no document. A line without an id or a mention is left out. In a sentence with several marked
    mentions the first one is taken.

    Args:
        lines: The lines.
        source: File name for error messages.

    Raises:
        SapbertError: E560, if no line holds a CUI and a mention; it names the first line.

    Source:
        Liu et al., ACL 2021.
    """
    documents: dict[str, str] = {}
    mentions: list[GoldMention] = []
    counts: Counter[str] = Counter()
    first: tuple[int, str] | None = None
    cuis = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        first = first or (number, line)
        ids, text, sentence = [*re.split(r"\|{2,}", line, maxsplit=2), "", ""][:3]
        named = list(dict.fromkeys(i.strip() for i in ids.split("|") if i.strip()))
        if not named or not text.strip():
            counts["lines_without_id_or_mention"] += 1
            continue
        known = sum(CUI.fullmatch(i) is not None for i in named)
        cuis += known
        counts["ids_that_are_no_cui"] += len(named) - known
        gold = tuple((i,) for i in named)
        places = list(_MARKED.finditer(sentence))
        if not places:
            counts["sentences_without_a_mark"] += bool(sentence.strip())
            mentions.append(GoldMention("", 0, 0, text.strip(), gold))
            continue
        counts["marked_more_than_once"] += len(places) > 1
        document = f"{MADE_UP}{number}"
        documents[document], start, end = _unmarked(sentence, places[0])
        marked = documents[document][start:end]
        # if the texts differ in more than case and spaces, keep the mention: the check of offsets will report it
        mentions.append(GoldMention(document, start, end, marked if normalise(marked) == normalise(text) else text, gold))
    if first and not cuis:
        raise misfit(source, *first, "`CUI||mention` or `CUI||mention||sentence` with <tgt> and </tgt>, and no other line is")
    return Corpus(documents, mentions, {name: count for name, count in counts.items() if count})


def _unmarked(sentence: str, place: re.Match[str]) -> tuple[str, int, int]:
    """Return the sentence without its marks, and the start and end of the marked text in it."""
    before, after = (part.replace("<tgt>", "").replace("</tgt>", "") for part in (sentence[: place.start()], sentence[place.end() :]))
    return f"{before}{place[1]}{after}", len(before), len(before) + len(place[1])
