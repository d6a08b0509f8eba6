"""Vocabularies in graphs: the operations of TensorFlow that convert."""

import hashlib
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from keras_transformer.support.startup import explain_missing_packages
from keras_transformer.text.normalization import INVISIBLE, SPACES
from keras_transformer.text.tags import LANGUAGE


def normalize_sources(texts: tf.Tensor) -> tf.Tensor:
    """Does what `normalization.normalize_source` does."""
    texts = tf.strings.regex_replace(texts, INVISIBLE, "")
    return tf.strings.regex_replace(texts, SPACES, " ")


def without_blank(texts: tf.Tensor) -> tf.Tensor:
    """Does what `normalization.without_blank` does."""
    return tf.where(tf.strings.strip(normalize_sources(texts)) == "", "", texts)


def sentencepiece_ops(model: bytes, out_type: tf.DType = tf.int32) -> Any:
    """Returns tensorflow-text's tokenizer with a named model resource.

    By default the cached kernel that creates the resource owns it, and
    `tf.random.set_seed` clears that cache: a tokenizer in use would then fail
    with "Resource ... does not exist". A resource with a shared name persists.
    The name is a digest, so that only equal models share a resource. Texts
    become ids, or pieces if `out_type` is `tf.string`.
    """
    with explain_missing_packages():
        import tensorflow_text
        from tensorflow_text.python.ops import sentencepiece_tokenizer

    class Model(tf.saved_model.experimental.TrackableResource):
        def _create_resource(self) -> tf.Tensor:
            library = sentencepiece_tokenizer.gen_sentencepiece_tokenizer
            return library.sentencepiece_op(
                model=model, shared_name=hashlib.sha256(model).hexdigest()
            )

    # FastSentencepieceTokenizer gives wrong ids for BPE.
    ops = tensorflow_text.SentencepieceTokenizer(model, out_type=out_type)
    ops._model_resource = Model()
    # The first access creates it, which must not happen in a graph.
    _ = ops._model_resource.resource_handle
    return ops


def replace_invalid(texts: tf.Tensor) -> tf.Tensor:
    """Replaces each byte that is not UTF-8 by U+FFFD, as SentencePiece does.

    U+10FFFF, which is no character, becomes U+FFFD too.
    """
    mark, valid = "\U0010ffff", r"[\x00-\x{D7FF}\x{E000}-\x{10FFFF}]"
    # A mark after each character and in the place of each other byte, \C.
    texts = tf.strings.regex_replace(texts, rf"({valid})|\C", rf"\1{mark}")
    texts = tf.strings.regex_replace(texts, f"([^{mark}]){mark}", r"\1")
    return tf.strings.regex_replace(texts, mark, "\ufffd")


class LookupOps(tf.Module):
    """The operations of a `LookupVocabulary`, as `Vocabulary.ops` says."""

    def __init__(
        self,
        model: bytes,
        pieces: list[str],
        unk_id: int,
        language: str,
        own_bytes: Mapping[str, bytes],
    ) -> None:
        super().__init__()
        self._bytes = None
        if own_bytes:
            columns = list(own_bytes), list(own_bytes.values())
            initializer = tf.lookup.KeyValueTensorInitializer(*columns)
            self._bytes = tf.lookup.StaticHashTable(initializer, "")
        self._language = language
        self._splitter = sentencepiece_ops(model, tf.string)
        self._pieces = tf.constant(pieces)
        ids = tf.range(len(pieces), dtype=tf.int64)
        self._table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(self._pieces, ids), unk_id
        )

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        rest = tf.strings.regex_replace(texts, LANGUAGE, "")
        # Empty, and so no piece, if the text has no language token; \C is a
        # byte.
        first = tf.strings.regex_replace(texts, rf"({LANGUAGE})?\C*", r"\2")
        split = self._splitter.tokenize(rest)
        has_default = (first == "") & (split.row_lengths() > 0)
        first = tf.where(has_default, self._language, first)
        pieces = tf.concat([tf.strings.split(first), split], axis=1)
        ids = self._table.lookup(pieces.values)
        return pieces.with_values(tf.cast(ids, tf.int32))

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        pieces = self.id_to_string(ids.values)
        parts = tf.strings.regex_replace(pieces, "▁", " ")
        if self._bytes is not None:
            own_bytes = self._bytes.lookup(pieces)
            parts = tf.where(own_bytes == "", parts, own_bytes)
        text = tf.strings.reduce_join(ids.with_values(parts), axis=-1)
        if self._bytes is not None:
            text = replace_invalid(text)
        return tf.strings.strip(text)

    def id_to_string(self, ids: tf.Tensor) -> tf.Tensor:
        return tf.gather(self._pieces, ids)
