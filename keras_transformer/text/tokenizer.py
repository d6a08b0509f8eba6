"""SentencePiece BPE, one vocabulary for source and target."""

import functools
import hashlib
import io
import os
import re
import sys
import tempfile
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import sentencepiece

from keras_transformer.errors import InputError
from keras_transformer.files import atomic_write

if TYPE_CHECKING:
    import tensorflow as tf

# SentencePiece skips lines of more than 4,192 bytes; a character has at most
# four.
_LONGEST_LINE = 1_000


class Tokenizer:
    """Text to token ids and back: SentencePiece byte-pair encoding.

    One vocabulary serves source and target, so that the embeddings can be
    tied. Ids 0 to 3 of a vocabulary that `train` makes are padding, unknown,
    start and end. What is not in the vocabulary is spelled in UTF-8 bytes,
    so nothing becomes unknown.

    Text is normalised to Unicode NFC, control characters (tabs and line ends
    among them) become spaces, and spaces are trimmed and collapsed. That is
    all: SentencePiece's own default, `nmt_nfkc`, would also rewrite "…" as
    "...", "½" as "1⁄2" and full-width punctuation as ASCII, and a model that
    learns from such targets can never write what its references say.
    SentencePiece writes a space as U+2581 ("▁"): this one character comes
    back as a space.

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
            # An empty string parses, as a model without a vocabulary.
            valid = bool(model) and processor.LoadFromSerializedProto(model)
        except RuntimeError:
            valid = False
        if not valid:
            raise InputError(
                "The tokenizer must be a serialized SentencePiece model. "
                f"Received: {len(model)} bytes that do not parse as one. "
                "Train it again, or copy the file again."
            )
        special = {
            "pad": processor.pad_id(),
            "unk": processor.unk_id(),
            "bos": processor.bos_id(),
            "eos": processor.eos_id(),
        }
        if min(special.values()) < 0:
            raise InputError(
                "The SentencePiece model must have ids for padding, unknown, "
                f"start and end. Received: {special}, where -1 is a missing "
                "one. Train it with Tokenizer.train, or with --pad_id=0 "
                "--unk_id=1 --bos_id=2 --eos_id=3."
            )
        self.model = model
        self._processor = processor

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocab_size: int,
        max_sentences: int = 2_000_000,
    ) -> "Tokenizer":
        """Learns a vocabulary from text; the same text gives the same one.

        Args:
            texts: Lines of source and target, read once.
            vocab_size: Tokens in the vocabulary: 4 special ones, 256 bytes,
                the characters of the text and the merges. Characters that
                make up less than 0.001% of the text together are left to
                the bytes, or the noise of a large corpus would fill the
                vocabulary.
            max_sentences: Of a larger corpus, a random sample of this many
                lines is kept in memory and learned from.

        Raises:
            InputError: If the text is empty, or `vocab_size` is too small
                for its characters or more than it can fill (the message
                names the limit), or `max_sentences` is 100 or less.
        """
        if isinstance(texts, str | bytes):
            raise InputError(
                "Several texts are expected. Received: a single one; put it "
                "into a list."
            )
        if not isinstance(vocab_size, int) or vocab_size < 1:
            raise InputError(
                "vocab_size must be a positive integer. "
                f"Received: vocab_size={vocab_size!r}"
            )
        if max_sentences <= 100:
            raise InputError(
                "max_sentences must be more than 100, or no vocabulary can "
                f"be learned. Received: max_sentences={max_sentences}"
            )
        lines = _Lines(texts)
        model = io.BytesIO()
        # The sample of a large corpus, else drawn anew in each run.
        sentencepiece.set_random_generator_seed(0)
        with tempfile.TemporaryDirectory() as folder:
            rules = os.path.join(folder, "rules.tsv")
            with open(rules, "w", encoding="ascii") as file:
                file.write(_normalization_rules())
            try:
                sentencepiece.SentencePieceTrainer.train(
                    sentence_iterator=iter(lines),
                    model_writer=model,
                    model_type="bpe",
                    vocab_size=vocab_size,
                    byte_fallback=True,
                    character_coverage=0.99999,
                    normalization_rule_tsv=rules,
                    input_sentence_size=max_sentences,
                    shuffle_input_sentence=True,
                    pad_id=0,
                    unk_id=1,
                    bos_id=2,
                    eos_id=3,
                    minloglevel=2,
                )
            except RuntimeError as error:
                if lines.error is not None:
                    raise lines.error from None
                raise _explain(str(error), vocab_size) from error
        return cls(_without_path(model.getvalue()))

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Tokenizer":
        """Reads a SentencePiece model file.

        Raises:
            InputError: If the file cannot be read or is no such model.
        """
        path = os.fspath(path)
        try:
            with open(path, "rb") as file:
                model = file.read()
        except OSError as error:
            raise InputError(
                "The tokenizer must be a SentencePiece model file, such as "
                "the tokenizer.model of a training run. Received: "
                f"{path} ({error.strerror})"
            ) from error
        try:
            return cls(model)
        except InputError as error:
            raise InputError(f"{path} cannot be used. {error}") from error

    def save(self, path: str | os.PathLike) -> None:
        """Writes the SentencePiece model file, whole or not at all."""
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
        """Id of what the vocabulary cannot spell; unused with bytes."""
        return self._processor.unk_id()

    @property
    def bos_id(self) -> int:
        """Id of the token that starts the decoder's input."""
        return self._processor.bos_id()

    @property
    def eos_id(self) -> int:
        """Id of the token that ends a source and a target."""
        return self._processor.eos_id()

    @functools.cached_property
    def ops(self) -> Any:
        """The `tf.Module` behind `tokenize` and `detokenize`.

        Make it an attribute of a `tf.Module` that is to be saved: a
        SavedModel holds only the resources that its attributes reach.
        """
        import tensorflow as tf

        # First use may be inside a function's graph, which must not own it.
        with tf.init_scope():
            return _tensorflow_ops(self.model)

    def tokenize(self, texts: "tf.Tensor") -> "tf.RaggedTensor":
        """Returns the ids of texts, without start and end.

        Args:
            texts: String tensor of shape `[B]`, UTF-8.

        Returns:
            int32 ragged tensor of shape `[B, (T)]`.
        """
        return self.ops.tokenize(texts)

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the text of each id, "▁" standing for a space."""
        return [self._processor.IdToPiece(int(i)) for i in ids]

    def detokenize(self, ids: "tf.Tensor | tf.RaggedTensor") -> "tf.Tensor":
        """Returns the texts of ids, up to each row's first end.

        Padding and start are dropped wherever they are. An id outside the
        vocabulary counts as unknown, which is written "⁇".

        Args:
            ids: Integer tensor of shape `[..., T]`, or a ragged one.

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
        # [N, T]; N is not -1, which T = 0 would leave undefined.
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
    """Returns tensorflow-text's tokenizer, its model under a shared name.

    By default the model belongs to the cached kernel that made it, and
    `tf.random.set_seed` empties that cache: a tokenizer in use would fail
    with "Resource ... does not exist". A resource with a name stays. The
    name is a digest, so that only equal models share one.
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
    # Made on first access, which must be here and not in a graph.
    _ = ops._model_resource.resource_handle
    return ops


class _Lines:
    """Texts as the trainer can take them; keeps the error that stopped it."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = texts
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            for text in self._texts:
                text = text.replace("\0", " ")
                for start in range(0, len(text), _LONGEST_LINE):
                    yield text[start : start + _LONGEST_LINE]
        except Exception as error:
            # SentencePiece turns it into a RuntimeError that is only text.
            self.error = error
            raise


