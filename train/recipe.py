"""How to train: every value beside the architecture and the data."""

import dataclasses
import math

from keras_transformer.errors import InputError
from keras_transformer.presets import preset as find_preset

_DTYPES = ("float32", "mixed_bfloat16", "mixed_float16")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """How to train.

    Args:
        vocab_size: Tokens of the shared vocabulary.
        steps: Updates.
        batch_tokens: Source plus target tokens in a batch, padding included,
            of all replicas together.
        warmup_steps: Steps over which the learning rate rises.
        label_smoothing: Probability taken from the right token.
        learning_rate_scale: Factor on the paper's learning rate.
        steps_per_epoch: Updates between checkpoints, each with a pass over
            the validation data.
        max_length: Longest source or target trained on, in tokens; longer
            pairs are dropped.
        accumulate: Parts in which a replica computes its share of a batch,
            one after the other, to save memory. It is one update all the
            same.
        clip_norm: Highest norm of the gradient of all replicas; None: any.
        keep: Checkpoints kept, the newest; the best by BLEU comes on top.
        patience: Epochs without a better validation loss after which
            training ends; None: never before `steps`.
        bleu_sentences: Validation sentences translated, with beam size 1,
            after every epoch; 0: none.
        tensorboard: Whether to write figures and samples for TensorBoard.
        seed: Of the weights, the dropout and the order of the data.
        dtype: `float32`, `mixed_bfloat16` or `mixed_float16`.
        deterministic: Whether two runs give the same bits. It is slower, and
            TensorFlow stays so for the rest of the process.
    """

    vocab_size: int
    steps: int
    batch_tokens: int
    warmup_steps: int
    label_smoothing: float
    learning_rate_scale: float = 1.0
    steps_per_epoch: int = 500
    max_length: int = 128
    accumulate: int = 1
    clip_norm: float | None = None
    keep: int = 5
    patience: int | None = None
    bleu_sentences: int = 500
    tensorboard: bool = False
    seed: int = 1
    dtype: str = "float32"
    deterministic: bool = False

    @classmethod
    def from_preset(cls, name: str, **overrides) -> "Recipe":
        """Returns the recipe of a preset; None leaves a value as it is."""
        chosen = dataclasses.asdict(find_preset(name))
        values = {k: v for k, v in chosen.items() if k in cls.__annotations__}
        given = {k: v for k, v in overrides.items() if v is not None}
        return cls(**{**values, **given})

    def __post_init__(self) -> None:
        for name in (
            "vocab_size",
            "steps",
            "steps_per_epoch",
            "batch_tokens",
            "warmup_steps",
            "max_length",
            "accumulate",
            "keep",
            "patience",
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(
                    f"{name} must be positive. Received: {name}={value}"
                )
        for name in ("learning_rate_scale", "clip_norm"):
            value = getattr(self, name)
            if value is not None and not 0.0 < value < math.inf:
                raise InputError(
                    f"{name} must be positive and finite. Received: "
                    f"{name}={value}"
                )
        if self.bleu_sentences < 0:
            raise InputError(
                "bleu_sentences must not be negative. Received: "
                f"bleu_sentences={self.bleu_sentences}"
            )
        if not 0.0 <= self.label_smoothing < 1.0:
            raise InputError(
                "label_smoothing must be in [0, 1). Received: "
                f"label_smoothing={self.label_smoothing}"
            )
        if not 0 <= self.seed < 2**32:
            raise InputError(
                f"seed must be from 0 to 2^32 - 1. Received: seed={self.seed}"
            )
        if self.dtype not in _DTYPES:
            raise InputError(
                f"dtype must be one of {', '.join(_DTYPES)}. Received: "
                f"dtype={self.dtype!r}"
            )
