"""Base class of translators: arguments, batches, documents."""

import abc
import copy
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

from keras_transformer.decoding.settings import Search
from keras_transformer.inference.batches import batches_by_length, num_workers
from keras_transformer.inference.exports import first_run
from keras_transformer.inference.records import (
    Score,
    TranslatedDocument,
    Translation,
    TranslationAttention,
)
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import POSITIVE_INTEGER, check_values
from keras_transformer.tasks import Task, TranslationTask
from keras_transformer.text import read_texts, split_sentences
from keras_transformer.text.documents import SplitDocument
from keras_transformer.text.tags import check_languages
from keras_transformer.text.text_arguments import read_text


class BaseTranslator(abc.ABC):
    """Base class of `Translator` and `ServedTranslator`.

    A translator is called with one text or several. A source that is longer
    than the model reads is cut, and a translation ends at the limit of the
    search; a `Translation` reports both. A source without tokens (empty or
    blank) has the translation "" with score 0. If the search finds fewer than
    `num_translations` hypotheses, the remaining texts are empty and their
    scores -inf. Several threads may use one translator.
    """

    task: Task = TranslationTask()  # of the model
    num_translations: int  # n, returned per text
    search: Search | None = None  # None: unknown
    max_length: int | None = None  # the model's, in tokens, if known
    dtype: str | None = None  # of the weights, if known
    metadata: Mapping[str, Any] = {}  # the runs of the model, and more
    checkpoints: Sequence[tuple[Any, Any]] = ()  # each run and its file
    models: Sequence[Any] = ()  # Keras models; none for an export
    target_languages: Sequence[str] = ()  # a source may begin with one
    batch_tokens: int = 2048  # default of the argument
    workers: int = 1  # default of the argument
    recommended_workers: int = 1  # the fastest number for many texts
    max_batch_size: int = 128  # texts
    has_trace: bool = False  # whether its search can be traced

    def __copy__(self) -> "BaseTranslator":
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "A translator cannot be pickled or copied deeply. Open it in each "
            "process with kt.open_translator; threads may share one."
        )

    @abc.abstractmethod
    def _encode_sources(self, texts: Sequence[str]) -> list[Any]:
        """Returns sources in the form that the methods below take."""

    @abc.abstractmethod
    def _encode_targets(self, texts: Sequence[str]) -> list[Any]: ...

    def _encode_prefixes(self, prefixes: list[str]) -> list[Any]:
        return self._encode_targets(prefixes)

    def _length(self, encoded: Any) -> float:
        """Returns the number of tokens, without the end token."""
        return len(encoded)

    @abc.abstractmethod
    def _translate_batch(
        self, texts: list[str], sources: list[Any], prefixes: list[Any]
    ) -> list[Translation]:
        """Translates one batch. Called from several threads."""

    @abc.abstractmethod
    def _score_batch(
        self, sources: list[Any], targets: list[Any]
    ) -> list[Score | None]:
        """Scores one batch; None stands for pairs that are too long."""

    def attention(self, text: Any, hypothesis: int = 0) -> TranslationAttention:
        """Returns the attention of all layers; see `Translator.attention`."""
        self.check_layers()

    def check_languages(self, texts: Sequence[str], first: int = 1) -> None:
        """Raises as `Tokenizer.check_languages`."""
        check_languages(self.target_languages, False, texts, first)

    def check_layers(self) -> None:
        """Raises InputError for an export, which has no layers."""
        if not self.models:
            raise InputError(
                "This needs the layers of a model. Received: an export. Open "
                "the run instead."
            )

    def check_trace(self) -> None:
        """Raises InputError unless the search can be traced."""
        if not self.has_trace:
            raise InputError(
                "A trace needs a run on the TensorFlow backend, and beam "
                f"search. Received: search={self.search}"
            )

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """Source and target language, as far as they are known."""
        run = first_run(self.metadata)
        return run.get("source"), run.get("target")

    def __repr__(self) -> str:
        languages = " to ".join(x or "unknown" for x in self.languages)
        return f"{type(self).__name__}({languages}, search={self.search})"

    def for_corpus(self, task: Task) -> "BaseTranslator":
        """Returns this translator for a corpus with a given task."""
        if self.task.name != task.name:
            raise InputError(
                f"A model for {self.task.name} needs a corpus for it. "
                f"Received: a corpus for {task.name}"
            )
        translator = copy.copy(self)
        translator.task = task
        return translator

    def __call__(self, texts: Any) -> str | list[str]:
        """Returns the best translation of one text, or a list of several."""
        translations = self.translate(texts)
        if isinstance(translations, Translation):
            return translations.text
        return [translation.text for translation in translations]

    def translate(
        self,
        texts: Any,
        *,
        batch_tokens: int | None = None,
        workers: int | None = None,
        prefixes: Any = None,
        progress: Callable[[int], Any] | None = None,
    ) -> Translation | list[Translation]:
        """Translates texts, in batches of similar length.

        Args:
            texts: One text, or an iterable, NumPy array or string tensor of
                texts. A text is a `str`, UTF-8 `bytes` or a scalar string
                tensor.
            batch_tokens: Maximum number of source tokens in a batch, padding
                included; smaller batches take less memory. A batch contains
                at most `max_batch_size` texts. Default: the attribute.
            workers: Batches translated at the same time. Default: the
                attribute. `recommended_workers` is faster for many texts.
            prefixes: How each translation must begin; "" for no constraint.
            progress: Called after each batch with its number of texts.

        Returns:
            A `Translation` for a single text, else a list with one
            `Translation` per text, in the order of the texts.

        Raises:
            InputError: If a text is not valid Unicode, a number is not a
                positive integer, the numbers of texts and prefixes differ, or
                the model does not support prefixes.
        """
        texts, is_single = read_texts(texts)
        prefixes = [""] * len(texts) if prefixes is None else prefixes
        prefixes, _ = read_texts(prefixes, "prefixes")
        if len(prefixes) != len(texts):
            raise InputError(
                "Each text must have one prefix. Received: "
                f"{len(texts)} texts, {len(prefixes)} prefixes"
            )
        self.check_languages(texts)
        sources = self._encode_sources(texts)
        columns = texts, sources, self._encode_prefixes(prefixes)
        options = batch_tokens, workers, progress
        translations = self._in_batches(
            self._translate_batch, columns, sources, *options
        )
        return translations[0] if is_single else translations

    def translate_document(
        self,
        text: Any,
        *,
        split: Callable[[str], list[tuple[str, str]]] = split_sentences,
        target_language: str | None = None,
        **options: Any,
    ) -> TranslatedDocument:
        r"""Translates a text of several sentences and lines.

        Line breaks, blank lines, indentation, spaces between sentences, list
        markers at the beginning of a line (`-`, `*`, `>`, `#`) and sentences
        without letters are kept. A sentence ends with its line. Repeated
        sentences are translated once. A language token also applies to the
        following sentences in its line.

        Args:
            text: One text, as in `translate`.
            split: Returns the sentences of a text, each with the whitespace
                that follows it.
            target_language: One of `target_languages`, for sentences without
                a language token.
            options: `batch_tokens`, `workers` and `progress` of `translate`.

        Returns:
            A `TranslatedDocument`. Each translated sentence is one line.

        Raises:
            InputError: If the language is unknown, or `text` is not one valid
                text.

        Example:

        ```python
        translator.translate_document("A dog. A cat.\n\n- Yes.\n").text
        # "Ein Hund. Eine Katze.\n\n- Ja.\n"
        ```
        """
        text, languages = read_text(text, "text"), self.target_languages
        document = SplitDocument(text, split, languages, target_language)
        translations = self.translate(document.sentences, **options)
        text = document.join([x.text for x in translations])
        by_sentence = dict(zip(document.sentences, translations, strict=True))
        return TranslatedDocument(text, by_sentence)

    def score(
        self, sources: Any, targets: Any, **options: Any
    ) -> Score | list[Score]:
        """Returns how likely given translations are.

        The tokenizer splits a target into tokens. If the search produced the
        same text from different tokens, its score differs.

        Args:
            sources: As in `translate`. The empty translation of an empty
                source is certain: its log-probability is 0.
            targets: The translation of each source.
            options: `batch_tokens` (of targets), `workers` and `progress` of
                `translate`.

        Returns:
            A `Score` for a single pair, else a list with one per pair.

        Raises:
            InputError: If the numbers of sources and targets differ, a text
                is invalid or longer than the model reads, or the model is a
                parser.
        """
        self._check_text_targets("The score of a given output")
        sources, is_single = read_texts(sources, "sources")
        targets, is_single_target = read_texts(targets, "targets")
        if len(sources) != len(targets) or is_single != is_single_target:
            raise InputError(
                "Each source must have one target: pass two texts, or two "
                f"lists of the same length. Received: {len(sources)} sources, "
                f"{len(targets)} targets"
            )
        self.check_languages(sources)
        _, scores = self._score_pairs(sources, targets, **options)
        if None in scores:
            raise InputError(
                "A text to score must not be longer than the model reads. "
                "Received: a longer source or target at index "
                f"{scores.index(None)}"
            )
        return scores[0] if is_single else scores

    def score_corpus(
        self, sources: Sequence[str], targets: Sequence[str], **options: Any
    ) -> list[Score | None]:
        """Returns scores; None for pairs that are empty or too long.

        The arguments are as in `score`. For a parser, targets are trees.
        """
        pairs, scores = self._score_pairs(sources, targets, **options)
        return [
            score if all(pair) else None
            for pair, score in zip(pairs, scores, strict=True)
        ]

    def _score_pairs(
        self, sources: Sequence[str], targets: Sequence[str], **options: Any
    ) -> tuple[list[tuple[Any, Any]], list[Score | None]]:
        """Returns encoded pairs and their scores."""
        sides = self._encode_sources(sources), self._encode_targets(targets)
        scores = self._in_batches(self._score_batch, sides, sides[1], **options)
        return list(zip(*sides, strict=True)), scores

    def _check_text_targets(self, purpose: str) -> None:
        if not self.task.targets_are_text:
            raise InputError(
                f"{purpose} needs a model that writes text. Received: a model "
                f"for {self.task.name}"
            )

    def _in_batches(
        self,
        function: Callable[..., list[Any]],
        columns: Sequence[Sequence[Any]],
        encoded: Sequence[Any],
        batch_tokens: int | None = None,
        workers: int | None = None,
        progress: Callable[[int], Any] | None = None,
    ) -> list[Any]:
        """Calls a function with batches of rows, in the order of length."""
        tokens = self.batch_tokens if batch_tokens is None else batch_tokens
        workers = self.workers if workers is None else workers
        check_values(POSITIVE_INTEGER, batch_tokens=tokens, workers=workers)
        workers = min(workers, len(encoded)) or 1
        lengths = list(map(self._length, encoded))
        limits = self.max_length or tokens, tokens, workers, self.max_batch_size
        batches = batches_by_length(lengths, *limits)
        results: list[Any] = [None] * len(encoded)

        def call(rows: Sequence[int]) -> list[Any]:
            return function(*([x[row] for row in rows] for x in columns))

        pool = ThreadPoolExecutor(workers, "", num_workers.set, [workers])
        with pool:
            run = map if workers == 1 else pool.map
            # After an error, `pool.map` cancels the waiting batches.
            for rows, values in zip(batches, run(call, batches), strict=True):
                for row, value in zip(rows, values, strict=True):
                    results[row] = value
                if progress is not None:
                    progress(len(rows))
        return results
