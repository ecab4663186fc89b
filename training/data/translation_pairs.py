"""Make pairs of names in several languages, and pairs of translations of the general domain.

Both are folders of pairs (`training.data.pairs`). The first kind leaves out held-out translations (Liu et al., ACL 2021). The second
kind is for a second training after one on medical names (same paper: `muse`, `wt`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spacy_sapbert.files import checksum
from spacy_sapbert.kb.concept import normalise
from spacy_sapbert.kb.knowledge_base import KnowledgeBase

from ..errors import fail
from .bilingual import Bilingual
from .labels import assign_labels
from .pairs import ALL, HELD_OUT, build_pairs, check_folder, read_labels, read_queries, write_pairs
from .translations import ENGLISH, TRANSLATIONS, check_translations, read_translations

GENERAL = "general-domain translations"  # the source that is written into the manifest


def build_cross_lingual_pairs(
    kb: KnowledgeBase, translations: str | Path, out: str | Path, *, languages: Sequence[str] = (ALL,), **settings: Any
) -> dict[str, Any]:
    """Write a folder of pairs of names in several languages, without the held-out translations.

    A held-out translation is in no pair as a name of any concept in any language but English.

    Args:
        kb: The knowledge base.
        translations: Folder of translations of this knowledge base.
        out: Folder to write.
        languages: Names in these become pairs; ("all",) for every language.
        **settings: Settings of `build_pairs`.

    Returns:
        The counts, as in the manifest.

    Raises:
        SapbertError: E600, E607 (translations of another knowledge base), and the errors of `build_pairs`.
    """
    made_of = check_translations(translations).get("kb")
    if made_of is not None and made_of != kb.fingerprint:
        raise fail("E607", folder=translations, kb=kb.path, found=str(made_of)[:12], expected=kb.fingerprint[:12])
    held = {row.translation for row in read_translations(translations, HELD_OUT)}
    rows = np.array(sorted(kb.find(held).values()), dtype=np.int64)
    english = kb.rows_of_languages([ENGLISH]) if ENGLISH in kb.languages else np.zeros(len(kb.name_table), dtype=np.bool_)
    leave_out = np.isin(kb.name_table.surface_form, rows) & ~english
    about = {"translations": checksum(Path(translations) / TRANSLATIONS), "held_out_translations": int(leave_out.sum())}
    return build_pairs(kb, out, languages=languages, leave_out=leave_out, about=about, **settings)


def build_general_pairs(
    kb: KnowledgeBase,
    rows: Iterable[Bilingual],
    out: str | Path,
    *,
    queries_of: str | Path | None = None,
    about: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Write a folder of pairs in which each English name forms its own concept with its translations.

    An English name keeps its first translation in each language. They share one label, because no loss may take them as negatives of each other.
    For the same reason, a text that is in one such concept is in no other.

    Args:
        kb: The knowledge base that training measures on. The new labels are numbered after its labels.
        rows: Names in two languages.
        out: Folder to write.
        queries_of: Folder of pairs of `kb`. Its queries are taken over, and are in no pair.
        about: More settings for the manifest.

    Returns:
        The counts, as in the manifest.

    Raises:
        SapbertError: E605 (no pair), E502 (`queries_of` is not a folder of pairs), E607 (it is of another knowledge base).

    Source:
        Liu et al., ACL 2021 (general-domain translations).
    """
    if queries_of is not None and (made_of := check_folder(queries_of)["kb"]) != kb.fingerprint:
        raise fail("E607", folder=queries_of, kb=kb.path, found=str(made_of)[:12], expected=kb.fingerprint[:12])
    labels = assign_labels(kb)[0] if queries_of is None else read_labels(queries_of)
    queries = [] if queries_of is None else read_queries(queries_of)
    asked = {normalise(query.query) for query in queries}  # capitals do not count
    counts = {"rows": 0, "is_a_query": 0, "further_translations": 0, "text_of_another_pair": 0}
    english_of: dict[str, str] = {}  # every text in use -> the English name whose label it has
    translated: dict[str, dict[str, str]] = {}  # English name -> language -> translation
    for row in rows:
        counts["rows"] += 1
        if normalise(row.english, ENGLISH) in asked or normalise(row.translation, row.language) in asked:
            counts["is_a_query"] += 1
        elif row.language in translated.get(row.english, {}):
            counts["further_translations"] += 1
        elif english_of.get(row.english, row.english) != row.english or english_of.get(row.translation, row.english) != row.english:
            counts["text_of_another_pair"] += 1
        else:
            english_of.update({row.english: row.english, row.translation: row.english})
            translated.setdefault(row.english, {})[row.language] = row.translation
    if not translated:
        raise fail("E605", source="The source", why=", ".join(f"{n:,} {what.replace('_', ' ')}" for what, n in counts.items()))
    first = int(labels.max(initial=-1)) + 1
    numbered = [
        {"anchor": english, "positive": translation, "label": first + i}
        for i, (english, of) in enumerate(translated.items())
        for translation in dict.fromkeys(of.values())
    ]
    kept = [query._asdict() for query in queries]
    found: dict[str, Any] = {
        **counts,
        "ambiguous_names": counts["text_of_another_pair"],
        "held_out_queries": sum(query.split == HELD_OUT for query in queries),
        "zero_shot_queries": sum(query.split != HELD_OUT for query in queries),
        "pairs": len(numbered),
        "pairs_before_trimming": len(numbered),
        "labels_in_pairs": len(translated),
        "names_in_pairs": len(english_of),
    }
    most = max(len(set(of.values())) for of in translated.values())
    settings = {"max_pairs": most, "languages": sorted({language for of in translated.values() for language in of}), **(about or {})}
    write_pairs(out, kb, labels, numbered, kept, found, settings, GENERAL)
    return found
