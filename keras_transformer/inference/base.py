"""Base class of translators, without TensorFlow."""

import abc
import copy
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from keras_transformer.decoding.settings import Search
from keras_transformer.inference import records
from keras_transformer.inference.documents import SplitDocument
from keras_transformer.inference.model_folder import first_run
from keras_transformer.inference.records import EncodedTexts, Score, Translation
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import POSITIVE_INTEGER, check_values
from keras_transformer.tasks import Task, TranslationTask
from keras_transformer.text import Vocabulary, read_texts, split_sentences

# Capabilities that only some translators have, and their requirements.
CAPABILITIES = {
    "attention": "The attention of all layers needs a run.",
    "trace": "A trace of the search needs a run that uses beam search.",
    "prefixes": "A prefix needs a model whose outputs are any text, and of an "
    "export the signature translate_prefix.",
    "score": "The score of a given output needs a model whose outputs are any "
    "text, and of an export the signature score.",
    "perplexity": "The perplexity of a corpus needs a run, or of an export the "
    "signature score.",
}

Progress = Callable[[int], Any] | None


class BaseTranslator(abc.ABC):
    """Base class of translators.

    A translator is called with one text or several. A source that is longer
    than the model reads is cut, and a translation ends at the limit of the
    search; a `Translation` reports both. A source without tokens (empty or
    blank) has the translation "" with score 0. If the search finds fewer than
    `num_translations` hypotheses, the remaining texts are empty and their
    scores -inf. Several threads may use one translator.
    """

    task: Task = TranslationTask()  # what the model is trained for
    tokenizer: Vocabulary | None = None  # None: in the graph of an export
    num_translations: int  # n, returned per text
    search: Search | None = None  # None: unknown
    max_length: int | None = None  # tokens that the model takes; None: unknown
    dtype: str | None = None  # of the weights; None: unknown
    metadata: Mapping[str, Any] = {}  # what is recorded of the model
    checkpoints: Sequence[tuple[Any, Any]] = ()  # each run, and its file
    batch_tokens: int = 2048  # default of the argument
    workers: int = 1  # default of the argument
    max_batch_size: int = 128  # each text needs K rows of V log-probabilities

    # === Provided by a runtime ===

    @property
    @abc.abstractmethod
    def description(self) -> str:
        """Names the translator in messages."""

    @property
    @abc.abstractmethod
    def capabilities(self) -> frozenset[str]:
        """Names of `CAPABILITIES`."""

    @abc.abstractmethod
    def _encode_sources(self, texts: list[str]) -> EncodedTexts:
        """Returns sources as the methods below take them."""

    @abc.abstractmethod
    def _encode_targets(self, texts: list[str]) -> EncodedTexts:
        """Returns targets, or prefixes of them."""

    @abc.abstractmethod
    def _translate_batch(
        self,
        rows: list[int],
        workers: int,
        sources: EncodedTexts,
        prefixes: EncodedTexts | None,
    ) -> list[Translation]:
        """Translates the sources of some rows, while others do so."""

    @abc.abstractmethod
    def _score_batch(
        self,
        rows: list[int],
        workers: int,
        sources: EncodedTexts,
        targets: EncodedTexts,
    ) -> list[Score | records.TooLong]:
        """Scores the pairs of some rows, while others do so.

        The empty translation of an empty source has the log-probability 0.
        """

    @property
    def recommended_workers(self) -> int:
        """The number of `workers` that is fastest for many texts."""
        return self.workers

    def for_corpus(self, task: Task) -> "BaseTranslator":
        """Returns the translator for the sources of a corpus with this task."""
        if self.task.name != task.name:
            raise InputError(
                f"A model for {self.task.name} must be evaluated on a corpus "
                f"for it. Received: a corpus for {task.name}"
            )
        translator = copy.copy(self)
        translator.task = task
        return translator

    # === The same for all translators ===

    def can(self, capability: str) -> bool:
        """Returns whether the translator has one of the `CAPABILITIES`."""
        if capability not in CAPABILITIES:
            raise ValueError(f"capability={capability!r} is not known")
        return capability in self.capabilities

    def check_can(self, capability: str) -> None:
        """Raises InputError unless the translator has a capability."""
        if not self.can(capability):
            raise InputError(
                f"{CAPABILITIES[capability]} Received: {self.description}"
            )

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """Source and target language, as far as they are known."""
        run = first_run(self.metadata)
        return run.get("source"), run.get("target")

    @property
    def target_languages(self) -> Sequence[str]:
        """What a token at the start of a source may ask for."""
        return () if self.tokenizer is None else self.tokenizer.languages

    def check_languages(self, texts: Sequence[str], first: int = 1) -> None:
        """Does what `Vocabulary.check_languages` does."""
        if self.tokenizer is not None:
            self.tokenizer.check_languages(texts, first)

    @property
    def example(self) -> str | None:
        """A source of the model's data, if known."""
        return first_run(self.metadata).get("example")

    def __call__(self, texts: Any) -> str | list[str]:
        """Returns the best translation of one text, or a list of several."""
        translations = self.translate(texts)
        if isinstance(translations, Translation):
            return translations.texts[0]
        return [translation.texts[0] for translation in translations]

    def translate(
        self,
        texts: Any,
        *,
        batch_tokens: int | None = None,
        workers: int | None = None,
        prefixes: Any = None,
        progress: Progress = None,
    ) -> Translation | list[Translation]:
        """Translates texts, in batches of similar length.

        Args:
            texts: One text, or an iterable, NumPy array or string tensor of
                texts. A text is a `str`, UTF-8 `bytes` or a scalar string
                tensor.
            batch_tokens: Source tokens in a batch, padding included; less
                takes less memory. A batch has at most `max_batch_size` texts.
                Default: the attribute.
            workers: Batches translated at the same time. Default: the
                attribute. For many texts, `recommended_workers` are faster.
            prefixes: The beginning of each translation, one text per text;
                "" for any.
            progress: Called after each batch with its number of texts.

        Returns:
            A `Translation` for a single text, else a list with one
            `Translation` per text, in the order of the texts.

        Raises:
            InputError: If a text is not a string of valid Unicode, a number
                not a positive integer, not each text has one prefix, or the
                model takes no prefix.
        """
        texts, prefixes, is_single = records.read_sources(texts, prefixes)
        sources, starts = self._encode_sources(texts), None
        if any(prefixes):
            self.check_can("prefixes")
            if self.tokenizer is not None:
                self.tokenizer.target.check_known(prefixes)
            starts = self._encode_targets(prefixes)
        translations = self._in_batches(
            lambda *batch: self._translate_batch(*batch, sources, starts),
            range(len(texts)),
            sources.lengths,
            batch_tokens,
            workers,
            progress,
        )
        return translations[0] if is_single else translations

    def translate_document(
        self,
        text: Any,
        *,
        split: Callable[[str], list[tuple[str, str]]] = split_sentences,
        target_language: str | None = None,
        batch_tokens: int | None = None,
        workers: int | None = None,
        progress: Progress = None,
    ) -> records.TranslatedDocument:
        r"""Translates a text of several sentences and lines.

        Line breaks, blank lines, indentation, spaces between sentences and the
        marks of lists at the beginning of a line (`-`, `*`, `>`, `#`) are
        kept, and so is a sentence without letters. A sentence ends with its
        line. One that occurs twice is translated once. A token of a target
        language counts for the sentences after it in its line too.

        Args:
            text: One text, as in `translate`.
            split: Returns the sentences of a text, each with the whitespace
                that follows it.
            target_language: One of `target_languages`, where a text names none.
            batch_tokens: As in `translate`.
            workers: As in `translate`.
            progress: As in `translate`.

        Returns:
            A `TranslatedDocument`. Its translation of a sentence has one line.

        Raises:
            InputError: If there is no such language, or not one valid text.

        Example:

        ```python
        translator.translate_document("A dog. A cat.\n\n- Yes.\n").text
        # "Ein Hund. Eine Katze.\n\n- Ja.\n"
        ```
        """
        texts, is_single = read_texts(text, "text")
        if not is_single:
            raise InputError(
                "A document is one text. Received: "
                f"{len(texts)} texts, which `translate` takes"
            )
        languages = self.target_languages
        document = SplitDocument(texts[0], split, languages, target_language)
        settings = dict(batch_tokens=batch_tokens, workers=workers)
        translations = self.translate(
            document.sentences, **settings, progress=progress
        )
        text = document.join([x.texts[0] for x in translations])
        by_sentence = dict(zip(document.sentences, translations, strict=True))
        return records.TranslatedDocument(text, by_sentence)

    def score(
        self,
        sources: Any,
        targets: Any,
        *,
        batch_tokens: int | None = None,
        workers: int | None = None,
        progress: Progress = None,
    ) -> Score | list[Score]:
        """Returns how likely given translations are.

        The tokenizer decides how a target is split into tokens. The search
        may have produced the same text from other tokens: its score is then
        another.

        Args:
            sources: As in `translate`. The empty translation of an empty
                source is certain: its log-probability is 0.
            targets: The translation of each source.
            batch_tokens: As in `translate`, of the targets.
            workers: As in `translate`.
            progress: As in `translate`.

        Returns:
            A `Score` for a single pair, else a list with one per pair.

        Raises:
            InputError: If the numbers of sources and targets differ, a text
                is not valid, one is longer than the model reads, or the
                outputs of the model are not any text.
        """
        self.check_can("score")
        sources, targets, is_single = records.read_pairs(sources, targets)
        pair = self._encode_sources(sources), self._encode_targets(targets)
        records.check_lengths(*pair, self.max_length)
        scores = self._in_batches(
            lambda *batch: self._score_batch(*batch, *pair),
            range(len(sources)),
            pair[1].lengths,
            batch_tokens,
            workers,
            progress,
        )
        for index, score in enumerate(scores):
            if isinstance(score, records.TooLong):
                raise InputError(
                    "A text to score must not be longer than the model reads. "
                    f"Received: a longer {score.side} at index {index}"
                )
        return scores[0] if is_single else scores

    def score_corpus(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        workers: int | None = None,
        progress: Progress = None,
    ) -> list[Score | None]:
        """Returns the scores of pairs, None where a pair is not measured.

        Pairs with an empty side, or longer than the model reads, are not.
        Arguments are those of `score`; the targets of a parser are trees.
        """
        self.check_can("perplexity")
        pair = self._encode_sources(sources), self._encode_targets(targets)
        limit = self.max_length or math.inf
        sizes = list(zip(*(side.lengths for side in pair), strict=True))
        rows = [
            row for row, x in enumerate(sizes) if 0 < min(x) <= max(x) < limit
        ]
        measured = self._in_batches(
            lambda *batch: self._score_batch(*batch, *pair),
            rows,
            pair[1].lengths,
            None,
            workers,
            progress,
        )
        scores: list[Score | None] = [None] * len(sources)
        for row, score in zip(rows, measured, strict=True):
            # Estimated lengths may have missed that a side is empty or long.
            if isinstance(score, Score) and score.num_tokens > 1:
                scores[row] = score
        return scores

    def _in_batches(
        self,
        function: Callable[[list[int], int], list[Any]],
        rows: Sequence[int],
        lengths: Sequence[float],
        batch_tokens: int | None,
        workers: int | None,
        progress: Progress,
    ) -> list[Any]:
        """Calls a function with batches of rows, and the number of workers."""
        if batch_tokens is None:
            batch_tokens = self.batch_tokens
        workers = self.workers if workers is None else workers
        check_values(
            POSITIVE_INTEGER, batch_tokens=batch_tokens, workers=workers
        )
        workers = min(workers, len(rows)) or 1
        batches = records.batches_by_length(
            [lengths[row] for row in rows],
            self.max_length or batch_tokens,
            batch_tokens,
            workers,
            self.max_batch_size,
        )
        results: list[Any] = [None] * len(rows)
        rows_of_batches = [[rows[i] for i in batch] for batch in batches]
        with ThreadPoolExecutor(workers) as pool:
            # A single worker is this thread.
            run = map if workers == 1 else pool.map
            of_batches = run(lambda x: function(x, workers), rows_of_batches)
            # After an error `pool.map` cancels the batches that wait.
            for batch, of_batch in zip(batches, of_batches, strict=True):
                for i, record in zip(batch, of_batch, strict=True):
                    results[i] = record
                if progress is not None:
                    progress(len(batch))
        return results
