"""Update a linker to a new release of its sources. Only new names are encoded, and changes of concepts are reported."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Sequence

import numpy as np

from .. import bundle
from ..files import MANIFEST, write_text, writing_folder
from ..indexes.base import NeedsLibrary, reader_params_of
from ..kb.additions import AddedName, Additions
from ..kb.builder import Filters, Source, build_kb
from ..kb.knowledge_base import KnowledgeBase
from ..kb.removals import RemovedName
from ..types import Ints1d
from . import linker as building
from .vectors import Encode, Known, Workers, check_free

FILE = "difference.json"  # in the folder of a linker that was made from another one


@dataclass
class Difference:
    """What a new release changed.

    Args:
        added: Ids of new concepts.
        retired: Ids of concepts that no longer exist.
        merged: Old id -> id of the concept that it is now part of.
        kept: Number of concepts that both releases have.
        names_kept: Number of distinct names that both releases have; their vectors are not encoded again.
        names_new: Number of new names.
        names_gone: Number of names that no longer exist.
        additions_left_out: Added names whose concept no longer exists.
        calibration_left_out: Whether the old linker had a calibration, which the new one does not get.
    """

    added: list[str] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)
    merged: dict[str, str] = field(default_factory=dict)
    kept: int = 0
    names_kept: int = 0
    names_new: int = 0
    names_gone: int = 0
    additions_left_out: list[AddedName] = field(default_factory=list)
    calibration_left_out: bool = False


class LinkChange(NamedTuple):
    """A mention of a corpus whose link changed.

    Attributes:
        document: number of the Doc, from 0.
        start: position of the first character.
        end: position after the last character.
        before: id of the old link, "" without one.
        after: id of the new link, "" without one.
        kind: "merged" (the old concept became a part of the new one), "other", "lost" or "gained".
        mention: text of the mention.
        name_before: canonical name of the old concept.
        name_after: canonical name of the new concept.
    """

    document: int
    start: int
    end: int
    before: str
    after: str
    kind: str
    mention: str = ""
    name_before: str = ""
    name_after: str = ""


def update_linker(
    old: Path,
    sources: Sequence[Source],
    out: Path | None = None,
    *,
    filters: Filters | None = None,
    encode: Encode | None = None,
    workers: Workers | None = None,
    check: bool = True,
    progress: bool = True,
) -> tuple[Path, Difference]:
    """Build a linker from new sources, with the encoder and engine of an old one. Vectors of names that both linkers have are reused.

    Args:
        old: The old linker's folder. It is not changed until the new one is complete.
        sources: See `build_kb`.
        out: The new linker's folder; None replaces the old one.
        filters: See `build_kb`; None is those of the old knowledge base.
        encode: Function that encodes instead of the workers.
        workers: See `build_linker`.
        check: See `build_linker`.
        progress: Show progress bars.

    Returns:
        The folder, and the difference, which is also saved there as `difference.json`. Added and removed names are kept. A calibration is not
        kept, because it was fit for another knowledge base.

    Raises:
        SapbertError: E1xx, E2xx, E3xx (the old linker), E4xx (the sources), E008 (disk full), E026, E027, E028 (see `build_linker`).
    """
    from ..encoders.transformer import NameEncoder

    before = KnowledgeBase(old / bundle.KB)
    index = bundle.open_index(old)
    model = bundle.open_encoder(old / bundle.ENCODER, NameEncoder())
    bundle.check_built_for_each_other(before, model, index, NameEncoder())
    kept = {
        key: before.manifest["filters"][key] for key in ("languages", "types", "cui_only", "weak_names", "cased") if key in before.manifest["filters"]
    }
    target = old if out is None else out
    # the settings with which it was built: the opened index has the reader's defaults for some of them
    config = json.loads((old / bundle.INDEX / MANIFEST).read_text(encoding="utf-8"))["config"]
    config.update({key: value for key, value in index.get_config().items() if key in reader_params_of(index) and key != "threads"})
    fresh = type(index)(**config)
    if isinstance(fresh, NeedsLibrary):
        fresh.require()
    check_free(target)
    added = Additions.from_disk(old)
    ranker = bundle.open_ranker(old, model.fingerprint)[0]
    with ExitStack() as until_whole, writing_folder(target) as folder:  # the file of vectors is removed when the linker is in its place
        after = build_kb(sources, folder / bundle.KB, filters=filters or Filters(**kept), progress=progress)
        building.check_room(after, model, fresh, target, workers=workers, check=check, progress=progress)
        found = compare(before, after)
        found.calibration_left_out = (old / bundle.CALIBRATION).is_file()
        known = Known(_known_rows(before, after, found), index.vectors)
        additions = _carried(added, after, found)
        write_text(folder / FILE, json.dumps(asdict(found), indent=1, ensure_ascii=False) + "\n")
        building.fill_linker(folder, after, model, fresh, target, until_whole, workers=workers, known=known, encode=encode, progress=progress)
        bundle.write_ranker(folder, ranker)
        additions.to_disk(folder)  # after the manifest, which does not list them, because they may change
    return target, found


def compare(before: KnowledgeBase, after: KnowledgeBase) -> Difference:
    """Compare the concepts of two knowledge bases, by their ids."""
    found = Difference()
    old, new = (((concept_id, row) for row, concept_id, _ in kb.canonical_names()) for kb in (before, after))
    for concept_id, first, second in joined(old, new):
        if first is None:
            found.added.append(concept_id)
        elif second is not None:
            found.kept += 1
        else:
            row = after.row_of_id(concept_id)  # codes are not followed: a cross-reference does not mean that concepts were merged
            if row is None:
                found.retired.append(concept_id)
            else:
                found.merged[concept_id] = after.concept_id(row)
    return found


def _known_rows(before: KnowledgeBase, after: KnowledgeBase, found: Difference) -> Ints1d:
    """Return for each name of the new knowledge base its row in the old one, or -1 (n,). Count names in `found`."""
    rows = np.full(after.n_surface_forms, -1, dtype=np.int64)
    first = ((name, row) for row, name in enumerate(before.surface_forms(compared=True)))
    second = ((name, row) for row, name in enumerate(after.surface_forms(compared=True)))
    for _, old, new in joined(first, second):
        if new is None:
            found.names_gone += 1
        elif old is None:
            found.names_new += 1
        else:
            found.names_kept += 1
            rows[new] = old
    if after.cased:  # a name whose capitals changed has no vector yet
        for new, form in enumerate(after.surface_forms()):
            if rows[new] >= 0 and before.surface_forms_at([int(rows[new])]) != [form]:
                rows[new] = -1
    return rows


def _carried(additions: Additions, after: KnowledgeBase, found: Difference) -> Additions:
    """Return the additions that fit the new knowledge base: concepts that it lacks, added and removed names with the new ids of their concepts.

    A removed name whose concept is gone is kept with its old id. It has no effect, unless a later release has the concept again.
    """
    concepts = {concept_id: concept for concept_id, concept in additions.concepts.items() if after.row_of_id(concept_id) is None}
    names: list[AddedName] = []
    for name in additions.names:
        if name.concept_id in concepts:
            names.append(name)
        elif (row := after.row_of_id(name.concept_id)) is not None:
            names.append(name._replace(concept_id=after.concept_id(row)))
        else:
            found.additions_left_out.append(name)
    removed: list[RemovedName] = []
    for gone in additions.removed:
        row = None if gone.concept_id is None else after.row_of_id(gone.concept_id)
        removed.append(gone if row is None else gone._replace(concept_id=after.concept_id(row)))
    return Additions(concepts, list(dict.fromkeys(names)), additions.vectors, additions.encoder, list(dict.fromkeys(removed)))


def changed_links(old: Path, new: Path, docs: Iterable[Any], difference: Difference, **settings: Any) -> tuple[list[LinkChange], int]:
    """Find the mentions that two linkers link to different concepts.

    Args:
        old: The old linker's folder.
        new: The new linker's folder.
        docs: Docs with entities, or with the spans of `spans_key`; they are not changed.
        difference: The difference between the two linkers' concepts.
        **settings: Settings of the component.

    Returns:
        The changes, and the number of all mentions.
    """
    import spacy

    docs = list(docs)
    links: list[list[tuple[int, Any, str, str]]] = []
    for folder in (old, new):
        component: Any = spacy.blank("en").add_pipe("sapbert_linker", config={"linker_name": str(folder), **settings})
        found = []
        for number, prediction in enumerate(component.predict(docs)):
            for (_, _, span), answer in zip(prediction.spans, prediction.found):
                concept = answer.answer.candidates[0][0] if answer.answer.linked else ""
                found.append((number, span, concept, component.kb[concept].canonical_name if concept else ""))
        links.append(found)
    changes = [
        LinkChange(number, span.start_char, span.end_char, one, other, _kind(one, other, difference), span.text, name, other_name)
        for (number, span, one, name), (_, _, other, other_name) in zip(links[0], links[1], strict=True)
        if one != other
    ]
    return changes, len(links[0])


def _kind(before: str, after: str, difference: Difference) -> str:
    """Return the kind of a change, see `LinkChange`."""
    if not before or not after:
        return "lost" if before else "gained"
    return "merged" if difference.merged.get(before) == after else "other"


def in_words(difference: Difference, changes: tuple[list[LinkChange], int] | None = None) -> str:
    """Return the difference as lines of text: counts, and the first few ids."""
    d = difference
    lines = [
        f"concepts: {d.kept:,} kept, {len(d.added):,} added{_some(d.added)}, {len(d.retired):,} retired{_some(d.retired)}, {len(d.merged):,} merged"
        + _some([f"{old} into {new}" for old, new in islice(d.merged.items(), 3)]),
        f"names: {d.names_kept:,} kept with their vectors, {d.names_new:,} encoded, {d.names_gone:,} gone",
    ]
    if d.additions_left_out:
        lines.append(
            f"added names left out, because their concept is gone: {len(d.additions_left_out):,}{_some([n.concept_id for n in d.additions_left_out])}"
        )
    if d.calibration_left_out:
        lines.append(
            "the calibration was left out, because it was fit for another knowledge base: `python -m spacy_sapbert calibrate` fits a new one"
        )
    if changes is not None:
        kinds = Counter(change.kind for change in changes[0])
        counts = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items())) or "none"
        lines.append(f"links of {changes[1]:,} mentions that change: {len(changes[0]):,} ({counts})")
    return "\n".join(lines)


def _some(ids: Sequence[str]) -> str:
    """Return the first three ids in parentheses."""
    return f" ({', '.join(ids[:3])}{' …' if len(ids) > 3 else ''})" if ids else ""


def joined(old: Iterable[tuple[str, int]], new: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int | None, int | None]]:
    """Join two streams of (text, row), both in ascending order of texts. Only one pair of each stream is in memory.

    Yields:
        A text, its row in the first stream and its row in the second; None if the stream does not have the text.
    """
    first, second = iter(old), iter(new)
    one, two = next(first, None), next(second, None)
    while one is not None or two is not None:
        if two is None or (one is not None and one[0] < two[0]):
            assert one is not None
            yield one[0], one[1], None
            one = next(first, None)
        elif one is None or two[0] < one[0]:
            yield two[0], None, two[1]
            two = next(second, None)
        else:
            yield one[0], one[1], two[1]
            one, two = next(first, None), next(second, None)
