"""The vocabulary: one SentencePiece model for both languages, or one each."""

import functools
import hashlib
import json
import os
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from keras_transformer.support.errors import InputError, name_file
from keras_transformer.support.files import atomic_write, check_types, read_json
from keras_transformer.text import normalization
from keras_transformer.text.pieces import Pieces
from keras_transformer.text.sentencepiece_model import load_processor
from keras_transformer.text.tags import (
    TAG,
    check_languages,
    language_token,
    leading_tags,
    with_tags,
)
from keras_transformer.text.tokenizer_training import train_model

# Adds an id for padding to a serialized model: one more piece of the type
# CONTROL. The fields of a message may continue after its end.
_PADDING = b"\n\t\n\x05<pad>\x18\x03"
# The control piece after the last id. Pieces after it become unknown.
END_OF_IDS = "<end of ids>"


class Tokenizer(Pieces):
    """Converts text to token ids and back: SentencePiece byte-pair encoding.

    A model reads ids of `source` and writes ids of `target`. Both are the
    tokenizer itself, unless the languages have separate vocabularies.
    `train` makes one vocabulary for both, so that the embeddings can be tied,
    and gives the ids 0 to 3 to padding, unknown, start and end. Characters
    that are not in the vocabulary are encoded as UTF-8 bytes, so that no text
    becomes unknown.

    Text is normalized to Unicode NFC, but several combining marks keep their
    order unless Unicode has one character for the letter with all of them.
    Control characters (including tabs and line ends) become spaces, and spaces
    are trimmed and collapsed. Nothing else is changed, unlike with
    SentencePiece's default, which rewrites "…" as "...". Sources are normalized
    further: see `normalizes_sources`. SentencePiece represents a space by "▁"
    (U+2581), which is decoded as a space.

    A tag, such as `<bt>` or the language `>>fra<<`, is one piece. It does not
    change the ids of the text after it.

    Args:
        model: A serialized SentencePiece model with ids for unknown, start and
            end. One without an id for padding gets the next one.
        language_token: The target language, a tag, or both, separated by
            spaces: for sources without a language, or without a tag.
        source: The tokenizer of sources, with the same ids for padding, start
            and end. If its end is its padding, sources have no end token.
            Default: this one.

    Attributes:
        vocab_size: Number of ids.
        pad_id: Id of padding.
        unk_id: Id of unknown text.
        bos_id: Id of the start token, the decoder's first input. It may be
            `pad_id` or `eos_id`.
        eos_id: Id of the end token.
        source_eos_id: Id at the end of a source: `eos_id`, or `pad_id` if
            sources have no end token.
        normalizes_sources: Whether spaces in sources become plain ones,
            invisible characters are removed, other characters that the
            vocabulary lacks become similar ones, and targets of nothing but
            spaces are empty: true after `train`.

    Raises:
        InputError: If `model` is not such a model, a tag is missing, or
            sources have different special tokens.

    Example:

    ```python
    tokenizer = Tokenizer.train(lines, vocab_size=8000)
    ids = tokenizer.encode(["Good morning."])[0]
    tokenizer.decode(ids)  # "Good morning."
    ```
    """

    def __init__(
        self,
        model: bytes,
        language_token: str | None = None,
        source: "Tokenizer | None" = None,
    ) -> None:
        processor = load_processor(model)
        unk_id = processor.unk_id()
        if processor.pad_id() < 0 and processor.PieceToId("<pad>") == unk_id:
            model += _PADDING
            processor = load_processor(model)
        names = ("pad", "unk", "bos", "eos")
        special = {name: getattr(processor, f"{name}_id")() for name in names}
        if min(special.values()) < 0:
            raise InputError(
                "A SentencePiece model must have ids for start and end, and "
                f"its <pad> must not be text. Received: {special} (-1: no id). "
                "Train it with Tokenizer.train, or with pad_id=0, unk_id=1, "
                "bos_id=2, eos_id=3."
            )
        self.model = model
        self.pad_id, self.unk_id, self.bos_id, self.eos_id = special.values()
        size, end = processor.GetPieceSize(), processor.PieceToId(END_OF_IDS)
        self.vocab_size = size if end == self.unk_id else end
        self._processor = processor
        self.target, self.source = self, source or self
        self.source_eos_id = self.source.eos_id
        read = self.source.model
        self.normalizes_sources = read.endswith(normalization.SOURCE_MARK)
        received, expected = (
            {
                side.pieces([i])[0]: i
                for i in (side.pad_id, side.bos_id, side.eos_id)
            }
            for side in (self.source, self)
        )
        if not received.items() <= expected.items():
            raise InputError(
                "Two tokenizers must have the same special tokens, with the "
                f"same ids. Received: {received} for sources, {expected} for "
                "targets. Train both with pad_id=0, unk_id=1, bos_id=2, "
                "eos_id=3."
            )
        self.language_token = language_token or None
        if language_token:
            self.check_tags(language_token.split())

    def __reduce__(self) -> tuple:
        """Pickles and copies its serialized models."""
        source = None if self.source is self else self.source
        return type(self), (self.model, self.language_token, source)

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocab_size: int,
        max_sentences: int = 2_000_000,
        symbols: Sequence[str] = (),
        tags: Sequence[str] = (),
    ) -> "Tokenizer":
        """Trains a vocabulary; the same text gives the same vocabulary.

        Args:
            texts: Lines of source and target text, read once.
            vocab_size: Size of the vocabulary: 4 special tokens, 256 bytes,
                the characters of the text, and merges. The rarest characters,
                together less than 0.001% of the text, become bytes: the noise
                of a large corpus would fill the vocabulary. Each digit is a
                piece of its own.
            max_sentences: A larger corpus is reduced to a random sample of
                this many lines.
            symbols: Further pieces, which no text is tokenized to.
            tags: Pieces that texts may begin with, as `"<bt>"` and `">>fra<<"`.

        Returns:
            The tokenizer.

        Raises:
            InputError: If the text is empty or not valid Unicode,
                `vocab_size` is too small for its characters or larger than
                it can fill (the message states the limit), or a tag is
                malformed.
        """
        return cls(train_model(texts, vocab_size, max_sentences, symbols, tags))

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Tokenizer":
        """Reads a SentencePiece model file, or the files of `save_files`.

        Args:
            path: The file, or the folder of a run or of a prepared corpus.

        Raises:
            InputError: If a file cannot be read or is not a valid model.
        """
        path, source = Path(path), None
        if not path.is_dir():
            return cls._load_file(path)
        if (path / "source.spm").exists():
            source = cls._load_file(path / "source.spm")
        name = "target.spm" if source else "tokenizer.model"
        model = cls._load_file(path / name).model
        file, special = path / "special_tokens_map.json", {}
        with name_file(file):
            if file.exists():
                special = read_json(file)
                check_types(file, special, {"language_token": str})
            return cls(model, special.get("language_token"), source)

    @classmethod
    def _load_file(cls, path: Path) -> "Tokenizer":
        try:
            model = path.read_bytes()
        except OSError as error:
            raise InputError(
                "A tokenizer must be a SentencePiece model file, such as the "
                f"tokenizer.model of a run. Received: {path} "
                f"({error.strerror})"
            ) from error
        with name_file(path):
            return cls(model)

    def save(self, path: str | os.PathLike) -> None:
        """Writes the SentencePiece model file atomically."""
        with atomic_write(path) as partial:
            partial.write_bytes(self.model)

    def files(self) -> Mapping[str, bytes]:
        """Returns the content of its files, which `load` reads, by name."""
        files = {"tokenizer.model": self.model}
        if self.source is not self:
            files = {"source.spm": self.source.model, "target.spm": self.model}
        if self.language_token is not None:
            special = json.dumps({"language_token": self.language_token})
            files["special_tokens_map.json"] = special.encode()
        return files

    @property
    def digest(self) -> str:
        """SHA-256 of its files, in hexadecimal."""
        return hashlib.sha256(b"".join(self.files().values())).hexdigest()

    def save_files(self, folder: str | os.PathLike) -> None:
        """Writes its files into a folder, each atomically."""
        for name, content in self.files().items():
            with atomic_write(Path(folder) / name) as partial:
                partial.write_bytes(content)

    @functools.cached_property
    def is_shared(self) -> bool:
        """Whether sources and targets have the same pieces."""
        return self.source.pieces() == self.pieces()

    # === Tags ===

    @functools.cached_property
    def tags(self) -> list[str]:
        """The pieces that may begin a source, such as `"<bt>"`."""
        library = self.source._processor
        # Learned pieces have other scores.
        given = (
            library.IdToPiece(i)
            for i in range(self.source.vocab_size)
            if library.GetScore(i) == 0
        )
        return [x[1:] for x in given if re.fullmatch("▁" + TAG, x)]

    @property
    def languages(self) -> list[str]:
        """The languages among the `tags`, such as `"fra"`."""
        return [tag[2:-2] for tag in self.tags if tag.startswith(">>")]

    def check_tags(self, tags: Iterable[str]) -> None:
        """Raises InputError unless all of the tags are pieces."""
        missing = [tag for tag in tags if tag not in self.tags]
        if missing:
            raise InputError(
                "A tag must be one piece of the vocabulary, which contains "
                f"{', '.join(self.tags) or 'none'}. Received: "
                f"{', '.join(missing)}. Train a new tokenizer with it."
            )

    def check_languages(
        self, sources: Iterable[str] | None = None, first: int = 1
    ) -> None:
        """Raises InputError if a source lacks its language or it is unknown.

        A source needs a language if there are several and none is set, unless
        it is blank. `sources` may be None for any text. `first` is the number
        of the first source in messages.
        """
        if sources is not None and self.normalizes_sources:
            sources = map(normalization.normalize_source, sources)
        is_chosen = ">>" in (self.language_token or "")
        is_needed = len(self.languages) > 1 and not is_chosen
        check_languages(self.languages, is_needed, sources, first)

    def translating_to(self, language: str) -> "Tokenizer":
        """Returns this tokenizer with a target language.

        Args:
            language: Such as `"fra"`, for a language token `>>fra<<`.

        Raises:
            InputError: If there is no such token.
        """
        return self._with_language_token(language_token(language))

    def with_tag(self, tag: str) -> "Tokenizer":
        """Returns this tokenizer with a tag before sources without one.

        It follows the target language. `"bt"` is short for `"<bt>"`.
        Raises InputError if there is no such tag.
        """
        tag = tag if re.fullmatch(TAG, tag) else f"<{tag}>"
        if tag.startswith(">>"):
            raise InputError(
                "A tag must not be a language. Received: "
                f"tag={tag!r}. Set it as the target language."
            )
        together = filter(None, [self.language_token, tag])
        return self._with_language_token(" ".join(together))

    def _with_language_token(self, language_token: str) -> "Tokenizer":
        source = None if self.source is self else self.source
        return Tokenizer(self.model, language_token, source)

    # === Texts and ids ===

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each text, without start and end tokens.

        Args:
            texts: Texts of valid Unicode.
        """
        # By default it would start a thread per core.
        rows = self._processor.Encode(list(texts), num_threads=1)
        size, unk_id = self.vocab_size, self.unk_id
        if size < self._processor.GetPieceSize():
            rows = [[i if i < size else unk_id for i in row] for row in rows]
        return rows

    @functools.cached_property
    def replacements(self) -> normalization.Replacements | None:
        """What sources are normalized with, if they are."""
        if not self.normalizes_sources:
            return None
        known = {piece for piece in self.source.pieces() if len(piece) == 1}
        return normalization.Replacements(known.union(" ", *self.tags))

    def normalize_source(self, text: str) -> str:
        """Returns a source with the spaces and characters that are read."""
        if self.replacements is None:
            return text
        return self.replacements.replace(normalization.normalize_source(text))

    def encode_sources(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of sources, normalized and with their tags."""
        texts = map(self.normalize_source, texts)
        if self.tags:
            pattern, tags = leading_tags(self.tags), self.language_token or ""
            texts = (with_tags(text, pattern, tags) for text in texts)
        return self.source.encode(texts)

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of targets; see `normalizes_sources`."""
        if self.normalizes_sources:
            texts = normalization.without_blank(texts)
        return self.target.encode(texts)

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids up to the first end token.

        Padding and start tokens are removed everywhere. Ids outside the
        vocabulary are unknown. Bytes that are not UTF-8, such as those of
        a character that is cut, and spaces around the text are removed.
        """
        kept = []
        for token in map(int, ids):
            if token == self.eos_id:
                break
            if token not in (self.pad_id, self.bos_id):
                known = 0 <= token < self.vocab_size
                kept.append(token if known else self.unk_id)
        text = self._processor.DecodeIds(kept).replace("\ufffd", "")
        return text.strip(string.whitespace)

    def check_known(self, prefixes: Iterable[str]) -> None:
        """Raises InputError for characters that the vocabulary lacks."""
        for prefix in prefixes:
            if self.unk_id in self.encode([prefix])[0]:
                raise InputError(
                    "A prefix must consist of characters in the vocabulary. "
                    f"Received: {prefix!r:.60}"
                )
