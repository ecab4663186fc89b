"""Keep the phrases of a knowledge base in a folder of the cache, and write and read such folders."""

from __future__ import annotations

from pathlib import Path

from .. import bundle
from ..build import default_linkers
from ..context import sense_words
from ..errors import DamagedFile, SapbertError, warn
from ..files import writing_folder
from ..kb import semantic_types
from ..kb.concept import ENGLISH
from ..kb.knowledge_base import KnowledgeBase
from .collecting import NameCollector
from .phrases import MAX_WORDS, VERSION, Phrases
from .spelling import Spelling
from .words import WORD

KEPT_FROM = 20_000  # with at least so many names, the phrases are stored in the cache
RULES = 70  # increase it whenever names become words in another way (`form_of`, `stem`, `NameCollector`), so that old caches are not used


def is_kb(folder: Path) -> bool:
    """Return whether a folder is that of a knowledge base."""
    return (folder / "kb.sqlite").is_file()


def find_kb(linker_name: str | None) -> KnowledgeBase:
    """Open the knowledge base of a registered linker or of a folder of a linker, or that of a folder of its own; None is the default linker.

    Raises:
        SapbertError: E001, E1xx, it cannot be opened.
    """
    if linker_name is not None and is_kb(Path(linker_name)):
        return KnowledgeBase(linker_name)
    return KnowledgeBase(default_linkers.find_linker(linker_name) / bundle.KB)


def phrases_of(kb: KnowledgeBase, collector: NameCollector, component: str) -> tuple[Phrases, Spelling | None]:
    """Return the phrases of a knowledge base. If it has many names, they are made once and stored in the cache.

    Warns with W009 if the cache cannot be written.

    Args:
        kb: the knowledge base.
        collector: makes the phrases.
        component: name of the component, for the warning.

    Raises:
        SapbertError: E103, no name remains to look for.
    """
    if kb.n_surface_forms < KEPT_FROM:
        return collector.of_kb(kb)

    def build(folder: Path) -> None:
        with writing_folder(folder) as fresh:
            write(fresh, *collector.of_kb(kb))

    try:
        folder = default_linkers.cached(default_linkers.NAMES, [kb.fingerprint, rules_fingerprint(), _fingerprint(collector)], build)
        try:
            return read(folder)
        except DamagedFile:
            build(folder)
            return read(folder)
    except (OSError, SapbertError) as error:
        if isinstance(error, SapbertError) and error.code not in ("E007", "E008", "E055"):
            raise
        warn("W009", component=component, path=default_linkers.cache_folder(), error=error, env=default_linkers.CACHE_VARIABLE)
        return collector.of_kb(kb)


def rules_fingerprint() -> str:
    """Return a hash of the rules of this version by which phrases are made from names."""
    groups = {tui: kind.group for tui, kind in semantic_types.load().items()}
    return default_linkers.fingerprint_of([RULES, sorted(sense_words.short_forms().items()), VERSION, MAX_WORDS, groups])


def _fingerprint(collector: NameCollector) -> str:
    """Return a hash of everything that the phrases depend on besides the knowledge base and the rules."""
    own = [
        collector.min_chars,
        collector.weak_names,
        collector.label,
        sorted(collector.types or ()),
        collector.types is None,
        collector.qualifiers,
        collector.spelling,
    ]
    text = [collector.language if collector.language not in ENGLISH else "en", sorted(collector.stop_words), WORD.pattern]
    return default_linkers.fingerprint_of([*own, *text])


def write(folder: Path, phrases: Phrases, spelling: Spelling | None) -> None:
    """Write phrases and the vocabulary for corrections into a folder. The hashes do not reveal the names."""
    if spelling is not None:
        spelling.to_disk(folder)
    phrases.to_disk(folder)  # last, because it writes the manifest of all files


def read(folder: Path) -> tuple[Phrases, Spelling | None]:
    """Read what `write` wrote.

    Raises:
        SapbertError: E030, the folder is missing or damaged; E106, it has another format.
    """
    return Phrases.from_disk(folder), Spelling.from_disk(folder)
