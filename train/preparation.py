"""Prepares a corpus: tokenizes it once, into arrays that training maps.

train/data/prepared.py lists the files and reads them.
"""

import dataclasses
import functools
import itertools
import logging
import os
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext

from keras_transformer.support import files
from keras_transformer.support.errors import InputError
from keras_transformer.support.logs import progress_bar
from keras_transformer.text import Tokenizer, open_tokenizer
from keras_transformer.train.data import prepared
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.data.encoding import PairEncoder
from keras_transformer.train.data.filters import PairFilters, write_dropped
from keras_transformer.train.data.prepared import PreparedCorpus
from keras_transformer.train.recipe import Recipe

logger = logging.getLogger(__name__)

_progress = functools.partial(progress_bar, unit="pair", unit_scale=True)


def prepare(
    corpus: Corpus,
    output: str | os.PathLike,
    recipe: Recipe,
    tokenizer: Tokenizer | Sequence[str | os.PathLike] | None = None,
    pair_filters: PairFilters | None = None,
    dropped: str | os.PathLike | None = None,
    splits: Collection[str] | None = None,
) -> PreparedCorpus:
    """Tokenizes the split `train`, and copies the texts of the other splits.

    Args:
        corpus: From `open_corpus`.
        output: The new folder.
        recipe: Only `vocab_size` and `max_length` are used.
        tokenizer: A tokenizer, or its files as in `train`. Default: train one.
        pair_filters: Further pairs to drop. Training drops empty and overlong
            pairs anyway.
        dropped: A new .tsv file for the dropped pairs.
        splits: Names of the splits to copy. Default: all but `train`.

    Returns:
        The prepared corpus.

    Raises:
        InputError: If the input is invalid.
    """
    for part in corpus.parts:
        if "train" not in part.splits:
            raise InputError(
                "Only texts with a split train can be prepared. Received: "
                f"{part} with {', '.join(part.splits)}. If {corpus.name} is "
                "prepared already, pass it to `train`."
            )
    pair_filters = pair_filters or PairFilters()
    splits = set(corpus.splits) - {"train"} if splits is None else set(splits)
    if tokenizer is not None and not isinstance(tokenizer, Tokenizer):
        names = " and ".join(map(str, tokenizer))
        tokenizer = open_tokenizer(tokenizer)
        logger.info(f"tokenizer: {tokenizer.vocab_size:,} tokens, from {names}")
    writer = nullcontext() if dropped is None else write_dropped(dropped)
    with writer as on_dropped, files.atomic_folder(output) as folder:
        # First, because reading finds damage, and the rest may take hours.
        for number, part in enumerate(corpus.parts):
            for split in splits.intersection(part.splits):
                paths = prepared.text_paths(folder, split, number)
                _write_texts(paths, part.splits[split])
        tokenizer = _fit_tokenizer(tokenizer, corpus, recipe, pair_filters)
        tokenizer.save_files(folder)
        parts = []
        num_shards = 0
        for part in corpus.parts:
            pairs = part.pairs("train", pair_filters.text_filter())
            encoder = PairEncoder(
                tokenizer,
                recipe.max_length,
                task=corpus.task,
                max_ratio=pair_filters.max_ratio,
                on_dropped=on_dropped,
                tags=part.tags,
            )
            shards = encoder.shards(_progress(pairs, desc="tokenizing"))
            num_shards = prepared.write_shards(folder, shards, num_shards)
            encoder.statistics.check(recipe.max_length)
            values = dict(
                **part.arguments(),
                splits=sorted(splits.intersection(part.splits)),
                statistics=vars(encoder.statistics),
            )
            parts.append(values)
        description = dict(
            task=corpus.task.name,
            max_length=recipe.max_length,
            filters=dataclasses.asdict(pair_filters),
            parts=parts,
            shards=num_shards,
        )
        files.write_json(folder / prepared.FILE, description)
    return prepared.open_prepared(output)


def _write_texts(
    paths: Sequence[str], pairs: Iterable[tuple[str, str]]
) -> None:
    """Writes the texts of a split, one per line, without line breaks."""
    with open(paths[0], "wb") as source, open(paths[1], "wb") as target:
        for pair in pairs:
            for file, text in zip((source, target), pair, strict=True):
                file.write(re.sub(r"[\r\n]", " ", text).encode() + b"\n")


def _fit_tokenizer(
    tokenizer: Tokenizer | None,
    corpus: Corpus,
    recipe: Recipe,
    pair_filters: PairFilters,
) -> Tokenizer:
    """Returns a new tokenizer, or checks the given one."""
    source, target = next(iter(corpus.pairs("train")))
    logger.info(f"first pair: {source!r:.60} → {target!r:.60}")
    tags = [tag for part in corpus.parts for tag in part.tags]
    if tokenizer is not None:
        tokenizer.check_tags(tags)
    # A tokenizer learns from duplicates, too.
    filters = dataclasses.replace(pair_filters, deduplicate=False)
    text_filter = filters.text_filter()
    pairs = (part.pairs("train", text_filter) for part in corpus.parts)
    pairs = _progress(itertools.chain.from_iterable(pairs), desc="reading")
    passing = ((x, y) for x, y, dropped_for in pairs if not dropped_for)
    if tokenizer is None:
        logger.info(f"tokenizer: training with {recipe.vocab_size:,} tokens")
        return corpus.task.train_tokenizer(passing, recipe.vocab_size, tags)
    corpus.task.check_tokenizer(tokenizer, passing)
    return tokenizer
