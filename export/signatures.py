"""The signatures of an exported model: graph functions of string tensors.

Letters: B = batch, n = translations returned, K = beam size, T = target
length, S = source length, L = decoder layers, H = heads.

| signature | inputs | outputs |
|-|-|-|
| `serving_default` | `text` | translations |
| `translate_nbest` | `text` | all K hypotheses, with lengths and pieces |
| `greedy` | `text` | one translation, found with beam size 1 |
| `translate_prefix` | `text`, `prefix` | translations that begin with it |
| `translate_with_options` | `text`, options | K translations |
| `score` | `text`, `translation` | log-probabilities, perplexity |
| `attention` | `text` | pieces and cross-attention of the translation |
| `tokenize` | `text` | pieces and ids |
| `detokenize` | `pieces` | texts |

A parser returns `trees` in place of `translations`, and `repaired`. It has
neither `translate_prefix` nor `detokenize`.

`text`, `prefix`, `translation` and `pieces` are string tensors `[B]`. Pieces
are joined by spaces. The options are scalars: `beam_size`, `alpha`,
`extra_length` and `length_factor`.
"""

from collections.abc import Callable, Collection
from typing import Any

import tensorflow as tf

from keras_transformer.decoding import sequence_scores
from keras_transformer.errors import InputError
from keras_transformer.translator import Translator

# A larger batch is decoded in slices, so that the float32 values over the
# vocabulary, of which there are a few copies, take this much memory each.
_LARGEST = 2**24  # values: 64 MiB
_LARGEST_BEAM = 64


def _strings(name: str) -> tf.TensorSpec:
    return tf.TensorSpec([None], tf.string, name=name)


