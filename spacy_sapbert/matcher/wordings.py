"""Other wordings of a name in patients' words: "couldn't hold her pee" and "could not hold his pee" are "can't hold my pee".

Such a name speaks about one person, in one tense. The words of a text are replaced by those of another person or tense, and the result is looked up. The mention is
linked by the text with the replaced words, which is the name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

_SHORT_NAME = 2  # words; such a name does not begin with a word about a person: "her disease"
_MAX_WORDS = 3  # most words that stand for one word of a name: "have not been"
# words about persons, and what stands for them in a name about the one who speaks, about him, about her, and again about the one who speaks
_PERSONS = {
    "the": ("my", "my", "my", "my"),
    "my his their your our": ("my", "his", "her", "my"),
    "her": ("my", "his", "her", "me"),  # "her heart", but "makes her sick"
    "me him them us": ("me", "him", "her", "me"),
    "i he she they we": ("i", "he", "she", "i"),
    "myself himself herself themselves yourself ourselves": ("myself", "himself", "herself", "myself"),
    "i'm he's she's they're we're i_am he_is she_is they_are we_are": ("i'm", "he's", "she's", "i'm"),
}
# verbs that deny, and the forms that names have, the most frequent one first
_DENIED = {
    "can't cant cannot can_not couldn't couldnt could_not": ("can't", "couldn't", "cannot"),
    "doesn't doesnt does_not don't dont do_not didn't didnt did_not": ("doesn't", "don't", "didn't"),
    "won't wont will_not wouldn't wouldnt would_not": ("won't", "wouldn't"),
    "isn't isnt is_not aren't arent are_not wasn't wasnt was_not weren't werent were_not": ("not", "isn't", "aren't", "wasn't"),
    "haven't_been havent_been have_not_been hasn't_been hasnt_been has_not_been": ("not",),
    "haven't havent have_not hasn't hasnt has_not hadn't hadnt had_not": ("hasn't", "haven't"),
}
_TENSES = {"was": "is", "were": "are", "kept": "keep", "keeping": "keep", "ached": "ache", "itched": "itch", "throbbed": "throb", "tingled": "tingle"}
_GOING_ON = frozenset(["keep", "keeps", "kept", "is", "are", "was", "were"])  # before a verb in -ing: "keep shaking" is "shake" or "shaking"
_NO_SYMPTOMS = frozenset(["feeding", "healing", "moving"])  # "the wound is healing" is no healing of wounds
_SHORTEST = 5  # letters of a verb in -ing
# words that only strengthen or weaken what follows
DEGREES = frozenset(["all", "always", "constantly", "extremely", "just", "quite", "really", "so", "still", "too", "very", "a bit", "a little"])


def _expressions(table: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {each.replace("_", " "): forms for expressions, forms in table.items() for each in expressions.split()}


_FORMS_OF_PERSONS, _FORMS_OF_DENIED = _expressions(_PERSONS), _expressions(_DENIED)
_KNOWN = _FORMS_OF_PERSONS.keys() | _FORMS_OF_DENIED.keys() | _TENSES.keys() | DEGREES
_FIRSTS = frozenset(expression.split()[0] for expression in _KNOWN)
_NO_BEGIN = _GOING_ON | {expression.split()[0] for expression in _FORMS_OF_PERSONS}
_OWNERS = frozenset(["my", "his", "her", "their", "your", "our"])


class Wording(NamedTuple):
    """One other wording of a text.

    Attributes:
        forms: position -> what stands there instead.
        joined: positions of words that the form before them replaces, too: "not" in "could not".
        dropped: positions of words that are left out: "really".
        new: positions that the wordings before this one have with other words.
    """

    forms: dict[int, str]
    joined: frozenset[int]
    dropped: frozenset[int]
    new: frozenset[int]


class _Place(NamedTuple):
    at: int
    size: int
    expression: str


def wordings(words: Sequence[str]) -> Iterator[Wording]:
    """Yield other wordings of a text, the most frequent ones first; none if it holds no word that has another form.

    Args:
        words: words and marks of the text in lower case.
    """
    places = list(_places(words))
    lasting = [at for at in range(len(words) - 1) if words[at] in _GOING_ON and words[at + 1].endswith("ing")]
    dropped = frozenset(at for place in places if place.expression in DEGREES for at in range(place.at, place.at + place.size))
    most = max(len(_FORMS_OF_DENIED.get(place.expression, ())) for place in places) if places else 1
    tried: list[dict[int, str]] = []
    # verb: the ending of a verb in -ing without it, "-" for none: "skip" and "shake" in "keeps skipping", "keeps shaking"; "ing": "falling" in "keeps falling out"
    for person, denied, verb in (
        (0, 0, ""),
        *((0, i, "") for i in range(1, most)),
        (0, 0, "-"),
        (0, 0, "e"),
        (0, 0, "ing"),
        (1, 0, ""),
        (2, 0, ""),
        (3, 0, ""),
    ):
        forms: dict[int, str] = {}
        joined: set[int] = set()
        for at, size, expression in places:
            if expression in DEGREES:
                continue
            form = _form(expression, person, denied)
            if form != expression:
                forms[at] = form
                joined.update(range(at + 1, at + size))
        for at in lasting if verb else ():
            if at not in joined and (form := _base(words[at + 1], verb.strip("-"))) and not (verb == "ing" and form in _NO_SYMPTOMS):
                forms[at] = form
                joined.add(at + 1)
        if (forms or dropped) and forms not in tried:
            new = [at for at, form in forms.items() if tried[0].get(at) != form] if tried else [*forms, *dropped]
            tried.append(forms)
            yield Wording(forms, frozenset(joined), dropped, frozenset(new))


def may_begin(word: str, size: int) -> bool:
    """Return whether a name in another wording may begin with a word of the text: it is no subject, no owner of a short name, and no verb before one in -ing.

    Args:
        word: the word in lower case. "the period started" may be any period, "he is diabetic" is "diabetic", and "was coughing up" is
            "coughing up".
        size: number of words of the name.
    """
    return word not in _NO_BEGIN or (word in _OWNERS and size > _SHORT_NAME)


def _places(words: Sequence[str]) -> Iterator[_Place]:
    """Yield the expressions of a text that have another form, the longest from left to right."""
    end = 0
    for at, word in enumerate(words):
        if at < end or word not in _FIRSTS:
            continue
        for size in range(min(_MAX_WORDS, len(words) - at), 0, -1):
            expression = " ".join(words[at : at + size])
            if expression in _KNOWN:
                yield _Place(at, size, expression)
                end = at + size
                break


def _form(expression: str, person: int, denied: int) -> str:
    """Return what stands for an expression in a wording about some person."""
    if expression in _FORMS_OF_PERSONS:
        return _FORMS_OF_PERSONS[expression][person]
    if expression in _FORMS_OF_DENIED:
        return _FORMS_OF_DENIED[expression][min(denied, len(_FORMS_OF_DENIED[expression]) - 1)]
    return _TENSES[expression]


def _base(word: str, ending: str) -> str:
    """Return a verb in -ing with another ending; "" for a short word."""
    if len(word) < _SHORTEST:
        return ""
    bare = word.removesuffix("ing")
    if not ending and len(bare) > 3 and bare[-1] == bare[-2] and bare[-1] not in "ls":  # "skipping"
        return bare[:-1]
    return bare + ending
