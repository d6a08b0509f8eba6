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
from keras_transformer.train.data import encoding, filters, prepared
from keras_transformer.train.data.augmentation import OFF, Augmentation
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.data.mixture import Entry
from keras_transformer.train.data.prepared import Prepared

logger = logging.getLogger(__name__)

# As many as the tokenizer is trained on are in memory anyway.
_MOST_IN_MEMORY = 1_000_000
# Beside the runs, so that those on the same corpus share what is prepared.
_FOLDER_BESIDE_RUNS = "prepared-corpora"


def prepare(
    corpus: Corpus,
    output: str | os.PathLike,
    vocab_size: int,
    max_length: int,
    tokenizer: Sequence[str | os.PathLike] | None = None,
    pair_filters: filters.PairFilters = filters.NO_FILTERS,
    dropped: str | os.PathLike | None = None,
    augmentation: Augmentation = OFF,
) -> Prepared:
    """Tokenizes the split `train`, and copies the texts of the other splits.

    The tokenizer is trained, unless it is that of `tokenizer`, and pairs are
    dropped, as by `train` on the corpus itself, and by the filters. `dropped`
    is a .tsv file to write of them.
    """
    output = Path(output).resolve()
    if corpus.prepared is not None:
        raise InputError(
            f"{corpus.name} is prepared already. Give it to `train`, or "
            "prepare the corpus that it was prepared from."
        )
    check_one_worker("prepare")
    training_settings.check_train_split(corpus)
    encoding.check_max_length(max_length)
    vocabulary = None
    if tokenizer is None:
        encoding.check_new_vocabulary(vocab_size)
    else:
        vocabulary = own_tokenizer(corpus, tokenizer)
    check_free(output)
    writer = contextlib.nullcontext()
    if dropped is not None:
        check_output(dropped, [".tsv"])
        writer = filters.write_dropped(dropped)
    others = tuple(split for split in corpus.splits if split != "train")
    augmentation.check(corpus.task)
    values = vocab_size, max_length, vocabulary, others, pair_filters
    preparation = Preparation(corpus, *values, augmentation)
    for _, examined in preparation.examined:
        examined.check()
    corpus.check_early(*corpus.splits)
    import_tensorflow_quietly(needs_keras=False)
    with writer as on_dropped, atomic_folder(output) as folder:
        preparation.write(folder, on_dropped)
    opened = Prepared.open(output)
    logger.info(f"train: {opened.statistics.describe(max_length)}")
    return opened


@dataclasses.dataclass(frozen=True)
class Preparation:
    """The split `train` of a corpus, and how it becomes ids."""

    corpus: Corpus
    vocab_size: int
    max_length: int
    tokenizer: Vocabulary | None  # None: one of `vocab_size` is trained
    text_splits: tuple[str, ...] = ()  # whose texts are copied
    pair_filters: filters.PairFilters = filters.NO_FILTERS
    augmentation: Augmentation = OFF

    def __post_init__(self) -> None:
        if self.tokenizer is not None:
            tags = (tag for entry, _ in self.corpus.parts for tag in entry.tags)
            self.tokenizer.check_tags(tags)

    def name(self, digest: str) -> str:
        """Returns a name for what is written of pairs with this digest."""
        content = (
            prepared.FORMAT,
            self.corpus.task.name,
            digest,
            self.tokenizer.digest if self.tokenizer else self.vocab_size,
            "normalized sources",  # unlike new tokenizers of earlier versions
            self.max_length,
            dataclasses.astuple(self.augmentation),
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
        corpus, tokenizer = self.corpus, self.tokenizer
        # First: a damaged text is found before the hours that train may take.
        for split in self.text_splits:
            numbered = [(n, part) for n, (_, part) in enumerate(corpus.parts)]
            for number, part in numbered or [(None, corpus)]:
                if split in part.splits:
                    path = prepared.text_path(folder, split, number)
                    write_texts(path, part.pairs(split))
        limit = _MOST_IN_MEMORY // max(len(corpus.parts), 1)
        pairs = [(entry, _ReadOnce(x, limit)) for entry, x in self.examined]
        source, target = map(_shorten, pairs[0][1].first[:2])
        logger.info(f"first pair: {source} → {target}")
        progress = functools.partial(progress_bar, unit="pair", unit_scale=True)
        tagged = itertools.chain.from_iterable(
            itertools.starmap(self._tagged, pairs)
        )
        reading = progress(tagged, desc="reading")
        passing = filters.keep_passing(reading)
        if tokenizer is None:
            size, tags = self.vocab_size, [y for x, _ in pairs for y in x.tags]
            logger.info(f"tokenizer: training with {size:,} tokens")
            tokenizer = corpus.task.train_tokenizer(passing, size, tags)
        else:
            corpus.task.check_tokenizer(tokenizer, passing)
        if pairs[-1][1].total is None:  # the check needs no pairs of some tasks
            collections.deque(reading, maxlen=0)
        tokenizer.save_files(folder)

        limits = self.max_length, corpus.task, self.pair_filters.max_ratio
        statistics, counted = encoding.Statistics(), []

        def checked_shards() -> Iterator[encoding.TokenShard]:
            for entry, own in pairs:
                encoder = encoding.PairEncoder(tokenizer, *limits, on_dropped)
                reading = progress(own, desc="tokenizing", total=own.total)
                if self.pair_filters.deduplicate:
                    reading = filters.mark_duplicates(reading)
                for shard in encoder.shards(self._tagged(entry, reading)):
                    yield shard  # it is written before the next one is made
                    read = statistics.read + encoder.statistics.read
                    _check_disk(folder, sum(x.total for _, x in pairs) / read)
                encoder.statistics.check(self.max_length)
                statistics.add(encoder.statistics)
                counted.append((entry, encoder.statistics))

        prepared.write_prepared(
            folder,
            corpus,
            tokenizer,
            self.max_length,
            self.text_splits,
            statistics,
            self.pair_filters,
            checked_shards(),
            self.augmentation,
            counted if corpus.parts else (),
        )

    def _tagged(
        self, entry: Entry, examined: Iterable[tuple[str, str, str]]
    ) -> Iterator[tuple[str, str, str]]:
        """Yields examined pairs and variants, with the tag of an entry."""
        examined = self.augmentation.add_variants(examined)
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