class Signatures(tf.Module):
    """Makes the signatures of a translator.

    Args:
        translator: The translator.
    """

    def __init__(self, translator: Translator) -> None:
        super().__init__()
        self._tensors = translator.tensors
        self._n = translator.num_translations
        self._beam_size = translator.search.beam_size
        self._task = translator.task
        # What a SavedModel contains is found through attributes.
        self.variables_of_models = [
            weight.value
            for model in translator.models
            for weight in model.weights
        ]
        self.tokenizer_ops = translator.tokenizer.ops

    @property
    def names(self) -> list[str]:
        """Names of the signatures that the task has."""
        return [
            name
            for name in SIGNATURES
            if not (self._task.repairs and name in _NEED_TEXT_TARGETS)
        ]

    def make(self, names: Collection[str]) -> dict[str, Any]:
        """Returns functions by name.

        Args:
            names: Of `names`.

        Raises:
            InputError: If a name is unknown, or `serving_default` is missing.
        """
        unknown = sorted(set(names) - set(self.names))
        if unknown or "serving_default" not in names:
            raise InputError(
                "The signatures must contain serving_default, and may contain "
                f"any of {', '.join(self.names)}. Received: "
                f"{', '.join(names) or 'none'}"
            )
        return {
            name: tf.function(
                getattr(self, f"_{name}"), input_signature=SIGNATURES[name]
            )
            for name in names
        }

    def _serving_default(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._in_slices(
            lambda text: self._tensors.translate(text, self._n),
            self._rows(self._beam_size),
            text,
        )

    def _translate_prefix(
        self, text: tf.Tensor, prefix: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        return self._in_slices(
            lambda text, prefix: self._tensors.translate(text, self._n, prefix),
            self._rows(self._beam_size),
            text,
            prefix,
        )

    def _greedy(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        outputs = self._in_slices(
            lambda text: self._tensors.translate(text, 1, beam_size=1),
            self._rows(1),
            text,
        )
        for name in (self._task.output, "scores"):
            outputs[name] = outputs[name][:, 0]
        return outputs

    def _translate_with_options(
        self,
        text: tf.Tensor,
        beam_size: tf.Tensor,
        alpha: tf.Tensor,
        extra_length: tf.Tensor,
        length_factor: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        is_number = tf.math.is_finite
        checks = [
            tf.debugging.Assert(valid, [message, value])
            for valid, message, value in (
                (
                    (beam_size >= 1) & (beam_size <= _LARGEST_BEAM),
                    f"beam_size must be from 1 to {_LARGEST_BEAM}. Received:",
                    beam_size,
                ),
                (
                    (alpha >= 0) & is_number(alpha),
                    "alpha must be a non-negative, finite number. Received:",
                    alpha,
                ),
                (
                    extra_length >= 0,
                    "extra_length must not be negative. Received:",
                    extra_length,
                ),
                (
                    (length_factor >= 0) & is_number(length_factor),
                    "length_factor must be a non-negative, finite number. "
                    "Received:",
                    length_factor,
                ),
            )
        ]
        with tf.control_dependencies(checks):
            beam_size = tf.identity(beam_size)
        return self._in_slices(
            lambda text: self._tensors.translate(
                text,
                beam_size,
                beam_size=beam_size,
                alpha=alpha,
                extra_length=extra_length,
                length_factor=length_factor,
            ),
            self._rows(beam_size),
            text,
        )

    def _translate_nbest(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        def translate(text: tf.Tensor) -> dict[str, tf.Tensor]:
            found = self._tensors.hypotheses(text)
            is_empty = found.is_empty[:, None]
            result = found.result
            texts = self._tensors.output_texts(result.ids, text).texts
            pieces = self._tensors.tokenizer.joined_pieces(result.ids)
            return {
                self._task.output: tf.where(is_empty, "", texts),
                "scores": tf.where(is_empty, 0.0, result.scores),
                "lengths": tf.where(is_empty, 0, result.lengths),
                "pieces": tf.where(is_empty, "", pieces),
                "source_truncated": found.source_truncated,
                "at_length_limit": found.at_length_limit,
            }

        return self._in_slices(translate, self._rows(self._beam_size), text)

    def _score(
        self, text: tf.Tensor, translation: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        ids = self._tensors.ids
        source, _, source_truncated = self._tensors.source_ids(text)
        labels, lengths, truncated = self._tensors.target_ids(translation)
        values = tf.maximum(tf.shape(labels)[1], 1) * ids.config.vocab_size
        outputs = self._in_slices(
            lambda *batch: {"token_log_probs": ids.token_log_probs(*batch)},
            tf.maximum(_LARGEST // values, 1),
            source,
            labels,
        )
        scores = sequence_scores(
            outputs["token_log_probs"], lengths, ids.default_search.alpha
        )
        return {
            **outputs,
            **scores._asdict(),
            "lengths": lengths,
            "pieces": self._tensors.tokenizer.joined_pieces(labels),
            "source_truncated": source_truncated,
            "translation_truncated": truncated,
        }

    def _attention(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        tensors = self._tensors
        source, _, _ = tensors.source_ids(text)
        found = tensors.ids.search(source)
        # The search may take more steps than its best hypothesis has tokens.
        longest = tf.reduce_max(found.lengths[:, 0])
        best = found.ids[:, 0, : tf.maximum(longest, 0)]
        target = tensors.ids.decoder_input(best)
        scores = tensors.ids.models[0].attention_scores(source, target)
        return {
            "source_pieces": tensors.tokenizer.joined_pieces(source),
            "target_pieces": tensors.tokenizer.joined_pieces(best),
            "attention": tf.stack(scores.cross, axis=1),
        }

    def _tokenize(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        tokenizer = self._tensors.tokenizer
        ids = tokenizer.tokenize(text)
        return {
            "ids": ids.to_tensor(tokenizer.pad_id),
            "lengths": tf.cast(ids.row_lengths(), tf.int32),
            "pieces": tokenizer.joined_pieces(ids),
        }

    def _detokenize(self, pieces: tf.Tensor) -> dict[str, tf.Tensor]:
        tokenizer = self._tensors.tokenizer
        ids = tokenizer.ids_of_pieces(pieces)
        return {"text": tokenizer.detokenize(ids)}

    def _rows(self, beam_size: int | tf.Tensor) -> tf.Tensor:
        """Returns how many sentences to decode at once."""
        values = beam_size * self._tensors.ids.config.vocab_size
        return tf.maximum(_LARGEST // values, 1)

    def _in_slices(
        self,
        function: Callable[..., dict[str, tf.Tensor]],
        rows: tf.Tensor,
        *tensors: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Calls a function with slices of a batch, and joins what it returns.

        Args:
            function: Takes tensors whose first axis is the batch, returns
                such tensors by name.
            rows: Largest slice, a scalar.
            *tensors: Arguments of `function`, for the whole batch.
        """
        tensors = [tf.ensure_shape(x, [None, *x.shape[1:]]) for x in tensors]
        sizes = [tf.shape(x)[0] for x in tensors]
        check = tf.debugging.Assert(
            tf.reduce_all(tf.equal(sizes, sizes[0])),
            ["Each text must have one of every other input. Received:", sizes],
        )
        with tf.control_dependencies([check]):
            batch = tf.identity(sizes[0])
        call = tf.function(function).get_concrete_function(
            *(tf.TensorSpec([None, *x.shape[1:]], x.dtype) for x in tensors)
        )
        names = sorted(call.structured_outputs)
        count = tf.maximum(-(-batch // rows), 1)  # one, even of an empty batch
        arrays = [
            tf.TensorArray(
                call.structured_outputs[name].dtype,
                size=count,
                infer_shape=False,
                element_shape=call.structured_outputs[name].shape,
            )
            for name in names
        ]

        def body(i: tf.Tensor, *arrays: tf.TensorArray) -> tuple:
            part = [x[i * rows : (i + 1) * rows] for x in tensors]
            outputs = call(*part)
            written = [
                array.write(i, outputs[name])
                for array, name in zip(arrays, names, strict=True)
            ]
            return i + 1, *written

        _, *arrays = tf.while_loop(
            lambda i, *_: i < count, body, (tf.constant(0), *arrays)
        )
        return {
            name: array.concat()
            for name, array in zip(names, arrays, strict=True)
        }


_NEED_TEXT_TARGETS = ("translate_prefix", "detokenize")

# The inputs of each signature.
SIGNATURES: dict[str, list[tf.TensorSpec]] = {
    "serving_default": [_strings("text")],
    "translate_nbest": [_strings("text")],
    "greedy": [_strings("text")],
    "translate_prefix": [_strings("text"), _strings("prefix")],
    "translate_with_options": [
        _strings("text"),
        tf.TensorSpec([], tf.int32, name="beam_size"),
        tf.TensorSpec([], tf.float32, name="alpha"),
        tf.TensorSpec([], tf.int32, name="extra_length"),
        tf.TensorSpec([], tf.float32, name="length_factor"),
    ],
    "score": [_strings("text"), _strings("translation")],
    "attention": [_strings("text")],
    "tokenize": [_strings("text")],
    "detokenize": [_strings("pieces")],
}
