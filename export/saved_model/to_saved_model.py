"""Exports a `Translator` to a SavedModel, and verifies it.

The signatures are graph functions of string tensors. Letters in shapes: B =
batch, n = translations returned, K = beam size or number of samples.
"""

import dataclasses
import importlib.util
import os
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer.decoding.numpy_search import longest_outputs
from keras_transformer.decoding.settings import BeamSearch, Search, converted
from keras_transformer.export import writing
from keras_transformer.export.saved_model.text_graph import TextGraph
from keras_transformer.inference.opening import open_translator
from keras_transformer.inference.translator import Translator
from keras_transformer.support.fields import check_values, one_of
from keras_transformer.support.files import atomic_folder

_WORDS = "I am a student and I read a book in the old house . "
_WARMUP_TEXTS = ("Yes.", _WORDS, _WORDS * 3, _WORDS * 7)  # to about 100 tokens
# Larger batches are decoded in slices: the most values over the vocabulary
# that a slice computes at once, 64 MiB in float32.
_LARGEST = 2**24

Tensors = dict[str, tf.Tensor]  # by name

_TEXT = tf.TensorSpec([None], tf.string, "text")
SIGNATURES = {  # their inputs
    "serving_default": [_TEXT],  # n translations
    "score": [_TEXT, tf.TensorSpec([None], tf.string, "translation")],
    "translate_nbest": [_TEXT],  # all K, with lengths and pieces
    "translate_prefix": [_TEXT, tf.TensorSpec([None], tf.string, "prefix")],
    "translate_with_options": [  # K translations
        _TEXT,
        tf.TensorSpec([], tf.int32, "beam_size"),
        tf.TensorSpec([], tf.float32, "alpha"),
        tf.TensorSpec([], tf.int32, "extra_length"),
        tf.TensorSpec([], tf.float32, "length_factor"),
    ],
}


def save(
    translator: Translator,
    path: str | os.PathLike,
    signatures: Iterable[str] | None = None,
) -> Path:
    """Writes a SavedModel that takes strings and returns translations.

    The SavedModel requires only TensorFlow and tensorflow-text; docs/serving.md
    describes its signatures. If the package tensorflow-serving-api is
    installed, the export contains warm-up requests for TensorFlow Serving.

    Args:
        translator: The translator to export, with its search and number of
            translations.
        path: Folder to create. TensorFlow Serving expects its name to be a
            version number, as in `models/en-de/1`.
        signatures: Names of signatures to write in addition to
            `serving_default` and `score`. The fewer, the faster the model
            loads. Default: all.

    Returns:
        The folder.

    Raises:
        InputError: If `path` exists or a signature is unknown.
        RuntimeError: If the SavedModel gives different results.
    """
    writing.check_model(translator, "saved-model")
    with atomic_folder(path) as folder:
        # A plain module: a Keras model's weights would be written twice.
        module = Signatures(translator)
        functions = module.make(signatures)
        module.functions = functions
        tf.saved_model.save(module, folder, signatures=functions)
        assets = folder / "assets.extra"
        assets.mkdir()
        if importlib.util.find_spec("tensorflow_serving") is not None:
            _write_warmup(assets, Path(path).resolve().parent.name, functions)
        metadata = {
            "tensorflow": tf.__version__,
            "signatures": sorted(functions),
            "languages": list(translator.tokenizer.languages),
        }
        writing.write_metadata(assets, translator, metadata)
        written = open_translator(folder)
        writing.check_results(written, translator, "saved-model")
    return Path(path)


def _write_warmup(folder: Path, model: str, signatures: Iterable[str]) -> None:
    """Writes requests that TensorFlow Serving replays after loading."""
    from tensorflow_serving.apis import prediction_log_pb2

    names = [name for name in signatures if len(SIGNATURES[name]) == 1]
    file = str(folder / "tf_serving_warmup_requests")
    with tf.io.TFRecordWriter(file) as writer:
        for name, text, size in product(names, _WARMUP_TEXTS, (1, 8)):
            log = prediction_log_pb2.PredictionLog()
            request = log.predict_log.request
            request.model_spec.name = model
            request.model_spec.signature_name = name
            request.inputs["text"].CopyFrom(tf.make_tensor_proto([text] * size))
            writer.write(log.SerializeToString())


