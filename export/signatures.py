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

import dataclasses
from collections.abc import Callable, Collection
from typing import Any

import tensorflow as tf

from keras_transformer.decoding import sequence_scores
from keras_transformer.decoding.search import (
    BeamSearch,
    Sampling,
    Search,
    converted,
)
from keras_transformer.inference.translator import Translator
from keras_transformer.support.errors import InputError

# A larger batch is decoded in slices, so that the float32 values over the
# vocabulary, of which there are a few copies, take this much memory each.
_LARGEST = 2**24  # values: 64 MiB


def _strings(name: str) -> tf.TensorSpec:
    return tf.TensorSpec([None], tf.string, name=name)


def _checked(settings: Search) -> tuple[tf.Tensor, ...]:
    """Returns assertions that the tensors among settings are in their range."""
    assertions = []
    for field in dataclasses.fields(settings):
        value, rule = getattr(settings, field.name), field.metadata["rule"]
        if tf.is_tensor(value):
            message = f"{field.name} must be {rule.expected}. Received:"
            valid = rule.in_range(value)
            if value.dtype.is_floating:
                valid &= tf.math.is_finite(value)
            assertions.append(tf.debugging.Assert(valid, [message, value]))
    return tuple(assertions)


class Signatures(tf.Module):
    """Makes the signatures of a translator."""

    def __init__(self, translator: Translator) -> None:
        super().__init__()
        self._pipeline = translator.pipeline
        self._vocabulary = translator.tokenizer
        self._n = translator.num_translations
        self._task = translator.task
        self._search = translator.search
        self._beam_search = converted(self._search, BeamSearch)
        self._sampling = converted(self._search, Sampling)
        # What a SavedModel contains is found through attributes.
        self.variables_of_models = [
            weight.value
            for model in translator.models
            for weight in model.weights
        ]
        self.vocabulary_ops = [
            side.ops
            for side in (self._vocabulary.source, self._vocabulary.target)
        ]

    @property
    def names(self) -> list[str]:
        """Names of the signatures that the task has."""
        return [
            name
            for name in SIGNATURES
            if self._task.targets_are_text or name not in _OF_TEXT_TARGETS
        ]

    def make(self, names: Collection[str]) -> dict[str, Any]:
        """Returns functions by name."""
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
        return self._translate(self._search, self._n, text)

    def _translate_prefix(
        self, text: tf.Tensor, prefix: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        return self._translate(self._search, self._n, text, prefix)

    def _greedy(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        greedy = dataclasses.replace(self._beam_search, beam_size=1)
        outputs = self._translate(greedy, 1, text)
        for name in (self._task.output, "scores"):
            outputs[name] = outputs[name][:, 0]
        return outputs

    def _translate_with_options(
        self, text: tf.Tensor, *options: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        specs = SIGNATURES["translate_with_options"][1:]
        given = {s.name: x for s, x in zip(specs, options, strict=True)}
        settings = dataclasses.replace(self._beam_search, **given)
        return self._translate(settings, settings.beam_size, text)

    def _sample(
        self, text: tf.Tensor, *options: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        specs = SIGNATURES["sample"][1:]
        given = {s.name: x for s, x in zip(specs, options, strict=True)}
        settings = dataclasses.replace(self._sampling, **given)
        return self._translate(settings, settings.num_samples, text)

    def _translate(
        self, settings: Search, count: int | tf.Tensor, *strings: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Translates texts, and prefixes if there are any, in slices."""

        def translate(
            text: tf.Tensor, prefix: tf.Tensor | None = None
        ) -> dict[str, tf.Tensor]:
            if prefix is not None:
                prefix = self._pipeline.target_ids(prefix)
            found, _ = self._pipeline.translate(
                text, count, settings, None, prefix
            )
            return self._task.columns(found)

        with tf.control_dependencies(_checked(settings)):
            rows = self._rows(tf.identity(settings.num_hypotheses))
        return self._in_slices(translate, rows, *strings)

    def _translate_nbest(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        count = self._search.num_hypotheses

        def translate(text: tf.Tensor) -> dict[str, tf.Tensor]:
            found, result = self._pipeline.translate(text, count)
            columns = self._task.columns(found)
            columns.pop("repaired", None)
            pieces = self._vocabulary.target.joined_pieces(result.ids)
            return {**columns, "lengths": result.lengths, "pieces": pieces}

        return self._in_slices(translate, self._rows(count), text)

    def _score(
        self, text: tf.Tensor, translation: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        pipeline = self._pipeline
        source, _, source_truncated = pipeline.with_end(
            pipeline.source_ids(text)
        )
        labels, lengths, truncated = pipeline.with_end(
            pipeline.target_ids(translation)
        )
        outputs = self._in_slices(
            lambda *batch: {
                "token_log_probs": pipeline.token_log_probs(*batch)
            },
            self._rows(tf.maximum(tf.shape(labels)[1], 1)),
            source,
            labels,
        )
        scores = sequence_scores(
            outputs["token_log_probs"], lengths, self._search.alpha
        )
        return {
            **outputs,
            **scores._asdict(),
            "lengths": lengths,
            "pieces": self._vocabulary.target.joined_pieces(labels),
            "source_truncated": source_truncated,
            "translation_truncated": truncated,
        }

    def _attention(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        pipeline = self._pipeline
        source, _, _ = pipeline.with_end(pipeline.source_ids(text))
        found = pipeline.search(source)
        # The search may take more steps than its best hypothesis has tokens.
        longest = tf.reduce_max(found.lengths[:, 0])
        best = found.ids[:, 0, : tf.maximum(longest, 0)]
        target = pipeline.decoder_input(best)
        scores = pipeline.models[0].attention_scores(source, target)
        return {
            "source_pieces": self._vocabulary.source.joined_pieces(source),
            "target_pieces": self._vocabulary.target.joined_pieces(best),
            "attention": tf.stack(scores.cross, axis=1),
        }

    def _tokenize(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = self._pipeline.source_ids(text)
        return {
            "ids": ids.to_tensor(self._vocabulary.pad_id),
            "lengths": tf.cast(ids.row_lengths(), tf.int32),
            "pieces": self._vocabulary.source.joined_pieces(ids),
        }

    def _detokenize(self, pieces: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = self._vocabulary.target.ids_of_pieces(pieces)
        return {"text": self._vocabulary.target.detokenize(ids)}

    def _rows(self, count: int | tf.Tensor) -> tf.Tensor:
        """Returns how many sentences to decode at once, each of `count`."""
        values = count * self._vocabulary.vocab_size
        return tf.maximum(_LARGEST // values, 1)

    def _in_slices(
        self,
        function: Callable[..., dict[str, tf.Tensor]],
        rows: tf.Tensor,
        *tensors: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """Calls a function with slices of a batch, and joins what it returns.

        `function` takes tensors whose first axis is the batch, and returns
        such tensors by name.
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
