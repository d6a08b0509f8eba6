"""Tags at the beginning of sources, such as the target language."""

import re
from collections.abc import Iterable, Sequence

from keras_transformer.support.errors import InputError
from keras_transformer.text.normalization import is_blank

# Tags consist of characters that no normalization changes, with a letter or
# digit: a model may have learned a piece such as ▁<->.
_NAME = "[!-;=?-~]*[0-9A-Za-z][!-;=?-~]*"
LANGUAGE_TAG = f">>{_NAME}<<"
OTHER_TAG = f"<{_NAME}>"
TAG = f"({LANGUAGE_TAG}|{OTHER_TAG})"


def check_tags(tags: Iterable[str]) -> None:
    """Raises InputError unless all of them look like tags."""
    for tag in tags:
        if re.fullmatch(TAG, tag) is None:
            raise InputError(
                "A tag must be letters, digits and signs in angle brackets "
                f"(<bt>), or a language (>>fra<<). Received: {tag!r:.60}"
            )


def language_token(language: str) -> str:
    """Returns the token of a language, given its code or the token."""
    return f">>{language.strip('<>')}<<"


def leading_language(text: str) -> str | None:
    """Returns the language token at the start of a text, if there is one."""
    match = re.match(r"\s*(>>[^<>\s]+<<)", text, re.ASCII)
    return match[1] if match else None


def check_languages(
    languages: Sequence[str],
    is_needed: bool,
    sources: Iterable[str] | None,
    first: int,
) -> None:
    """Raises InputError for a source with an unknown or missing language."""
    if not languages:
        return
    problem = "no target language" if is_needed and sources is None else None
    for number, text in enumerate(sources or (), first):
        token = leading_language(text)
        is_unknown = token is not None and token[2:-2] not in languages
        is_missing = token is None and is_needed and not is_blank(text)
        if is_unknown or is_missing:
            name = token or "no target language"
            problem = f"{name} in text {number}, {text!r:.60}"
            break
    if problem:
        raise InputError(
            f"This model translates into {', '.join(languages)}. Received: "
            f"{problem}. Start each source with a language token such as "
            f">>{languages[0]}<<, or set target_language."
        )


def leading_tags(tags: Iterable[str]) -> str:
    """Returns a pattern of the tags and the spaces before a source."""
    alternatives = "|".join(map(re.escape, tags))
    return rf"([\t-\r ]*(?:(?:{alternatives})[\t-\r ]*)*)"


def split_tags(tags: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the languages and the other tags."""
    languages = [tag for tag in tags if tag.startswith(">>")]
    return languages, [tag for tag in tags if tag not in languages]


def with_tags(text: str, pattern: str, default_tags: Sequence[str]) -> str:
    """Returns a source with a space after each tag, and a language first.

    The default tags stand for a missing language or other tag. If the source
    has its own language, it does not get the tags of a different one. A source
    of only tags is blank.
    """
    start = re.match(pattern, text)[0]
    rest = text[len(start) :]
    if is_blank(rest):
        return "" if start or default_tags else text
    languages, others = split_tags(re.findall(TAG, start))
    default_languages, default_others = split_tags(default_tags)
    if not others and not (languages and default_languages):
        others = default_others
    languages = languages or default_languages
    return " ".join(languages + others + [rest])
