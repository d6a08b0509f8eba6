"""Prepares a corpus: tokenizes it once, into arrays that training maps.

`train/data/prepared.py` lists the files and reads them.
"""

import collections
import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from keras_transformer.support.errors import InputError
from keras_transformer.support.files import (
    atomic_folder,
    check_free,
    check_output,
)
from keras_transformer.support.progress import progress_bar
from keras_transformer.support.startup import import_tensorflow_quietly
from keras_transformer.text import Vocabulary, open_tokenizer
from keras_transformer.train import training_settings
from keras_transformer.train.cluster import check_one_worker
from keras_transformer.train.data import (
    augmentation,
    encoding,
    filters,
    prepared,
)
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.data.mixture import Entry
from keras_transformer.train.data.prepared import Prepared
from keras_transformer.train.recipe import Recipe

logger = logging.getLogger(__name__)

_progress = functools.partial(progress_bar, unit="pair", unit_scale=True)

# As many as the tokenizer is trained on are in memory anyway.
_MOST_IN_MEMORY = 1_000_000
# Beside the runs, so that those on the same corpus share what is prepared.
_FOLDER_BESIDE_RUNS = "prepared-corpora"


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
        recipe: It has the sizes, and the shares of variants.
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
    check_one_worker("prepare")
    training_settings.check_train_split(corpus)
    encoding.check_max_length(recipe.max_length)
    augmentation.check_variants(recipe, corpus.task)
    vocabulary = None
    if tokenizer is None:
        encoding.check_new_vocabulary(recipe.vocab_size)
    else:
        vocabulary = own_tokenizer(corpus, tokenizer)
    check_free(output)
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
    for _, examined in preparation.examined:
        examined.check()
    corpus.check_early(*corpus.splits)
    import_tensorflow_quietly()
    with writer as on_dropped, atomic_folder(output) as folder:
        preparation.write(folder, on_dropped)
    opened = Prepared.open(output)
    logger.info(f"train: {opened.statistics.describe(recipe.max_length)}")
    return opened


