"""Translates ids, with one model or several: ids -> search -> hypotheses.

Letters: B = batch, K = beam size, S = source length, T = target length,
p = prefix length, V = vocabulary.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_transformer.config import TransformerConfig
from keras_transformer.decoding import (
    BeamSearcher,
    BeamState,
    SearchResult,
    Step,
    beam_search,
    sample,
    token_log_probs,
)
from keras_transformer.decoding.fast_decoder import FastDecoder
from keras_transformer.decoding.search import BeamSearch, Search
from keras_transformer.model import Memory, Transformer
from keras_transformer.support.errors import InputError

# What models and tokenizers that work together have in common.
VOCABULARY_FIELDS = ("vocab_size", "pad_id", "bos_id", "eos_id")


class IdTranslator:
    """Translates ids with a model, or with the mean of several models.

    Several models (an ensemble) are decoded side by side, and their
    probabilities of the next token are averaged.

    Args:
        models: The Transformers. They share vocabulary and special ids.
        search: The search.
        unk_id: Id of unknown text, which no translation contains.

    Raises:
        InputError: If there is no model, or their vocabularies differ.
    """

    def __init__(
        self, models: Sequence[Transformer], search: Search, unk_id: int
    ) -> None:
        if not models:
            raise InputError("A translator needs a model. Received: none")
        found = {
            tuple(getattr(model.config, name) for name in VOCABULARY_FIELDS)
            for model in models
        }
        if len(found) > 1:
            raise InputError(
                "Models that translate together must have the same "
                f"{', '.join(VOCABULARY_FIELDS)}. Received: {sorted(found)}"
            )
        self.models = tuple(models)
        self.default_search = search
        self.unk_id = unk_id

    @property
    def config(self) -> TransformerConfig:
        """The configuration of the first model."""
        return self.models[0].config

    @property
    def max_length(self) -> int:
        """Longest source and longest target that all models take."""
        return min(model.config.max_length for model in self.models)

    def max_lengths(
        self,
        source: tf.Tensor,
        prefix: tf.Tensor | None,
        settings: Search | None = None,
        **options: Any,
    ) -> tf.Tensor:
        """Returns the maximum length of each translation, `[B]`.

        Args:
            source: As in `search`.
            prefix: As in `search`.
            settings: As in `search`.
            **options: As in `search`.
        """
        options = self._options(settings, options)
        limit, extra = self.max_length, options["extra_length"]
        # Neither a term nor the sum may exceed int32.
        if tf.is_tensor(extra):
            extra = tf.minimum(extra, limit)
        else:
            extra = min(extra, limit)
        tokens = tf.cast(self._count_tokens(source), tf.float32)
        lengths = tf.minimum(options["length_factor"] * tokens, float(limit))
        lengths = tf.cast(lengths, tf.int32) + extra
        if prefix is not None:
            lengths += self._count_tokens(prefix)
        # There is room for the end token.
        return tf.clip_by_value(lengths, 1, limit)

    def _count_tokens(self, ids: tf.Tensor) -> tf.Tensor:
        is_token = tf.cast(ids != self.config.pad_id, tf.int32)
        return tf.reduce_sum(is_token, axis=1)

    def _options(
        self, settings: Search | None, options: dict[str, Any]
    ) -> dict[str, Any]:
        """Returns the fields of the settings, some of them replaced."""
        settings = settings or self.default_search
        return {**dataclasses.asdict(settings), **options}

    def search(
        self,
        source: tf.Tensor,
        prefix: tf.Tensor | None = None,
        settings: Search | None = None,
        **options: Any,
    ) -> SearchResult:
        """Searches for translations.

        Args:
            source: Ids `[B, S]` with their end tokens, padded.
            prefix: Ids `[B, p]`, padded, with which the translations begin.
                The maximum length of each is longer by its prefix.
            settings: The search. Default: that of the translator.
            **options: Fields of the settings, numbers or scalar tensors, in
                place of theirs.
        """
        settings = settings or self.default_search
        options = self._options(settings, options)
        is_beam_search = isinstance(settings, BeamSearch)
        count = options["beam_size" if is_beam_search else "num_samples"]
        count = 1 if count is None else count
        max_lengths = self.max_lengths(source, prefix, settings, **options)
        step, caches = self._first_step(source, max_lengths, count)
        tokens = {**self._special_ids, "prefix": prefix}
        if is_beam_search:
            return beam_search(
                step, caches, max_lengths, count, options["alpha"], **tokens
            )
        settings = dataclasses.replace(settings, **options)
        keys = self._keys(source)
        return sample(step, caches, max_lengths, keys, settings, **tokens)

    def beam_search_steps(
        self, source: tf.Tensor, settings: BeamSearch
    ) -> tuple[BeamSearcher, BeamState]:
        """Returns a search and the state before its first step.

        `search` takes all steps at once.

        Args:
            source: As in `search`.
            settings: The search.
        """
        max_lengths = self.max_lengths(source, None, settings)
        step, caches = self._first_step(source, max_lengths, settings.beam_size)
        searcher = BeamSearcher(
            step, settings.beam_size, settings.alpha, **self._special_ids
        )
        return searcher, searcher.start(caches, max_lengths, None)

    @property
    def _special_ids(self) -> dict[str, Any]:
        config = self.config
        return dict(
            bos_id=config.bos_id,
            eos_id=config.eos_id,
            pad_id=config.pad_id,
            banned_ids=(self.unk_id,),
        )

    def _first_step(
        self,
        source: tf.Tensor,
        max_lengths: tf.Tensor,
        count: int | tf.Tensor,
    ) -> tuple[Step, Any]:
        """Returns the step function of a search, and its cache.

        Args:
            source: As in `search`.
            max_lengths: Of the hypotheses, `[B]`.
            count: Hypotheses of a sentence.
        """
        # Of an empty batch the maximum is negative.
        longest = tf.maximum(tf.reduce_max(max_lengths), 0)
        decoders, caches = zip(
            *(
                _start(model, model.encode(source), longest, count)
                for model in self.models
            ),
            strict=True,
        )

        def step(
            ids: tf.Tensor, parents: tf.Tensor, caches: Any, index: tf.Tensor
        ) -> tuple[tf.Tensor, Any]:
            logits, caches = zip(
                *(
                    decoder.decode_step(ids, parents, cache, index)
                    for decoder, cache in zip(decoders, caches, strict=True)
                ),
                strict=True,
            )
            return _mean_log_probs(logits), caches

        return step, caches

    def _keys(self, source: tf.Tensor) -> tf.Tensor:
        """Returns hash values of sources `[B, S]`, whatever their padding."""
        words = tf.strings.as_string(source) + " "
        words = tf.where(source != self.config.pad_id, words, "")
        joined = tf.strings.reduce_join(words, axis=1)
        return tf.strings.to_hash_bucket_fast(joined, 2**62)

    def token_log_probs(
        self, source: tf.Tensor, labels: tf.Tensor
    ) -> tf.Tensor:
        """Returns the log-probability of each token of given translations.

        Args:
            source: Ids `[B, S]` with their end tokens, padded.
            labels: Ids `[B, T]` with their end tokens, padded, which the
                decoders are fed with.

        Returns:
            Natural logarithms, float32 `[B, T]`; 0 for padding, and for the
            end token alone as the translation of an empty source: that is
            certain.
        """
        pad_id = self.config.pad_id
        inputs = {"source": source, "target": self.decoder_input(labels)}
        logits = _mean_log_probs([model(inputs) for model in self.models])
        log_probs = token_log_probs(labels, logits, pad_id)
        has_tokens = self._count_tokens(source) > 1
        has_tokens |= self._count_tokens(labels) > 1
        return tf.where(has_tokens[:, None], log_probs, 0.0)

    def decoder_input(self, labels: tf.Tensor) -> tf.Tensor:
        """Returns what a decoder reads to predict labels `[B, T]`."""
        bos = tf.fill([tf.shape(labels)[0], 1], self.config.bos_id)
        return tf.concat([bos, labels], axis=1)[:, :-1]


def _start(
    model: Transformer,
    memory: Memory,
    longest: tf.Tensor,
    beam_size: int | tf.Tensor,
) -> tuple[Any, Any]:
    """Returns a decoder and its cache."""
    if FastDecoder.supports(model):
        decoder = FastDecoder(model, memory, longest, beam_size)
        return decoder, decoder.init_cache()
    return model, model.init_cache(memory, beam_size)


def _mean_log_probs(logits: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns the log of the mean of the models' probabilities."""
    log_probs = [tf.nn.log_softmax(tf.cast(z, tf.float32)) for z in logits]
    if len(log_probs) == 1:
        return log_probs[0]
    total = tf.reduce_logsumexp(tf.stack(log_probs), axis=0)
    return total - math.log(len(log_probs))
