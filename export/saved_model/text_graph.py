"""Tokenization in a TensorFlow graph."""

import hashlib
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from keras_transformer.support.startup import explain_missing_packages
from keras_transformer.text import Tokenizer, Vocabulary, tags
from keras_transformer.text.normalization import INVISIBLE, SPACES


class TextGraph(tf.Module):
    """Does in a graph what `Tokenizer` does in Python."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self._tokenizer = tokenizer
        self._target = _sentencepiece(tokenizer.target.model)
        self._source = self._target
        if tokenizer.source is not tokenizer.target:
            self._source = _sentencepiece(tokenizer.source.model)
        if tokenizer.normalizes_sources:
            table = tokenizer.replacements.table
            values = tf.lookup.KeyValueTensorInitializer(
                list(table), list(table.values()), tf.string, tf.string
            )
            self._replacements = tf.lookup.StaticHashTable(values, "")

    def source_ids(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Returns ids `[B, (S)]` of sources `[B]`, without ids if blank."""
        tokenizer = self._tokenizer
        text = _without_blank(text)
        if tokenizer.normalizes_sources:
            text = self._replace_unknown(_normalize(text))
        if tokenizer.tags:
            pattern = tags.leading_tags(tokenizer.tags)
            text = _with_tags(text, pattern, tokenizer.default_tags)
        return _encode(self._source, tokenizer.source, text)

    def _replace_unknown(self, text: tf.Tensor) -> tf.Tensor:
        """Does what `normalization.Replacements.replace` does."""
        replacements = self._tokenizer.replacements
        if replacements.numbers:
            pattern = f"([{replacements.digits}])([{replacements.numbers}])"
            for _ in range(2):  # matches may overlap, as in 1²³
                text = tf.strings.regex_replace(text, pattern, r"\1 \2")
        rows = tf.strings.unicode_split(text, "UTF-8")
        new = self._replacements.lookup(rows.values)
        new = tf.where(new == "", rows.values, new)
        return tf.strings.reduce_join(rows.with_values(new), axis=-1)

    def target_ids(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Returns ids `[B, (T)]` of targets `[B]`."""
        if self._tokenizer.normalizes_sources:
            text = _without_blank(text)
        return _encode(self._target, self._tokenizer.target, text)

    def texts(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns texts of target ids `[..., T]`; see `Tokenizer.decode`."""
        tokenizer = self._tokenizer
        shape = tf.shape(ids)
        # [N, T]; a shape of [-1, T] would be ambiguous for T = 0.
        rows = tf.reshape(ids, [tf.reduce_prod(shape[:-1]), shape[-1]])
        is_end = tf.cast(rows == tokenizer.eos_id, tf.int32)
        keep = tf.cumsum(is_end, axis=1) == 0
        keep = keep & (rows != tokenizer.pad_id) & (rows != tokenizer.bos_id)
        known = (rows >= 0) & (rows < tokenizer.vocab_size)
        rows = tf.where(known, rows, tokenizer.unk_id)
        texts = self._target.detokenize(tf.ragged.boolean_mask(rows, keep))
        texts = tf.strings.regex_replace(texts, "\ufffd", "")
        texts = tf.strings.strip(texts)
        return tf.ensure_shape(tf.reshape(texts, shape[:-1]), ids.shape[:-1])

    def joined_pieces(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the pieces of target ids `[..., T]`, without padding."""
        is_token = ids != self._tokenizer.pad_id
        # The model may lack padding.
        ids = tf.where(is_token, ids, self._tokenizer.unk_id)
        pieces = self._target.id_to_string(ids)
        pieces = tf.where(is_token, tf.strings.join([pieces, " "]), "")
        return tf.strings.strip(tf.strings.reduce_join(pieces, axis=-1))


def _normalize(text: tf.Tensor) -> tf.Tensor:
    """Does what `normalization.normalize_source` does."""
    text = tf.strings.regex_replace(text, INVISIBLE, "")
    return tf.strings.regex_replace(text, SPACES, " ")


def _without_blank(text: tf.Tensor) -> tf.Tensor:
    """Does what `normalization.without_blank` does."""
    return tf.where(tf.strings.strip(_normalize(text)) == "", "", text)


def _with_tags(
    text: tf.Tensor, pattern: str, default_tags: Sequence[str]
) -> tf.Tensor:
    """Does what `tags.with_tags` does."""
    replace = tf.strings.regex_replace
    rest = _without_blank(replace(text, f"^{pattern}", "", False))
    # \C matches a byte.
    start = replace(replace(text, rf"^{pattern}\C*", r"\1"), r"[\t-\r ]", "")
    languages = replace(replace(start, tags.OTHER_TAG, ""), tags.TAG, r"\1 ")
    others = replace(replace(start, tags.LANGUAGE_TAG, ""), tags.TAG, r"\1 ")
    lacks_language, lacks_others = languages == "", others == ""
    default_languages, default_others = tags.split_tags(default_tags)
    if default_languages:
        # A source with its own language does not get tags of a different one.
        lacks_others &= lacks_language
    added = "".join(f"{tag} " for tag in default_languages)
    languages = tf.where(lacks_language, added, languages)
    added = "".join(f"{tag} " for tag in default_others)
    others = tf.where(lacks_others, added, others)
    return tf.where(rest == "", "", tf.strings.join([languages, others, rest]))


def _encode(ops: Any, vocabulary: Vocabulary, text: Any) -> tf.RaggedTensor:
    # The operation would flatten texts of any other rank.
    ids = ops.tokenize(tf.ensure_shape(text, [None]))
    known = ids.values < vocabulary.vocab_size
    return ids.with_values(tf.where(known, ids.values, vocabulary.unk_id))


class _NamedModel(tf.saved_model.experimental.TrackableResource):
    """The resource of tensorflow-text's tokenizer, with a name.

    Unnamed resources belong to a cache that `tf.random.set_seed` clears. The
    name is a digest, so that only equal models share a resource.
    """

    def __init__(self, model: bytes) -> None:
        super().__init__()
        self._model = model
        _ = self.resource_handle  # creates it, which must not happen in a graph

    def _create_resource(self) -> tf.Tensor:
        from tensorflow_text.python.ops import sentencepiece_tokenizer

        library = sentencepiece_tokenizer.gen_sentencepiece_tokenizer
        digest = hashlib.sha256(self._model).hexdigest()
        return library.sentencepiece_op(model=self._model, shared_name=digest)


def _sentencepiece(model: bytes) -> Any:
    """Returns tensorflow-text's tokenizer with a named resource."""
    with explain_missing_packages():
        import tensorflow_text

    # FastSentencepieceTokenizer returns wrong ids for BPE models.
    ops = tensorflow_text.SentencepieceTokenizer(model)
    # tensorflow-text has no argument for the name.
    ops._model_resource = _NamedModel(model)
    return ops