@functools.cache
def _normalization_rules() -> str:
    """Returns the rules "code points, tab, code points" of `Tokenizer`.

    SentencePiece replaces the longest match from the left.
    """
    rules = {}
    for point in range(sys.maxunicode + 1):
        character = chr(point)
        apart = unicodedata.normalize("NFD", character)
        together = unicodedata.normalize("NFC", character)
        partly = unicodedata.normalize("NFC", apart[:-1]) + apart[-1:]
        for form in (character, partly, apart):
            if form != together:
                rules[form] = together
    # NUL cannot be a key; it stays what it is, a byte.
    for point in (*range(1, 0x20), *range(0x7F, 0xA0), 0x2028, 0x2029):
        rules[chr(point)] = " "

    def hexadecimal(text: str) -> str:
        return " ".join(f"{ord(character):X}" for character in text)

    return "".join(
        f"{hexadecimal(form)}\t{hexadecimal(rules[form])}\n"
        for form in sorted(rules)
    )


def _without_path(model: bytes) -> bytes:
    """Returns the model without the name of the temporary rules file."""
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    proto.normalizer_spec.ClearField("normalization_rule_tsv")
    return proto.SerializeToString(deterministic=True)


def _explain(message: str, vocab_size: int) -> Exception:
    """Returns the error for a message of the SentencePiece trainer."""
    received = f"Received: vocab_size={vocab_size}"
    too_small = re.search(
        r"smaller than required_chars\. \d+ vs (\d+)", message
    )
    if too_small:
        return InputError(
            f"vocab_size must be at least {too_small[1]} for this text: 4 "
            "special tokens, 256 bytes and one token for each of its "
            f"characters. {received}"
        )
    too_large = re.search(r"set it to a value <= (\d+)", message)
    if too_large:
        return InputError(
            f"vocab_size must be at most {too_large[1]} for this text, which "
            f"has nothing more to merge. {received}. Use a smaller "
            "vocabulary or more text."
        )
    if "!sentences_.empty()" in message or "all_chars_count" in message:
        return InputError(
            "A tokenizer is trained on lines of text. Received: no line "
            "that is not blank."
        )
    return RuntimeError(f"SentencePiece could not train: {message}")
