"""Translates texts, in batches of similar length.

Letters: n = translations returned, S = source length, T = target length,
H = attention heads, K = hypotheses of a text, V = vocabulary.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_transformer.decoding import sequence_scores
from keras_transformer.decoding.settings import Search
from keras_transformer.inference.pipeline import Pipeline
from keras_transformer.inference.run_folder import Run, check_same_tokenizer
from keras_transformer.inference.texts import (
    BaseTranslator,
    Score,
    Translation,
    batches_by_length,
    check_lengths,
    read_pairs,
    read_sources,
)
from keras_transformer.model import Transformer
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import POSITIVE_INTEGER, check_values
from keras_transformer.tasks import Task, TranslationTask
from keras_transformer.text import Vocabulary, read_texts

_IDS = tf.RaggedTensorSpec([None, None], tf.int32)


class TranslationAttention(NamedTuple):
    """The attention of a model while it translates one text.

    There is one float32 array per layer, the first layer first. Row t of a
    decoder's array belongs to the prediction of the token that follows
    `target_tokens[t]`.
    """

    source: str  # the text
    output: str  # the text that was found for it
    source_tokens: list[str]  # S pieces, the end token last
    target_tokens: list[str]  # T pieces that the decoder reads, "<s>" first
    source_words: list[list[int]]  # positions of the pieces of each word
    target_words: list[list[int]]  # likewise
    encoder: list[np.ndarray]  # [H, S, S]
    decoder: list[np.ndarray]  # [H, T, T]
    cross: list[np.ndarray]  # [H, T, S]


class Translator(BaseTranslator):
    """Translates text with a model, its tokenizer and a search.

    A source that is longer than the model's `max_length` is cut, and a
    translation ends at the limit of the search; a `Translation` reports both.
    A source without tokens (empty or blank) has the translation "" with score
    0. If the vocabulary is so small that the search finds fewer than n
    hypotheses, the remaining texts are empty and their scores -inf.

    Args:
        model: The Transformer, or several whose probabilities are averaged
            (an ensemble). They share the tokenizer.
        tokenizer: The tokenizer that the model was trained with.
        search: `BeamSearch` or `Sampling`. Default: the task's, the paper's
            `BeamSearch()` of translation.
        num_translations: n, at most the beam size or the number of samples.
        task: What the model was trained for. Default: translation.

    Raises:
        InputError: If the tokenizer does not fit the model, or n the search.

    Example:

    ```python
    translator = kt.Translator.open("runs/demo")
    translator("I am a student.")  # "Ich bin Student."
    translator(["A dog.", "A cat."])  # ["Ein Hund.", "Eine Katze."]
    ```
    """

    def __init__(
        self,
        model: Transformer | Sequence[Transformer],
        tokenizer: Vocabulary,
        search: Search | None = None,
        num_translations: int = 1,
        task: Task | None = None,
    ) -> None:
        task = task or TranslationTask()
        search = (search or task.search).with_num_translations(num_translations)
        models = [model] if isinstance(model, Transformer) else list(model)
        self.pipeline = Pipeline(models, tokenizer, task)
        self.model = models[0]
        self.models = models
        self.tokenizer = tokenizer
        self.search = search
        self.task = task
        self.num_translations = num_translations
        # What `open` has loaded: each run and its checkpoint.
        self.checkpoints: list[tuple[Run, Path]] = []
        self._compiled: dict[Any, Callable] = {}
        self._traced_variables: list[Any] = []

    @classmethod
    def open(
        cls,
        run: str | os.PathLike | Run | Sequence[str | os.PathLike | Run],
        checkpoint: str | int | None = None,
        search: Search | None = None,
        num_translations: int = 1,
        dtype: str | None = None,
        task: Task | None = None,
    ) -> "Translator":
        """Returns the translator of a run folder that training wrote.

        Args:
            run: The folder or the opened `Run`, or several with the same
                tokenizer, whose models translate together.
            checkpoint: A step, `"best"` (by validation score) or `"last"`,
                the default.
            search: As in `Translator`. Default: the (first) run's.
            num_translations: As in `Translator`.
            dtype: Of weights and computation, as in `Run.load_model`. Softmax,
                normalization and scores remain float32.
            task: As in `Translator`. Default: the run's.

        Raises:
            InputError: If a folder is not a run or lacks the checkpoint, or
                the tokenizers differ.
        """
        given = [run] if isinstance(run, str | os.PathLike | Run) else run
        runs = [one if isinstance(one, Run) else Run.open(one) for one in given]
        check_same_tokenizer(runs)
        checkpoints = [(one, one.find_checkpoint(checkpoint)) for one in runs]
        models = [one.load_model(path, dtype) for one, path in checkpoints]
        task = task or runs[0].task
        search = search or runs[0].default_search
        tokenizer = runs[0].tokenizer
        translator = cls(models, tokenizer, search, num_translations, task)
        translator.checkpoints = checkpoints
        return translator

    @property
    def _run(self) -> Mapping[str, Any]:
        known = [
            {**run.statistics, **run.recipe} for run, _ in self.checkpoints
        ]
        return next(iter(known), {})

    @property
    def max_length(self) -> int:
        """Longest source and target that all models take, in tokens."""
        return self.pipeline.max_length

    @property
    def dtype(self) -> str:
        """Keras dtype policy of the first model."""
        return self.model.dtype_policy.name

    def translate(
        self,
        texts: Any,
        batch_tokens: int = 2048,
        workers: int = 1,
        prefixes: Any = None,
    ) -> Translation | list[Translation]:
        """Translates texts, in batches of similar length.

        Args:
            texts: One text, or an iterable, NumPy array or string tensor of
                texts. A text is a `str`, UTF-8 `bytes` or a scalar string
                tensor.
            batch_tokens: Source tokens in a batch, padding included; less
                takes less memory. A batch has at most 128 texts.
            workers: Batches translated at the same time. On CPU, as many
                workers as cores are up to twice as fast as one if each uses
                one thread: set the environment variable
                `TF_NUM_INTRAOP_THREADS=1` before TensorFlow is imported.
            prefixes: What each translation must begin with, one text per
                text; "" for nothing.

        Returns:
            A `Translation` for a single text, else a list with one
            `Translation` per text, in the order of the texts.

        Raises:
            InputError: If a text is not a string of valid Unicode, `workers`
                not a positive integer, or not each text has one prefix.
        """
        check_values(POSITIVE_INTEGER, workers=workers)
        texts, prefixes, is_single = read_sources(texts, prefixes)
        strings = tf.constant(texts, tf.string)
        source = self.pipeline.source_ids(strings)
        prefix = source[:, :0]  # nothing
        if any(prefixes):
            self._check_targets_are_text("A prefix")
            prefix = self.pipeline.target_ids(tf.constant(prefixes))
        translate = self._translate_graph()

        def translate_batch(rows: list[int]) -> Translation:
            columns = (tf.gather(x, rows) for x in (strings, source, prefix))
            return translate(*columns)[0]

        lengths = source.row_lengths().numpy().tolist()
        batches = batches_by_length(
            lengths, self.max_length, batch_tokens, workers
        )
        with ThreadPoolExecutor(workers) as pool:
            # A single worker is this thread.
            run = map if workers == 1 else pool.map
            results = list(run(translate_batch, batches))
        translations: list = [None] * len(texts)
        for rows, result in zip(batches, results, strict=True):
            columns = (column.numpy().tolist() for column in result)
            for i, best, *rest in zip(rows, *columns, strict=True):
                # A model may spell bytes that are not UTF-8.
                best = [text.decode("utf-8", "replace") for text in best]
                translations[i] = Translation(best, *rest)
        return translations[0] if is_single else translations

    def score(
        self, sources: Any, targets: Any, batch_tokens: int = 2048
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

        Returns:
            A `Score` for a single pair, else a list with one per pair.

        Raises:
            InputError: If the numbers of sources and targets differ, a text
                is not valid, or one is longer than the model's `max_length`.
        """
        self._check_targets_are_text("A score of a given output")
        sources, targets, is_single = read_pairs(sources, targets)
        source = self.pipeline.source_ids(tf.constant(sources, tf.string))
        labels = self.pipeline.target_ids(tf.constant(targets, tf.string))
        lengths = [x.row_lengths().numpy().tolist() for x in (source, labels)]
        check_lengths(*lengths, self.max_length)
        scored: list = [None] * len(sources)
        for rows in batches_by_length(
            lengths[1], self.max_length, batch_tokens
        ):
            source_ids, _, _ = self.pipeline.with_end(tf.gather(source, rows))
            label_ids, counts, _ = self.pipeline.labels_with_end(
                tf.gather(labels, rows)
            )
            log_probs = self.pipeline.token_log_probs(source_ids, label_ids)
            scores = sequence_scores(log_probs, counts, self.search)
            columns = (column.numpy().tolist() for column in scores)
            for i, *row in zip(rows, *columns, strict=True):
                scored[i] = Score(*row)
        return scored[0] if is_single else scored

    def attention(self, text: Any, hypothesis: int = 0) -> TranslationAttention:
        """Returns the attention of every layer while a text is translated.

        Args:
            text: One text, as in `translate`.
            hypothesis: Which translation, from 0 for the best to
                `num_translations` - 1.

        Returns:
            A `TranslationAttention`. Of several models it is the attention
            of the first.

        Raises:
            InputError: If there is not exactly one text, it has no tokens or
                more than the model reads, or there is no such translation.
        """
        ids, text = self.one_source(text, "Attention is computed")
        # Compiled, as in `translate`: another program rounds differently.
        translation, result = self._translate_graph()(
            tf.constant([text]), ids, ids[:, :0]
        )
        lengths = result.lengths[0, : self.num_translations].numpy()
        check_hypothesis(hypothesis, np.count_nonzero(lengths))
        source, _, _ = self.pipeline.with_end(ids)
        target = self.pipeline.decoder_input(
            result.ids[:, hypothesis, : lengths[hypothesis]]
        )
        scores = self.model.attention_scores(source, target)
        output = translation.texts[0, hypothesis].numpy()
        read, written = source[0].numpy(), target[0].numpy()
        return TranslationAttention(
            text,
            output.decode("utf-8", "replace"),
            self.tokenizer.source.pieces(read),
            self.tokenizer.target.pieces(written),
            self.tokenizer.source.words(read),
            self.tokenizer.target.words(written),
            *([layer[0].numpy() for layer in kind] for kind in scores),
        )

    def one_source(self, text: Any, what: str) -> tuple[tf.RaggedTensor, str]:
        """Returns the ids of one text `[1, (S)]`, and the text.

        Raises InputError that names `what` the text is needed for, if there
        is not exactly one, or it has no tokens or more than the model reads.
        """
        texts, is_single = read_texts(text, "text")
        if not is_single:
            raise InputError(
                f"{what} for one text at a time. Received: {len(texts)} texts"
            )
        ids = self.pipeline.source_ids(tf.constant(texts))
        count, limit = len(ids[0]), self.max_length - 1
        if not 1 <= count <= limit:
            raise InputError(
                f"{what} for a text of 1 to {limit} tokens. Received: a text "
                + (f"of {count} tokens" if count else "without tokens")
            )
        return ids, texts[0]

    def _translate_graph(self) -> Callable:
        """Returns the graph of `Pipeline.translate`."""
        settings = (self.num_translations, self.search)
        return self.compiled(
            ("translate", *settings),
            lambda text, source, prefix: self.pipeline.translate(
                text, *settings, source, prefix
            ),
            [tf.TensorSpec([None], tf.string), _IDS, _IDS],
        )

    def compiled(
        self, key: Any, function: Callable, signature: Sequence[Any]
    ) -> Callable:
        """Returns the graph of what the models compute, which is kept by key.

        It is made again if the models have other variables than before, as
        with LoRA, after quantization or with another layer.
        """
        variables = [one for model in self.models for one in model.variables]
        if list(map(id, variables)) != list(map(id, self._traced_variables)):
            self._traced_variables, self._compiled = variables, {}
        graphs = self._compiled
        if key not in graphs:
            # AutoGraph, which nothing here needs, takes longer than tracing.
            graphs[key] = tf.function(function, signature, autograph=False)
        return graphs[key]

    def _check_targets_are_text(self, what: str) -> None:
        if not self.task.targets_are_text:
            raise InputError(
                f"{what} needs a model whose outputs are any text. Received: "
                f"a model for {self.task.name}"
            )


def check_hypothesis(hypothesis: int, count: int) -> None:
    """Raises InputError unless the search has found this hypothesis."""
    if not 0 <= hypothesis < count:
        raise InputError(
            f"There are {count} translations; the best one has the number 0. "
            f"Received: hypothesis={hypothesis}"
        )
