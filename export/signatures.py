"""The signatures of an exported model: graph functions of string tensors.

Letters: B = batch, n = translations returned, K = beam size or number of
samples, T = target length, S = source length, L = decoder layers, H = heads.

| signature | inputs | outputs |
|-|-|-|
| `serving_default` | `text` | translations |
| `translate_nbest` | `text` | all K hypotheses, with lengths and pieces |
| `greedy` | `text` | one translation, found with beam size 1 |
| `translate_prefix` | `text`, `prefix` | translations that begin with it |
| `translate_with_options` | `text`, options | K translations |
| `sample` | `text`, settings | K samples |
| `score` | `text`, `translation` | log-probabilities, perplexity |
| `attention` | `text` | pieces and cross-attention of the translation |
| `tokenize` | `text` | pieces and ids |
| `detokenize` | `pieces` | texts |

A parser returns `trees` in place of `translations`; where there are
`source_truncated` and `at_length_limit`, but for `translate_nbest`, `repaired`
too. It has no `translate_prefix`, `score` and `detokenize`.

`text`, `prefix`, `translation` and `pieces` are string tensors `[B]`. Pieces
are joined by spaces. Options and settings are scalars: `beam_size`, `alpha`,
`extra_length` and `length_factor`; `temperature`, `top_k`, `top_p`, `seed` and
`num_samples`.
"""

from collections.abc import Callable, Collection
from typing import Any

import tensorflow as tf

from keras_transformer.decoding import sequence_scores
from keras_transformer.decoding.search import BeamSearch, Sampling, converted
from keras_transformer.inference.translator import Translator
from keras_transformer.support.errors import InputError

# A larger batch is decoded in slices, so that the float32 values over the
# vocabulary, of which there are a few copies, take this much memory each.
_LARGEST = 2**24  # values: 64 MiB
_MOST_HYPOTHESES = 64  # of a text


def _strings(name: str) -> tf.TensorSpec:
    return tf.TensorSpec([None], tf.string, name=name)


# Name and value of an option, what it must do, and whether it does.
_Check = tuple[str, tf.Tensor, str, tf.Tensor]


def _checked(*checks: _Check) -> list[tf.Tensor]:
    """Returns the values of options, or raises in the graph."""
    assertions = [
        tf.debugging.Assert(
            valid, [f"{name} must {expected}. Received:", value]
        )
        for name, value, expected, valid in checks
    ]
    with tf.control_dependencies(assertions):
        return [tf.identity(value) for _, value, _, _ in checks]


def _is_count(name: str, value: tf.Tensor) -> _Check:
    valid = (value >= 1) & (value <= _MOST_HYPOTHESES)
    return name, value, f"be from 1 to {_MOST_HYPOTHESES}", valid


def _is_not_negative(name: str, value: tf.Tensor) -> _Check:
    return name, value, "not be negative", value >= 0


def _is_number(name: str, value: tf.Tensor, positive: bool = False) -> _Check:
    kind, valid = "non-negative", value >= 0
    if positive:
        kind, valid = "positive", value > 0
    valid &= tf.math.is_finite(value)
    return name, value, f"be a {kind}, finite number", valid


class Signatures(tf.Module):
    """Makes the signatures of a translator.

    Args:
        translator: The translator.
    """

    def __init__(self, translator: Translator) -> None:
        super().__init__()
        self._tensors = translator.tensors
        self._n = translator.num_translations
        self._task = translator.task
        search = translator.search
        self._beam_search = converted(search, BeamSearch)
        self._sampling = converted(search, Sampling)
        self._num_hypotheses = search.num_hypotheses
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
            if self._task.targets_are_text or name not in _OF_TEXT_TARGETS
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
            self._rows(self._num_hypotheses),
            text,
        )

    def _translate_prefix(
        self, text: tf.Tensor, prefix: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        return self._in_slices(
            lambda text, prefix: self._tensors.translate(text, self._n, prefix),
            self._rows(self._num_hypotheses),
            text,
            prefix,
        )

    def _greedy(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        outputs = self._in_slices(
            lambda text: self._tensors.translate(
                text, 1, settings=self._beam_search, beam_size=1
            ),
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
        beam_size, alpha, extra_length, length_factor = _checked(
            _is_count("beam_size", beam_size),
            _is_number("alpha", alpha),
            _is_not_negative("extra_length", extra_length),
            _is_number("length_factor", length_factor),
        )
        return self._in_slices(
            lambda text: self._tensors.translate(
                text,
                beam_size,
                settings=self._beam_search,
                beam_size=beam_size,
                alpha=alpha,
                extra_length=extra_length,
                length_factor=length_factor,
            ),
            self._rows(beam_size),
            text,
        )

    def _sample(
        self,
        text: tf.Tensor,
        temperature: tf.Tensor,
        top_k: tf.Tensor,
        top_p: tf.Tensor,
        seed: tf.Tensor,
        num_samples: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        temperature, top_k, top_p, seed, num_samples = _checked(
            _is_number("temperature", temperature, positive=True),
            _is_not_negative("top_k", top_k),
            (
                "top_p",
                top_p,
                "be a number in (0, 1]",
                (top_p > 0) & (top_p <= 1),
            ),
            (
                "seed",
                seed,
                "be an integer from 0 to 2^32 - 1",
                (seed >= 0) & (seed < 2**32),
            ),
            _is_count("num_samples", num_samples),
        )
        return self._in_slices(
            lambda text: self._tensors.translate(
                text,
                num_samples,
                settings=self._sampling,
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                seed=seed,
                num_samples=num_samples,
            ),
            self._rows(num_samples),
            text,
        )

    def _translate_nbest(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        def translate(text: tf.Tensor) -> dict[str, tf.Tensor]:
            found = self._tensors.hypotheses(text)
            is_empty = found.is_empty[:, None]
            result = found.result
            texts = self._tensors.output_texts(found, text).texts
            pieces = self._tensors.tokenizer.joined_pieces(result.ids)
            return {
                self._task.output: texts,
                "scores": tf.where(is_empty, 0.0, result.scores),
                "lengths": tf.where(is_empty, 0, result.lengths),
                "pieces": tf.where(is_empty, "", pieces),
                "source_truncated": found.source_truncated,
                "at_length_limit": found.at_length_limit,
            }

        return self._in_slices(
            translate, self._rows(self._num_hypotheses), text
        )

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
        ids = self._task.source_ids(tokenizer, text)
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


_OF_TEXT_TARGETS = ("translate_prefix", "score", "detokenize")

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
    "sample": [
        _strings("text"),
        tf.TensorSpec([], tf.float32, name="temperature"),
        tf.TensorSpec([], tf.int32, name="top_k"),
        tf.TensorSpec([], tf.float32, name="top_p"),
        tf.TensorSpec([], tf.int64, name="seed"),
        tf.TensorSpec([], tf.int32, name="num_samples"),
    ],
    "score": [_strings("text"), _strings("translation")],
    "attention": [_strings("text")],
    "tokenize": [_strings("text")],
    "detokenize": [_strings("pieces")],
}
