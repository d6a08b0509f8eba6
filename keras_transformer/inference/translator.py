"""Translates text: text -> ids -> search -> text.

Letters: B = batch, K = beam size, n = translations returned, S = source
length, T = target length, H = attention heads.
"""

import math
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
import tensorflow as tf

from keras_transformer.decoding import sequence_scores
from keras_transformer.decoding.search import Search
from keras_transformer.inference.run import Run
from keras_transformer.inference.tensor_translator import (
    TensorTranslator,
    check_hypothesis,
)
from keras_transformer.model import Transformer
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import POSITIVE_INTEGER
from keras_transformer.tasks import Task, TranslationTask
from keras_transformer.text import Tokenizer, read_texts

_MAX_BATCH_SIZE = 128


class Translation(NamedTuple):
    """The translations of one source text."""

    texts: list[str]  # best first
    scores: list[float]  # log P / length penalty of each text
    source_truncated: bool  # source or prefix was longer than the model reads
    at_length_limit: bool  # the best text has as many tokens as it may have
    repaired: bool = False  # the best text is a tree that had to be repaired


class Score(NamedTuple):
    """How likely a given translation is."""

    score: float  # log P / length penalty, by which the search ranks
    log_prob: float  # log P, a natural logarithm
    perplexity: float  # exp(-log P / number of tokens), the end token included


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


