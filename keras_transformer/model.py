"""The Transformer (section 3), which makes the masks of all its layers.

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
    FeedForward,
    LayerCache,
    LearnedPositionalEncoding,
    MultiHeadAttention,
    Residual,
    SinusoidalPositionalEncoding,
    TiedEmbedding,
)
from keras_transformer.masks import causal_mask, padding_mask

# On JAX and PyTorch training is plain Keras.
if keras.backend.backend() == "tensorflow":
    from keras_transformer.fit.distributed_fit import DistributedFit
else:
    DistributedFit = keras.Model


class Memory(NamedTuple):
    """An encoded source."""

    states: Any  # [B, S, d_model]
    mask: Any  # [B, 1, S] boolean, True where the source is not padding


class DecoderCache(NamedTuple):
    """What decoding keeps between steps: a value, never layer state.

    The keys of all K hypotheses lie side by side, so that the cache is never
    reordered when hypotheses change places; `ancestry` says which of them
    are a hypothesis' own past. With an `attention_window`, P is at most that.
    """

    layers: tuple[LayerCache, ...]  # their keys and values: [B, H, P*K, d]
    ancestry: Any  # [B, K, P*K] boolean, True = own past
    memory_mask: Any  # [B, 1, S]


class AttentionScores(NamedTuple):
    """Attention scores in float32, in lists with one entry per layer."""

    encoder: list[Any]  # [B, H, S, S]
    decoder: list[Any]  # [B, H, T, T]
    cross: list[Any]  # [B, H, T, S]


@keras.saving.register_keras_serializable(package="keras_transformer")
class Transformer(DistributedFit):
    """Encoder and decoder with tied embeddings: ids in, logits out.

    Args:
        config: The architecture.
        attention_class: The attention of every layer: `MultiHeadAttention` or
            a subclass. By default the paper's, as for the next two.
        feed_forward_class: The feed-forward network of every layer:
            `FeedForward` or a layer with its arguments.
        residual_class: What wraps every sub-layer: `Residual` or a subclass,
            e.g. for pre-norm.
        **kwargs: Arguments of `keras.Model`, e.g. `dtype="mixed_bfloat16"`.

    Call arguments:
        inputs: `{"source": ids [B, S], "target": ids [B, T]}`. Sources end
            with `eos_id`; targets start with `bos_id` and do not include
            `eos_id`. Both are padded with `pad_id`.

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

    def __init__(
        self,
        config: TransformerConfig,
        attention_class: type | str = MultiHeadAttention,
        feed_forward_class: type | str = FeedForward,
        residual_class: type | str = Residual,
        **kwargs: Any,
    ) -> None:
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
            attention_window=config.attention_window,
            attention_class=attention_class,
            feed_forward_class=feed_forward_class,
            residual_class=residual_class,
            dtype=policy,
        )
        self.encoder = Encoder(**stack, name="encoder")
        self.decoder = Decoder(**stack, name="decoder")
        # The configuration fixes every shape, so the weights are created now.
        self.build()

    def _positions(self, name: str) -> keras.layers.Layer:
        if self.config.positional_encoding == "learned":
            return LearnedPositionalEncoding(
                self.config.max_length, dtype=self.dtype_policy, name=name
            )
        return SinusoidalPositionalEncoding(dtype=self.dtype_policy, name=name)

    def build(self, input_shape: Any = None) -> None:
        """Creates the weights, with shapes from the configuration."""
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
        """Returns the decoder's output, which `call` projects to logits.

        Args:
            inputs: As in `call`.
            training: Whether dropout is applied.

        Returns:
            `[B, T, d_model]`.
        """
        memory = self.encode(inputs["source"], training=training)
        return self._decode(inputs["target"], memory, training)

    def output_projection(self) -> tuple[Any, Any] | None:
        """Returns what projects `states` to logits: the matrix and the bias.

        Returns:
            `(matrix [V, d_model], bias [V] or None)`; None if the logits are
            something else.
        """
        plain = (
            type(self.embedding) is TiedEmbedding
            and type(self).call is Transformer.call
        )
        return (self.embedding.embeddings, None) if plain else None

    def encode(self, source: Any, training: bool | None = None) -> Memory:
        """Encodes the source.

        Args:
            source: `[B, S]` ids, as in `call`.
            training: Whether dropout is applied.
        """
        mask = padding_mask(source, self.config.pad_id)
        x = self._embed(source, self.source_positions, training)
        return Memory(self.encoder(x, mask, training=training), mask)

    def decode(
        self, target: Any, memory: Memory, training: bool | None = None
    ) -> Any:
        """Returns the logits `[B, T, V]` of the token after each position.

        Args:
            target: `[B, T]` ids, as in `call`.
            memory: From `encode`.
            training: Whether dropout is applied.
        """
        states = self._decode(target, memory, training)
        return self.embedding(states, reverse=True)

    def _decode(
        self, target: Any, memory: Memory, training: bool | None
    ) -> Any:
        x = self._embed(target, self.target_positions, training)
        return self.decoder(
            x,
            memory.states,
            self._target_mask(target),
            memory.mask,
            training=training,
        )

    def _target_mask(self, target: Any) -> Any:
        """Returns what hides the future from a target, if windows do not."""
        # Padding comes after a target's last token: the causal mask hides it.
        if self.config.attention_window is None:
            return causal_mask(ops.shape(target)[1])
        return None

    def init_cache(self, memory: Memory, beam_size: int = 1) -> DecoderCache:
        """Returns the cache before the first decoding step.

        Args:
            memory: The encoded sources.
            beam_size: K, the hypotheses that are decoded side by side.
        """
        batch = ops.shape(memory.states)[0]
        return DecoderCache(
            self.decoder.init_cache(memory.states),
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
            parents: `[B, K]`, which hypothesis of the previous step each one
                continues. Ignored at the first step.
            cache: From `init_cache` or the previous step.
            index: P, the position of `ids`; 0 for the first.

        Returns:
            Logits `[B, K, V]` of the next token, and the new cache.
        """
        positions = ops.reshape(index, (1,))
        x = self._embed(ids, self.target_positions, positions=positions)
        ancestry = _grow_ancestry(cache.ancestry, parents)
        if self.config.attention_window is not None:
            kept = self.config.attention_window * ops.shape(ids)[1]
            ancestry = ancestry[:, :, -kept:]
        x, layers = self.decoder.decode_step(
            x, cache.layers, ancestry, cache.memory_mask
        )
        logits = self.embedding(x, reverse=True)
        return logits, DecoderCache(layers, ancestry, cache.memory_mask)

    def attention_scores(self, source: Any, target: Any) -> AttentionScores:
        """Returns the attention scores of every layer, as in Figures 3-5.

        Args:
            source: `[B, S]` ids.
            target: `[B, T]` ids, as in `call`.
        """
        mask = padding_mask(source, self.config.pad_id)
        x = self._embed(source, self.source_positions)
        states, encoder = self.encoder.call_with_scores(x, mask)
        x = self._embed(target, self.target_positions)
        _, decoder, cross = self.decoder.call_with_scores(
            x, states, self._target_mask(target), mask
        )
        return AttentionScores(encoder, decoder, cross)

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
            **self.encoder.sublayer_names(),
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
        with keras.saving.custom_object_scope(custom_objects or {}):
            return cls(**arguments)


def _grow_ancestry(ancestry: Any, parents: Any) -> Any:
    """`[B, K, P*K]` -> `[B, K, (P+1)*K]`: adds this step to the parents'."""
    slots = ops.arange(ops.shape(parents)[1], dtype=parents.dtype)
    chosen = ops.equal(parents[:, :, None], slots)  # [B, K, parent]
    past = ops.any(
        ops.logical_and(chosen[..., None], ancestry[:, None]), axis=2
    )
    own = ops.equal(ops.zeros_like(parents)[:, :, None] + slots[:, None], slots)
    return ops.concatenate([past, own], axis=2)
