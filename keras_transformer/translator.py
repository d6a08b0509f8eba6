"""Translates text: text -> ids -> search -> text.

Letters: B = batch, K = beam size, n = translations returned, S = source
length, T = target length, H = attention heads, V = vocabulary.
"""

import math
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, overload

import numpy as np
import tensorflow as tf

from keras_transformer.decoding import BeamSearch, SearchResult, sequence_scores
from keras_transformer.errors import InputError
from keras_transformer.fast_decoder import FastDecoder
from keras_transformer.fields import POSITIVE_INTEGER
from keras_transformer.model import Transformer
from keras_transformer.run import Run
from keras_transformer.text import Tokenizer, read_texts

_MAX_BATCH_SIZE = 128


class Translation(NamedTuple):
    """The translations of one source text."""

    texts: list[str]  # best first
    scores: list[float]  # log P / length penalty of each text
    truncated: bool  # the source was cut, or the best text met its limit


class TranslationAttention(NamedTuple):
    """The attention of a model while it translates one text.

    Each list has one float32 array per layer, the first layer first. Row t of
    a decoder's array belongs to the prediction of the token that follows
    `target_tokens[t]`.
    """

    source_tokens: list[str]  # S pieces, the end token last
    target_tokens: list[str]  # T pieces that the decoder reads, "<s>" first
    encoder: list[np.ndarray]  # [H, S, S]
    decoder: list[np.ndarray]  # [H, T, T]
    cross: list[np.ndarray]  # [H, T, S]


