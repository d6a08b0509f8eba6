"""Training throughput of this library, with `Transformer.fit`.

python benchmarks/peers/ours.py --shape small --steps 10
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from importlib.metadata import version

import keras
import keras_fit
import workload

import keras_transformer as kt


def build_config(shape: workload.Shape) -> kt.TransformerConfig:
    """Returns the architecture."""
    return kt.TransformerConfig(
        vocab_size=shape.vocab_size,
        num_layers=shape.num_layers,
        d_model=shape.d_model,
        d_ff=shape.d_ff,
        num_heads=shape.num_heads,
        dropout=shape.dropout,
        attention_bias=shape.biases,
        output_bias=shape.biases,
        activation="swish" if shape.biases else "relu",
        position_layout="halves" if shape.biases else "interleaved",
        layer_norm_epsilon=1e-5 if shape.biases else 1e-6,
    )


def build_model(
    shape: workload.Shape, dtype: str = "float32"
) -> kt.Transformer:
    """Returns the model with random weights, each time the same."""
    keras.utils.set_random_seed(0)
    return kt.Transformer(build_config(shape), dtype=dtype)


def main() -> None:
    """Trains and prints the result."""
    options = workload.parse_options(
        __doc__, modes=["graph"], dtypes=["float32", "mixed_bfloat16"]
    )
    shape = options.shape
    # The learning rate rises to the others'.
    steps = options.steps * (1 + options.repetitions)
    model = kt.Transformer(build_config(shape), dtype=options.dtype)
    model.compile(
        kt.optimizers.adam(
            shape.d_model,
            warmup_steps=steps,
            scale=workload.LEARNING_RATE * (shape.d_model * steps) ** 0.5,
        ),
        kt.LabelSmoothedCrossEntropy(workload.LABEL_SMOOTHING),
    )
    keras_fit.fit_and_report(
        model,
        keras_fit.batches(options),
        options,
        "ours",
        version("keras-transformer-nmt"),
    )


if __name__ == "__main__":
    main()
