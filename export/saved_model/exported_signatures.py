"""The signatures of an exported model: graph functions of string tensors.

Letters: B = batch, n = translations returned, K = beam size or number of
samples.
"""

import dataclasses
from collections.abc import Callable, Collection
from typing import Any

import tensorflow as tf

from keras_transformer.decoding import sequence_scores
from keras_transformer.decoding.settings import (
    BeamSearch,
    Sampling,
    Search,
    converted,
)
from keras_transformer.export.saved_model import saved_model_options
from keras_transformer.inference.translator import Translator

# A larger batch is decoded in slices, so that the float32 values over the
# vocabulary, of which there are a few copies, take this much memory each.
_LARGEST = 2**24  # values: 64 MiB

Tensors = dict[str, tf.Tensor]  # by name


SIGNATURES = {
    name: [
        tf.TensorSpec([None] if dtype == "string" else [], dtype, input_name)
        for input_name, dtype in inputs.items()
    ]
    for name, inputs in saved_model_options.SIGNATURE_INPUTS.items()
}


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

    def make(self, names: Collection[str]) -> dict[str, Any]:
        """Returns functions by name."""
        saved_model_options.check_signatures(names)
        return {
            name: tf.function(
                getattr(self, f"_{name}"), SIGNATURES[name], autograph=False
            )
            for name in names
        }

    def _serving_default(self, text: tf.Tensor, *prefix: tf.Tensor) -> Tensors:
        return self._translate(self._search, self._n, text, *prefix)

    _translate_prefix = _serving_default

    def _greedy(self, text: tf.Tensor) -> Tensors:
        search = converted(self._search, BeamSearch)
        settings = dataclasses.replace(search, beam_size=1)
        outputs = self._translate(settings, 1, text)
        for name in (self._task.output, "scores"):
            outputs[name] = outputs[name][:, 0]
        return outputs

    def _translate_with_options(
        self, text: tf.Tensor, *options: tf.Tensor
    ) -> Tensors:
        name = "translate_with_options"
        settings = self._with_options(name, BeamSearch, options)
        return self._translate(settings, settings.beam_size, text)

    def _sample(self, text: tf.Tensor, *options: tf.Tensor) -> Tensors:
        settings = self._with_options("sample", Sampling, options)
        return self._translate(settings, settings.num_samples, text)

    def _with_options(
        self, signature: str, of_class: type, options: tuple
    ) -> Search:
        names = (spec.name for spec in SIGNATURES[signature][1:])
        values = dict(zip(names, options, strict=True))
        return dataclasses.replace(converted(self._search, of_class), **values)

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

    def _attention(self, text: tf.Tensor) -> Tensors:
        pipeline = self._pipeline
        source, _, _ = pipeline.with_end(pipeline.source_ids(text))
        result = pipeline.search(source, 1, self._search)
        # The search may take more steps than its best hypothesis has tokens.
        longest = tf.reduce_max(result.lengths)
        best = result.ids[:, 0, : tf.maximum(longest, 0)]
        target = pipeline.decoder_input(best)
        scores = pipeline.models[0].attention_scores(source, target)
        return {
            "source_pieces": self._vocabulary.source.joined_pieces(source),
            "target_pieces": self._vocabulary.target.joined_pieces(best),
            "attention": tf.stack(scores.cross, axis=1),
        }

    def _tokenize(self, text: tf.Tensor) -> Tensors:
        ragged = self._pipeline.source_ids(text)
        ids = ragged.to_tensor(self._vocabulary.pad_id)
        return {
            "ids": ids,
            "lengths": tf.cast(ragged.row_lengths(), tf.int32),
            "pieces": self._vocabulary.source.joined_pieces(ids),
        }

    def _detokenize(self, pieces: tf.Tensor) -> Tensors:
        ids = self._vocabulary.target.ids_of_pieces(pieces)
        return {"text": self._vocabulary.target.detokenize(ids)}

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
