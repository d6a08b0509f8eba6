"""What every vocabulary offers: ids of texts, texts of ids, pieces, files."""

import abc
import functools
import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_write
from keras_transformer.support.startup import explain_missing_packages
from keras_transformer.text import normalization
from keras_transformer.text.tags import check_languages

if TYPE_CHECKING:
    import tensorflow as tf


class Vocabulary(abc.ABC):
    """Converts texts to the ids of a model and back.

    A model reads ids of `source` and writes ids of `target`. Both are the
    vocabulary itself, unless the languages have vocabularies of their own.

    Attributes:
        vocab_size: Number of ids.
        pad_id: Id of padding.
        unk_id: Id of unknown text.
        bos_id: Id of the start token, the decoder's first input. It may be
            `pad_id` or `eos_id`.
        eos_id: Id of the end token.
        source_eos_id: Id of what ends a source: `eos_id`, or `pad_id` if
            sources have no end token.
        language_token: What a source without a language token begins with,
            such as `>>deu<<`.
        tags: All texts that are one piece and may begin a source, such as
            `"<bt>"` and `">>deu<<"`.
        needs_no_tag: A pattern of how sources begin that get no
            `language_token`; None if that is added elsewhere.
        normalizes_sources: Whether spaces in sources are plain ones, invisible
            characters are left out, and targets of nothing else are empty: not
            in the vocabularies of other systems.
    """

    vocab_size: int
    pad_id: int
    unk_id: int
    bos_id: int
    eos_id: int
    source_eos_id: int
    language_token: str | None = None
    tags: Sequence[str] = ()
    needs_no_tag: str | None = None
    normalizes_sources: bool = False

    @property
    def languages(self) -> list[str]:
        """Those of the `tags` that are languages, such as `"fra"`."""
        return [tag[2:-2] for tag in self.tags if tag.startswith(">>")]

    @property
    def source(self) -> "Vocabulary":
        """The vocabulary of what the model reads."""
        return self

    @property
    def target(self) -> "Vocabulary":
        """The vocabulary of what the model writes."""
        return self

    @functools.cached_property
    def is_shared(self) -> bool:
        """Whether the ids of sources and targets are the same pieces."""
        source, target = (
            side.pieces(range(side.vocab_size)) for side in (self.source, self)
        )
        return source == target

    def translating_to(self, language: str) -> "Vocabulary":
        """Returns this vocabulary with another target language.

        Args:
            language: Such as `"fra"`, for a language token `>>fra<<`.

        Raises:
            InputError: If it has no such token.
        """
        raise InputError(
            "A target language needs a vocabulary with language tokens. "
            f"Received: target_language={language!r} for a model with one "
            "target language"
        )

    def with_tag(self, tag: str) -> "Vocabulary":
        """Returns this vocabulary with a tag before sources without one.

        It stands after the target language. `"bt"` is short for `"<bt>"`.
        Raises InputError if there is no such tag.
        """
        raise InputError(
            f"A tag needs a vocabulary with tags. Received: tag={tag!r} for a "
            "model that has no tags"
        )

    def check_tags(self, tags: Iterable[str]) -> None:
        """Raises InputError unless all of the tags are pieces."""
        missing = [tag for tag in tags if tag not in self.tags]
        if missing:
            raise InputError(
                "A tag must be one piece of the vocabulary, which has "
                f"{', '.join(self.tags) or 'none'}. Received: "
                f"{', '.join(missing)}. Train a new tokenizer with it."
            )

    def check_languages(
        self, sources: Iterable[str] | None = None, first: int = 1
    ) -> None:
        """Raises InputError for a source without a language that it needs.

        That is one of several `languages`, unless the source is blank or there
        is a `language_token`. None may name another. Default: any text.
        `first` is the number of the first one in messages.
        """
        if sources is not None and self.normalizes_sources:
            sources = map(normalization.normalize_source, sources)
        is_chosen = ">>" in (self.language_token or "")
        is_needed = len(self.languages) > 1 and not is_chosen
        check_languages(self.languages, is_needed, sources, first)

    @abc.abstractmethod
    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns what `tokenize` does, without TensorFlow.

        Args:
            texts: Texts of valid Unicode.

        Returns:
            The ids of each text, without start and end tokens.
        """

    def check_known(self, prefixes: Iterable[str]) -> None:
        """Raises InputError for characters that the vocabulary lacks."""
        for prefix in prefixes:
            if self.unk_id in self.encode([prefix])[0]:
                words = dict.fromkeys(prefix.split())
                unknown = " ".join(
                    x for x in words if self.unk_id in self.encode([x])[0]
                )
                raise InputError(
                    "A prefix must have characters of the model's vocabulary. "
                    f"Received: {prefix!r:.60}, of which "
                    f"{unknown or prefix!r} is unknown"
                )

    def encode_sources(self, texts: Sequence[str]) -> list[list[int]]:
        """Encodes texts as `tokenize_sources` does, without TensorFlow."""
        if self.normalizes_sources:
            texts = list(map(normalization.normalize_source, texts))
        if self.needs_no_tag:
            first, has_tag = self.language_token, re.compile(self.needs_no_tag)
            texts = [x if has_tag.match(x) else f"{first} {x}" for x in texts]
        return self.source.encode(texts)

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Encodes texts as `tokenize_targets` does, without TensorFlow."""
        if self.normalizes_sources:
            texts = normalization.without_blank(texts)
        return self.target.encode(texts)

    def decode(self, ids: Sequence[int]) -> str:
        """Returns what `detokenize` does, without TensorFlow.

        Args:
            ids: The ids of one text.

        Returns:
            The text of the ids up to the first end token. Bytes that are not
            UTF-8 are replaced by U+FFFD.
        """
        kept = []
        for token in map(int, ids):
            if token == self.eos_id:
                break
            if token not in (self.pad_id, self.bos_id):
                known = 0 <= token < self.vocab_size
                kept.append(token if known else self.unk_id)
        return self._join(kept)

    @abc.abstractmethod
    def _join(self, ids: list[int]) -> str:
        """Returns the text of ids that are all in the vocabulary."""

    @functools.cached_property
    def ops(self) -> Any:
        """The `tf.Module` that converts in graphs.

        It has `tokenize` (strings `[B]` -> int32 ids, ragged `[B, (T)]`),
        `detokenize`, its inverse, and `id_to_string` for pieces. Make it an
        attribute of a `tf.Module` that uses the vocabulary and is saved: a
        SavedModel contains only resources that its attributes track.
        """
        import tensorflow as tf

        # The first use may be in the graph of a function that is discarded.
        with tf.init_scope():
            return self._make_ops()

    @abc.abstractmethod
    def _make_ops(self) -> Any: ...

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Returns the vocabulary entry of each id; "▁" stands for a space."""
        return [self._piece(int(i)) for i in ids]

    @abc.abstractmethod
    def _piece(self, token_id: int) -> str:
        """Returns the entry of an id that is in the vocabulary."""

    @abc.abstractmethod
    def is_control(self, token_id: int) -> bool:
        """Returns whether an id is no text, such as the end token's."""

    @abc.abstractmethod
    def files(self) -> Mapping[str, bytes]:
        """Returns its files, which `open_vocabulary` reads: content by name."""

    @property
    def digest(self) -> str:
        """SHA-256 of its files, in hexadecimal."""
        return hashlib.sha256(b"".join(self.files().values())).hexdigest()

    def save_files(self, folder: str | os.PathLike) -> None:
        """Writes its files into a folder, each atomically."""
        for name, content in self.files().items():
            with atomic_write(Path(folder) / name) as partial:
                partial.write_bytes(content)

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

    def tokenize_sources(self, texts: "tf.Tensor") -> "tf.RaggedTensor":
        """Does what `tokenize` does for sources; see `normalizes_sources`."""
        if self.normalizes_sources:
            from keras_transformer.text import vocabulary_ops

            texts = vocabulary_ops.normalize_sources(texts)
        if self.needs_no_tag:
            import tensorflow as tf

            pattern = rf"({self.needs_no_tag})\C*"  # \C is a byte
            has_tag = tf.strings.regex_full_match(texts, pattern)
            tagged = tf.strings.join([f"{self.language_token} ", texts])
            texts = tf.where(has_tag, texts, tagged)
        return self.source.tokenize(texts)

    def tokenize_targets(self, texts: "tf.Tensor") -> "tf.RaggedTensor":
        """Does what `tokenize` does for targets; see `normalizes_sources`."""
        if self.normalizes_sources:
            from keras_transformer.text import vocabulary_ops

            texts = vocabulary_ops.without_blank(texts)
        return self.target.tokenize(texts)

    def detokenize(self, ids: "tf.Tensor | tf.RaggedTensor") -> "tf.Tensor":
        """Returns the texts of ids, each up to its first end token.

        Padding and start tokens are removed wherever they are. Ids outside
        the vocabulary are treated as unknown.

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
        texts = self.ops.detokenize(tf.ragged.boolean_mask(rows, keep))
        return tf.ensure_shape(tf.reshape(texts, shape[:-1]), ids.shape[:-1])

    def joined_pieces(self, ids: "tf.Tensor") -> "tf.Tensor":
        """Returns vocabulary entries, joined by spaces, which none contains.

        Args:
            ids: Integer tensor `[..., T]`, whose padding is left out.

        Returns:
            String tensor `[...]`.

        Raises:
            tf.errors.InvalidArgumentError: If an id is not in the vocabulary.
        """
        import tensorflow as tf

        pieces = self.ops.id_to_string(tf.cast(ids, tf.int32))
        is_token = ids != self.pad_id
        pieces = tf.where(is_token, tf.strings.join([pieces, " "]), "")
        return tf.strings.strip(tf.strings.reduce_join(pieces, axis=-1))

    def words(self, ids: Sequence[int]) -> list[list[int]]:
        """Returns the positions of the pieces that each word consists of.

        A word begins with the mark for a space. A control token, such as the
        end token or a bracket of a tree, is a word of its own.
        """
        words: list[list[int]] = []
        joins = False
        for at, piece in enumerate(self.pieces(ids)):
            is_control = self.is_control(int(ids[at]))
            if joins and not (is_control or piece.startswith("▁")):
                words[-1].append(at)
            else:
                words.append([at])
            joins = not is_control
        return words


def load_processor(model: bytes) -> Any:
    """Returns the library's processor of a serialized SentencePiece model."""
    with explain_missing_packages():
        import sentencepiece

    processor = sentencepiece.SentencePieceProcessor()
    try:
        # Empty bytes parse as a model without a vocabulary.
        if model and processor.LoadFromSerializedProto(model):
            return processor
    except RuntimeError:
        pass
    raise InputError(
        "A tokenizer must be a serialized SentencePiece model. "
        f"Received: {len(model)} bytes that cannot be parsed. Train "
        "it again, or copy the file again."
    )
