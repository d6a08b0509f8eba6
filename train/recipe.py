"""Training hyper-parameters: everything but the architecture and the data."""

import dataclasses
import functools
from typing import Any

from keras_transformer.presets import find_preset
from keras_transformer.support import fields

_positive = functools.partial(fields.described, fields.POSITIVE_INTEGER)


@fields.document_fields
@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """Training hyper-parameters.

    The defaults are the values of the paper's base model. The flags of
    `keras-transformer train` are derived from the fields.
    """

    vocab_size: int = _positive(
        "size of the vocabulary that source and target share",
        find_preset("base").vocab_size,
    )
    steps: int = _positive("number of updates", 100_000)
    steps_per_epoch: int = _positive(
        "updates between checkpoints; validation precedes each checkpoint", 500
    )
    batch_tokens: int = _positive(
        "tokens per global batch: source plus target, padding included", 50_000
    )
    max_length: int = _positive(
        "maximum length of a source or target in tokens; longer pairs are "
        "dropped",
        128,
    )
    warmup_steps: int = _positive(
        "steps during which the learning rate rises", 4_000
    )
    learning_rate_scale: float = fields.described(
        fields.POSITIVE_NUMBER, "factor on the paper's learning rate", 1.0
    )
    label_smoothing: float = fields.described(
        fields.FRACTION, "label-smoothing ε", 0.1
    )
    gradient_accumulation_steps: int = _positive(
        "micro-batches per step, on TensorFlow: less memory, same update", 1
    )
    clip_norm: float | None = fields.described(
        fields.POSITIVE_NUMBER,
        "maximum global norm of the gradient; by default no clipping",
        None,
    )
    max_to_keep: int = _positive(
        "number of checkpoints to keep, besides the best by validation score", 5
    )
    patience: int | None = _positive(
        "epochs without a lower validation loss before training stops; by "
        "default never",
        None,
    )
    scored_sentences: int = fields.described(
        fields.NON_NEGATIVE_INTEGER,
        "validation sentences to decode greedily and score after every epoch",
        500,
    )
    tensorboard: bool = fields.described(
        fields.BOOLEAN, "write TensorBoard logs", False
    )
    seed: int = fields.described(
        fields.SEED, "random seed of weights, dropout and data order", 1
    )
    dtype: str = fields.described(
        fields.one_of("float32", "mixed_bfloat16", "mixed_float16"),
        "Keras dtype policy",
        "float32",
    )
    jit_compile: bool = fields.described(
        fields.BOOLEAN,
        "compile the forward and backward pass with XLA, once per batch shape; "
        "faster on GPUs only",
        False,
    )
    deterministic: bool = fields.described(
        fields.BOOLEAN, "make runs bit-identical; slower", False
    )

    def __post_init__(self) -> None:
        fields.check_fields(self)

    @classmethod
    def from_preset(cls, name: str, **overrides: Any) -> "Recipe":
        """Returns the hyper-parameters of a preset.

        Args:
            name: A key of `keras_transformer.presets.PRESETS`.
            **overrides: Arguments of `Recipe` that replace the preset's.

        Raises:
            InputError: If there is no such preset, or values are invalid.
        """
        preset = find_preset(name)
        values = {"vocab_size": preset.vocab_size, **preset.recipe, **overrides}
        return cls(**values)
