"""The architecture of a Transformer as a frozen dataclass."""

import dataclasses
import functools
from typing import Any, NamedTuple

from keras_transformer.presets import find_preset
from keras_transformer.support import fields
from keras_transformer.support.errors import InputError

_positive = functools.partial(fields.described, fields.POSITIVE_INTEGER)
_non_negative = functools.partial(fields.described, fields.NON_NEGATIVE_INTEGER)
_flag = functools.partial(fields.described, fields.BOOLEAN)
_layer = functools.partial(
    fields.described,
    fields.Rule(str | type, "a layer class, or its registered name"),
)
_SUBLAYERS = ("attention_class", "feed_forward_class", "residual_class")


class StackConfig(NamedTuple):
    """Sizes of an encoder or a decoder, as arguments of its class."""

    num_layers: int
    num_heads: int
    d_ff: int
    d_k: int
    d_v: int


@fields.document_fields
@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Architecture of a `Transformer`, without training or decoding options.

    The defaults are the paper's base model; `from_preset` returns others. The
    fields from `activation` on are for the models of other systems.
    """

    vocab_size: int = _positive(
        "size of the vocabulary that source and target share"
    )
    num_layers: int = _positive(
        "layers in the encoder and in the decoder, the paper's N", 6
    )
    d_model: int = _positive("width of every layer's input and output", 512)
    d_ff: int = _positive("inner width of the feed-forward networks", 2048)
    num_heads: int = _positive("attention heads, the paper's h", 8)
    d_k: int | None = _positive(
        "width of one head's queries and keys; by default the model's width "
        "over the number of heads",
        None,
    )
    d_v: int | None = _positive(
        "width of one head's values; by default the model's width over the "
        "number of heads",
        None,
    )
    dropout: float = fields.described(
        fields.FRACTION,
        "dropout rate on the output of every sub-layer and on the sums of "
        "embeddings and positions (section 5.4)",
        0.1,
    )
    positional_encoding: str = fields.described(
        fields.one_of("sinusoidal", "learned"),
        "positional encoding: sinusoidal (section 3.5) or learned (Table 3, "
        "row E)",
        "sinusoidal",
    )
    attention_window: int | None = _positive(
        "number of positions that self-attention sees, r (section 4): in the "
        "encoder around a position, in the decoder up to it; by default all",
        None,
    )
    max_length: int = _positive(
        "maximum length of a source or target in tokens, end token included",
        256,
    )
    pad_id: int = _non_negative("id of padding, which is never attended to", 0)
    bos_id: int = _non_negative(
        "id of the decoder's first input, which may be padding or the end "
        "token",
        2,
    )
    eos_id: int = _non_negative(
        "id of the token that ends a source and a target", 3
    )
    activation: str = fields.described(
        fields.one_of("relu", "swish", "gelu"),
        "activation of the feed-forward networks",
        "relu",
    )
    norm_first: bool = _flag(
        "pre-norm: normalize the input of sub-layers and the output of encoder "
        "and decoder, instead of post-norm (section 3.1)",
        False,
    )
    layer_norm_epsilon: float = fields.described(
        fields.POSITIVE_NUMBER, "epsilon of layer normalization", 1e-6
    )
    attention_bias: bool = _flag(
        "biases in the projections of attention", False
    )
    output_bias: bool = _flag("bias of the logits", False)
    tied_embeddings: str = fields.described(
        fields.one_of("all", "inputs", "target", "none"),
        "embeddings that are one matrix: all (section 3.4), inputs: source and "
        "target, target: target and output, or none",
        "all",
    )
    source_vocab_size: int | None = _positive(
        "size of a separate source vocabulary; by default source and target "
        "share one",
        None,
    )
    embedding_scale: float | None = fields.described(
        fields.POSITIVE_NUMBER,
        "factor on the embeddings; by default the square root of their width "
        "(section 3.4)",
        None,
    )
    position_layout: str = fields.described(
        fields.one_of("interleaved", "halves"),
        "order of sines and cosines: interleaved (section 3.5), or halves: all "
        "sines before all cosines",
        "interleaved",
    )
    position_endpoint: bool = _flag(
        "lowest frequency of exactly 1/10000: the exponents of n frequencies "
        "are i / (n - 1), not i / n",
        False,
    )
    position_offset: int = _non_negative("number of the first position", 0)
    decoder_layers: int | None = _positive(
        "layers in the decoder; by default as many as in the encoder", None
    )
    decoder_heads: int | None = _positive(
        "heads in the decoder, which share the encoder's total width; by "
        "default as many as in the encoder",
        None,
    )
    decoder_d_ff: int | None = _positive(
        "inner width of the decoder's feed-forward networks; by default the "
        "encoder's",
        None,
    )
    attention_class: str = _layer(
        "registered class of attention, a subclass of MultiHeadAttention",
        "keras_transformer>MultiHeadAttention",
    )
    feed_forward_class: str = _layer(
        "registered class of the networks, a layer like FeedForward",
        "keras_transformer>FeedForward",
    )
    residual_class: str = _layer(
        "registered class around every sub-layer, a subclass of Residual",
        "keras_transformer>Residual",
    )

    def __post_init__(self) -> None:
        fields.check_fields(self)
        for name in _SUBLAYERS:
            value = getattr(self, name)
            if isinstance(value, type):
                import keras

                registered_name = keras.saving.get_registered_name(value)
                object.__setattr__(self, name, registered_name)
        width, rest = divmod(self.d_model, self.num_heads)
        if rest and None in (self.d_k, self.d_v):
            raise InputError(
                "must be divisible by num_heads unless d_k and d_v are given. "
                f"Received: {self.d_model} with {self.num_heads} heads",
                argument="d_model",
            )
        object.__setattr__(self, "d_k", self.d_k or width)
        object.__setattr__(self, "d_v", self.d_v or width)
        heads = self.decoder_heads or self.num_heads
        widths = (self.num_heads * self.d_k, self.num_heads * self.d_v)
        if any(width % heads for width in widths):
            raise InputError(
                "must divide the encoder's width of queries and of values. "
                f"Received: {heads} with the widths {widths[0]} and "
                f"{widths[1]}",
                argument="decoder_heads",
            )
        source_vocab_size = self.source_vocab_size or self.vocab_size
        smallest = min(self.vocab_size, source_vocab_size)
        special_ids = (self.pad_id, self.bos_id, self.eos_id)
        if self.pad_id == self.eos_id or max(special_ids) >= smallest:
            raise InputError(
                "pad_id and eos_id must differ, and pad_id, bos_id and eos_id "
                "be less than the size of the vocabulary. Received: "
                f"{special_ids} with {smallest} tokens"
            )
        shares_source = self.tied_embeddings in ("all", "inputs")
        if shares_source and source_vocab_size != self.vocab_size:
            raise InputError(
                "must equal vocab_size, unless tied_embeddings is 'target' or "
                f"'none'. Received: {source_vocab_size} instead of "
                f"{self.vocab_size}",
                argument="source_vocab_size",
            )
        is_default = self.position_layout == "interleaved" and not (
            self.position_endpoint or self.position_offset
        )
        if self.positional_encoding == "learned" and not is_default:
            raise InputError(
                "position_layout, position_endpoint and position_offset need "
                "positional_encoding='sinusoidal'. Received: "
                f"{self.position_layout!r}, {self.position_endpoint} and "
                f"{self.position_offset} with 'learned'"
            )

    @property
    def encoder(self) -> StackConfig:
        """Sizes of the encoder."""
        return StackConfig(
            self.num_layers, self.num_heads, self.d_ff, self.d_k, self.d_v
        )

    @property
    def decoder(self) -> StackConfig:
        """Sizes of the decoder."""
        heads = self.decoder_heads or self.num_heads
        return StackConfig(
            num_layers=self.decoder_layers or self.num_layers,
            num_heads=heads,
            d_ff=self.decoder_d_ff or self.d_ff,
            d_k=self.num_heads * self.d_k // heads,
            d_v=self.num_heads * self.d_v // heads,
        )

    @property
    def custom_sublayers(self) -> dict[str, str]:
        """Registered names of classes that are not the default, by field."""
        values = {name: getattr(self, name) for name in _SUBLAYERS}
        return {x: y for x, y in values.items() if y != getattr(type(self), x)}

    @classmethod
    def from_preset(
        cls, name: str, vocab_size: int | None = None, **overrides: Any
    ) -> "TransformerConfig":
        """Returns the architecture of a preset, e.g. `"base"`.

        Args:
            name: A key of `keras_transformer.presets.PRESETS`.
            vocab_size: Size of the vocabulary. Default: the preset's.
            **overrides: Other arguments of `TransformerConfig` that replace
                the preset's.

        Raises:
            InputError: If there is no such preset, or a value is invalid.
        """
        preset = find_preset(name)
        if vocab_size is None:
            vocab_size = preset.vocab_size
        return cls(vocab_size=vocab_size, **preset.architecture | overrides)

    def to_dict(self) -> dict[str, Any]:
        """Returns the values as a dictionary that JSON can hold."""
        return dataclasses.asdict(self)

    @property
    def num_parameters(self) -> int:
        """Trainable parameters of a `Transformer`, with default sub-layers."""
        d_model = self.d_model
        norm = 2 * d_model

        def layer(sizes: StackConfig, attentions: int) -> int:
            widths = sizes.num_heads * (sizes.d_k + sizes.d_v)
            attention = 2 * d_model * widths
            if self.attention_bias:
                # Queries; keys and values; the output.
                attention += sizes.num_heads * sizes.d_k + widths + d_model
            feed_forward = 2 * d_model * sizes.d_ff + sizes.d_ff + d_model
            norms = (attentions + 1) * norm
            return attentions * attention + feed_forward + norms

        total = self.encoder.num_layers * layer(self.encoder, 1)
        total += self.decoder.num_layers * layer(self.decoder, 2)
        matrices = {"all": 1, "inputs": 2, "target": 1, "none": 2}
        rows = matrices[self.tied_embeddings] * self.vocab_size
        if self.tied_embeddings in ("target", "none"):
            rows += self.source_vocab_size or self.vocab_size
        if self.positional_encoding == "learned":
            rows += 2 * self.max_length
        total += rows * d_model + 2 * norm * self.norm_first
        return total + self.vocab_size * self.output_bias
