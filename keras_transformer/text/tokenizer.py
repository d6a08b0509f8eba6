"""SentencePiece models: one for source and target, or one for each."""

import functools
import itertools
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_transformer.support.errors import InputError, name_file
from keras_transformer.support.files import (
    atomic_write,
    check_types,
    read_json,
)
from keras_transformer.text import normalization
from keras_transformer.text.tags import TAG, language_token
from keras_transformer.text.tokenizer_training import train_model
from keras_transformer.text.vocabulary import Vocabulary, load_processor

# The end of a model that gets an id for padding: a further piece of the type
# CONTROL. A message's fields may be repeated after it.
_PADDING = b"\n\t\n\x05<pad>\x18\x03"


class Tokenizer(Vocabulary):
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
    In sources, other spaces of Unicode are spaces too, and characters that
    nobody sees, such as soft hyphens, are left out: see `normalizes_sources`.
    Targets keep them.
    SentencePiece represents a space by U+2581 ("▁"), so this one character is
    decoded as a space.

    A tag, such as `<bt>` or the language `>>fra<<`, is one piece. The text
    after it has the ids that it has alone.

    Args:
        model: A serialized SentencePiece model with ids for unknown, start and
            end. One without an id for padding gets the next one.
        language_token: What a source that does not begin with a tag begins
            with: a tag, or several that spaces separate.
        source: The tokenizer of sources, with the same special tokens.
            Default: this one.

    Raises:
        InputError: If `model` is not such a model, a tag is missing, or the
            special tokens of sources are others.

    Example:

    ```python
    tokenizer = Tokenizer.train(lines, vocab_size=8000)
    ids = tokenizer.tokenize(tf.constant(["Good morning."]))
    tokenizer.detokenize(ids)  # [b"Good morning."]
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
                "A SentencePiece model must have ids for start and end, and no "
                f"<pad> that is text. Received: {special}, where -1 means that "
                "an id is missing. Train it with Tokenizer.train, or with "
                "--pad_id=0 --unk_id=1 --bos_id=2 --eos_id=3."
            )
        self.model = model
        self.vocab_size = processor.GetPieceSize()
        self._special = list(special.values())
        self.pad_id, self.unk_id, self.bos_id, self.eos_id = self._special
        self.source_eos_id = self.eos_id
        self._processor = processor
        self._source = source or self
        read = self._source.model
        self.normalizes_sources = read.endswith(normalization.SOURCE_MARK)
        special, expected = (
            {side._piece(i): i for i in side._special}
            for side in (self._source, self)
        )
        if special != expected:
            raise InputError(
                "Two tokenizers must have the same special tokens, with the "
                f"same ids. Received: {special} of sources, {expected} of "
                "targets. Train both with --pad_id=0 --unk_id=1 --bos_id=2 "
                "--eos_id=3."
            )
        if language_token:
            self.check_tags(language_token.split())
            self.language_token = language_token
            tags = "|".join(map(re.escape, self.tags))
            # A blank source stays blank.
            self.needs_no_tag = rf"[\t-\r ]*({tags}|$)"

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
                together less than 0.001% of the text, are left to the bytes:
                the noise of a large corpus would fill the vocabulary.
            max_sentences: Of a larger corpus, a random sample of this many
                lines is kept in memory and used.
            symbols: Further pieces of the vocabulary that no text is
                tokenized to.
            tags: Pieces that texts may begin with, as `"<bt>"` and `">>fra<<"`.

        Returns:
            The tokenizer.

        Raises:
            InputError: If the text is empty or not valid Unicode,
                `vocab_size` is too small for its characters or larger than
                it can fill (the message has the limit), `max_sentences` is
                100 or less, or a tag has another form.
        """
        sizes = vocab_size, max_sentences
        return cls(train_model(texts, *sizes, symbols, tags))

    @classmethod
    def open(cls, folder: Path) -> "Tokenizer":
        """Reads the files that `files` has, of a folder."""
        source, name = None, "tokenizer.model"
        if (folder / "source.spm").exists():
            source, name = cls.load(folder / "source.spm"), "target.spm"
        tokenizer = cls.load(folder / name)
        file = folder / "special_tokens_map.json"
        special = {}
        with name_file(file):
            if file.exists():
                special = read_json(file)
                check_types(file, special, {"language_token": str})
            return cls(tokenizer.model, special.get("language_token"), source)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Tokenizer":
        """Reads a SentencePiece model file.

        Args:
            path: The file, such as the `tokenizer.model` of a run.

        Raises:
            InputError: If the file cannot be read or is not a valid model.
        """
        try:
            model = Path(path).read_bytes()
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
        files = {"tokenizer.model": self.model}
        if self.source is not self:
            files = {"source.spm": self.source.model, "target.spm": self.model}
        if self.language_token is not None:
            special = json.dumps({"language_token": self.language_token})
            files["special_tokens_map.json"] = special.encode()
        return files

    @property
    def source(self) -> "Tokenizer":
        return self._source

    @functools.cached_property
    def tags(self) -> list[str]:
        """The `tags` that the tokenizer of sources was trained with."""
        source = self.source
        pieces = map(source._piece, range(source.vocab_size))
        return [x[1:] for x in pieces if re.fullmatch("▁" + TAG, x)]

    def translating_to(self, language: str) -> "Tokenizer":
        if not self.languages:
            return super().translating_to(language)
        return self._with_language_token(language_token(language))

    def _with_language_token(self, tags: str) -> "Tokenizer":
        source = None if self.source is self else self.source
        return Tokenizer(self.model, tags, source)

    def with_tag(self, tag: str) -> "Tokenizer":
        tag = tag if re.fullmatch(TAG, tag) else f"<{tag}>"
        if tag.startswith(">>"):
            raise InputError(
                "A tag must not be a language. Received: "
                f"tag={tag!r}. Set it as the target language."
            )
        tags = filter(None, [self.language_token, tag])
        return self._with_language_token(" ".join(tags))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        # Alone it would take as many threads as the machine has cores.
        return self._processor.Encode(list(texts), num_threads=1)

    def id_of_piece(self, piece: str) -> int:
        """Returns the id of an entry, of others that of unknown text."""
        return self._processor.PieceToId(piece)

    def _join(self, ids: list[int]) -> str:
        return self._processor.DecodeIds(ids)

    def _make_ops(self) -> Any:
        from keras_transformer.text.vocabulary_ops import sentencepiece_ops

        return sentencepiece_ops(self.model)

    @property
    def symbols(self) -> list[str]:
        """The `symbols` that it was trained with."""
        ids = range(self.vocab_size)
        return self.pieces(list(itertools.compress(ids, self.are_symbols)))

    @functools.cached_property
    def are_symbols(self) -> list[bool]:
        """Whether each entry of the vocabulary is one of `symbols`."""
        special = {self.pad_id, self.bos_id, self.eos_id}
        ids = range(self.vocab_size)
        return [self.is_control(i) and i not in special for i in ids]

    def _piece(self, token_id: int) -> str:
        return self._processor.IdToPiece(token_id)

    def is_control(self, token_id: int) -> bool:
        return self._processor.IsControl(int(token_id))
