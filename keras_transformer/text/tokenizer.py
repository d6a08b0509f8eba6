"""`Tokenizer`: sources to ids, targets to ids, and ids to text."""

import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from keras_transformer.support.errors import InputError, explain_damage
from keras_transformer.support.files import atomic_write, read_json
from keras_transformer.text import normalization
from keras_transformer.text.ids import SpecialIds
from keras_transformer.text.tags import (
    TAG,
    check_languages,
    language_token,
    leading_tags,
    with_tags,
)
from keras_transformer.text.tokenizer_training import train_model
from keras_transformer.text.vocabulary import Vocabulary

# One model for both sides, or one for each, and what is not in a model.
_SHARED = "tokenizer.model"
_SOURCE = "source.spm"
_TARGET = "target.spm"
_DESCRIPTION = "tokenizer.json"


class Tokenizer:
    """Converts texts to token ids and back.

    A model reads ids of `source` and writes ids of `target`. A tag before a
    source, such as `<bt>` or the language `>>fra<<`, is one piece, and does not
    change the ids of the text after it.

    Args:
        source: The vocabulary of sources. If its end is its padding, sources
            have no end token.
        target: The vocabulary of targets, with the same ids for padding, start
            and end. Default: `source`.
        normalizes_sources: Whether spaces in sources become plain ones,
            invisible characters are removed, other characters that the
            vocabulary lacks become similar ones, and targets of nothing but
            spaces are empty: true after `train`.
        default_tags: The target language, a tag, or both: for sources without
            a language, or without a tag.

    Attributes:
        vocab_size, pad_id, unk_id, bos_id, eos_id: As in `target`.
        source_eos_id: Id at the end of a source: `eos_id`, or `pad_id` if
            sources have no end token.

    Raises:
        InputError: If a tag is missing, or the vocabularies do not fit.

    Example:

    ```python
    tokenizer = Tokenizer.train(lines, vocab_size=8000)
    ids = tokenizer.encode(["Good morning."])[0]
    tokenizer.decode(ids)  # "Good morning."
    ```
    """

    def __init__(
        self,
        source: Vocabulary,
        target: Vocabulary | None = None,
        normalizes_sources: bool = False,
        default_tags: Sequence[str] = (),
    ) -> None:
        target = target or source
        end_ids = (target.eos_id, target.pad_id)
        if source.pad_id != target.pad_id or source.eos_id not in end_ids:
            raise InputError(
                "Two vocabularies must have the same ids for padding and end. "
                f"Received: pad_id={source.pad_id}, eos_id={source.eos_id} for "
                f"sources, pad_id={target.pad_id}, eos_id={target.eos_id} for "
                "targets. Train both with pad_id=0 and eos_id=3."
            )
        self.source = source
        self.target = target
        self.vocab_size = target.vocab_size
        self.pad_id = target.pad_id
        self.unk_id = target.unk_id
        self.bos_id = target.bos_id
        self.eos_id = target.eos_id
        self.source_eos_id = source.eos_id
        self.normalizes_sources = normalizes_sources
        self.default_tags = list(default_tags)
        self.check_tags(default_tags)

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        vocab_size: int,
        max_sentences: int = 2_000_000,
        symbols: Sequence[str] = (),
        tags: Sequence[str] = (),
    ) -> "Tokenizer":
        """Trains one byte-pair vocabulary for sources and targets.

        The result is deterministic. The ids 0 to 3 are padding, unknown, start
        and end. Characters that are not in the vocabulary are encoded as UTF-8
        bytes, so that no text becomes unknown.

        Text is normalized to Unicode NFC, but several combining marks keep
        their order unless Unicode has one character for the letter with all of
        them. Control characters become spaces, and spaces are trimmed and
        collapsed. Nothing else is changed.

        Args:
            texts: Lines of source and target text, read once.
            vocab_size: Size of the vocabulary: 4 special tokens, 256 bytes,
                the characters of the text except the rarest (together less
                than 0.001% of it), and merges, which contain no digits.
            max_sentences: A larger corpus is reduced to a random sample of
                this many lines.
            symbols: Extra control pieces. Text never produces them.
            tags: Pieces that texts may begin with, as `"<bt>"` and `">>fra<<"`.

        Raises:
            InputError: If the text is empty or not valid Unicode,
                `vocab_size` is too small for its characters or larger than
                it can fill, or a tag is malformed.
        """
        model = train_model(texts, vocab_size, max_sentences, symbols, tags)
        return cls(Vocabulary(model), normalizes_sources=True)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Tokenizer":
        """Reads the files of `save_files`, or a SentencePiece model file.

        Args:
            path: The folder of a run or of a prepared corpus, its
                `tokenizer.model`, or a model of SentencePiece.

        Raises:
            InputError: If a file cannot be read or is damaged.
        """
        path = Path(path)
        if path.name == _SHARED and (path.parent / _DESCRIPTION).exists():
            path = path.parent
        try:
            if path.is_dir():
                return cls._load_folder(path)
            return cls(_read_vocabulary(path))
        except OSError as error:
            raise InputError(
                "A tokenizer must be a SentencePiece model, or the folder of a "
                f"run or of a prepared corpus. Received: {path} ({error})"
            ) from error

    @classmethod
    def _load_folder(cls, folder: Path) -> "Tokenizer":
        file = folder / _DESCRIPTION
        values = read_json(file)
        expected = "the description of a tokenizer"
        with explain_damage(file, expected):
            sizes = list(values["vocab_sizes"])
        if len(sizes) == 1:
            source = target = _read_vocabulary(folder / _SHARED, sizes[0])
        else:
            source = _read_vocabulary(folder / _SOURCE, sizes[0])
            target = _read_vocabulary(folder / _TARGET, sizes[1])
        with explain_damage(file, expected):
            normalizes_sources = values["normalizes_sources"]
            default_tags = values["default_tags"]
            return cls(source, target, normalizes_sources, default_tags)

    def files(self) -> dict[str, bytes]:
        """Returns the files that `load` reads: their content by name."""
        vocabularies = {_SOURCE: self.source, _TARGET: self.target}
        if self.source is self.target:
            vocabularies = {_SHARED: self.source}
        description = {
            "vocab_sizes": [x.vocab_size for x in vocabularies.values()],
            "normalizes_sources": self.normalizes_sources,
            "default_tags": self.default_tags,
        }
        files = {name: x.model for name, x in vocabularies.items()}
        files[_DESCRIPTION] = json.dumps(description, indent=2).encode()
        return files

    def save_files(self, folder: str | os.PathLike) -> None:
        """Writes the files that `load` reads, each atomically."""
        for name, content in self.files().items():
            with atomic_write(Path(folder) / name) as partial:
                partial.write_bytes(content)

    @property
    def digest(self) -> str:
        """The SHA-256 of the files, in hexadecimal."""
        return hashlib.sha256(b"".join(self.files().values())).hexdigest()

    @property
    def tags(self) -> list[str]:
        """The pieces that may begin a source, such as `"<bt>"`."""
        return self.source.tags

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
        is_chosen = any(tag.startswith(">>") for tag in self.default_tags)
        is_needed = len(self.languages) > 1 and not is_chosen
        check_languages(self.languages, is_needed, sources, first)

    def translating_to(self, language: str) -> "Tokenizer":
        """Returns this tokenizer with a target language, such as `"fra"`.

        Raises InputError if there is no language token for it (`>>fra<<`).
        """
        return self._with_default_tags([language_token(language)])

    def with_tag(self, tag: str) -> "Tokenizer":
        """Returns this tokenizer with a tag before sources without one.

        It follows the target language. `"bt"` is short for `"<bt>"`.
        Raises InputError if there is no such tag, or it is a language.
        """
        tag = tag if re.fullmatch(TAG, tag) else f"<{tag}>"
        if tag.startswith(">>"):
            raise InputError(
                f"must not be a language. Received: {tag}. Set it as the "
                "target language.",
                argument="tag",
            )
        return self._with_default_tags([*self.default_tags, tag])

    def _with_default_tags(self, default_tags: Sequence[str]) -> "Tokenizer":
        return Tokenizer(
            self.source, self.target, self.normalizes_sources, default_tags
        )

    @property
    def is_shared(self) -> bool:
        """Whether sources and targets have the same pieces."""
        return self.source.pieces() == self.target.pieces()

    @property
    def special_ids(self) -> SpecialIds:
        """The ids of special tokens; all but the end token are banned."""
        # Some models start with the padding or the end token.
        banned = {self.pad_id, self.bos_id, self.unk_id} - {self.eos_id}
        banned_ids = tuple(sorted(banned))
        return SpecialIds(self.bos_id, self.eos_id, self.pad_id, banned_ids)

    def config_values(self) -> dict[str, int | None]:
        """Returns the sizes and ids that a `TransformerConfig` has for it."""
        size = self.source.vocab_size
        return {
            "vocab_size": self.vocab_size,
            "source_vocab_size": None if size == self.vocab_size else size,
            "pad_id": self.pad_id,
            "bos_id": self.bos_id,
            "eos_id": self.eos_id,
        }

    @functools.cached_property
    def replacements(self) -> normalization.Replacements:
        """What `normalizes_sources` replaces characters by."""
        known = {piece for piece in self.source.pieces() if len(piece) == 1}
        known.update(" " + "".join(self.tags))
        return normalization.Replacements(known)

    def normalize_source(self, text: str) -> str:
        """Returns a source with the spaces and characters that are read."""
        if not self.normalizes_sources:
            return text
        return self.replacements.replace(normalization.normalize_source(text))

    def encode_sources(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of sources, normalized and with their tags."""
        texts = map(self.normalize_source, texts)
        if self.tags:
            pattern = leading_tags(self.tags)
            texts = [with_tags(x, pattern, self.default_tags) for x in texts]
        return self.source.encode(texts)

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of targets; see `normalizes_sources`."""
        if self.normalizes_sources:
            texts = normalization.without_blank(texts)
        return self.target.encode(texts)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of texts in `target`; see `Vocabulary.encode`."""
        return self.target.encode(texts)

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of ids of `target`; see `Vocabulary.decode`."""
        return self.target.decode(ids)

    def pieces(self, ids: Sequence[int] | None = None) -> list[str]:
        """Returns the entry of each id of `target`, by default of all."""
        return self.target.pieces(ids)


def _read_vocabulary(file: Path, vocab_size: int | None = None) -> Vocabulary:
    with explain_damage(file, "a SentencePiece model"):
        return Vocabulary(file.read_bytes(), vocab_size)
