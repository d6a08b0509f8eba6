"""SentencePiece BPE with one vocabulary for source and target."""

import functools
import hashlib
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import sentencepiece

from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write
from keras_transformer.text.training import train_model

if TYPE_CHECKING:
    import tensorflow as tf


class Tokenizer:
    """Converts text to token ids and back: SentencePiece byte-pair encoding.

    Source and target share one vocabulary, so that the embeddings can be
    tied. `train` gives the ids 0 to 3 to padding, unknown, start and end.
    Characters that are not in the vocabulary are encoded as UTF-8 bytes, so
    that no text becomes unknown.

    Text is normalized to Unicode NFC, but several combining marks keep their
    order unless Unicode has one character for the letter with all of them.
    Control characters (including tabs and line ends) become spaces, and spaces
    are trimmed and collapsed. Nothing else is changed: SentencePiece's
    default, `nmt_nfkc`, also rewrites "…" as "...", "½" as "1⁄2" and
    full-width punctuation as ASCII, and a model that is trained on such
    targets never matches references that have them.
    SentencePiece represents a space by U+2581 ("▁"), so this one character is
    decoded as a space.

    Args:
        model: A serialized SentencePiece model with ids for padding,
            unknown, start and end.

    Raises:
        InputError: If `model` is not such a model.

    Example:

    ```python
    tokenizer = Tokenizer.train(lines, vocab_size=8000)
    ids = tokenizer.tokenize(tf.constant(["Good morning."]))
    tokenizer.detokenize(ids)  # [b"Good morning."]
    ```
    """

    def __init__(self, model: bytes) -> None:
        processor = sentencepiece.SentencePieceProcessor()
        try:
            # Empty bytes parse as a model without a vocabulary.
            valid = bool(model) and processor.LoadFromSerializedProto(model)
        except RuntimeError:
            valid = False
        if not valid:
            raise InputError(
                "A tokenizer must be a serialized SentencePiece model. "
                f"Received: {len(model)} bytes that cannot be parsed. Train "
                "it again, or copy the file again."
            )
        special = {
            "pad": processor.pad_id(),
            "unk": processor.unk_id(),
            "bos": processor.bos_id(),
            "eos": processor.eos_id(),
        }
        if min(special.values()) < 0:
            raise InputError(
                "A SentencePiece model must have ids for padding, unknown, "
                f"start and end. Received: {special}, where -1 means that an "
                "id is missing. Train it with Tokenizer.train, or with "
                "--pad_id=0 --unk_id=1 --bos_id=2 --eos_id=3."
            )
        self.model = model
        self._processor = processor

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocab_size: int,
        max_sentences: int = 2_000_000,
        symbols: Sequence[str] = (),
    ) -> "Tokenizer":
        """Trains a vocabulary; the same text gives the same vocabulary.

        Args:
            texts: Lines of source and target text, read once.
            vocab_size: Size of the vocabulary: 4 special tokens, 256 bytes,
                the characters of the text, and merges. The rarest characters,
                together less than 0.001% of the text, are left to the bytes:
                the noise of a large corpus would fill the vocabulary.
            max_sentences: Of a larger corpus, a random sample of this many
                lines is kept in memory and used.
            symbols: Further pieces of the vocabulary that no text is
                tokenized to; `ids_of_pieces` has their ids.

        Returns:
            The tokenizer.

        Raises:
            InputError: If the text is empty or not valid Unicode,
                `vocab_size` is too small for its characters or larger than
                it can fill (the message has the limit), or `max_sentences` is
                100 or less.
        """
        return cls(train_model(texts, vocab_size, symbols, max_sentences))

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Tokenizer":
        """Reads a SentencePiece model file.

        Args:
            path: The file, such as the `tokenizer.model` of a run.

        Returns:
            The tokenizer.

        Raises:
            InputError: If the file cannot be read or is not a valid model.
        """
        path = os.fspath(path)
        try:
            with open(path, "rb") as file:
                model = file.read()
        except OSError as error:
            raise InputError(
                "A tokenizer must be a SentencePiece model file, such as the "
                f"tokenizer.model of a run. Received: {path} "
                f"({error.strerror})"
            ) from error
        try:
            return cls(model)
        except InputError as error:
            raise InputError(f"{path} cannot be used. {error}") from error

    def save(self, path: str | os.PathLike) -> None:
        """Writes the SentencePiece model file atomically."""
        with atomic_write(path) as partial:
            partial.write_bytes(self.model)

    @property
    def vocab_size(self) -> int:
        """Number of ids."""
        return self._processor.GetPieceSize()

    @property
    def pad_id(self) -> int:
        """Id of padding."""
        return self._processor.pad_id()

    @property
    def unk_id(self) -> int:
        """Id of unknown text; unused in vocabularies with bytes."""
        return self._processor.unk_id()

    @property
    def bos_id(self) -> int:
        """Id of the start token, the decoder's first input."""
        return self._processor.bos_id()

    @property
    def eos_id(self) -> int:
        """Id of the end token of sources and targets."""
        return self._processor.eos_id()

    @functools.cached_property
    def ops(self) -> Any:
        """The `tf.Module` that `tokenize` and `detokenize` use.

        Make it an attribute of a `tf.Module` that uses the tokenizer and is
        saved: a SavedModel contains only resources that its attributes track.
        """
        import tensorflow as tf

        # The first use may be in the graph of a function that is discarded.
        with tf.init_scope():
            return _tensorflow_ops(self.model)

    def tokenize(self, texts: "tf.Tensor") -> "tf.RaggedTensor":
        """Returns the ids of texts, without start and end tokens.

        Args:
            texts: String tensor of shape `[B]`, UTF-8.

        Returns:
            int32 ragged tensor of shape `[B, (T)]`.
        """
        import tensorflow as tf

        # The operation flattens what has another rank.
        return self.ops.tokenize(tf.ensure_shape(texts, [None]))

    @property
    def symbols(self) -> list[str]:
        """The `symbols` that it was trained with."""
        ids = range(self.vocab_size)
        special = {self.pad_id, self.bos_id, self.eos_id}
        return self.pieces(
            i for i in ids if self._processor.IsControl(i) and i not in special
        )

    @functools.cached_property
    def are_symbols(self) -> list[bool]:
        """Whether each entry of the vocabulary is one of `symbols`."""
        found = set(self.symbols)
        return [piece in found for piece in self.pieces(range(self.vocab_size))]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the vocabulary entry of each id; "▁" stands for a space."""
        return [self._processor.IdToPiece(int(i)) for i in ids]

    def words(self, ids: Sequence[int]) -> list[list[int]]:
        """Returns the positions of the pieces that each word consists of.

        A word begins with the mark for a space. A control token, such as the
        end token or a bracket of a tree, is a word of its own.

        Args:
            ids: The ids of a text.
        """
        words: list[list[int]] = []
        joins = False
        for at, piece_id in enumerate(map(int, ids)):
            is_control = self._processor.IsControl(piece_id)
            starts = self._processor.IdToPiece(piece_id).startswith("▁")
            if joins and not (is_control or starts):
                words[-1].append(at)
            else:
                words.append([at])
            joins = not is_control
        return words

    def joined_pieces(self, ids: "tf.Tensor | tf.RaggedTensor") -> "tf.Tensor":
        """Returns vocabulary entries, joined by spaces, which none contains.

        Args:
            ids: Integer tensor `[..., T]`, whose padding is left out, or
                ragged tensor `[B, (T)]`.

        Returns:
            String tensor `[...]`.
        """
        import tensorflow as tf

        if isinstance(ids, tf.RaggedTensor):
            pieces = ids.with_values(self.ops.id_to_string(ids.values))
            return tf.strings.reduce_join(pieces, axis=-1, separator=" ")
        pieces = self.ops.id_to_string(tf.cast(ids, tf.int32))
        is_token = ids != self.pad_id
        pieces = tf.where(is_token, tf.strings.join([pieces, " "]), "")
        return tf.strings.strip(tf.strings.reduce_join(pieces, axis=-1))

    def ids_of_pieces(self, pieces: "tf.Tensor") -> "tf.RaggedTensor":
        """Returns the ids of what `joined_pieces` returned.

        Args:
            pieces: String tensor `[B]`. What is not in the vocabulary is
                unknown.

        Returns:
            int32 ragged tensor `[B, (T)]`.
        """
        import tensorflow as tf

        split = tf.strings.split(tf.ensure_shape(pieces, [None]))
        return split.with_values(self.ops.string_to_id(split.values))

    def detokenize(self, ids: "tf.Tensor | tf.RaggedTensor") -> "tf.Tensor":
        """Returns the texts of ids, each up to its first end token.

        Padding and start tokens are removed wherever they are. Ids outside
        the vocabulary are treated as unknown, whose text is "⁇".

        Args:
            ids: Integer tensor or ragged tensor of shape `[..., T]`.

        Returns:
            String tensor of shape `[...]`; ragged if `ids` is ragged in
            more than its last dimension.
        """
        import tensorflow as tf

        if isinstance(ids, tf.RaggedTensor):
            if ids.ragged_rank > 1:
                return ids.with_values(self.detokenize(ids.values))
            ids = ids.to_tensor(self.pad_id)
        ids = tf.cast(ids, tf.int32)
        shape = tf.shape(ids)
        # [N, T]. N is computed, since -1 is ambiguous for T = 0.
        rows = tf.reshape(ids, [tf.reduce_prod(shape[:-1]), shape[-1]])
        is_end = tf.cast(rows == self.eos_id, tf.int32)
        keep = (
            (tf.cumsum(is_end, axis=1) == 0)
            & (rows != self.pad_id)
            & (rows != self.bos_id)
        )
        known = (rows >= 0) & (rows < self.vocab_size)
        rows = tf.where(known, rows, self.unk_id)
        # [N, (T)]
        ragged = tf.RaggedTensor.from_row_lengths(
            tf.boolean_mask(rows, keep),
            tf.reduce_sum(tf.cast(keep, tf.int64), axis=1),
            validate=False,
        )
        texts = tf.reshape(self.ops.detokenize(ragged), shape[:-1])
        return tf.ensure_shape(texts, ids.shape[:-1])


def _tensorflow_ops(model: bytes) -> Any:
    """Returns tensorflow-text's tokenizer with a named model resource.

    By default the cached kernel that creates the resource owns it, and
    `tf.random.set_seed` clears that cache: a tokenizer in use would then fail
    with "Resource ... does not exist". A resource with a shared name persists.
    The name is a digest, so that only equal models share a resource.
    """
    import tensorflow as tf
    import tensorflow_text
    from tensorflow_text.python.ops import sentencepiece_tokenizer

    class Model(tf.saved_model.experimental.TrackableResource):
        def _create_resource(self) -> tf.Tensor:
            library = sentencepiece_tokenizer.gen_sentencepiece_tokenizer
            return library.sentencepiece_op(
                model=model, shared_name=hashlib.sha256(model).hexdigest()
            )

    # FastSentencepieceTokenizer gives wrong ids for BPE.
    ops = tensorflow_text.SentencepieceTokenizer(model, out_type=tf.int32)
    ops._model_resource = Model()
    # The first access creates it, which must not happen in a graph.
    _ = ops._model_resource.resource_handle
    return ops