class Translator:
    """Translates text with a model, its tokenizer and a search.

    A source that is longer than the model's `max_length` is cut, and a
    translation ends at the limit of the search; `truncated` reports both. A
    source without tokens (empty or blank) has the translation "" with score
    0. If the vocabulary is so small that the search finds fewer than n
    hypotheses, the remaining texts are empty and their scores -inf.

    Args:
        model: The Transformer.
        tokenizer: The tokenizer that the model was trained with.
        search: The search. Default: `BeamSearch()`, the paper's.
        num_translations: n, at most the beam size.

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
        model: Transformer,
        tokenizer: Tokenizer,
        search: BeamSearch | None = None,
        num_translations: int = 1,
    ) -> None:
        search = search or BeamSearch()
        if (
            not POSITIVE_INTEGER.accepts(num_translations)
            or num_translations > search.beam_size
        ):
            raise InputError(
                "num_translations must be an integer from 1 to the beam size. "
                f"Received: num_translations={num_translations}, "
                f"beam_size={search.beam_size}"
            )
        names = ("vocab_size", "pad_id", "bos_id", "eos_id")
        of_model = [getattr(model.config, name) for name in names]
        of_tokenizer = [getattr(tokenizer, name) for name in names]
        if of_model != of_tokenizer:
            raise InputError(
                "The tokenizer must be the one that the model was trained "
                f"with. Received: ({', '.join(names)}) = {of_tokenizer} of "
                f"the tokenizer, {of_model} of the model"
            )
        self.model = model
        self.tokenizer = tokenizer
        self.search = search
        self.num_translations = num_translations
        self._translate = self.make_function()

    @classmethod
    def open(
        cls,
        run: str | os.PathLike,
        checkpoint: str | int | None = None,
        search: BeamSearch | None = None,
        num_translations: int = 1,
    ) -> "Translator":
        """Returns the translator of a run folder that training wrote.

        Args:
            run: The folder.
            checkpoint: A step, `"best"` (by validation BLEU) or `"last"`,
                the default.
            search: As in `Translator`.
            num_translations: As in `Translator`.

        Raises:
            InputError: If the folder is not a run or lacks the checkpoint.
        """
        opened = Run.open(run)
        model = opened.load_model(opened.find_checkpoint(checkpoint))
        return cls(model, opened.tokenizer, search, num_translations)

    def make_function(self) -> tf.types.experimental.PolymorphicFunction:
        """Returns the graph function that a SavedModel serves.

        It takes `text`, a string tensor `[B]`, and returns `translations`
        `[B, n]`, `scores` float32 `[B, n]`, best first, and `truncated`
        bool `[B]`.
        """
        text = tf.TensorSpec([None], tf.string, name="text")
        return tf.function(self._translate_batch, input_signature=[text])

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
        self, texts: str | bytes, batch_tokens: int = 2048, workers: int = 1
    ) -> Translation: ...

    @overload
    def translate(
        self,
        texts: Iterable[str | bytes],
        batch_tokens: int = 2048,
        workers: int = 1,
    ) -> list[Translation]: ...

    def translate(
        self, texts: Any, batch_tokens: int = 2048, workers: int = 1
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

        Returns:
            A `Translation` for a single text, else a list with one
            `Translation` per text, in the order of the texts.

        Raises:
            InputError: If a text is not a string, or not valid Unicode, or
                `workers` is not a positive integer.
        """
        if not POSITIVE_INTEGER.accepts(workers):
            raise InputError(
                f"workers must be {POSITIVE_INTEGER.expected}. Received: "
                f"workers={workers!r}"
            )
        texts, is_single = read_texts(texts)
        translations: list = [None] * len(texts)
        batches = self._batches(texts, batch_tokens, workers)

        def translate_batch(batch: list[int]) -> dict[str, tf.Tensor]:
            return self._translate(tf.constant([texts[i] for i in batch]))

        if workers == 1:
            results = list(map(translate_batch, batches))
        else:
            with ThreadPoolExecutor(workers) as pool:
                results = list(pool.map(translate_batch, batches))
        for batch, outputs in zip(batches, results, strict=True):
            rows = zip(
                batch,
                outputs["translations"].numpy(),
                outputs["scores"].numpy(),
                outputs["truncated"].numpy(),
                strict=True,
            )
            for i, candidates, scores, truncated in rows:
                # A model may spell bytes that are not UTF-8.
                decoded = [t.decode("utf-8", "replace") for t in candidates]
                translations[i] = Translation(
                    decoded, scores.tolist(), bool(truncated)
                )
        return translations[0] if is_single else translations

    def score(
        self, sources: Any, targets: Any, batch_tokens: int = 2048
    ) -> float | list[float]:
        """Returns the scores that the search would give to given targets.

        The tokenizer decides how a target is split into tokens. The search
        may have produced the same text from other tokens: `score_ids` gives
        the score of ids.

        Args:
            sources: As in `translate`. An empty source has the score 0.
            targets: The translation of each source.
            batch_tokens: As in `translate`, of the targets.

        Returns:
            A float for a single pair, else a list of floats.

        Raises:
            InputError: If the numbers of sources and targets differ, a text
                is not valid, or one is longer than the model's `max_length`.
        """
        sources, is_single = read_texts(sources, "sources")
        targets, is_single_target = read_texts(targets, "targets")
        if len(sources) != len(targets) or is_single != is_single_target:
            raise InputError(
                "Each source must have one target: pass two texts, or two "
                f"lists of the same length. Received: {len(sources)} sources, "
                f"{len(targets)} targets"
            )
        scores = np.zeros(len(sources))
        for batch in self._batches(targets, batch_tokens):
            source, lengths, source_cut = self.source_ids(
                tf.constant([sources[i] for i in batch])
            )
            labels, _, label_cut = self.source_ids(
                tf.constant([targets[i] for i in batch])
            )
            cut = (source_cut | label_cut).numpy()
            if cut.any():
                raise InputError(
                    "A text to score must have at most "
                    f"{self.model.config.max_length - 1} tokens. Received: "
                    f"a longer source or target at index {batch[cut.argmax()]}"
                )
            found = self.score_ids(source, labels)
            scores[batch] = tf.where(lengths == 1, 0.0, found)
        return float(scores[0]) if is_single else scores.tolist()

    def attention(self, text: Any) -> TranslationAttention:
        """Returns the attention of every layer while a text is translated.

        Args:
            text: One text, as in `translate`.

        Returns:
            A `TranslationAttention`, of the best translation.

        Raises:
            InputError: If there is not exactly one text, or it has no tokens
                or more than the model reads.
        """
        texts, is_single = read_texts(text, "text")
        if not is_single:
            raise InputError(
                "Attention is computed for one text at a time. Received: "
                f"{len(texts)} texts"
            )
        source, lengths, cut = self.source_ids(tf.constant(texts))
        if cut[0] or lengths[0] == 1:
            received = "a longer text" if cut[0] else "a text without tokens"
            raise InputError(
                "Attention is computed for a text of 1 to "
                f"{self.model.config.max_length - 1} tokens. Received: "
                f"{received}"
            )
        result = self.search_ids(source)
        best = result.ids[:, 0, : result.lengths[0, 0]]
        target = self._decoder_input(best)
        scores = self.model.attention_scores(source, target)
        return TranslationAttention(
            self.tokenizer.pieces(source[0]),
            self.tokenizer.pieces(target[0]),
            *([layer[0].numpy() for layer in kind] for kind in scores),
        )

    def score_ids(self, source: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Returns the scores of labels, float32 `[B]`.

        Args:
            source: Ids `[B, S]` with their end tokens, padded.
            labels: Ids `[B, T]` with their end tokens, padded.
        """
        config = self.model.config
        target = self._decoder_input(labels)
        logits = self.model({"source": source, "target": target})
        return sequence_scores(labels, logits, self.search.alpha, config.pad_id)

    def source_ids(
        self, text: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the ids that the model reads of texts.

        Args:
            text: String tensor `[B]`.

        Returns:
            Ids `[B, S]` with their end tokens, padded; their lengths `[B]`,
            the end token included; and bool `[B]`, True where a text was
            cut at the model's `max_length`.
        """
        config = self.model.config
        ids = self.tokenizer.tokenize(text)
        cut = ids.row_lengths() > config.max_length - 1
        ids = ids[:, : config.max_length - 1]
        end = tf.fill([ids.nrows(), 1], config.eos_id)
        ids = tf.concat([ids, end], axis=1)
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        return ids.to_tensor(config.pad_id), lengths, cut

    def search_ids(self, source: tf.Tensor) -> SearchResult:
        """Searches for translations of source ids.

        Args:
            source: Ids `[B, S]` with their end tokens, padded.
        """
        config = self.model.config
        memory = self.model.encode(source)
        is_token = tf.cast(source != config.pad_id, tf.int32)
        max_lengths = self._max_lengths(tf.reduce_sum(is_token, axis=1))
        beam_size = self.search.beam_size
        if FastDecoder.supports(self.model):
            longest = tf.reduce_max(max_lengths)
            decoder = FastDecoder(self.model, memory, longest, beam_size)
            cache = decoder.init_cache()
        else:
            decoder = self.model
            cache = self.model.init_cache(memory, beam_size)

        def step(ids, parents, cache, index):
            logits, cache = decoder.decode_step(ids, parents, cache, index)
            logits = tf.cast(logits, tf.float32)  # [B, K, V]
            return tf.nn.log_softmax(logits), cache

        return self.search(
            step,
            cache,
            max_lengths,
            bos_id=config.bos_id,
            eos_id=config.eos_id,
            pad_id=config.pad_id,
            banned_ids=(self.tokenizer.unk_id,),
        )

    def _max_lengths(self, source_lengths: tf.Tensor) -> tf.Tensor:
        limit = self.model.config.max_length
        extra_length = min(self.search.extra_length, limit)
        return tf.minimum(source_lengths + extra_length, limit)

    def _decoder_input(self, labels: tf.Tensor) -> tf.Tensor:
        """Returns what the decoder reads to predict labels `[B, T]`."""
        bos = tf.fill([tf.shape(labels)[0], 1], self.model.config.bos_id)
        return tf.concat([bos, labels[:, :-1]], axis=1)

    def _translate_batch(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        # A server does not check the rank, and the tokenizer flattens.
        text = tf.ensure_shape(text, [None])
        source, lengths, cut = self.source_ids(text)
        result = self.search_ids(source)
        n = self.num_translations
        empty = lengths == 1  # nothing but the end token
        at_limit = result.lengths[:, 0] >= self._max_lengths(lengths)
        translations = self.tokenizer.detokenize(result.ids[:, :n])
        return {
            "translations": tf.where(empty[:, None], "", translations),
            "scores": tf.where(empty[:, None], 0.0, result.scores[:, :n]),
            "truncated": cut | (at_limit & ~empty),
        }

    def _batches(
        self, texts: list[str], batch_tokens: int, workers: int = 1
    ) -> list[list[int]]:
        """Groups indices of texts of similar length, longest first."""
        largest = min(_MAX_BATCH_SIZE, math.ceil(len(texts) / workers))
        ids = self.tokenizer.tokenize(tf.constant(texts, tf.string))
        limit = self.model.config.max_length
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
