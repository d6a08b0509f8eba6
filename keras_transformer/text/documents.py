"""Splits texts into the sentences to translate, and joins them again."""

import itertools
import re
from collections.abc import Callable, Collection, Sequence

from keras_transformer.support.errors import InputError
from keras_transformer.text.tags import language_token, leading_language

_LETTER = re.compile(r"[^\W\d_]")
# Marks of quotations, lists and headings at the beginning of a line: -, 1., a).
_LIST_MARKS = re.compile(r"(?:(?:[-*+•–>#]+|[0-9]{1,2}[.)]|[A-Za-z]\))[ \t]+)*")

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


class SplitDocument:
    """The sentences of a text, and the text around them.

    `sentences` lists each sentence with letters once, in order, without list
    marks. It begins with the token of `language`, if given, or of the last of
    the `languages` that its line has named.
    """

    def __init__(
        self,
        text: str,
        split: Callable[[str], list[tuple[str, str]]] = split_sentences,
        languages: Collection[str] = (),
        language: str | None = None,
    ) -> None:
        if language is not None and language not in languages:
            raise InputError(
                "A target language must be one of the model's languages: "
                f"{', '.join(languages) or 'none'}. Received: {language!r:.60}"
            )
        chosen = language_token(language) if language else ""
        token = chosen  # the language token of the line
        # List marks, sentence, and the whitespace after it.
        self._parts: list[tuple[str, str, str]] = []
        starts_line = True
        for sentence, space in split(text):
            token = chosen if starts_line else token
            marks = _LIST_MARKS.match(sentence)[0] if starts_line else ""
            rest = sentence[len(marks) :]
            tag = leading_language(rest)
            if tag is not None:
                token = tag if tag[2:-2] in languages else ""
            elif token and _LETTER.search(rest):
                rest = f"{token} {rest}"
            self._parts.append((marks, rest, space))
            starts_line = not sentence or len(f"{space}.".splitlines()) > 1
        sentences = (x for _, x, _ in self._parts if _LETTER.search(x))
        self.sentences = list(dict.fromkeys(sentences))

    def join(self, translations: Sequence[str]) -> str:
        """Returns the text with each sentence replaced by its translation.

        Where no space follows a sentence, as in Chinese, one is added unless
        the translation has Chinese punctuation, too.
        """
        lines = (" ".join(text.split()) for text in translations)
        by_sentence = dict(zip(self.sentences, lines, strict=True))
        joined, needs_space = "", False
        for marks, sentence, space in self._parts:
            text = marks + by_sentence.get(sentence, sentence)
            joined += (" " if needs_space else "") + text + space
            needs_space = not (space or text.endswith(_NO_SPACE_AFTER))
        return joined
