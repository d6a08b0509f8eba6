"""Splits documents into the sentences that a model translates."""

import itertools
import re
from collections.abc import Iterable

# What `str.splitlines` splits at.
_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
# Some languages open a quotation with a mark that others close it with.
_QUOTES = "\"'“”„‘’‚«»‹›"
_CLOSING = re.escape(_QUOTES + ")]}")
_OPENING = re.compile(f"[{re.escape(_QUOTES)}(\\[{{¿¡「『《（【]*")
_SPACED_MARKS = ".!?…؟۔।"  # whitespace follows them
_CJK_MARKS = "。！？｡"
_SPACES = rf"[^\S{_BREAKS}]+"
# After a full stop, as in "Nr. 5", they do not end a sentence.
_NO_BREAK = "\u00a0\u202f"
_CANDIDATE = re.compile(
    rf"\A\s+|[{_BREAKS}]\s*|[{_CJK_MARKS}]+[”’」』》）】]*\s*"
    rf"|(?<![{_SPACED_MARKS}])(?P<mark>[{_SPACED_MARKS}]+)"
    rf"[{_CLOSING}]*{_SPACES}"
)
_NO_SPACE_AFTER = tuple("。！？」』）】》")
# A name or a number follows these: they never end a sentence.
_TITLES = frozenset("Mr Mrs Ms Dr Prof St Hr Fr Nr".split())
# They end no sentence where a number follows, as in "Fig. 2"; those in lower
# case also with a capital letter.
_BEFORE_NUMBERS = frozenset(
    "No Nos fig figs vol vols pp ch chap Sec eq Art Arts para tel ext Rm Apt "
    "approx ca max incl Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Okt Nov Dec "
    "Dez Abb Abs Anm Bd Bde Kap Tab Ziff inkl zzgl".split()
)
_LONGEST_EXCEPTION = max(map(len, _TITLES | _BEFORE_NUMBERS))


def split_sentences(document: str) -> list[tuple[str, str]]:
    r"""Splits a document into sentences and the whitespace after them.

    A sentence ends

    - before a line break;
    - after the marks `。`, `！` and `？`;
    - after `.`, `!`, `?` and `…` where whitespace follows (after `.` other
      than a no-break space), and then something that can begin a sentence: a
      digit, or a letter that is not lower case. Quotation marks and brackets
      may stand between.

    No sentence ends at the full stop after a single letter ("J. Smith",
    "z. B."), after a number of one or two digits ("am 3. Mai"), after a few
    titles ("Dr. Who"), and after some abbreviations before a number ("No. 5").
    Other abbreviations before a capital letter or a number end a sentence.

    Args:
        document: Any text.

    Returns:
        Pairs of a sentence and the whitespace that follows it. Joining them
        all gives the document. No sentence begins or ends with whitespace;
        the first is empty if the document begins with whitespace.

    Example:

    ```python
    split_sentences("Hello, Mr. Smith. How are you?\n")
    # [("Hello, Mr. Smith.", " "), ("How are you?", "\n")]
    ```
    """
    ends = [
        match.end()
        for match in _CANDIDATE.finditer(document)
        if match["mark"] is None or _is_end(document, match)
    ]
    pairs = []
    for start, end in itertools.pairwise([0, *ends, len(document)]):
        sentence = document[start:end].rstrip()
        if start < end:
            pairs.append((sentence, document[start + len(sentence) : end]))
    return pairs


def join_sentences(pairs: Iterable[tuple[str, str]]) -> str:
    """Joins translations of the sentences of a document.

    Args:
        pairs: Each translation with the whitespace after its sentence, as
            from `split_sentences`. If there is none, as in Chinese, a space
            is added unless the translation has Chinese punctuation, too.
    """
    joined, needs_space = "", False
    for text, space in pairs:
        joined += (" " if needs_space else "") + text + space
        needs_space = not (space or text.endswith(_NO_SPACE_AFTER))
    return joined


def _is_end(document: str, match: re.Match) -> bool:
    """Returns whether a sentence ends at a mark with whitespace after it."""
    at = _OPENING.match(document, match.end()).end()
    following = document[at : at + 1]
    is_capital = following.isalpha() and not following.islower()
    begins = following.isdigit() or is_capital
    if not begins or match["mark"] != ".":
        return begins
    if match[0].rstrip(_NO_BREAK) == match[0].rstrip():
        return False
    at = match.start()
    # One character more than the longest exception shows where words begin.
    before = document[max(at - _LONGEST_EXCEPTION - 1, 0) : at]
    word = re.split(r"\W", before)[-1]
    words = {word, word[:1].lower() + word[1:]}
    return not (
        (len(word) == 1 and word.isalpha())
        or (len(word) <= 2 and word.isdecimal())
        or word in _TITLES
        or (following.isdigit() and words & _BEFORE_NUMBERS)
    )
