"""Decoding speed of CTranslate2, with two threads or two workers.

`python ctranslate2_decoding.py --shape small` in an environment with
ctranslate2
"""

import os
import tempfile
from collections.abc import Callable

import ctranslate2
import numpy as np
import workload
from ctranslate2.specs import common_spec, transformer_spec


def build_spec(
    shape: workload.Shape,
) -> transformer_spec.TransformerSpec:
    """Returns a post-norm Transformer with random weights, without biases."""
    generator = np.random.default_rng(0)
    spec = transformer_spec.TransformerSpec.from_config(
        shape.num_layers,
        shape.num_heads,
        pre_norm=False,
        activation=common_spec.Activation.RELU,
    )
    d_model, d_ff = shape.d_model, shape.d_ff

    def matrix(rows: int, columns: int) -> np.ndarray:
        limit = (6 / (rows + columns)) ** 0.5
        return generator.uniform(-limit, limit, (rows, columns)).astype("f")

    def set_norm(norm: common_spec.LayerNormSpec) -> None:
        norm.gamma = np.ones(d_model, "float32")
        norm.beta = np.zeros(d_model, "float32")

    embedding = generator.normal(
        0, d_model**-0.5, (shape.vocab_size, d_model)
    ).astype("float32")
    spec.encoder.embeddings[0].weight = embedding
    spec.decoder.embeddings.weight = embedding
    spec.decoder.projection.weight = embedding
    attentions = []
    for stack in (spec.encoder, spec.decoder):
        positions = np.arange(256)[:, None]
        rates = np.exp(-np.log(1e4) * np.arange(0, d_model, 2) / d_model)
        angles = positions * rates
        stack.position_encodings.encodings = np.concatenate(
            [np.sin(angles), np.cos(angles)], axis=1
        ).astype("float32")
        for layer in stack.layer:
            attentions.append((layer.self_attention, [3 * d_model, d_model]))
            if stack is spec.decoder:
                cross = (layer.attention, [d_model, 2 * d_model, d_model])
                attentions.append(cross)
            layer.ffn.linear_0.weight = matrix(d_ff, d_model)
            layer.ffn.linear_0.bias = np.zeros(d_ff, "float32")
            layer.ffn.linear_1.weight = matrix(d_model, d_ff)
            layer.ffn.linear_1.bias = np.zeros(d_model, "float32")
            set_norm(layer.ffn.layer_norm)
    for attention, widths in attentions:
        set_norm(attention.layer_norm)
        for linear, width in zip(attention.linear, widths, strict=True):
            linear.weight = matrix(width, d_model)
    words = ["<blank>", "<unk>", "<s>", "</s>"]
    words += [f"w{i}" for i in range(len(words), shape.vocab_size)]
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    return spec


def main() -> None:
    """Decodes and prints the results."""
    options = workload.parse_decoding_options(
        __doc__, modes=["threads", "workers"], dtypes=["float32", "int8"]
    )
    cores = len(os.sched_getaffinity(0))
    workers, threads = (1, cores) if options.mode == "threads" else (cores, 1)
    with tempfile.TemporaryDirectory() as folder:
        spec = build_spec(options.shape)
        spec.validate()
        spec.save(folder)
        translator = ctranslate2.Translator(
            folder,
            compute_type=options.dtype,
            inter_threads=workers,
            intra_threads=threads,
        )

    def make_translate(length: int) -> Callable[[np.ndarray], np.ndarray]:
        def translate(source: np.ndarray) -> np.ndarray:
            # With several workers, each takes a part of the batch.
            part = -(-len(source) // workers) if workers > 1 else 0
            results = translator.translate_batch(
                [[f"w{i}" for i in row] for row in source.tolist()],
                max_batch_size=part,
                beam_size=workload.BEAM_SIZE,
                length_penalty=workload.ALPHA,
                min_decoding_length=length,
                max_decoding_length=length,
            )
            return np.array([result.hypotheses[0] for result in results])

        return translate

    workload.time_decoding(
        make_translate, options, "CTranslate2", ctranslate2.__version__
    )


if __name__ == "__main__":
    main()
