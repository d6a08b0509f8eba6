"""Splits plain text into the sentences to translate, and joins it again."""

import re
from collections.abc import Callable, Collection, Sequence

from keras_transformer.support.errors import InputError
from keras_transformer.text import join_sentences, split_sentences
from keras_transformer.text.tags import language_token, leading_language

_LETTER = re.compile(r"[^\W\d_]")
# Marks of quotations, lists and headings at the beginning of a line: -, 1., a).
_LIST_MARKS = re.compile(r"(?:(?:[-*+•–>#]+|[0-9]{1,2}[.)]|[A-Za-z]\))[ \t]+)*")


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
            own = leading_language(rest)
            if own is not None:
                token = own if own[2:-2] in languages else ""
            elif token and _LETTER.search(rest):
                rest = f"{token} {rest}"
            self._parts.append((marks, rest, space))
            starts_line = not sentence or len(f"{space}.".splitlines()) > 1
        sentences = (x for _, x, _ in self._parts if _LETTER.search(x))
        self.sentences = list(dict.fromkeys(sentences))

    def join(self, translations: Sequence[str]) -> str:
        """Returns the text with each sentence replaced by its translation."""
        lines = (" ".join(text.split()) for text in translations)
        by_sentence = dict(zip(self.sentences, lines, strict=True))
        return join_sentences(
            (marks + by_sentence.get(sentence, sentence), space)
            for marks, sentence, space in self._parts
        )