@dataclasses.dataclass(frozen=True)
class Preparation:
    """The split `train` of a corpus, and how it becomes ids."""

    corpus: Corpus
    recipe: Recipe  # whose sizes and shares of variants are used
    tokenizer: Vocabulary | None  # None: one is trained
    text_splits: tuple[str, ...] = ()  # whose texts are copied
    pair_filters: filters.PairFilters = filters.NO_FILTERS

    def __post_init__(self) -> None:
        if self.tokenizer is not None:
            tags = (tag for entry, _ in self.corpus.parts for tag in entry.tags)
            self.tokenizer.check_tags(tags)

    def name(self, digest: str) -> str:
        """Returns a name for what is written of pairs with this digest."""
        recipe = self.recipe
        seed = recipe.seed if augmentation.has_variants(recipe) else 0
        content = (
            prepared.FORMAT,
            self.corpus.task.name,
            digest,
            self.tokenizer.digest if self.tokenizer else recipe.vocab_size,
            "normalized sources",  # unlike new tokenizers of earlier versions
            recipe.max_length,
            (recipe.augment, recipe.typing_errors, seed),
        )
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]

    def write_beside(self, run: Path, name: str) -> Prepared:
        """Writes and opens a folder beside a run, unless that was done before.

        If another process prepares it at this moment, this one waits.
        """
        run = run.absolute()
        folder = run.parent / _FOLDER_BESIDE_RUNS / name
        if not prepared.is_prepared(folder):
            try:
                check_free(folder)
                folder.parent.mkdir(parents=True, exist_ok=True)
            except (InputError, OSError) as error:
                reason = str(error).rstrip(".")
                raise InputError(
                    f"The corpus is prepared beside the run. {reason}. A folder"
                    " in the given one will do, such as --output "
                    f"{run / 'run'}."
                ) from error
            logger.info(f"preparing: {self.corpus.name}")
            with atomic_folder(folder, wait=True) as partial:
                if partial is not None:
                    self.write(partial)
        shown = folder
        with contextlib.suppress(ValueError):  # it may be elsewhere
            shown = folder.relative_to(Path.cwd())
        logger.info(f"prepared: {shown}")
        return Prepared.open(folder)

    @property
    def examined(self) -> list[tuple[Entry, filters.ExaminedPairs]]:
        """The pairs of each corpus, and which are dropped for their texts."""
        corpus, own = self.corpus, self.pair_filters
        return [
            (
                x,
                filters.ExaminedPairs(
                    y.pairs("train"), own, y.source, y.target
                ),
            )
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
        limit = _MOST_IN_MEMORY // max(len(self.corpus.parts), 1)
        parts = [(entry, _ReadOnce(x, limit)) for entry, x in self.examined]
        source, target, _ = parts[0][1].first
        logger.info(f"first pair: {_shorten(source)} → {_shorten(target)}")
        tokenizer = self._open_tokenizer(parts)
        tokenizer.save_files(folder)
        task, recipe = self.corpus.task, self.recipe
        limits = recipe.max_length, task, self.pair_filters.max_ratio
        encoders = [
            encoding.PairEncoder(tokenizer, *limits, on_dropped) for _ in parts
        ]
        shards = prepared.write_shards(
            folder, self._make_shards(folder, parts, encoders)
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
            shards,
            counted if self.corpus.parts else (),
        )

    def _copy_texts(self, folder: Path) -> None:
        for split in self.text_splits:
            parts = [(n, part) for n, (_, part) in enumerate(self.corpus.parts)]
            for number, part in parts or [(None, self.corpus)]:
                if split in part.splits:
                    path = prepared.text_path(folder, split, number)
                    write_texts(path, part.pairs(split))

    def _open_tokenizer(
        self, parts: "Sequence[tuple[Entry, _ReadOnce]]"
    ) -> Vocabulary:
        """Trains a tokenizer, or checks the given one; reads all pairs."""
        tagged = itertools.chain.from_iterable(
            itertools.starmap(self._tagged, parts)
        )
        reading = _progress(tagged, desc="reading")
        passing = filters.keep_passing(reading)
        task, size = self.corpus.task, self.recipe.vocab_size
        if self.tokenizer is None:
            tags = [tag for entry, _ in parts for tag in entry.tags]
            logger.info(f"tokenizer: training with {size:,} tokens")
            return task.train_tokenizer(passing, size, tags)
        task.check_tokenizer(self.tokenizer, passing)
        # What the check has left, which counts the pairs.
        collections.deque(reading, maxlen=0)
        return self.tokenizer

    def _make_shards(
        self,
        folder: Path,
        parts: "Sequence[tuple[Entry, _ReadOnce]]",
        encoders: Sequence[encoding.PairEncoder],
    ) -> Iterator[encoding.TokenShard]:
        shares = self.recipe.augment + self.recipe.typing_errors
        total = sum(own.total for _, own in parts) * (1 + shares)
        for (entry, own), encoder in zip(parts, encoders, strict=True):
            reading = _progress(own, desc="tokenizing", total=own.total)
            if self.pair_filters.deduplicate:
                reading = filters.mark_duplicates(reading)
            for shard in encoder.shards(self._tagged(entry, reading)):
                yield shard  # it is written before the next one is made
                read = sum(x.statistics.read for x in encoders)
                _check_disk(folder, total / read)
            encoder.statistics.check(self.recipe.max_length)

    def _tagged(
        self, entry: Entry, examined: Iterable[filters.Examined]
    ) -> Iterator[filters.Examined]:
        """Yields examined pairs and variants, with the tag of an entry."""
        examined = augmentation.add_variants(examined, self.recipe)
        return ((entry.tagged(source), *others) for source, *others in examined)


def own_tokenizer(
    corpus: Corpus, paths: Sequence[str | os.PathLike]
) -> Vocabulary:
    """Opens, checks and reports the tokenizer that a corpus is to have."""
    tokenizer = open_tokenizer(paths)
    corpus.task.check_vocabulary(tokenizer)
    report_tokenizer(tokenizer, " and ".join(map(str, paths)))
    return tokenizer


def report_tokenizer(tokenizer: Vocabulary, path: str | Path) -> None:
    """Says how large a tokenizer is, and from where."""
    logger.info(f"tokenizer: {tokenizer.vocab_size:,} tokens, from {path}")


class _ReadOnce:
    """Pairs that are kept when they are read first, unless they are many."""

    def __init__(self, pairs: Iterable[tuple[str, str]], limit: int) -> None:
        self._pairs, self._limit = pairs, limit
        reading = iter(pairs)
        self.first = next(reading)
        self._reading = itertools.chain([self.first], reading)
        self.total: int | None = None  # known when they have been read

    def __iter__(self) -> Iterator[tuple[str, str]]:
        reading, self._reading = self._reading or self._pairs, None
        kept, total = [], 0
        for total, pair in enumerate(reading, start=1):
            if total <= self._limit:
                kept.append(pair)
            else:
                kept = None
            yield pair
        self._pairs, self.total = kept or self._pairs, total


def _check_disk(folder: Path, ratio: float) -> None:
    """Raises InputError if the disk is too small for `ratio` times as much."""
    size = sum(file.stat().st_size for file in folder.glob("*.npy"))
    missing, free = size * (ratio - 1), shutil.disk_usage(folder).free
    if missing > free:
        raise InputError(
            f"The prepared corpus will take about {size * ratio / 1e9:.1f} GB. "
            f"Received: a disk with {free / 1e9:.1f} GB left after "
            f"{size / 1e9:.1f} GB. Choose another output."
        )


def write_texts(path: Path, pairs: Iterable[tuple[str, str]]) -> None:
    """Writes the texts of a split as TFRecords."""
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(path)) as writer:
        for pair in pairs:
            example = tf.train.Example()
            for name, text in zip(prepared.SIDES, pair, strict=True):
                feature = example.features.feature[name]
                feature.bytes_list.value.append(text.encode())
            # The same file each time, which has the same digest.
            writer.write(example.SerializeToString(deterministic=True))


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:59] + "…")
