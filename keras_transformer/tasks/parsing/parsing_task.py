"""English constituency parsing (section 6.3)."""

from collections.abc import Sequence
from typing import Any, ClassVar

from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.support.errors import InputError
from keras_transformer.tasks.parsing import Tree, bracketing_scores, symbols
from keras_transformer.tasks.parsing.linearization import WORD, linearize
from keras_transformer.tasks.parsing.repair import restore_tree
from keras_transformer.tasks.parsing.words import read_words, split_words
from keras_transformer.tasks.task import Pairs, Task
from keras_transformer.text import Tokenizer


class ParsingTask(Task):
    """Sentence to tree, scored by evalb's labelled F1.

    A source is a sentence, a target its tree in brackets. The model reads
    words and writes words and symbols (`linearization.py`), which have
    separate ids. Its output is repaired (`repair.py`) to a tree over exactly
    the words of the sentence.

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

    def check_tokenizer(self, vocabulary: Tokenizer, pairs: Pairs) -> None:
        needed = symbols(Tree.from_string(tree) for _, tree in pairs)
        missing = sorted(set(needed) - set(vocabulary.target.symbols))
        if missing:
            raise InputError(
                "Trees must have labels and tags from the parser's vocabulary. "
                f"Received: trees that need {' '.join(missing)}"
            )

    def _words(self, vocabulary: Tokenizer, source: str) -> list[str]:
        if self.split_words:  # the words of a treebank stay as they are
            return split_words(vocabulary.normalize_source(source))
        return read_words(source)

    def encode_sources(
        self, vocabulary: Tokenizer, sources: Sequence[str]
    ) -> list[list[int]]:
        rows = [self._words(vocabulary, source) for source in sources]
        return vocabulary.encode([" ".join(words) for words in rows])

    def encode_targets(
        self, vocabulary: Tokenizer, targets: Sequence[str]
    ) -> list[list[int]]:
        rows = [linearize(Tree.from_string(target)) for target in targets]
        words = [x[1:] for row in rows for x in row if x.startswith(WORD)]
        ids_of_words = iter(vocabulary.encode(words))

        def encode(part: str) -> list[int]:
            if part.startswith(WORD):
                return next(ids_of_words)
            return [vocabulary.target.piece_to_id(part)]

        return [[i for part in row for i in encode(part)] for row in rows]

    def decode(
        self, vocabulary: Tokenizer, ids: Sequence[int], source: str
    ) -> tuple[str, bool]:
        words = self._words(vocabulary, source)
        if not words:
            return "", False
        special = (vocabulary.pad_id, vocabulary.bos_id, vocabulary.eos_id)
        ids = [int(x) for x in ids if x not in special]
        pieces = vocabulary.pieces(ids)
        symbols = vocabulary.target.symbols
        are_symbols = [piece in symbols for piece in pieces]
        rows = vocabulary.encode(words)
        spelled = ["".join(vocabulary.pieces(row)) for row in rows]
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