class _Rows(NamedTuple):
    """The ids of texts, padded."""

    ids: tf.Tensor  # [B, S]
    lengths: tf.Tensor  # [B]
    is_cut: tf.Tensor  # [B]


class Signatures(tf.Module):
    """Builds the signatures of a translator."""

    def __init__(self, translator: Translator) -> None:
        super().__init__()
        self._engine = translator.engine
        self._tokenizer = translator.tokenizer
        self._n = translator.num_translations
        self._search = translator.search
        # A SavedModel tracks variables through attributes.
        weights = [x for model in translator.models for x in model.weights]
        self.model_variables = [x.value for x in weights]
        self.text = TextGraph(translator.tokenizer)

    def make(self, names: Iterable[str] | None = None) -> dict[str, Any]:
        """Returns functions by name: all, or `names` and the required ones."""
        required = ["serving_default", "score"]
        names = SIGNATURES if names is None else [*required, *names]
        functions = {}
        for name in names:
            check_values(one_of(*SIGNATURES), signatures=name)
            method = getattr(self, f"_{name}")
            inputs = SIGNATURES[name]
            functions[name] = tf.function(method, inputs, autograph=False)
        return functions

    def _serving_default(self, text: tf.Tensor) -> Tensors:
        return self._translate(self._search, self._n, text)

    def _translate_prefix(self, text: tf.Tensor, prefix: tf.Tensor) -> Tensors:
        return self._translate(self._search, self._n, text, prefix)

    def _translate_nbest(self, text: tf.Tensor) -> Tensors:
        count = self._search.num_hypotheses
        return self._translate(self._search, count, text, details=True)

    def _translate_with_options(
        self, text: tf.Tensor, *options: tf.Tensor
    ) -> Tensors:
        beam_size, alpha, extra_length, length_factor = options
        search = dataclasses.replace(
            converted(self._search, BeamSearch),
            beam_size=beam_size,
            alpha=alpha,
            extra_length=extra_length,
            length_factor=length_factor,
        )
        return self._translate(search, beam_size, text)

    def _translate(
        self,
        search: Search,
        count: int | tf.Tensor,
        text: tf.Tensor,
        prefix: tf.Tensor | None = None,
        details: bool = False,  # lengths and pieces
    ) -> Tensors:
        def translate(text: tf.Tensor, prefix: tf.Tensor) -> Tensors:
            ids = self.text.source_ids(text)
            sources = self._padded(ids, self._tokenizer.source_eos_id)
            prefixes = self._padded(self.text.target_ids(prefix))
            pad_id = self._tokenizer.pad_id
            # Some imported models end their sources with padding.
            end = int(self._tokenizer.source_eos_id != pad_id)
            limits = longest_outputs(
                tf,
                source_lengths=tf.cast(sources.lengths - 1 + end, tf.float32),
                prefix_lengths=tf.cast(prefixes.lengths, tf.float32),
                length_factor=search.length_factor,
                extra_length=tf.cast(search.extra_length, tf.float32),
                max_length=self._engine.max_length,
            )
            limits = tf.cast(limits, tf.int32)
            result = self._engine.search_tensors(
                sources.ids, prefixes.ids, limits, search, count
            )
            is_empty = sources.lengths[:, None] == 1  # the end token alone
            ids = tf.where(is_empty[..., None], pad_id, result.ids)
            lengths = tf.where(is_empty, 0, result.lengths)
            columns = {
                "translations": self.text.texts(ids),
                "scores": tf.where(is_empty, 0.0, result.scores),
                "source_truncated": sources.is_cut | prefixes.is_cut,
                "at_length_limit": lengths[:, 0] >= limits,
            }
            if details:
                columns["lengths"] = lengths
                columns["pieces"] = self.text.joined_pieces(ids)
            return columns

        with tf.control_dependencies(_checked(search)):
            per_text = tf.identity(search.num_hypotheses)
        prefix = tf.zeros_like(text) if prefix is None else prefix
        return self._in_slices(translate, per_text, text, prefix)

    def _score(self, text: tf.Tensor, translation: tf.Tensor) -> Tensors:
        ids = self.text.source_ids(text)
        sources = self._padded(ids, self._tokenizer.source_eos_id)
        ids = self.text.target_ids(translation)
        targets = self._padded(ids, self._tokenizer.eos_id)
        per_text = tf.maximum(tf.shape(targets.ids)[1], 1)
        compute = self._engine.token_log_probs
        log_probs = self._in_slices(compute, per_text, sources.ids, targets.ids)
        # The empty translation of an empty source is certain.
        has_tokens = (sources.lengths > 1) | (targets.lengths > 1)
        log_probs = tf.where(has_tokens[:, None], log_probs, 0.0)
        total = tf.reduce_sum(log_probs, axis=1)
        count = tf.cast(targets.lengths, tf.float32)
        return {
            "token_log_probs": log_probs,
            "scores": total / self._search.penalty(count),
            "log_probs": total,
            "perplexities": tf.exp(-total / count),
            "lengths": targets.lengths,
            "pieces": self.text.joined_pieces(targets.ids),
            "source_truncated": sources.is_cut,
            "translation_truncated": targets.is_cut,
        }

    def _padded(self, ids: tf.RaggedTensor, end_id: int | None = None) -> _Rows:
        """Cuts long rows, and adds the end tokens and padding."""
        # Leaves room for the end token, and after a prefix for one more.
        num_ends = 0 if end_id is None else 1
        longest = max(self._engine.max_length - 2 + num_ends, 0)
        is_cut = ids.row_lengths() > longest
        ends = tf.fill([ids.nrows(), num_ends], end_id or 0)
        ids = tf.concat([ids[:, :longest], ends], axis=1)
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        return _Rows(ids.to_tensor(self._tokenizer.pad_id), lengths, is_cut)

    def _in_slices(
        self,
        function: Callable[[tf.Tensor, tf.Tensor], Any],
        per_text: tf.Tensor,
        sources: tf.Tensor,
        targets: tf.Tensor,
    ) -> Any:
        """Applies a function, with `per_text` distributions, to slices."""
        rows = _LARGEST // (per_text * self._tokenizer.vocab_size)
        rows = tf.maximum(rows, 1)
        sizes = [tf.shape(x)[0] for x in (sources, targets)]
        check = tf.debugging.assert_equal(
            sizes, sizes[0], "All inputs must have the same length."
        )
        with tf.control_dependencies([check]):
            batch = tf.identity(sizes[0])
        call = tf.function(function, autograph=False).get_concrete_function(
            tf.TensorSpec([None, *sources.shape[1:]], sources.dtype),
            tf.TensorSpec([None, *targets.shape[1:]], targets.dtype),
        )
        count = tf.maximum(-(-batch // rows), 1)  # one for an empty batch
        arrays = tf.nest.map_structure(
            lambda x: tf.TensorArray(x.dtype, count, element_shape=x.shape),
            call.structured_outputs,
        )

        def body(i: tf.Tensor, arrays: Any) -> tuple[tf.Tensor, Any]:
            source = sources[i * rows : (i + 1) * rows]
            target = targets[i * rows : (i + 1) * rows]
            outputs = call(source, target)
            return i + 1, tf.nest.map_structure(
                lambda array, x: array.write(i, x), arrays, outputs
            )

        _, arrays = tf.while_loop(lambda i, _: i < count, body, (0, arrays))
        return tf.nest.map_structure(lambda array: array.concat(), arrays)


def _checked(settings: Search) -> list[tf.Operation]:
    """Returns assertions that tensors among the settings are in range."""
    assertions = []
    for field in dataclasses.fields(settings):
        value, rule = getattr(settings, field.name), field.metadata["rule"]
        if tf.is_tensor(value):
            message = f"{field.name} must be {rule.expected}. Received:"
            valid = rule.in_range(value)
            assertions.append(tf.debugging.Assert(valid, [message, value]))
    return assertions
