"""Turn language codes as sources and users write them into the one spelling that names have."""

from __future__ import annotations

import re

# ISO 639-1 (iso.org/iso-639-language-code), all 183
_LISTED = (
    "aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en eo es et eu fa ff fi fj fo fr fy "
    "ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo "
    "lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl "
    "sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"
)
_TWO = frozenset(_LISTED.split())
_TAG = re.compile(r"([a-z]{2,3})(?:[-_][a-z0-9]{1,8})*")


def language_code(text: str) -> str | None:
    """Return a language code in the one spelling that names have: "pt" for `pt`, `PT`, `pt-BR` or `pt_br`.

    Region and script are removed, because names are compared within a language. Codes of three letters (ISO 639-3: `nna`) stay as they are.

    Returns:
        The code; None if the text is not a code: it has another length, or two letters that ISO 639-1 does not have.
    """
    found = _TAG.fullmatch(text.strip().lower())
    if found is None or (len(found[1]) == 2 and found[1] not in _TWO):
        return None
    return found[1]
