"""Tokenization in a TensorFlow graph."""

import hashlib
import itertools
import re
from typing import Any

import tensorflow as tf

from keras_transformer.support.startup import explain_missing_packages
from keras_transformer.text import Tokenizer
from keras_transformer.text.normalization import INVISIBLE, SPACES
from keras_transformer.text.tags import LANGUAGE_TAG, OTHER_TAG, leading_tags


class TextGraph(tf.Module):
    """Does in a graph what `Tokenizer` does in Python."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self._tokenizer = tokenizer
        self._source = self._target = _sentencepiece(tokenizer.model)
        if tokenizer.source is not tokenizer:
            self._source = _sentencepiece(tokenizer.source.model)
        self._replacements = None
        if tokenizer.replacements is not None:
            changes = tokenizer.replacements.changes()
            columns = [*changes], [*changes.values()]
            values = tf.lookup.KeyValueTensorInitializer(*columns)
            self._replacements = tf.lookup.StaticHashTable(values, "")

    def source_ids(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Returns ids `[B, (S)]` of sources `[B]`, without ids if blank."""
        tokenizer, text = self._tokenizer, _without_blank(text)
        if self._replacements is not None:
            text = self._replace_unknown(_normalize(text))
        if tokenizer.tags:
            default = tokenizer.language_token or ""
            text = _with_tags(text, leading_tags(tokenizer.tags), default)
        return _encode(self._source, tokenizer.source, text)

    def _replace_unknown(self, text: tf.Tensor) -> tf.Tensor:
        """Does what `normalization.Replacements.replace` does."""
        rows = tf.strings.unicode_split(text, "UTF-8")
        new = self._replacements.lookup(rows.values)
        new = tf.where(new == "", rows.values, new)
        text = tf.strings.reduce_join(rows.with_values(new), axis=-1)
        text = tf.strings.regex_replace(text, r"([0-9])\x00", r"\1 ")
        return tf.strings.regex_replace(text, r"\x00", "")

    def target_ids(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Returns ids `[B, (T)]` of targets `[B]`."""
        if self._tokenizer.normalizes_sources:
            text = _without_blank(text)
        return _encode(self._target, self._tokenizer, text)

    def texts(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns texts of target ids `[..., T]`; see `Tokenizer.decode`."""
        tokenizer, shape = self._tokenizer, tf.shape(ids)
        # [N, T]; a shape of [-1, T] would be ambiguous for T = 0.
        rows = tf.reshape(ids, [tf.reduce_prod(shape[:-1]), shape[-1]])
        is_end = tf.cast(rows == tokenizer.eos_id, tf.int32)
        keep = (
            (tf.cumsum(is_end, axis=1) == 0)
            & (rows != tokenizer.pad_id)
            & (rows != tokenizer.bos_id)
        )
        known = (rows >= 0) & (rows < tokenizer.vocab_size)
        rows = tf.where(known, rows, tokenizer.unk_id)
        texts = self._target.detokenize(tf.ragged.boolean_mask(rows, keep))
        texts = tf.strings.regex_replace(texts, "\ufffd", "")
        texts = tf.strings.strip(texts)
        return tf.ensure_shape(tf.reshape(texts, shape[:-1]), ids.shape[:-1])

    def joined_pieces(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the pieces of target ids `[..., T]`, without padding."""
        pieces = self._target.id_to_string(ids)
        is_token = ids != self._tokenizer.pad_id
        pieces = tf.where(is_token, tf.strings.join([pieces, " "]), "")
        return tf.strings.strip(tf.strings.reduce_join(pieces, axis=-1))


def _normalize(text: tf.Tensor) -> tf.Tensor:
    """Does what `normalization.normalize_source` does."""
    text = tf.strings.regex_replace(text, INVISIBLE, "")
    return tf.strings.regex_replace(text, SPACES, " ")


def _without_blank(text: tf.Tensor) -> tf.Tensor:
    """Does what `normalization.without_blank` does."""
    return tf.where(tf.strings.strip(_normalize(text)) == "", "", text)


def _with_tags(text: tf.Tensor, pattern: str, default: str) -> tf.Tensor:
    """Does what `tags.with_tags` does."""
    replace = tf.strings.regex_replace
    # \C matches a byte.
    tags = replace(replace(text, rf"^{pattern}\C*", r"\1"), r"[\t-\r ]", "")
    rest = _without_blank(replace(text, f"^{pattern}", "", False))
    own, added = [], []
    for kind, other in itertools.permutations((LANGUAGE_TAG, OTHER_TAG)):
        own.append(replace(replace(tags, other, ""), f"({kind})", r"\1 "))
        added.append("".join(f"{tag} " for tag in re.findall(kind, default)))
    missing = [x == "" for x in own]
    if added[0]:  # a source with its own language gets no other tag
        missing[1] &= missing[0]
    tags = map(tf.where, missing, added, own)
    return tf.where(rest == "", "", tf.strings.join([*tags, rest]))


def _encode(ops: Any, side: Tokenizer, text: tf.Tensor) -> tf.RaggedTensor:
    # The operation would flatten texts of any other rank.
    ids = ops.tokenize(tf.ensure_shape(text, [None]))
    known = ids.values < side.vocab_size
    return ids.with_values(tf.where(known, ids.values, side.unk_id))


def _sentencepiece(model: bytes) -> Any:
    """Returns tensorflow-text's tokenizer with a named resource."""
    # Unnamed resources belong to a cache that `tf.random.set_seed` clears. The
    # name is a digest, so that only equal models share a resource.
    with explain_missing_packages():
        import tensorflow_text
        from tensorflow_text.python.ops import sentencepiece_tokenizer

    class Model(tf.saved_model.experimental.TrackableResource):
        def _create_resource(self) -> tf.Tensor:
            library = sentencepiece_tokenizer.gen_sentencepiece_tokenizer
            return library.sentencepiece_op(
                model=model, shared_name=hashlib.sha256(model).hexdigest()
            )

    # FastSentencepieceTokenizer returns wrong ids for BPE models.
    ops = tensorflow_text.SentencepieceTokenizer(model)
    ops._model_resource = Model()
    # Creates the resource, which must not happen in a graph.
    _ = ops._model_resource.resource_handle
    return ops