class Translator:
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
        tokenizer: Tokenizer,
        search: Search | None = None,
        num_translations: int = 1,
        task: Task | None = None,
    ) -> None:
        task = task or TranslationTask()
        search = (search or task.search).returning(num_translations)
        models = [model] if isinstance(model, Transformer) else list(model)
        self.tensors = TensorTranslator(models, tokenizer, search, task)
        self.model = models[0]
        self.models = models
        self.tokenizer = tokenizer
        self.search = search
        self.task = task
        self.num_translations = num_translations
        # What `open` has loaded: each run and its checkpoint.
        self.checkpoints: list[tuple[Run, Path]] = []
        self._translate = tf.function(
            self._translate_tensors,
            input_signature=[
                tf.TensorSpec([None], tf.string, name="text"),
                tf.TensorSpec([None], tf.string, name="prefix"),
            ],
        )

    @classmethod
    def open(
        cls,
        run: Run | str | os.PathLike | Sequence[Run | str | os.PathLike],
        checkpoint: str | int | None = None,
        search: Search | None = None,
        num_translations: int = 1,
        dtype: str | None = None,
        task: Task | None = None,
    ) -> "Translator":
        """Returns the translator of a run folder that training wrote.

        Args:
            run: The folder, or several with the same tokenizer, whose models
                translate together.
            checkpoint: A step, `"best"` (by validation score) or `"last"`,
                the default.
            search: As in `Translator`.
            num_translations: As in `Translator`.
            dtype: Of weights and computation, as in `Run.load_model`. Softmax,
                normalization and scores remain float32.
            task: In place of the run's.

        Raises:
            InputError: If a folder is not a run or lacks the checkpoint, or
                the tokenizers differ.
        """
        given = [run] if isinstance(run, Run | str | os.PathLike) else run
        runs = [r if isinstance(r, Run) else Run.open(r) for r in given]
        if len({(run.tokenizer.model, run.task.name) for run in runs}) > 1:
            raise InputError(
                "Runs that translate together must have the same task and "
                "tokenizer: train the second with --init-from. Received: "
                f"{', '.join(str(opened.path) for opened in runs)}"
            )
        checkpoints = [
            (opened, opened.find_checkpoint(checkpoint)) for opened in runs
        ]
        models = [run.load_model(path, dtype) for run, path in checkpoints]
        translator = cls(
            models,
            runs[0].tokenizer,
            search,
            num_translations,
            task or runs[0].task,
        )
        translator.checkpoints = checkpoints
        return translator

    @property
    def max_length(self) -> int:
        """Longest source and longest target that all models take."""
        return self.tensors.ids.max_length

    @overload
    def __call__(self, texts: str | bytes) -> str: ...

    @overload
    def __call__(self, texts: Iterable[str | bytes]) -> list[str]: ...

    def __call__(self, texts: Any) -> Any:
        """Returns the best translation of each text.

        Args:
            texts: As in `translate`.

        Returns:
            A string for a single text, else a list of strings.
        """
        translations = self.translate(texts)
        if isinstance(translations, Translation):
            return translations.texts[0]
        return [translation.texts[0] for translation in translations]

    @overload
    def translate(
        self,
        texts: str | bytes,
        batch_tokens: int = 2048,
        workers: int = 1,
        prefixes: str | bytes | None = None,
    ) -> Translation: ...

    @overload
    def translate(
        self,
        texts: Iterable[str | bytes],
        batch_tokens: int = 2048,
        workers: int = 1,
        prefixes: Iterable[str | bytes] | None = None,
    ) -> list[Translation]: ...

    def translate(
        self,
        texts: Any,
        batch_tokens: int = 2048,
        workers: int = 1,
        prefixes: Any = None,
    ) -> Any:
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
            InputError: If a text is not a string, or not valid Unicode,
                `workers` is not a positive integer, or the numbers of texts
                and prefixes differ.
        """
        if not POSITIVE_INTEGER.accepts(workers):
            raise InputError(
                f"workers must be {POSITIVE_INTEGER.expected}. Received: "
                f"workers={workers!r}"
            )
        texts, is_single = read_texts(texts)
        if prefixes is None:
            prefixes = [""] * len(texts)
        prefixes, _ = read_texts(prefixes, "prefixes")
        if len(prefixes) != len(texts):
            raise InputError(
                "Each text must have one prefix. Received: "
                f"{len(texts)} texts, {len(prefixes)} prefixes"
            )
        if any(prefixes):
            self._check_targets_are_text("A prefix")
        translations: list = [None] * len(texts)
        batches = self._batches(texts, batch_tokens, workers)

        def translate_batch(batch: list[int]) -> dict[str, tf.Tensor]:
            return self._translate(
                tf.constant([texts[i] for i in batch]),
                tf.constant([prefixes[i] for i in batch]),
            )

        if workers == 1:
            results = list(map(translate_batch, batches))
        else:
            with ThreadPoolExecutor(workers) as pool:
                results = list(pool.map(translate_batch, batches))
        for batch, outputs in zip(batches, results, strict=True):
            arrays = {name: value.numpy() for name, value in outputs.items()}
            candidates = arrays.pop(self.task.output)
            for row, i in enumerate(batch):
                translations[i] = Translation(
                    # A model may spell bytes that are not UTF-8.
                    [t.decode("utf-8", "replace") for t in candidates[row]],
                    **{
                        name: array[row].tolist()
                        for name, array in arrays.items()
                    },
                )
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
        sources, is_single = read_texts(sources, "sources")
        targets, is_single_target = read_texts(targets, "targets")
        if len(sources) != len(targets) or is_single != is_single_target:
            raise InputError(
                "Each source must have one target: pass two texts, or two "
                f"lists of the same length. Received: {len(sources)} sources, "
                f"{len(targets)} targets"
            )
        found: list = [None] * len(sources)
        for batch in self._batches(targets, batch_tokens):
            source, _, source_cut = self.tensors.source_ids(
                tf.constant([sources[i] for i in batch])
            )
            labels, lengths, label_cut = self.tensors.target_ids(
                tf.constant([targets[i] for i in batch])
            )
            cut = (source_cut | label_cut).numpy()
            if cut.any():
                raise InputError(
                    "A text to score must have at most "
                    f"{self.tensors.ids.max_length - 1} tokens. Received: "
                    f"a longer source or target at index {batch[cut.argmax()]}"
                )
            log_probs = self.tensors.ids.token_log_probs(source, labels)
            scores = sequence_scores(log_probs, lengths, self.search.alpha)
            rows = zip(*(x.numpy().tolist() for x in scores), strict=True)
            for i, row in zip(batch, rows, strict=True):
                found[i] = Score(*row)
        return found[0] if is_single else found

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
        source, text = self.tensors.one_source(text, "Attention is computed")
        result = self.tensors.ids.search(source)
        lengths = result.lengths[0, : self.num_translations].numpy()
        check_hypothesis(hypothesis, np.count_nonzero(lengths))
        chosen = result.ids[:, hypothesis, : lengths[hypothesis]]
        target = self.tensors.ids.decoder_input(chosen)
        scores = self.tensors.ids.models[0].attention_scores(source, target)
        return TranslationAttention(
            text,
            self.tensors.one_output(chosen[0], text),
            *map(self.tokenizer.pieces, (source[0], target[0])),
            *map(self.tokenizer.words, (source[0], target[0])),
            *([layer[0].numpy() for layer in kind] for kind in scores),
        )

    def _check_targets_are_text(self, what: str) -> None:
        if not self.task.targets_are_text:
            raise InputError(
                f"{what} needs a model whose outputs are any text. Received: "
                f"a model for {self.task.name}"
            )

    def _translate_tensors(
        self, text: tf.Tensor, prefix: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        prefixes = prefix if self.task.targets_are_text else None
        return self.tensors.translate(text, self.num_translations, prefixes)

    def _batches(
        self, texts: list[str], batch_tokens: int, workers: int = 1
    ) -> list[list[int]]:
        """Groups indices of texts of similar length, longest first."""
        largest = min(_MAX_BATCH_SIZE, math.ceil(len(texts) / workers))
        ids = self.tokenizer.tokenize(tf.constant(texts, tf.string))
        limit = self.tensors.ids.max_length
        lengths = np.minimum(ids.row_lengths().numpy() + 1, limit)
        batches: list[list[int]] = []
        room = 0
        for i in np.argsort(-lengths, kind="stable"):
            if room < 1:
                batches.append([])
                # Each sentence needs K rows of V log-probabilities.
                room = min(batch_tokens // int(lengths[i]), largest)
            batches[-1].append(int(i))
            room -= 1
        return batches
