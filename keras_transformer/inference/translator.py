"""`Translator`: translates texts with any model."""

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from keras_transformer.decoding.settings import BeamSearch, Search
from keras_transformer.inference.backend import (
    Backend,
    EncodedPair,
    LocalBackend,
    in_batches,
)
from keras_transformer.inference.engine import Engine
from keras_transformer.inference.records import (
    Score,
    TranslatedDocument,
    Translation,
    TranslationAttention,
)
from keras_transformer.runs.run_folder import Run
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_folder
from keras_transformer.tasks import Task, TranslationTask
from keras_transformer.text import Tokenizer, read_texts, split_sentences
from keras_transformer.text.documents import SplitDocument
from keras_transformer.text.tags import check_languages
from keras_transformer.text.text_arguments import read_targets, read_text

if TYPE_CHECKING:
    from keras_transformer.model import Transformer


class Translator:
    """Translates text with a model, its tokenizer and a search.

    Call a translator with a text or a list of texts. `kt.open_translator` opens
    one from a folder, by a name or on a server.

    A source that is longer than the model reads is cut, and a translation ends
    at the limit of the search; a `Translation` reports both. A source without
    tokens (empty or blank) has the translation "" with score 0. If the search
    finds fewer than `num_translations` hypotheses, the remaining texts are
    empty and their scores -inf. Several threads may use one translator.

    Args:
        model: A Transformer; a list of them, to average their probabilities (an
            ensemble); or an `Engine`.
        tokenizer: The tokenizer that all models were trained with.
        search: `BeamSearch` or `Sampling`. Default: the task's; for translation
            the paper's `BeamSearch()`.
        num_translations: n, at most the beam size or the number of samples.
        task: The model's task. Default: translation.

    Raises:
        InputError: If the tokenizer does not fit the model, or n the search.

    Example:

    ```python
    translator = kt.Translator(model, tokenizer)
    translator("I am a student.")  # "Ich bin Student."
    translator(["A dog.", "A cat."])  # ["Ein Hund.", "Eine Katze."]
    ```
    """

    backend: Backend
    tokenizer: Tokenizer | None = None  # None: the model is served
    engine: Engine | None = None  # None: the model is served
    models: Sequence["Transformer"] = ()  # none for an export
    batch_tokens: int = 2048  # default of the argument
    workers: int = 1  # default of the argument
    recommended_workers: int = 1  # the fastest number for many texts
    max_batch_size: int = 128  # texts
    has_trace: bool = False  # whether its search can be traced
    languages: tuple[str | None, str | None] = (None, None)  # None: unknown
    metadata: Mapping[str, Any] = {}  # the runs of the model, and more
    checkpoints: Sequence[tuple[Any, Any]] = ()  # each run and its file

    def __init__(
        self,
        model: "Transformer | Sequence[Transformer] | Engine",
        tokenizer: Tokenizer,
        search: Search | None = None,
        num_translations: int = 1,
        task: Task | None = None,
    ) -> None:
        engine = model
        if not isinstance(model, Engine):
            # Exports for LiteRT do not need Keras.
            from keras_transformer.inference.keras_engine import KerasEngine

            models = model if isinstance(model, list | tuple) else [model]
            engine = KerasEngine(models, tokenizer)
        task = task or TranslationTask()
        search = search or task.search
        search = search.with_num_translations(num_translations)
        self.backend = LocalBackend(
            engine, tokenizer, task, search, int(num_translations)
        )
        self.tokenizer = tokenizer
        self.engine = engine
        self.models = engine.models
        self.batch_tokens = engine.batch_tokens
        self.recommended_workers = engine.recommended_workers
        self.has_trace = isinstance(search, BeamSearch)

    @classmethod
    def served(cls, backend: Backend) -> "Translator":
        """Returns the translator of a served model, without a tokenizer."""
        translator = cls.__new__(cls)
        translator.backend = backend
        return translator

    @property
    def task(self) -> Task:
        """The task of the model."""
        return self.backend.task

    @property
    def search(self) -> Search | None:
        """The search; None if a server does not describe it."""
        return self.backend.search

    @property
    def num_translations(self) -> int:
        """The number of translations of each text."""
        return self.backend.num_translations

    @property
    def max_length(self) -> int | None:
        """The longest text that the model reads, in tokens, if known."""
        return self.backend.max_length

    @property
    def dtype(self) -> str | None:
        """The dtype of the weights, if known."""
        return self.backend.dtype

    @property
    def target_languages(self) -> Sequence[str]:
        """The languages that a source may begin with."""
        return self.backend.target_languages

    @property
    def model(self) -> "Transformer":
        """The first Keras model."""
        if not self.models:
            raise InputError(
                "The layers of a model are available for runs only. Received: "
                "an export. Open the run that it was made from."
            )
        return self.models[0]

    def save(self, path: str | os.PathLike) -> None:
        """Writes the model, its tokenizer and its search as a run.

        `kt.open_translator`, all commands and `init_from` take the run.

        Args:
            path: A new or empty folder.

        Raises:
            InputError: If the folder is not empty, the search draws samples, or
                the model is an export, an ensemble, of a subclass or quantized.
        """
        is_search = isinstance(self.search, BeamSearch)
        if len(self.models) != 1 or not is_search:
            raise InputError(
                "A translator to save must have one Keras model and a "
                f"BeamSearch. Received: {len(self.models)} models and "
                f"{self.search}. Copy the folder of an export."
            )
        with atomic_folder(path) as folder:
            Run.create(
                folder,
                self.model.config,
                self.tokenizer,
                task=self.task,
                search=self.search,
                languages=self.languages,
                model=self.model,
            )

    def __repr__(self) -> str:
        languages = " to ".join(x or "unknown" for x in self.languages)
        return f"{type(self).__name__}({languages}, search={self.search})"

    def check_languages(self, texts: Sequence[str], first: int = 1) -> None:
        """Raises InputError for texts with an unknown or missing language."""
        if self.tokenizer is None:  # a served model may have a default
            check_languages(self.target_languages, False, texts, first)
        else:
            self.tokenizer.check_languages(texts, first)

    def for_corpus(self, task: Task) -> "Translator":
        """Returns this translator for a corpus with a given task."""
        if self.task.name != task.name:
            raise InputError(
                f"A model for {self.task.name} needs a corpus for it. "
                f"Received: a corpus for {task.name}"
            )
        translator = copy.copy(self)
        translator.backend = self.backend.with_task(task)
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
        if prefixes is None:
            prefixes = [""] * len(texts)
        else:
            prefixes = read_targets(prefixes, "prefixes", texts, is_single)
        self.check_languages(texts)
        sources = self.backend.encode_sources(texts)
        prefixes = self.backend.encode_prefixes(prefixes)
        pairs = list(map(EncodedPair, texts, sources, prefixes))
        translate = self.backend.translate
        translations = in_batches(
            self, translate, pairs, sources, batch_tokens, workers, progress
        )
        differ = self.task.numbers_differ
        translations = [
            x._replace(numbers_differ=differ(text, x.text))
            for text, x in zip(texts, translations, strict=True)
        ]
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
        text = read_text(text, "text")
        languages = self.target_languages
        document = SplitDocument(text, split, languages, target_language)
        translations = self.translate(document.sentences, **options)
        text = document.join([translation.text for translation in translations])
        rows = zip(document.sentences, translations, strict=True)
        return TranslatedDocument(text, translations=dict(rows))

    def score(
        self, sources: Any, targets: Any, **options: Any
    ) -> Score | list[Score]:
        """Returns how likely given translations are.

        The tokenizer splits a target into tokens. If the search produced the
        same text from different tokens, its score differs.

        Args:
            sources: As in `translate`. The empty translation of an empty
                source is certain: its log-probability is 0.
            targets: The translation of each source; for a parser, its tree.
            options: `batch_tokens` (of targets), `workers` and `progress` of
                `translate`.

        Returns:
            A `Score` for a single pair, else a list with one per pair.

        Raises:
            InputError: If a text is invalid or longer than the model reads, or
                the numbers of sources and targets differ.
        """
        sources, is_single = read_texts(sources, "sources")
        targets = read_targets(targets, "targets", sources, is_single)
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
        """Does what `score` does, but with None for empty or too long pairs."""
        pairs, scores = self._score_pairs(sources, targets, **options)
        return [
            score if pair.source and pair.target else None
            for pair, score in zip(pairs, scores, strict=True)
        ]

    def _score_pairs(
        self, texts: Sequence[str], targets: Sequence[str], **options: Any
    ) -> tuple[list[EncodedPair], list[Score | None]]:
        sources = self.backend.encode_sources(texts)
        targets = self.backend.encode_targets(targets)
        pairs = list(map(EncodedPair, texts, sources, targets))
        score = self.backend.score
        return pairs, in_batches(self, score, pairs, targets, **options)

    def attention(self, text: Any, hypothesis: int = 0) -> TranslationAttention:
        """Returns the attention of every layer while a text is translated.

        Args:
            text: One text, as in `translate`.
            hypothesis: Index of the translation, 0 for the best.

        Returns:
            A `TranslationAttention`, of the first model of an ensemble.

        Raises:
            InputError: If the text is empty or longer than the model reads,
                there is no such translation, or the model is an export.
        """
        model = self.model
        text, source = self.read_one(text)
        return self.backend.attention(model, text, source, hypothesis)

    def read_one(self, text: Any) -> tuple[str, list[int]]:
        """Returns a text that the model can read whole, and its ids."""
        text = read_text(text, "text")
        self.check_languages([text])
        (ids,) = self.backend.encode_sources([text])
        limit = self.max_length - 1  # the end token follows
        if not 1 <= len(ids) <= limit:
            raise InputError(
                f"The text must have 1 to {limit} tokens. Received: "
                f"{len(ids)} tokens"
            )
        return text, ids
