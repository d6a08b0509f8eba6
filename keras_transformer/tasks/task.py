"""The interface of a task."""

import abc
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.support.errors import InputError
from keras_transformer.text import Tokenizer

Pairs = Iterable[tuple[str, str]]  # of source and target


class Task(abc.ABC):
    """A task that a `Transformer` can be trained for.

    Source and target of every pair are texts. A task defines how a target
    becomes ids and ids become an output again, and how outputs are scored
    against references. Ids have no start and end tokens.
    """

    name: ClassVar[str]  # in the files of a run
    output: ClassVar[str]  # name of the outputs, in files and signatures
    search: ClassVar[BeamSearch]  # default settings of the search
    metrics: ClassVar[Mapping[str, str]]  # metrics, and their names in tables
    default_metrics: ClassVar[tuple[str, ...]]  # scored unless told otherwise
    watched_metric: ClassVar[str]  # of validation: more is better
    targets_are_text: ClassVar[bool] = True  # whether any text is a target

    def choose_metric(
        self, references: Sequence[str], language: str | None
    ) -> str:
        """Returns the metric that chooses the best checkpoint."""
        del references, language
        return self.watched_metric

    @abc.abstractmethod
    def train_tokenizer(
        self, pairs: Pairs, vocab_size: int, tags: Sequence[str] = ()
    ) -> Tokenizer:
        """Returns a tokenizer for sources and targets, which are read once.

        Sources may begin with the tags.
        """

    def check_tokenizer(self, vocabulary: Tokenizer, pairs: Pairs) -> None:
        """Raises InputError if the vocabulary cannot encode the pairs."""
        del vocabulary, pairs  # any text has ids

    def for_corpus(self) -> "Task":
        """Returns the task for the sources of a corpus, not of a user."""
        return self

    def encode_sources(
        self, vocabulary: Tokenizer, sources: Sequence[str]
    ) -> list[list[int]]:
        """Returns the ids that the model reads."""
        return vocabulary.encode_sources(sources)

    def encode_targets(
        self, vocabulary: Tokenizer, targets: Sequence[str]
    ) -> list[list[int]]:
        """Returns the ids that the model is trained to write."""
        return vocabulary.encode_targets(targets)

    def decode(
        self, vocabulary: Tokenizer, ids: Sequence[int], source: str
    ) -> tuple[str, bool]:
        """Returns the output that ids spell, and whether it was repaired.

        There may be an end token, and padding after it.
        """
        del source
        return vocabulary.target.decode(ids), False

    def columns(self, translation: Any) -> dict[str, Any]:
        """Returns the fields of a `Translation` as signatures name them.

        Where the search found fewer outputs than were asked for, the empty
        ones are left out.
        """
        values = translation._asdict()
        count = sum(score > -math.inf for score in translation.scores)
        values["texts"] = translation.texts[:count]
        values["scores"] = translation.scores[:count]
        if self.targets_are_text:
            del values["repaired"]
        return {self.output: values.pop("texts"), **values}

    def check_metrics(
        self, language: str | None, metrics: Sequence[str]
    ) -> None:
        """Raises InputError as `scores` would for any texts."""
        unknown = sorted(set(metrics) - set(self.metrics))
        if unknown or not metrics:
            raise InputError(
                f"Metrics must be one or more of {', '.join(self.metrics)}. "
                f"Received: {', '.join(unknown) or 'none'}"
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
        """
