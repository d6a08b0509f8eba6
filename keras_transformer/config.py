"""The architecture of a Transformer as a frozen dataclass."""

import dataclasses
import json
from typing import Any

from keras_transformer.presets import find_preset
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import (
    FRACTION,
    NON_NEGATIVE_INTEGER,
    POSITIVE_INTEGER,
    check_fields,
    described,
    document_fields,
    one_of,
)


@document_fields
@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Architecture of a `Transformer`, without training or decoding options.

    The defaults are the paper's base model; `from_preset` returns others.
    """

    vocab_size: int = described(
        POSITIVE_INTEGER,
        "size of the vocabulary that source and target share",
    )
    num_layers: int = described(
        POSITIVE_INTEGER,
        "layers in the encoder and in the decoder, the paper's N",
        default=6,
    )
    d_model: int = described(
        POSITIVE_INTEGER,
        "width of every layer's input and output",
        default=512,
    )
    d_ff: int = described(
        POSITIVE_INTEGER,
        "inner width of the feed-forward networks",
        default=2048,
    )
    num_heads: int = described(
        POSITIVE_INTEGER, "attention heads, the paper's h", default=8
    )
    d_k: int | None = described(
        POSITIVE_INTEGER,
        "width of one head's queries and keys; by default d_model / num_heads",
        default=None,
    )
    d_v: int | None = described(
        POSITIVE_INTEGER,
        "width of one head's values; by default d_model / num_heads",
        default=None,
    )
    dropout: float = described(
        FRACTION,
        "dropout rate on the output of every sub-layer and on the sums of "
        "embeddings and positions (section 5.4)",
        default=0.1,
    )
    positional_encoding: str = described(
        one_of("sinusoidal", "learned"),
        "positional encoding: sinusoidal (section 3.5) or learned (Table 3, "
        "row E)",
        default="sinusoidal",
    )
    attention_window: int | None = described(
        POSITIVE_INTEGER,
        "positions that self-attention is restricted to, the paper's r "
        "(section 4): in the encoder those centred on a position, in the "
        "decoder the last ones, its own included; by default all",
        default=None,
    )
    max_length: int = described(
        POSITIVE_INTEGER,
        "maximum length of a source or target in tokens, end token included",
        default=256,
    )
    pad_id: int = described(
        NON_NEGATIVE_INTEGER,
        "id of padding, which is never attended to",
        default=0,
    )
    bos_id: int = described(
        NON_NEGATIVE_INTEGER,
        "id of the token that starts the decoder's input",
        default=2,
    )
    eos_id: int = described(
        NON_NEGATIVE_INTEGER,
        "id of the token that ends a source and a target",
        default=3,
    )

    def __post_init__(self) -> None:
        check_fields(self)
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
        special_ids = (self.pad_id, self.bos_id, self.eos_id)
        if len(set(special_ids)) < 3 or max(special_ids) >= self.vocab_size:
            raise InputError(
                "pad_id, bos_id and eos_id must differ and be less than "
                f"vocab_size. Received: {special_ids} with "
                f"vocab_size={self.vocab_size}"
            )

    @classmethod
    def from_preset(
        cls, name: str, *, vocab_size: int | None = None, **overrides: Any
    ) -> "TransformerConfig":
        """Returns the architecture of a preset, e.g. `"base"`.

        Args:
            name: A key of `keras_transformer.presets.PRESETS`.
            vocab_size: Size of the vocabulary. Default: the preset's.
            **overrides: Any other argument of `TransformerConfig`.

        Raises:
            InputError: If there is no such preset, or a value is invalid.
        """
        preset = find_preset(name)
        if vocab_size is None:
            vocab_size = preset.vocab_size
        arguments = {**preset.architecture, **overrides}
        return cls(vocab_size=vocab_size, **arguments)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "TransformerConfig":
        """Returns the configuration of which `values` is the `to_dict`.

        Raises:
            InputError: If `values` lacks `vocab_size`, has unknown names, or
                a value is invalid.
        """
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
        """Returns the values as a dictionary that JSON can hold."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, text: str) -> "TransformerConfig":
        """Returns the configuration that `to_json` wrote.

        Raises:
            InputError: If `text` is not valid JSON, or see `from_dict`.
        """
        try:
            values = json.loads(text)
        except ValueError as error:
            raise InputError(
                f"A configuration must be valid JSON. Received: {error}"
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
