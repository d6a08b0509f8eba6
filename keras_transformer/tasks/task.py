"""The interface of a task."""

import abc
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.support.fields import check_values, one_of
from keras_transformer.text import Tokenizer

Pairs = Iterable[tuple[str, str]]  # source and target


class Task(abc.ABC):
    """A task that a `Transformer` can be trained for.

    Source and target of every pair are texts. A task converts targets to ids
    and ids to outputs, and scores outputs against references. Ids exclude
    start and end tokens.
    """

    name: ClassVar[str]  # in the files of a run
    output: ClassVar[str]  # name of the outputs, in files and signatures
    search: ClassVar[BeamSearch]  # default settings of the search
    metrics: ClassVar[Mapping[str, str]]  # metrics, and their names in tables
    default_metrics: ClassVar[tuple[str, ...]]  # of the first, more is better
    targets_are_text: ClassVar[bool] = True  # whether any text is a target

    def choose_metric(
        self, references: Sequence[str], language: str | None
    ) -> str:
        """Returns the metric that chooses the best checkpoint."""
        return self.default_metrics[0]

    @abc.abstractmethod
    def train_tokenizer(
        self, pairs: Pairs, vocab_size: int, tags: Sequence[str] = ()
    ) -> Tokenizer:
        """Trains a tokenizer on pairs. Sources may begin with the tags."""

    def check_tokenizer(self, tokenizer: Tokenizer, pairs: Pairs) -> None:
        """Raises InputError if the vocabulary cannot encode the pairs."""
        del tokenizer, pairs  # any text has ids

    def for_corpus(self) -> "Task":
        """Returns the task for a corpus, where sources are prepared."""
        return self

    def encode_sources(
        self, tokenizer: Tokenizer, sources: Sequence[str]
    ) -> list[list[int]]:
        """Returns the ids that the model reads."""
        return tokenizer.encode_sources(sources)

    def encode_targets(
        self, tokenizer: Tokenizer, targets: Sequence[str]
    ) -> list[list[int]]:
        """Returns the ids that the model is trained to write."""
        return tokenizer.encode_targets(targets)

    def decode(
        self, tokenizer: Tokenizer, ids: Sequence[int], source: str
    ) -> tuple[str, bool]:
        """Returns the output for ids, and whether it was repaired.

        The ids may contain an end token and padding.
        """
        return tokenizer.target.decode(ids), False

    def numbers_differ(self, source: str, output: str) -> bool:
        """Returns whether source and output have different digits."""
        return False  # a parser does not write digits

    def columns(self, translation: Any) -> dict[str, Any]:
        """Returns the fields of a `Translation`, named as in signatures.

        Outputs that the search did not find are omitted.
        """
        values = translation._asdict()
        count = sum(score > -math.inf for score in translation.scores)
        values["texts"] = translation.texts[:count]
        values["scores"] = translation.scores[:count]
        del values["repaired" if self.targets_are_text else "numbers_differ"]
        return {self.output: values.pop("texts"), **values}

    def check_metrics(
        self, language: str | None, metrics: Sequence[str]
    ) -> None:
        """Raises InputError for metrics that `scores` cannot compute."""
        known = one_of(*self.metrics)
        for metric in metrics:
            check_values(known, metric=metric)

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
        """
