"""The Transformer (section 3). The only place that makes masks and caches.

Letters: B = batch, S = source length, T = target length, V = vocabulary,
H = heads, K = hypotheses decoded side by side (the beam), P = positions
decoded so far.
"""

from typing import Any, NamedTuple

import keras
from keras import ops

from keras_transformer.config import TransformerConfig
from keras_transformer.layers import (
    Decoder,
    Encoder,
    LayerCache,
    LearnedPositionalEncoding,
    SinusoidalPositionalEncoding,
    TiedEmbedding,
)
from keras_transformer.masks import causal_mask, padding_mask


class Memory(NamedTuple):
    """An encoded source."""

    states: Any  # [B, S, d_model]
    mask: Any  # [B, 1, S] boolean, True where the source is not padding


class DecoderCache(NamedTuple):
    """What decoding keeps between steps: a value, never layer state.

    The keys of all K hypotheses lie in one list, so that no cache is ever
    reordered when hypotheses change places; `ancestry` says which of them
    are a hypothesis' own past.
    """

    layers: tuple[LayerCache, ...]  # their keys and values: [B, H, P*K, d]
    ancestry: Any  # [B, K, P*K] boolean, True = own past
    memory_mask: Any  # [B, 1, S]


class AttentionWeights(NamedTuple):
    """Attention of every layer, float32; each list has an entry a layer."""

    encoder: list[Any]  # [B, H, S, S]
    decoder: list[Any]  # [B, H, T, T]
    cross: list[Any]  # [B, H, T, S]


