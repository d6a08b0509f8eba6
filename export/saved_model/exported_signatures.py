"""The signatures of an exported model: graph functions of string tensors.

Letters: B = batch, n = translations returned, K = beam size or number of
samples.
"""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from keras_transformer.decoding import sequence_scores
from keras_transformer.decoding.settings import BeamSearch, Search, converted
from keras_transformer.inference.translator import Translator
from keras_transformer.support.fields import check_values, one_of

# A larger batch is decoded in slices, so that the float32 values over the
# vocabulary, of which there are a few copies, take this much memory each.
_LARGEST = 2**24  # values: 64 MiB

Tensors = dict[str, tf.Tensor]  # by name


_TEXT = tf.TensorSpec([None], tf.string, "text")
# The inputs of each signature.
SIGNATURES = {
    "serving_default": [_TEXT],  # n translations
    "score": [_TEXT, tf.TensorSpec([None], tf.string, "translation")],
    "translate_nbest": [_TEXT],  # all K, with lengths and pieces
    # Translations that begin with the prefix.
    "translate_prefix": [_TEXT, tf.TensorSpec([None], tf.string, "prefix")],
    "translate_with_options": [  # K translations
        _TEXT,
        tf.TensorSpec([], tf.int32, "beam_size"),
        tf.TensorSpec([], tf.float32, "alpha"),
        tf.TensorSpec([], tf.int32, "extra_length"),
        tf.TensorSpec([], tf.float32, "length_factor"),
    ],
}
_REQUIRED = ("serving_default", "score")


def _checked(settings: Search) -> tuple[tf.Tensor, ...]:
    """Returns assertions that the tensors among settings are in their range."""
    assertions = []
    for field in dataclasses.fields(settings):
        value, rule = getattr(settings, field.name), field.metadata["rule"]
        if tf.is_tensor(value):
            message = f"{field.name} must be {rule.expected}. Received:"
            valid = rule.in_range(value)
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
        # A SavedModel contains what it finds through attributes.
        self.variables_of_models = [
            w.value for model in translator.models for w in model.weights
        ]
        vocabulary = self._vocabulary
        self.vocabulary_ops = [vocabulary.source.ops, vocabulary.target.ops]

    def make(self, names: Iterable[str] | None = None) -> dict[str, Any]:
        """Returns functions by name: all, or some besides the required ones."""
        names = SIGNATURES if names is None else [*_REQUIRED, *names]
        for name in names:
            check_values(one_of(*SIGNATURES), signatures=name)
        return {
            name: tf.function(
                getattr(self, f"_{name}"), SIGNATURES[name], autograph=False
            )
            for name in names
        }

    def _serving_default(self, text: tf.Tensor) -> Tensors:
        return self._translate(self._search, self._n, text)

    def _translate_prefix(self, text: tf.Tensor, prefix: tf.Tensor) -> Tensors:
        return self._translate(self._search, self._n, text, prefix)

    def _translate_with_options(
        self, text: tf.Tensor, *options: tf.Tensor
    ) -> Tensors:
        names = [spec.name for spec in SIGNATURES["translate_with_options"][1:]]
        settings = dataclasses.replace(
            converted(self._search, BeamSearch),
            **dict(zip(names, options, strict=True)),
        )
        return self._translate(settings, settings.beam_size, text)

    def _translate(
        self, settings: Search, count: int | tf.Tensor, *strings: tf.Tensor
    ) -> Tensors:
        """Translates texts, and prefixes if there are any, in slices."""

        def translate(text: tf.Tensor, prefix: Any = None) -> Tensors:
            if prefix is not None:
                prefix = self._pipeline.target_ids(prefix)
            source = self._pipeline.source_ids(text)
            translation, _ = self._pipeline.translate(
                source, count, settings, prefix
            )
            return self._task.columns(translation)

        with tf.control_dependencies(_checked(settings)):
            rows = self._rows(tf.identity(settings.num_hypotheses))
        return self._in_slices(translate, rows, *strings)

    def _translate_nbest(self, text: tf.Tensor) -> Tensors:
        count = self._search.num_hypotheses

        def translate(text: tf.Tensor) -> Tensors:
            source = self._pipeline.source_ids(text)
            translation, result = self._pipeline.translate(
                source, count, self._search
            )
            columns = self._task.columns(translation)
            pieces = self._vocabulary.target.joined_pieces(result.ids)
            return {**columns, "lengths": result.lengths, "pieces": pieces}

        return self._in_slices(translate, self._rows(count), text)

    def _score(self, text: tf.Tensor, translation: tf.Tensor) -> Tensors:
        pipeline = self._pipeline
        source, _, source_cut = pipeline.with_end(pipeline.source_ids(text))
        labels = pipeline.target_ids(translation)
        labels, lengths, cut = pipeline.labels_with_end(labels)
        log_probs = self._in_slices(
            pipeline.token_log_probs,
            self._rows(tf.maximum(tf.shape(labels)[1], 1)),
            source,
            labels,
        )
        scores = sequence_scores(log_probs, lengths, self._search)
        return {
            "token_log_probs": log_probs,
            **scores._asdict(),
            "lengths": lengths,
            "pieces": self._vocabulary.target.joined_pieces(labels),
            "source_truncated": source_cut,
            "translation_truncated": cut,
        }

    def _rows(self, count: int | tf.Tensor) -> tf.Tensor:
        """Returns how many sentences to decode at once, each of `count`."""
        values = count * self._vocabulary.vocab_size
        return tf.maximum(_LARGEST // values, 1)

    def _in_slices(
        self, function: Callable, rows: tf.Tensor, *tensors: tf.Tensor
    ) -> Any:
        """Calls a function with slices of a batch, and joins what it returns.

        The first axis of every tensor, given and returned, is the batch.
        """
        tensors = [tf.ensure_shape(x, [None, *x.shape[1:]]) for x in tensors]
        sizes = [tf.shape(x)[0] for x in tensors]
        check = tf.debugging.Assert(
            tf.reduce_all(tf.equal(sizes, sizes[0])),
            ["Each text must have one of every other input. Received:", sizes],
        )
        with tf.control_dependencies([check]):
            batch = tf.identity(sizes[0])
        call = tf.function(function, autograph=False).get_concrete_function(
            *(tf.TensorSpec([None, *x.shape[1:]], x.dtype) for x in tensors)
        )
        count = tf.maximum(-(-batch // rows), 1)  # one, even of an empty batch
        arrays = tf.nest.map_structure(
            lambda x: tf.TensorArray(
                x.dtype, count, infer_shape=False, element_shape=x.shape
            ),
            call.structured_outputs,
        )

        def body(i: tf.Tensor, arrays: Any) -> tuple[tf.Tensor, Any]:
            outputs = call(*(x[i * rows : (i + 1) * rows] for x in tensors))
            return i + 1, tf.nest.map_structure(
                lambda array, x: array.write(i, x), arrays, outputs
            )

        _, arrays = tf.while_loop(lambda i, _: i < count, body, (0, arrays))
        return tf.nest.map_structure(lambda array: array.concat(), arrays)
