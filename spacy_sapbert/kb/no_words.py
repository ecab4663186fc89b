"""Letters that are no word of a language, so that an acronym is known also in small letters: "copd", "nstemi", "mrsa", but not "clad" or "hints"."""

from __future__ import annotations

import re

LETTERS = 4  # fewest letters; shorter ones are often units: "mmhg", but also "hrs", "kgs"
_PARTS = re.compile(r"([^aeiouy]*)[aeiouy].*?([^aeiouy]*)")
# consonants with which a word of English begins and ends
_BEGINS = frozenset(
    "b bl br c ch chl chr cl cr d dr dw f fl fr g gh gl gn gr h j k kh kl kn kr l ll m mn n p ph phl phr pl pn pr ps pt q r rh s sc sch scl scr sh shr sk sl sm sn sp sph "  # noqa: SIM905
    "spl spr sq st str sv sw t th thr tr tw v w wh wr x z".split()
)
_ENDS = frozenset(
    "b bb bs bt bts c ch ck cks cs ct cts d dd dds ds dst dth dths f ff ffs fs ft fth fts g gg ggs gh ghs ght ghth ghts gm gms gn gns gs gth h hm hms hs j k ks l lb lbs lc lch ld lds lf lfs lk lks "  # noqa: SIM905
    "ll lls lm lms ln lp lps ls lt lth lts lve m mb mbs mn mns mp mph mphs mps mpt mpts ms n nc nch nct nd nds ng ngs ngth ngths nk nks nn ns nst nt nth nths nts nx nz p ph phs pp ps pt pth pths pts "
    "q r rb rbs rc rch rct rcts rd rds rf rfs rg rgs rk rks rl rlds rld rls rm rms rmth rn rns rp rps rr rrs rs rsh rst rsts rt rth rths rts s sc sch scs sh sk sks sm sms sp sps ss st sth sthm sts "
    "t tch th thm thms ths ts tt tts tz v vs w wk wks wl wls wn wns ws wth x xt xth xts z zz".split()
)


def is_no_word(letters: str) -> bool:
    """Return whether small letters cannot be a word of English: they have no vowel, or begin or end with consonants as no word does.

    Args:
        letters: letters in lower case; with fewer than `LETTERS`, the answer is False.
    """
    if len(letters) < LETTERS or not letters.isalpha():
        return False
    found = _PARTS.fullmatch(letters)
    return found is None or (found[1] != "" and found[1] not in _BEGINS) or (found[2] != "" and found[2] not in _ENDS)
