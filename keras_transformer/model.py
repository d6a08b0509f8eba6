"""The Transformer (section 3), which makes the masks of all its layers.

Letters: B = batch, S = source length, T = target length, V = vocabulary,
H = heads.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_transformer import layers
from keras_transformer.config import StackConfig, TransformerConfig
from keras_transformer.fit.keras_overrides import unlock
from keras_transformer.masks import causal_mask, padding_mask
from keras_transformer.presets import PRESETS
from keras_transformer.quantized import policy_to_save
from keras_transformer.support.errors import InputError

if keras.backend.backend() == "tensorflow":
    from keras_transformer.fit.distributed_fit import DistributedFit as _Model
else:
    from keras_transformer.fit.token_loss import PortableFit as _Model


_INPUTS = {"source", "target"}


class Memory(NamedTuple):
    """An encoded source."""

    states: Any  # [B, S, d_model]
    mask: Any  # [B, 1, S] boolean, True where the source is not padding


class AttentionScores(NamedTuple):
    """Attention scores in float32, in lists with one entry per layer."""

    encoder: list[Any]  # [B, H, S, S]
    decoder: list[Any]  # [B, H, T, T]
    cross: list[Any]  # [B, H, T, S]


@keras.saving.register_keras_serializable(package="keras_transformer")
class Transformer(_Model):
    """Encoder and decoder: ids in, logits out.

    `keras_transformer.decoding.StepDecoder` decodes one token at a time.

    Args:
        config: The architecture.
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
    >>> model = kt.Transformer.from_preset("tiny", vocab_size=100)
    >>> source, target = np.array([[7, 8, 3]]), np.array([[2, 9]])
    >>> tuple(model({"source": source, "target": target}).shape)
    (1, 2, 100)
    """

    def __init__(self, config: TransformerConfig, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.config = config
        policy = self.dtype_policy
        self._make_embeddings()
        self.source_positions = self._positions("source_positions")
        self.target_positions = self._positions("target_positions")
        self.dropout = keras.layers.Dropout(
            config.dropout, dtype=policy, name="dropout"
        )

        def stack(
            stack_class: type[layers.Encoder | layers.Decoder],
            sizes: StackConfig,
            name: str,
        ) -> keras.layers.Layer:
            return stack_class(
                num_layers=sizes.num_layers,
                num_heads=sizes.num_heads,
                d_ff=sizes.d_ff,
                d_k=sizes.d_k,
                d_v=sizes.d_v,
                dropout=config.dropout,
                attention_window=config.attention_window,
                attention_bias=config.attention_bias,
                activation=config.activation,
                norm_first=config.norm_first,
                epsilon=config.layer_norm_epsilon,
                attention_class=config.attention_class,
                feed_forward_class=config.feed_forward_class,
                residual_class=config.residual_class,
                dtype=policy,
                name=name,
            )

        self.encoder = stack(layers.Encoder, config.encoder, "encoder")
        self.decoder = stack(layers.Decoder, config.decoder, "decoder")
        # The configuration fixes every shape, so the weights are created now.
        self.build()
        unlock(self)

    def _make_embeddings(self) -> None:
        """Makes the embeddings; tied ones are the same layer."""
        config = self.config

        def embedding(name: str, size: int, is_output: bool) -> keras.Layer:
            return layers.TiedEmbedding(
                size,
                config.d_model,
                config.embedding_scale,
                config.output_bias and is_output,
                dtype=self.dtype_policy,
                name=name,
            )

        tied = config.tied_embeddings
        size = config.vocab_size
        self.embedding = self.target_embedding = embedding(
            "embedding", config.source_vocab_size or size, tied == "all"
        )
        if tied in ("target", "none"):
            self.target_embedding = embedding(
                "target_embedding", size, tied == "target"
            )
        self.output_embedding = self.target_embedding
        if tied in ("inputs", "none"):
            self.output_embedding = embedding("output_embedding", size, True)

    def _positions(self, name: str) -> keras.layers.Layer:
        config = self.config
        if config.positional_encoding == "learned":
            return layers.LearnedPositionalEncoding(
                config.max_length, dtype=self.dtype_policy, name=name
            )
        return layers.SinusoidalPositionalEncoding(
            config.position_layout,
            config.position_endpoint,
            config.position_offset,
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, input_shape: Any = None) -> None:
        """Creates the weights, with shapes from the configuration."""
        if self.built:
            return
        states = (None, None, self.config.d_model)
        embeddings = [self.embedding, self.target_embedding]
        for embedding in (*embeddings, self.output_embedding):
            if not embedding.built:
                embedding.build((None, None))
        self.source_positions.build(states)
        self.target_positions.build(states)
        self.dropout.build(states)  # for `summary`
        self.encoder.build(states)
        self.decoder.build(states, states)
        self.built = True

    def __call__(self, inputs: Any, *others: Any, **kwargs: Any) -> Any:
        if others:  # `call` raises an error about two tensors
            inputs = [inputs, *others]
        return super().__call__(inputs, **kwargs)

    def call(self, inputs: dict[str, Any], training: bool | None = None) -> Any:
        if not isinstance(inputs, Mapping) or not _INPUTS <= set(inputs):
            received = list(inputs) if isinstance(inputs, Mapping) else inputs
            raise ValueError(
                "The inputs of a Transformer must be a dict: "
                '{"source": ids [B, S], "target": ids [B, T]}. '
                f"Received: {received}"
            )
        memory = self.encode(inputs["source"], training)
        return self.decode(inputs["target"], memory, training)

    def logits(self, states: Any) -> Any:
        """Projects the decoder's output `[B, T, d_model]` to `[B, T, V]`."""
        return self.output_embedding(states, reverse=True)

    def output_projection(self) -> tuple[Any, Any] | None:
        """Returns the matrix and the bias of `logits`.

        Returns:
            Variables `[V, d_model]` and `[V]` (None without a bias); or None
            if a subclass computes logits differently.
        """
        layer = self.output_embedding
        if (
            type(self).logits is not Transformer.logits
            or type(self).call is not Transformer.call
            or type(layer) is not layers.TiedEmbedding
        ):
            return None
        return layer.embeddings, layer.bias

    def encode(self, source: Any, training: bool | None = None) -> Memory:
        """Encodes the source.

        Args:
            source: `[B, S]` ids, as in `call`.
            training: Whether dropout is applied.
        """
        x, mask = self._encoder_inputs(source, training)
        states = self.encoder(x, attention_mask=mask, training=training)
        return Memory(states, mask)

    def decode(
        self, target: Any, memory: Memory, training: bool | None = None
    ) -> Any:
        """Returns the logits `[B, T, V]` of the token after each position.

        Args:
            target: `[B, T]` ids, as in `call`.
            memory: From `encode`.
            training: Whether dropout is applied.
        """
        x, mask = self._decoder_inputs(target, training)
        states = self.decoder(
            x,
            memory.states,
            attention_mask=mask,
            cross_attention_mask=memory.mask,
            training=training,
        )
        return self.logits(states)

    def attention_scores(self, source: Any, target: Any) -> AttentionScores:
        """Returns the attention scores of every layer, as in Figures 3-5.

        Args:
            source: `[B, S]` ids.
            target: `[B, T]` ids, as in `call`.
        """
        x, source_mask = self._encoder_inputs(source)
        memory, encoder = self.encoder(
            x, attention_mask=source_mask, return_attention_scores=True
        )
        x, mask = self._decoder_inputs(target)
        _, decoder, cross = self.decoder(
            x,
            memory,
            attention_mask=mask,
            cross_attention_mask=source_mask,
            return_attention_scores=True,
        )
        return AttentionScores(encoder, decoder, cross)

    def _encoder_inputs(self, ids: Any, training: bool | None = None) -> tuple:
        """Returns embeddings plus positions, with dropout, and the mask."""
        x = self.source_positions(self.embedding(ids))
        mask = padding_mask(ids, self.config.pad_id)
        return self.dropout(x, training=training), mask

    def _decoder_inputs(self, ids: Any, training: bool | None = None) -> tuple:
        """Returns embeddings plus positions, with dropout, and the mask."""
        x = self.target_positions(self.target_embedding(ids))
        mask = None  # windows already hide the future
        if self.config.attention_window is None:
            # Padding comes after a target's last token, and is hidden too.
            mask = causal_mask(ops.shape(ids)[1])
        return self.dropout(x, training=training), mask

    def export(
        self,
        filepath: Any,
        format: str = "tf_saved_model",
        verbose: Any = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """As `keras.Model.export`: from ids of any length to logits.

        `kt.export.save` exports a translator, from text to text.
        """
        if input_signature is None:
            specs = {
                name: keras.InputSpec("int32", (None, None), name=name)
                for name in sorted(_INPUTS)
            }
            input_signature = [specs]
        super().export(filepath, format, verbose, input_signature, **kwargs)

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "dtype": keras.saving.serialize_keras_object(policy_to_save(self)),
            "config": self.config.to_dict(),
            "trainable": self.trainable,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Transformer":
        config = {**config, "config": TransformerConfig(**config["config"])}
        return cls(**config)

    @classmethod
    def from_preset(
        cls,
        preset: str | os.PathLike,
        dtype: str | None = None,
        **architecture: Any,
    ) -> "Transformer":
        """Returns a new model of a preset, or a trained model.

        Args:
            preset: A key of `kt.presets.PRESETS`, for a new model; or the
                folder or name of a run, as in `kt.open_translator`. A folder
                that is named like a preset is `"./base"` or a `Path`.
            dtype: Keras dtype policy. Default: Keras' own.
            **architecture: Arguments of `TransformerConfig` that replace the
                preset's, such as `vocab_size`. For a run only `dropout`.

        Raises:
            InputError: If there is no such preset or run, or an argument is
                invalid.
        """
        if isinstance(preset, str) and preset in PRESETS:
            config = TransformerConfig.from_preset(preset, **architecture)
            return cls(config, dtype=dtype)
        # Only a run needs what reads it.
        from keras_transformer.inference.opening import read_run
        from keras_transformer.runs.run_folder import find_folder
        from keras_transformer.runs.weight_files import load_weights

        folder = find_folder(preset)
        if not folder.exists():
            raise InputError(
                f"must be one of {', '.join(PRESETS)}, or a run. Received: "
                f"{preset}, which does not exist",
                argument="preset",
            )
        run = read_run(folder)
        fixed = architecture.keys() - {"dropout"}
        if fixed:
            raise InputError(
                "The architecture of a trained model is fixed, except for "
                f"dropout. Received: {', '.join(sorted(fixed))} with {preset}"
            )
        config = dataclasses.replace(run.config, **architecture)
        model = cls(config, dtype=dtype)
        load_weights(model, run.find_checkpoint())
        return model
