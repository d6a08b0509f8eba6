"""Tags at the beginning of sources, such as the target language."""

import itertools
import re
from collections.abc import Iterable, Sequence

from keras_transformer.support.errors import InputError
from keras_transformer.text.normalization import without_blank

# Tags consist of characters that no normalization changes, with a letter or
# digit: a model may have learned a piece such as ▁<->.
_NAME = "[!-;=?-~]*[0-9A-Za-z][!-;=?-~]*"
LANGUAGE_TAG, OTHER_TAG = f">>{_NAME}<<", f"<{_NAME}>"
TAG = f"({LANGUAGE_TAG}|{OTHER_TAG})"
# A language token at the start of a text.
LANGUAGE = r"^\s*(>>[^<>\s]+<<)"


def check_tags(tags: Iterable[str]) -> None:
    """Raises InputError unless all of them look like tags."""
    for tag in tags:
        if re.fullmatch(TAG, tag) is None:
            raise InputError(
                "A tag must be letters, digits and signs in angle brackets "
                f"(<bt>), or a language (>>fra<<). Received: {tag!r:.60}"
            )


def leading_tags(tags: Iterable[str]) -> str:
    """Returns a pattern of the tags and the spaces before a source."""
    alternatives = "|".join(map(re.escape, tags))
    return rf"([\t-\r ]*(?:(?:{alternatives})[\t-\r ]*)*)"


def with_tags(text: str, pattern: str, default: str) -> str:
    """Returns a source with a space after each tag, and a language first.

    The tags of `default` stand for a missing language or other tag. A source
    with its own language gets no tag of a different one. A source of only tags
    is blank.
    """
    tags = re.match(pattern, text)[0]
    if not (tags or default):
        return text
    (rest,) = without_blank([text[len(tags) :]])
    if re.search(LANGUAGE_TAG, tags) and re.search(LANGUAGE_TAG, default):
        default = ""
    kinds = LANGUAGE_TAG, OTHER_TAG
    found = [re.findall(x, tags) or re.findall(x, default) for x in kinds]
    return " ".join([*itertools.chain(*found), rest]) if rest else ""


def language_token(language: str) -> str:
    """Returns the token of a language, given its code or the token."""
    return f">>{language.strip('<>')}<<"


def check_languages(
    languages: Sequence[str],
    is_needed: bool,
    sources: Iterable[str] | None,
    first: int,
) -> None:
    """Implements `Tokenizer.check_languages`."""
    if not languages:
        return
    received = "no target language" if is_needed and sources is None else ""
    for number, text in enumerate(sources or (), first):
        match = re.match(LANGUAGE, text, re.ASCII)
        is_known = match and match[1][2:-2] in languages
        is_blank = is_needed and without_blank([text]) == [""]
        if not is_known and (match or (is_needed and not is_blank)):
            name = match[1] if match else "no target language"
            received = f"{name} in text {number}, {text!r:.60}"
            break
    if received:
        raise InputError(
            "A source must begin with its target language, such as "
            f">>{languages[0]}<<, unless the model is opened with "
            f"target_language. It has {', '.join(languages)}. Received: "
            f"{received}"
        )
