"""Prepares a corpus: tokenizes it once, into arrays that training maps.

`train/data/prepared.py` lists the files and reads them.
"""

import contextlib
import dataclasses
import functools
import itertools
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_folder, check_output
from keras_transformer.support.progress import progress_bar
from keras_transformer.text import Tokenizer, open_tokenizer
from keras_transformer.train import training_settings
from keras_transformer.train.data import encoding, filters, prepared
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.data.mixture import Entry
from keras_transformer.train.data.prepared import Prepared
from keras_transformer.train.recipe import Recipe

logger = logging.getLogger(__name__)

_progress = functools.partial(progress_bar, unit="pair", unit_scale=True)


def prepare(
    corpus: Corpus,
    output: str | os.PathLike,
    recipe: Recipe,
    tokenizer: Sequence[str | os.PathLike] | None = None,
    pair_filters: filters.PairFilters = filters.NO_FILTERS,
    dropped: str | os.PathLike | None = None,
) -> Prepared:
    """Tokenizes the split `train`, and copies the texts of the other splits.

    Args:
        corpus: From `open_corpus`.
        output: New folder to write.
        recipe: It has the sizes.
        tokenizer: As in `train`. Default: one is trained.
        pair_filters: What else is dropped than `train` does itself.
        dropped: .tsv file to write of the pairs that are dropped.

    Returns:
        The prepared corpus.

    Raises:
        InputError: If the input is invalid.
    """
    output = Path(output).resolve()
    if corpus.prepared is not None:
        raise InputError(
            f"{corpus.name} is prepared already. Give it to `train`, or "
            "prepare the corpus that it was prepared from."
        )
    training_settings.check_train_split(corpus)
    vocabulary = None
    if tokenizer is None:
        encoding.check_new_vocabulary(recipe.vocab_size)
    else:
        vocabulary = own_tokenizer(tokenizer)
    writer = contextlib.nullcontext()
    if dropped is not None:
        check_output(dropped, [".tsv"])
        writer = filters.write_dropped(dropped)
    preparation = Preparation(
        corpus,
        recipe,
        vocabulary,
        text_splits=tuple(split for split in corpus.splits if split != "train"),
        pair_filters=pair_filters,
    )
    with writer as on_dropped, atomic_folder(output) as folder:
        preparation.write(folder, on_dropped)
    opened = Prepared.open(output)
    logger.info(f"train: {opened.statistics.describe(recipe.max_length)}")
    return opened


@dataclasses.dataclass(frozen=True)
class Preparation:
    """The split `train` of a corpus, and how it becomes ids."""

    corpus: Corpus
    recipe: Recipe  # its sizes are used
    tokenizer: Tokenizer | None  # None: one is trained
    text_splits: tuple[str, ...] = ()  # whose texts are copied
    pair_filters: filters.PairFilters = filters.NO_FILTERS

    def __post_init__(self) -> None:
        if self.tokenizer is not None:
            tags = (tag for entry, _ in self.corpus.parts for tag in entry.tags)
            self.tokenizer.check_tags(tags)

    @property
    def examined(self) -> list[tuple[Entry, filters.ExaminedPairs]]:
        """The pairs of each corpus, and which are dropped for their texts."""
        corpus, own = self.corpus, self.pair_filters
        return [
            (x, filters.ExaminedPairs(y.pairs("train"), own))
            for x, y in corpus.parts or [(Entry(data=[corpus.name]), corpus)]
        ]

    def write(
        self,
        folder: Path,
        on_dropped: Callable[[str, Iterable[str]], None] | None = None,
    ) -> None:
        """Writes the files of a prepared corpus."""
        # First: a damaged text is found before the hours that train may take.
        self._copy_texts(folder)
        parts = self.examined
        source, target, _ = next(iter(parts[0][1]))
        logger.info(f"first pair: {_shorten(source)} → {_shorten(target)}")
        tokenizer = self._open_tokenizer(parts)
        tokenizer.save_files(folder)
        task, recipe = self.corpus.task, self.recipe
        limits = recipe.max_length, task, self.pair_filters.max_ratio
        encoders = [
            encoding.PairEncoder(tokenizer, *limits, on_dropped) for _ in parts
        ]
        num_shards = prepared.write_shards(
            folder, self._make_shards(parts, encoders)
        )
        counted = [
            (entry, encoder.statistics)
            for (entry, _), encoder in zip(parts, encoders, strict=True)
        ]
        statistics = encoding.Statistics()
        for _, own in counted:
            statistics.add(own)
        prepared.write_description(
            folder,
            self.corpus,
            tokenizer,
            recipe,
            self.pair_filters,
            self.text_splits,
            statistics,
            num_shards,
            counted if self.corpus.parts else (),
        )

    def _copy_texts(self, folder: Path) -> None:
        for split in self.text_splits:
            parts = [(n, part) for n, (_, part) in enumerate(self.corpus.parts)]
            for number, part in parts or [(None, self.corpus)]:
                if split in part.splits:
                    paths = prepared.text_paths(folder, split, number)
                    _write_texts(paths, part.pairs(split))

    def _open_tokenizer(
        self, parts: Sequence[tuple[Entry, filters.ExaminedPairs]]
    ) -> Tokenizer:
        """Trains a tokenizer, or checks the given one."""
        tagged = itertools.chain.from_iterable(
            itertools.starmap(_tagged, parts)
        )
        passing = filters.keep_passing(_progress(tagged, desc="reading"))
        task, size = self.corpus.task, self.recipe.vocab_size
        if self.tokenizer is None:
            tags = [tag for entry, _ in parts for tag in entry.tags]
            logger.info(f"tokenizer: training with {size:,} tokens")
            return task.train_tokenizer(passing, size, tags)
        task.check_tokenizer(self.tokenizer, passing)
        return self.tokenizer

    def _make_shards(
        self,
        parts: Sequence[tuple[Entry, filters.ExaminedPairs]],
        encoders: Sequence[encoding.PairEncoder],
    ) -> Iterator[encoding.TokenShard]:
        for (entry, own), encoder in zip(parts, encoders, strict=True):
            reading = _progress(own, desc="tokenizing")
            if self.pair_filters.deduplicate:
                reading = filters.mark_duplicates(reading)
            yield from encoder.shards(_tagged(entry, reading))
            encoder.statistics.check(self.recipe.max_length)


def _tagged(
    entry: Entry, examined: Iterable[filters.Examined]
) -> Iterator[filters.Examined]:
    """Yields examined pairs with the tag of an entry."""
    return ((entry.tagged(source), *others) for source, *others in examined)


def own_tokenizer(paths: Sequence[str | os.PathLike]) -> Tokenizer:
    """Opens and reports the tokenizer that a corpus is to have."""
    tokenizer = open_tokenizer(paths)
    report_tokenizer(tokenizer, " and ".join(map(str, paths)))
    return tokenizer


def report_tokenizer(tokenizer: Tokenizer, path: str | Path) -> None:
    """Says how large a tokenizer is, and from where."""
    logger.info(f"tokenizer: {tokenizer.vocab_size:,} tokens, from {path}")


def _write_texts(
    paths: Sequence[Path], pairs: Iterable[tuple[str, str]]
) -> None:
    """Writes the texts of a split, one a line, with spaces for line breaks."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open(path, "wb")) for path in paths]
        for pair in pairs:
            for file, text in zip(files, pair, strict=True):
                file.write(re.sub(r"[\r\n]", " ", text).encode() + b"\n")


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:59] + "…")
