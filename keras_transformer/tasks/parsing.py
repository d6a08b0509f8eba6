"""English constituency parsing (section 6.3)."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from keras_transformer.parsing import Tree, linearize
from keras_transformer.search import BeamSearch
from keras_transformer.tasks.task import Outputs, Task
from keras_transformer.text import Tokenizer

if TYPE_CHECKING:
    import tensorflow as tf


class ParsingTask(Task):
    """Sentence to tree, scored by evalb's labelled F1.

    A source is a sentence, a target its tree in brackets. The model reads the
    words and writes the symbols of `keras_transformer.parsing.linearize`,
    which have ids of their own in the vocabulary. What it writes is repaired
    by the rule of `keras_transformer.parsing.restore`, so that every output
    is a tree over exactly the words of the sentence.

    Args:
        split_words: Whether sources are text, which is split into words as in
            the Penn Treebank. If False they are words, separated by spaces,
            as in the pairs of a treebank.
    """

    name = "parsing"
    output = "trees"
    search = BeamSearch(beam_size=21, alpha=0.3, extra_length=300)
    repairs = True
    metrics: ClassVar[dict[str, str]] = {
        "f1": "F1",
        "precision": "precision",
        "recall": "recall",
        "unlabelled_f1": "unlabelled F1",
        "complete_match": "complete match",
        "tag_accuracy": "tag accuracy",
    }
    default_metrics = tuple(metrics)
    watched_metric = "f1"

    def __init__(self, split_words: bool = True) -> None:
        self.split_words = split_words

    def for_corpus(self) -> "ParsingTask":
        return ParsingTask(split_words=False)

    def train_tokenizer(
        self, pairs: Iterable[tuple[str, str]], vocab_size: int
    ) -> Tokenizer:
        symbols: set[str] = set()

        def sentences() -> Iterable[str]:
            for sentence, tree in pairs:
                symbols.update(linearize(Tree.parse(tree)).split())
                yield sentence

        lines = list(sentences())  # the symbols are needed first
        return Tokenizer.train(lines, vocab_size, symbols=sorted(symbols))

    def source_texts(self, texts: "tf.Tensor") -> "tf.Tensor":
        from keras_transformer.parsing import graph

        split = graph.split_words if self.split_words else graph.join_words
        return split(texts)

    def target_ids(
        self, tokenizer: Tokenizer, targets: "tf.Tensor"
    ) -> "tf.RaggedTensor":
        from keras_transformer.parsing.graph import linearize_texts

        return tokenizer.ids_of_pieces(linearize_texts(targets))

    def output_texts(
        self, tokenizer: Tokenizer, ids: "tf.Tensor", sources: "tf.Tensor"
    ) -> Outputs:
        import tensorflow as tf

        from keras_transformer.parsing.graph import restore_texts

        shape = tf.shape(ids)  # B, n, T
        rows = tf.reshape(ids, [shape[0] * shape[1], shape[2]])
        in_use = (rows != tokenizer.pad_id) & (rows != tokenizer.eos_id)
        restored = restore_texts(
            tokenizer.ops.id_to_string(rows),
            in_use,
            tf.repeat(sources, shape[1]),
        )
        return Outputs(*(tf.reshape(x, shape[:2]) for x in restored))

    def scores(
        self,
        hypotheses: Sequence[str],
        references: Sequence[str],
        language: str | None,
        metrics: Sequence[str],
    ) -> dict[str, Any]:
        from keras_transformer.parsing.bracketing import bracketing_scores

        scores = bracketing_scores(hypotheses, references)
        return {name: scores[name] for name in metrics}
