"""Translates tensors: text, ids, search, ids, text.

`Translator` calls it with batches; the signatures of an exported model consist
of its methods.

Letters: B = batch, K = hypotheses of a text, n = translations returned,
S = source length, T = target length, p = prefix length, V = vocabulary.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_transformer import decoding
from keras_transformer.config import TransformerConfig
from keras_transformer.decoding import search_arrays
from keras_transformer.decoding.search_arrays import SearchResult, SpecialIds
from keras_transformer.decoding.settings import BeamSearch, Search
from keras_transformer.inference.records import Translation
from keras_transformer.model import Transformer
from keras_transformer.support.errors import InputError
from keras_transformer.text import Vocabulary, vocabulary_ops

# Fields that models and vocabularies must share to work together.
_SHARED_FIELDS = "vocab_size, pad_id, bos_id, eos_id, source_vocab_size"


@dataclasses.dataclass(eq=False)
class TextPipeline:
    """Translates tensors of texts, or of ids, in a graph or eagerly.

    Several models (an ensemble) with the same special ids are decoded side by
    side, and their probabilities of the next token are averaged.
    """

    models: Sequence[Transformer]
    vocabulary: Vocabulary

    def __post_init__(self) -> None:
        if not self.models:
            raise InputError("A translator needs a model. Received: none")
        configs = [model.config for model in self.models]
        shared = {
            _shared_fields(x, x.source_vocab_size or x.vocab_size)
            for x in configs
        }
        if len(shared) > 1:
            raise InputError(
                "Models that translate together must have the same "
                f"{_SHARED_FIELDS}. Received: {sorted(shared)}"
            )
        (expected,) = shared
        vocabulary = self.vocabulary
        received = _shared_fields(vocabulary, vocabulary.source.vocab_size)
        if received != expected:
            raise InputError(
                "The tokenizer must be the one that the model was trained "
                f"with. Received: ({_SHARED_FIELDS}) = "
                f"{received} of the tokenizer, {expected} of the model"
            )
        config = self.config = configs[0]
        # The longest source and target that all models take.
        self.max_length = min(config.max_length for config in configs)
        self.special_ids = SpecialIds.of(
            config.bos_id, config.eos_id, config.pad_id, self.vocabulary.unk_id
        )

    # === Ids ===

    def max_lengths(
        self,
        source: tf.Tensor,
        settings: Search,
        prefix: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Returns maximum lengths `[B]` for the arguments of `search`."""
        limit, extra = self.max_length, settings.extra_length
        # Python's integers may exceed int32.
        extra = (tf.minimum if tf.is_tensor(extra) else min)(extra, limit)
        sources = self._count_tokens(source)
        prefixes = 0 if prefix is None else self._count_tokens(prefix)
        lengths = search_arrays.longest_outputs(
            tf,
            tf.cast(sources, tf.float32),
            tf.cast(prefixes, tf.float32),
            settings.length_factor,
            tf.cast(extra, tf.float32),
            limit,
        )
        return tf.cast(lengths, tf.int32)

    def search(
        self,
        source: tf.Tensor,
        count: int | tf.Tensor,
        settings: Search,
        prefix: tf.Tensor | None = None,
        max_lengths: tf.Tensor | None = None,
    ) -> SearchResult:
        """Searches for n translations of ids `[B, S]` with their end tokens.

        They begin with the prefix, padded ids `[B, p]`, by which their maximum
        length is longer. In a graph, n and fields of the settings may be
        scalar tensors.
        """
        if max_lengths is None:
            max_lengths = self.max_lengths(source, settings, prefix)
        beams = settings.num_hypotheses
        step, caches = self._step_and_cache(source, max_lengths, beams)
        tokens = {**self.special_ids._asdict(), "prefix": prefix}
        arguments = [step, caches, max_lengths]
        if isinstance(settings, BeamSearch):
            return decoding.beam_search(*arguments, settings, count, **tokens)
        keys = self._keys(source)
        result = decoding.sample(*arguments, keys, settings, **tokens)
        return SearchResult(*(x[:, :count] for x in result))

    def beam_search_steps(
        self, source: tf.Tensor, count: int, settings: BeamSearch
    ) -> tuple[decoding.BeamSearcher, decoding.BeamState]:
        """Returns a beam search and the state before its first step."""
        max_lengths = self.max_lengths(source, settings)
        beams, ids = settings.beam_size, self.special_ids._asdict()
        step, caches = self._step_and_cache(source, max_lengths, beams)
        searcher = decoding.BeamSearcher(step, settings, count, **ids)
        return searcher, searcher.start(caches, max_lengths, None)

    def token_log_probs(
        self, source: tf.Tensor, labels: tf.Tensor
    ) -> tf.Tensor:
        """Returns log P of each token of given translations, float32 `[B, T]`.

        Ids `[B, S]` and `[B, T]` have their end tokens. It is 0 for padding,
        and for the end token alone as the translation of an empty source: that
        is certain.
        """
        inputs = {"source": source, "target": self.decoder_input(labels)}
        logits = mean_log_probs([model(inputs) for model in self.models])
        log_probs = decoding.token_log_probs(labels, logits, self.config.pad_id)
        has_tokens = self._count_tokens(labels) > 1
        for end in (self.config.pad_id, self.vocabulary.source_eos_id):
            source = tf.where(source == end, -1, source)
        has_tokens |= tf.reduce_any(source >= 0, axis=1)
        return tf.where(has_tokens[:, None], log_probs, 0.0)

    def decoder_input(self, labels: tf.Tensor) -> tf.Tensor:
        """Returns what a decoder reads to predict labels `[B, T]`."""
        bos = tf.fill([tf.shape(labels)[0], 1], self.config.bos_id)
        return tf.concat([bos, labels], axis=1)[:, :-1]

    def _count_tokens(self, ids: tf.Tensor) -> tf.Tensor:
        is_token = tf.cast(ids != self.config.pad_id, tf.int32)
        return tf.reduce_sum(is_token, axis=1)

    def _step_and_cache(
        self, source: tf.Tensor, max_lengths: tf.Tensor, count: int | tf.Tensor
    ) -> tuple[decoding.StepFunction, Any]:
        """Returns the step function of a search, and its cache."""
        # Of an empty batch the maximum is negative.
        longest = tf.maximum(tf.reduce_max(max_lengths), 0)
        models = self.models
        decoders = [decoding.StepDecoder(x, longest, count) for x in models]
        caches = tuple(
            decoder.init_cache(model.encode(source))
            for decoder, model in zip(decoders, models, strict=True)
        )

        def step(
            ids: tf.Tensor, parents: tf.Tensor, caches: Any, index: tf.Tensor
        ) -> tuple[tf.Tensor, Any]:
            results = (
                decoder.decode_step(ids, parents, cache, index)
                for decoder, cache in zip(decoders, caches, strict=True)
            )
            logits, caches = zip(*results, strict=True)
            return mean_log_probs(logits), caches

        return step, caches

    def _keys(self, source: tf.Tensor) -> tf.Tensor:
        """Returns hash values of sources `[B, S]`, whatever their padding."""
        words = tf.strings.as_string(source) + " "
        words = tf.where(source != self.config.pad_id, words, "")
        joined = tf.strings.reduce_join(words, axis=1)
        return tf.strings.to_hash_bucket_fast(joined, 2**62)

    # === Texts ===

    def source_ids(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of sources `[B, (S)]`, without the end token."""
        # A source of spaces alone is empty, whatever the vocabulary.
        text = vocabulary_ops.without_blank(text)
        return self.vocabulary.tokenize_sources(text)

    def target_ids(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids of targets `[B, (T)]`, without the end token."""
        return self.vocabulary.tokenize_targets(text)

    def with_end(
        self, ids: tf.RaggedTensor, eos_id: int | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns padded ids `[B, S]` with end tokens, by default of sources.

        Also their lengths `[B]`, and bool `[B]`, True where a text was cut.
        """
        if eos_id is None:
            eos_id = self.vocabulary.source_eos_id
        limit = search_arrays.longest_source(self.max_length)
        cut = ids.row_lengths() > limit
        ids = ids[:, :limit]
        end = tf.fill([ids.nrows(), 1], eos_id)
        ids = tf.concat([ids, end], axis=1)
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        return ids.to_tensor(self.config.pad_id), lengths, cut

    def labels_with_end(
        self, ids: tf.RaggedTensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Does for targets what `with_end` does for sources."""
        return self.with_end(ids, self.config.eos_id)

    def translate(
        self,
        source: tf.RaggedTensor,
        count: int | tf.Tensor,
        settings: Search,
        prefix: tf.RaggedTensor | None = None,
    ) -> tuple[Translation, SearchResult]:
        """Translates a batch of ids `[B, (S)]`; returns `count` of each.

        Source and prefix are from `source_ids` and `target_ids`. The
        hypotheses of a source without tokens have no tokens and score 0.
        """
        source, lengths, cut = self.with_end(source)
        if prefix is not None:
            limit = search_arrays.longest_prefix(self.max_length)
            cut |= prefix.row_lengths() > limit
            prefix = prefix[:, :limit].to_tensor(self.config.pad_id)
        limits = self.max_lengths(source, settings, prefix)
        result = self.search(source, count, settings, prefix, limits)
        is_empty = lengths == 1  # nothing but the end token
        at_limit = (result.lengths[:, 0] >= limits) & ~is_empty
        is_empty = is_empty[:, None]
        result = SearchResult(
            tf.where(is_empty[..., None], self.config.pad_id, result.ids),
            tf.where(is_empty, 0.0, result.scores),
            tf.where(is_empty, 0, result.lengths),
        )
        texts = self.vocabulary.target.detokenize(result.ids)
        return Translation(texts, result.scores, cut, at_limit), result


def _shared_fields(
    ids: TransformerConfig | Vocabulary, source_size: int
) -> tuple[int, ...]:
    return (ids.vocab_size, ids.pad_id, ids.bos_id, ids.eos_id, source_size)


def mean_log_probs(logits: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns the log of the mean of the models' probabilities."""
    log_probs = [tf.nn.log_softmax(tf.cast(z, tf.float32)) for z in logits]
    if len(log_probs) == 1:
        return log_probs[0]
    total = tf.reduce_logsumexp(tf.stack(log_probs), axis=0)
    return total - math.log(len(log_probs))
