"""The interface of a task.

Letters: B = batch, n = outputs per source, T = target length.
"""

import abc
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from keras_transformer.decoding.search import BeamSearch
from keras_transformer.support.errors import InputError
from keras_transformer.text import Tokenizer

if TYPE_CHECKING:
    import tensorflow as tf


class Outputs(NamedTuple):
    """The texts that a model has produced, as tensors."""

    texts: "tf.Tensor"  # [B, n] string
    repaired: "tf.Tensor"  # [B, n] boolean, True where ids had no valid text


class Task(abc.ABC):
    """What differs between the tasks that a `Transformer` can be trained for.

    Source and target of every pair are texts. A task says how a target
    becomes ids and ids become an output again, and how outputs are scored
    against references.

    Attributes:
        name: What a run records.
        output: Name of the outputs, in files and signatures.
        search: Default settings of the search.
        metrics: Metrics of `scores`, and what they are called in tables.
        default_metrics: Metrics that `scores` computes unless told otherwise.
        repairs: Whether an output may have to be repaired to be valid.
        targets_are_text: Whether any text is a target, so that a prefix of it
            and a score of it make sense.
        watched_metric: Metric that is followed during training, and of which
            the best checkpoint is kept: more is better.
    """

    name: ClassVar[str]
    output: ClassVar[str]
    search: ClassVar[BeamSearch]
    metrics: ClassVar[Mapping[str, str]]
    default_metrics: ClassVar[tuple[str, ...]]
    watched_metric: ClassVar[str]
    repairs: ClassVar[bool] = False
    targets_are_text: ClassVar[bool] = True

    @property
    def watched_label(self) -> str:
        """What the watched metric is called in tables."""
        return self.metrics[self.watched_metric]

    @abc.abstractmethod
    def train_tokenizer(
        self, pairs: Iterable[tuple[str, str]], vocab_size: int
    ) -> Tokenizer:
        """Returns a tokenizer for sources and targets.

        Args:
            pairs: Sources and targets, read once.
            vocab_size: As in `Tokenizer.train`.

        Raises:
            InputError: As `Tokenizer.train`.
        """

    def check_tokenizer(
        self, tokenizer: Tokenizer, pairs: Iterable[tuple[str, str]]
    ) -> None:
        """Checks that a tokenizer of other data can encode targets.

        Args:
            tokenizer: The tokenizer.
            pairs: Sources and targets, read once.

        Raises:
            InputError: If it cannot.
        """
        del tokenizer, pairs  # any text has ids

    def for_corpus(self) -> "Task":
        """Returns the task for the sources of a corpus.

        Those that a user writes may need more work.
        """
        return self

    def source_ids(
        self, tokenizer: Tokenizer, sources: "tf.Tensor"
    ) -> "tf.RaggedTensor":
        """Returns the ids that the model reads, in a graph or eagerly.

        Args:
            tokenizer: From `train_tokenizer`.
            sources: String tensor `[B]`.

        Returns:
            int32 ragged tensor `[B, (S)]`, without the end token.
        """
        return tokenizer.tokenize(sources)

    def target_ids(
        self, tokenizer: Tokenizer, targets: "tf.Tensor"
    ) -> "tf.RaggedTensor":
        """Returns the ids that the model is trained to write.

        Args:
            tokenizer: From `train_tokenizer`.
            targets: String tensor `[B]`.

        Returns:
            int32 ragged tensor `[B, (T)]`, without start and end tokens.
        """
        return tokenizer.tokenize(targets)

    @abc.abstractmethod
    def output_texts(
        self, tokenizer: Tokenizer, ids: "tf.Tensor", sources: "tf.Tensor"
    ) -> Outputs:
        """Returns the texts of ids: the inverse of `target_ids`.

        Args:
            tokenizer: From `train_tokenizer`.
            ids: `[B, n, T]`, each row up to its end token, then padded.
            sources: String tensor `[B]`, as for `source_ids`.
        """

    def check_metrics(
        self, language: str | None, metrics: Sequence[str]
    ) -> None:
        """Raises what `scores` would raise for any texts.

        Args:
            language: As in `scores`.
            metrics: As in `scores`.

        Raises:
            InputError: If a metric is unknown, or needs a package that is not
                installed.
        """
        unknown = sorted(set(metrics) - set(self.metrics))
        if unknown or not metrics:
            raise InputError(
                f"Metrics must be some of {', '.join(self.metrics)}. Received: "
                f"{', '.join(unknown) or 'none'}"
            )

    @abc.abstractmethod
    def scores(
        self,
        hypotheses: Sequence[str],
        references: Sequence[str],
        language: str | None,
        metrics: Sequence[str],
    ) -> dict[str, Any]:
        """Scores the outputs for a corpus, with one reference per source.

        Args:
            hypotheses: The outputs.
            references: The reference targets, in the same order.
            language: Code of the target language, if it matters.
            metrics: Names of metrics, which `check_metrics` accepts.

        Returns:
            Plain values, ready for JSON, by the name of the metric.

        Raises:
            InputError: If there is nothing to score, or the numbers of
                outputs and references differ.
        """
