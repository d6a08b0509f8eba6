"""The words of English sentences, as in the Penn Treebank."""

import re

from keras_transformer.tasks.parsing.trees import escape_brackets

# Patterns and replacements, applied in this order. Quotes become `` and '',
# brackets -LRB- etc.; punctuation and clitics become words.
_RULES = (
    ("[‘’]", "'"),
    ("“", " `` "),
    ("”", " '' "),
    (r"^\s*\"", "`` "),
    (r"([\s(\[{<])\"", r"\1 `` "),
    (r"\.\.\.", " ... "),
    (r"([:,])([^\d])", r" \1 \2"),
    (r"([:,])\s*$", r" \1 "),
    (r"([;@#$%&?!])", r" \1 "),
    (r"([^.\s])(\.)([\])}>\"']*)\s*$", r"\1 \2\3 "),
    (r"\(", " -LRB- "),
    (r"\)", " -RRB- "),
    (r"\[", " -LSB- "),
    (r"\]", " -RSB- "),
    (r"\{", " -LCB- "),
    (r"\}", " -RCB- "),
    (r"--+", " -- "),
    (r"\"", " '' "),
    (r"([^'\s])('[sSmMdD]|'ll|'LL|'re|'RE|'ve|'VE|n't|N'T)(\s|$)", r"\1 \2\3"),
    (r"([^'\s])'(\s|$)", r"\1 '\2"),
    (r"\b([Cc]an)(not)\b", r"\1 \2"),
)


def split_words(text: str) -> list[str]:
    """Splits a sentence with plain spaces into words."""
    for pattern, replacement in _RULES:
        text = re.sub(pattern, replacement, text, flags=re.ASCII)
    return read_words(text)


def read_words(text: str) -> list[str]:
    """Splits at spaces and escapes round brackets."""
    return re.findall(r"[^\t-\r ]+", escape_brackets(text))
