"""The architecture of a Transformer as one frozen, checked record."""

import dataclasses
import json
from typing import Any

from keras_transformer.errors import InputError

POSITIONAL_ENCODINGS = ("sinusoidal", "learned")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Architecture of a `Transformer`: nothing of training or decoding.

    The defaults are the paper's base model; `from_preset` gives the others.

    Args:
        vocab_size: Number of tokens in the vocabulary that source and target
            share.
        num_layers: Layers in the encoder, and again in the decoder (N).
        d_model: Width of every layer's input and output.
        d_ff: Width inside the feed-forward network.
        num_heads: Attention heads (h).
        d_k: Width of one head's queries and keys. Default: d_model / heads.
        d_v: Width of one head's values. Default: d_model / heads.
        dropout: Rate on each sub-layer's output and on the sums of
            embeddings and positions (section 5.4).
        positional_encoding: `"sinusoidal"` (section 3.5) or `"learned"`
            (Table 3, row E).
        max_length: The longest source or target in tokens, its end token
            included, that the model is trained on and translates.
        pad_id: Id of padding, which is never attended to.
        bos_id: Id of the token that starts the decoder's input.
        eos_id: Id of the token that ends a source and a target.

    Raises:
        InputError: If a value is out of range.
    """

    vocab_size: int
    num_layers: int = 6
    d_model: int = 512
    d_ff: int = 2048
    num_heads: int = 8
    d_k: int | None = None
    d_v: int | None = None
    dropout: float = 0.1
    positional_encoding: str = "sinusoidal"
    max_length: int = 256
    pad_id: int = 0
    bos_id: int = 2
    eos_id: int = 3

    def __post_init__(self) -> None:
        for name in ("vocab_size", "num_layers", "d_model", "d_ff"):
            _check_positive(name, getattr(self, name))
        _check_positive("num_heads", self.num_heads)
        _check_positive("max_length", self.max_length)
        for name in ("d_k", "d_v"):
            if getattr(self, name) is None:
                if self.d_model % self.num_heads:
                    raise InputError(
                        "d_model must be divisible by num_heads unless d_k "
                        "and d_v are given. Received: "
                        f"d_model={self.d_model}, num_heads={self.num_heads}"
                    )
                width = self.d_model // self.num_heads
                object.__setattr__(self, name, width)
            _check_positive(name, getattr(self, name))
        if not 0.0 <= self.dropout < 1.0:
            raise InputError(
                f"dropout must be in [0, 1). Received: dropout={self.dropout}"
            )
        if self.positional_encoding not in POSITIONAL_ENCODINGS:
            raise InputError(
                "positional_encoding must be one of "
                f"{', '.join(POSITIONAL_ENCODINGS)}. Received: "
                f"positional_encoding={self.positional_encoding!r}"
            )
        special = (self.pad_id, self.bos_id, self.eos_id)
        if len(set(special)) < 3 or not all(
            0 <= i < self.vocab_size for i in special
        ):
            raise InputError(
                "pad_id, bos_id and eos_id must differ and be ids of the "
                f"vocabulary. Received: {special} with "
                f"vocab_size={self.vocab_size}"
            )

    @classmethod
    def from_preset(
        cls, name: str, *, vocab_size: int | None = None, **overrides: Any
    ) -> "TransformerConfig":
        """Returns the architecture of a preset, e.g. `"base"`.

        Args:
            name: A key of `keras_transformer.presets.PRESETS`.
            vocab_size: Vocabulary size; by default the preset's own.
            **overrides: Any other argument of `TransformerConfig`.

        Raises:
            InputError: If there is no such preset.
        """
        from keras_transformer.presets import preset

        chosen = preset(name)
        arguments = {**chosen.architecture, **overrides}
        if vocab_size is None:
            vocab_size = chosen.vocab_size
        return cls(vocab_size=vocab_size, **arguments)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "TransformerConfig":
        """Inverse of `to_dict`; refuses names that it does not know."""
        known = {field.name for field in dataclasses.fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown or "vocab_size" not in values:
            raise InputError(
                "A configuration has vocab_size and any of "
                f"{', '.join(sorted(known))}. Received: {sorted(values)}"
                + (f", of which {unknown} are unknown" if unknown else "")
            )
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values, ready for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, text: str) -> "TransformerConfig":
        """Inverse of `to_json`."""
        try:
            values = json.loads(text)
        except ValueError as error:
            raise InputError(
                f"A configuration must be JSON. Received: {error}"
            ) from error
        return cls.from_dict(values)

    def to_json(self) -> str:
        """Returns the configuration as JSON text."""
        return json.dumps(self.to_dict(), indent=2)

    @property
    def num_parameters(self) -> int:
        """Trainable parameters of a `Transformer` with this architecture."""
        attention = 2 * self.d_model * self.num_heads * (self.d_k + self.d_v)
        feed_forward = 2 * self.d_model * self.d_ff + self.d_ff + self.d_model
        norm = 2 * self.d_model
        encoder_layer = attention + feed_forward + 2 * norm
        decoder_layer = 2 * attention + feed_forward + 3 * norm
        positions = (
            2 * self.max_length * self.d_model
            if self.positional_encoding == "learned"
            else 0
        )
        return (
            self.vocab_size * self.d_model
            + positions
            + self.num_layers * (encoder_layer + decoder_layer)
        )


def _check_positive(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(
            f"{name} must be a positive integer. Received: {name}={value!r}"
        )