@keras.saving.register_keras_serializable(package="keras_transformer")
class Transformer(keras.Model):
    """Encoder and decoder with tied embeddings: ids in, logits out.

    Args:
        config: The architecture.
        **kwargs: Arguments of `keras.Model`, e.g. `dtype="mixed_bfloat16"`.

    Call arguments:
        inputs: `{"source": ids [B, S], "target": ids [B, T]}`. Sources end
            with `eos_id`; targets start with `bos_id` and lack their end.
            Both are padded with `pad_id`.

    Returns:
        Logits `[B, T, V]` of the token after each target position, in the
        compute dtype. They carry no mask: the loss ignores padded labels.

    Example:

    >>> import numpy as np, keras_transformer as kt
    >>> config = kt.TransformerConfig.from_preset("tiny", vocab_size=100)
    >>> model = kt.Transformer(config)
    >>> source, target = np.array([[7, 8, 3]]), np.array([[2, 9]])
    >>> tuple(model({"source": source, "target": target}).shape)
    (1, 2, 100)
    """

    def __init__(self, config: TransformerConfig, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config
        policy = self.dtype_policy
        self.embedding = TiedEmbedding(
            config.vocab_size, config.d_model, dtype=policy, name="embedding"
        )
        self.source_positions = self._positions("source_positions")
        self.target_positions = self._positions("target_positions")
        self.dropout = keras.layers.Dropout(
            config.dropout, dtype=policy, name="dropout"
        )
        stack = dict(
            num_layers=config.num_layers,
            num_heads=config.num_heads,
            d_ff=config.d_ff,
            d_k=config.d_k,
            d_v=config.d_v,
            dropout=config.dropout,
            dtype=policy,
        )
        self.encoder = Encoder(**stack, name="encoder")
        self.decoder = Decoder(**stack, name="decoder")
        # The configuration fixes every shape, so the weights exist at once.
        self.build()

    def _positions(self, name: str) -> keras.layers.Layer:
        if self.config.positional_encoding == "learned":
            return LearnedPositionalEncoding(
                self.config.max_length, dtype=self.dtype_policy, name=name
            )
        return SinusoidalPositionalEncoding(dtype=self.dtype_policy, name=name)

    def build(self, input_shape: Any = None) -> None:
        """Creates the weights; the shapes come from the configuration."""
        if self.built:
            return
        states = (None, None, self.config.d_model)
        self.embedding.build((None, None))
        self.source_positions.build(states)
        self.target_positions.build(states)
        self.encoder.build(states)
        self.decoder.build(states, states)
        self.built = True

    def call(self, inputs: dict[str, Any], training: bool | None = None) -> Any:
        return self.embedding(self.states(inputs, training), reverse=True)

    def states(
        self, inputs: dict[str, Any], training: bool | None = None
    ) -> Any:
        """Returns what `call` turns into logits: `[B, T, d_model]`."""
        memory = self.encode(inputs["source"], training=training)
        return self._decode(inputs["target"], memory, training)

    def encode(self, source: Any, training: bool | None = None) -> Memory:
        """Encodes source ids `[B, S]`."""
        mask = padding_mask(source, self.config.pad_id)
        x = self._embed(source, self.source_positions, training)
        return Memory(self.encoder(x, mask, training=training), mask)

    def decode(
        self, target: Any, memory: Memory, training: bool | None = None
    ) -> Any:
        """Returns logits `[B, T, V]` for target ids `[B, T]`."""
        states = self._decode(target, memory, training)
        return self.embedding(states, reverse=True)

    def _decode(
        self, target: Any, memory: Memory, training: bool | None
    ) -> Any:
        x = self._embed(target, self.target_positions, training)
        # Padding follows a target's last token: the causal mask hides it.
        mask = causal_mask(ops.shape(target)[1])
        return self.decoder(
            x, memory.states, mask, memory.mask, training=training
        )

    def start_cache(self, memory: Memory, beam_size: int = 1) -> DecoderCache:
        """Returns the cache before the first of the `decode_step`s.

        Args:
            memory: The encoded sources.
            beam_size: K, the hypotheses that are decoded side by side.
        """
        batch = ops.shape(memory.states)[0]
        return DecoderCache(
            self.decoder.start(memory.states),
            ops.zeros((batch, beam_size, 0), dtype="bool"),
            memory.mask,
        )

    def decode_step(
        self, ids: Any, parents: Any, cache: DecoderCache, index: Any
    ) -> tuple[Any, DecoderCache]:
        """Decodes one more token of each hypothesis.

        The K hypotheses are K queries at the same position, so that the
        encoded source is neither repeated nor projected again.

        Args:
            ids: `[B, K]`, the token at position `index` of each hypothesis.
            parents: `[B, K]`, which hypothesis of the step before each one
                continues. Of no meaning at the first step.
            cache: From `start_cache` or from the step before.
            index: P, the position of `ids`; 0 for the first.

        Returns:
            Logits `[B, K, V]` of the next token, and the new cache.
        """
        positions = ops.reshape(index, (1,))
        x = self._embed(ids, self.target_positions, positions=positions)
        ancestry = _grow_ancestry(cache.ancestry, parents)
        x, layers = self.decoder.step(
            x, cache.layers, ancestry, cache.memory_mask
        )
        logits = self.embedding(x, reverse=True)
        return logits, DecoderCache(layers, ancestry, cache.memory_mask)

    def attention_weights(self, source: Any, target: Any) -> AttentionWeights:
        """Returns the attention of every layer and head, as in Figures 3-5.

        Args:
            source: `[B, S]` ids.
            target: `[B, T]` ids, as in `call`.
        """
        memory = self.encode(source)
        x = self._embed(source, self.source_positions)
        encoder = self.encoder.weights_of(x, memory.mask)
        x = self._embed(target, self.target_positions)
        mask = causal_mask(ops.shape(target)[1])
        decoder, cross = self.decoder.weights_of(
            x, memory.states, mask, memory.mask
        )
        return AttentionWeights(encoder, decoder, cross)

    def _embed(
        self,
        ids: Any,
        positional_encoding: Any,
        training: bool | None = None,
        positions: Any = None,
    ) -> Any:
        """Embeddings plus positions, with dropout (section 5.4)."""
        if positions is None:
            positions = ops.arange(ops.shape(ids)[1])
        x = positional_encoding.add_positions(self.embedding(ids), positions)
        return self.dropout(x, training=training)

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "dtype": keras.saving.serialize_keras_object(self.dtype_policy),
            "config": self.config.to_dict(),
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: Any = None
    ) -> "Transformer":
        arguments = {**config, "config": TransformerConfig(**config["config"])}
        if isinstance(arguments.get("dtype"), dict):
            arguments["dtype"] = keras.saving.deserialize_keras_object(
                arguments["dtype"]
            )
        return cls(**arguments)


def _grow_ancestry(ancestry: Any, parents: Any) -> Any:
    """`[B, K, P*K]` -> `[B, K, (P+1)*K]`: the parent's past and oneself."""
    slots = ops.arange(parents.shape[1], dtype=parents.dtype)
    chosen = ops.equal(parents[:, :, None], slots)  # [B, K, parent]
    past = ops.any(
        ops.logical_and(chosen[..., None], ancestry[:, None]), axis=2
    )
    own = ops.equal(ops.zeros_like(parents)[:, :, None] + slots[:, None], slots)
    return ops.concatenate([past, own], axis=2)
