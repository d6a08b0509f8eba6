"""English constituency parsing (section 6.3)."""

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.support.errors import InputError
from keras_transformer.tasks.parsing import (
    Tree,
    bracketing_scores,
    escape_brackets,
    symbols,
)
from keras_transformer.tasks.parsing.linearization import (
    WORD,
    linearize,
    restore_tree,
)
from keras_transformer.tasks.task import Pairs, Task
from keras_transformer.text import Tokenizer

# Patterns and replacements that split a sentence into the words of the Penn
# Treebank, in this order. Quotes become `` and '', brackets -LRB- etc.;
# punctuation and clitics become words.
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


class ParsingTask(Task):
    """Sentence to tree, scored by evalb's labelled F1.

    A source is a sentence, a target its tree in brackets. The model reads
    words and writes words and symbols (`linearization.py`), which have
    separate ids. Its output is repaired to a tree over exactly the words of
    the sentence.

    Args:
        split_words: Whether to split sources into words as in the Penn
            Treebank. If False they are words separated by spaces, as in the
            pairs of a treebank.
    """

    name = "parsing"
    output = "trees"
    search = BeamSearch(beam_size=21, alpha=0.3, extra_length=300)
    targets_are_text = False
    metrics: ClassVar[dict[str, str]] = {
        "f1": "F1",
        "precision": "precision",
        "recall": "recall",
        "unlabelled_f1": "unlabelled F1",
        "complete_match": "complete match",
        "tag_accuracy": "tag accuracy",
    }
    default_metrics = tuple(metrics)

    def __init__(self, split_words: bool = True) -> None:
        self.split_words = split_words

    def for_corpus(self) -> "ParsingTask":
        return ParsingTask(split_words=False)

    def train_tokenizer(
        self, pairs: Pairs, vocab_size: int, tags: Sequence[str] = ()
    ) -> Tokenizer:
        # The symbols are needed before the sentences are read.
        pairs = list(pairs)
        needed = symbols(Tree.from_string(tree) for _, tree in pairs)
        sentences = (sentence for sentence, _ in pairs)
        return Tokenizer.train(sentences, vocab_size, symbols=needed)

    def check_tokenizer(self, tokenizer: Tokenizer, pairs: Pairs) -> None:
        needed = symbols(Tree.from_string(tree) for _, tree in pairs)
        missing = sorted(set(needed) - set(tokenizer.target.symbols))
        if missing:
            raise InputError(
                "Trees must have labels and tags from the parser's vocabulary. "
                f"Received: trees that need {' '.join(missing)}"
            )

    def _words(self, tokenizer: Tokenizer, source: str) -> list[str]:
        if self.split_words:
            source = tokenizer.normalize_source(source)
            for pattern, replacement in _RULES:
                source = re.sub(pattern, replacement, source, flags=re.ASCII)
        return re.findall(r"[^\t-\r ]+", escape_brackets(source))

    def encode_sources(
        self, tokenizer: Tokenizer, sources: Sequence[str]
    ) -> list[list[int]]:
        rows = [self._words(tokenizer, source) for source in sources]
        return tokenizer.encode([" ".join(words) for words in rows])

    def encode_targets(
        self, tokenizer: Tokenizer, targets: Sequence[str]
    ) -> list[list[int]]:
        rows = [linearize(Tree.from_string(target)) for target in targets]
        words = [x[1:] for row in rows for x in row if x.startswith(WORD)]
        ids_of_words = iter(tokenizer.encode(words))

        def encode(part: str) -> list[int]:
            if part.startswith(WORD):
                return next(ids_of_words)
            return [tokenizer.target.piece_to_id(part)]

        return [[i for part in row for i in encode(part)] for row in rows]

    def decode(
        self, tokenizer: Tokenizer, ids: Sequence[int], source: str
    ) -> tuple[str, bool]:
        words = self._words(tokenizer, source)
        if not words:
            return "", False
        special = (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id)
        ids = [int(x) for x in ids if x not in special]
        pieces = tokenizer.pieces(ids)
        symbols = tokenizer.target.symbols
        are_symbols = [piece in symbols for piece in pieces]
        rows = tokenizer.encode(words)
        spelled = ["".join(tokenizer.pieces(row)) for row in rows]
        tree, is_repaired = restore_tree(pieces, are_symbols, words, spelled)
        return str(tree), is_repaired

    def scores(
        self,
        hypotheses: Sequence[str],
        references: Sequence[str],
        language: str | None,
        metrics: Sequence[str],
    ) -> dict[str, Any]:
        scores = bracketing_scores(hypotheses, references)
        return {name: scores[name] for name in metrics}
