"""Prepare a large corpus for training, as `keras-transformer prepare` does.

Options that are not listed are Beam's, such as --runner.
"""

import argparse
import dataclasses
import hashlib
import itertools
import json
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import apache_beam as beam
import numpy as np

from keras_transformer import __version__
from keras_transformer.beam.running import make_pipeline, run_pipeline
from keras_transformer.cli.arguments import given_values
from keras_transformer.cli.options import PRESET_NAMES, field_flags, flag, flags
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import check_values, number_from
from keras_transformer.support.files import atomic_folder, check_free, read_json
from keras_transformer.support.startup import import_tensorflow_quietly
from keras_transformer.text import Tokenizer, Vocabulary, open_vocabulary
from keras_transformer.train.beam.inputs import (
    check_local,
    find_inputs,
    open_files,
)
from keras_transformer.train.beam.preparing import (
    CHUNK,
    PLAN_FILE,
    Filters,
    PrepareChunks,
    make_chunks,
)
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.data.encoding import (
    Statistics,
    TokenShard,
    check_max_length,
)
from keras_transformer.train.data.prepared import (
    Prepared,
    shard_paths,
    update_checksum,
    write_description,
)
from keras_transformer.train.data.text_files import TextFiles
from keras_transformer.train.recipe import Recipe

add_arguments = flags(
    flag(
        "--input DATA",
        "a folder of {train,valid,test}.LANGUAGE; .tsv files; or files of "
        "source and of target: 'web-*.en.gz' 'web-*.de.gz'",
        nargs="+",
        required=True,
    ),
    flag("--source LANGUAGE", "language code of the source, e.g. en"),
    flag("--target LANGUAGE", "language code of the target, e.g. de"),
    flag(
        "--output DIR",
        "new folder; every worker must find it there",
        required=True,
    ),
    flag(
        "--tokenizer PATH",
        "use that of a run or a prepared corpus, or a tokenizer.model "
        "(default: train one)",
    ),
    flag("--preset NAME", PRESET_NAMES, default="small"),
    field_flags(Recipe, ("vocab_size", "max_length")),
    flag(
        "--max-ratio X",
        "drop pairs of which one side has more than X times the tokens of the "
        "other, counted with end tokens",
        type=float,
    ),
    flag(
        "--language-columns",
        "drop pairs unless columns 3 and 4 of the .tsv file are --source and "
        "--target",
    ),
    flag("--deduplicate", "keep only the first of equal pairs"),
)


def run(options: argparse.Namespace, beam_arguments: Sequence[str]) -> None:
    """Prepares a corpus, or resumes where a killed process has stopped.

    Raises:
        InputError: If the corpus, the tokenizer or an option is invalid, the
            output exists, or the pipeline fails.
    """
    values = given_values(options, Recipe)
    tokenizer = None
    if options.tokenizer is not None:
        if "vocab_size" in values:
            raise InputError(
                "--vocab-size is for a new tokenizer, and --tokenizer has its "
                "own. Leave out one of them. Received: --vocab-size "
                f"{values['vocab_size']}, --tokenizer {options.tokenizer}"
            )
        tokenizer = _open_tokenizer(options.tokenizer)
    recipe = Recipe.from_preset(options.preset, **values)
    check_max_length(recipe.max_length)
    filters = _read_filters(options, recipe.max_length)
    corpus, paths = find_inputs(options.input, options.source, options.target)
    if filters.languages and len(paths[0]) != 1:
        raise InputError(
            "--language-columns is for .tsv files. Received: "
            + " and ".join(paths[0])
        )

    check_local(options.output, "--output")
    output = Path(options.output).resolve()
    check_free(output)
    pipeline = make_pipeline(beam_arguments)
    job = _Job(corpus, paths, filters, tokenizer, recipe.vocab_size, pipeline)
    with atomic_folder(output, keep=job.name) as folder:
        job.write(folder)
    prepared = Prepared.open(output)
    print(f"train: {prepared.statistics.describe(recipe.max_length)}")
    if filters.beyond_prepare:
        dropped = read_json(output / "prepared.json")["filters"]["dropped"]
        print(f"dropped by other filters: {_list(dropped)}")
    print(
        f"\nThe corpus is in {output}. Next:\n  keras-transformer train "
        f"{shlex.quote(options.output)} --preset {options.preset} "
        "--output runs/mine"
    )


def _list(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def _open_tokenizer(path: str) -> Vocabulary:
    """Opens the tokenizer of a run or a prepared corpus, or its file."""
    if os.path.isdir(path):
        return open_vocabulary(path)
    return Tokenizer.load(path)


def _read_filters(options: argparse.Namespace, max_length: int) -> Filters:
    languages = [options.source, options.target]
    if options.language_columns and None in languages:
        raise InputError(
            "--language-columns needs the languages that are kept. Received: "
            f"--source {options.source}, --target {options.target}"
        )
    if options.max_ratio is not None:
        check_values(number_from(1, math.inf), max_ratio=options.max_ratio)
    return Filters(
        languages if options.language_columns else [],
        options.deduplicate,
        max_length,
        options.max_ratio,
    )


@dataclasses.dataclass(frozen=True)
class _Job:
    """What is prepared, and how."""

    corpus: Corpus
    paths: Sequence[tuple[str, ...]]  # of the training split
    filters: Filters
    tokenizer: Vocabulary | None  # None: one of `vocab_size` is trained
    vocab_size: int
    pipeline: beam.Pipeline

    @property
    def name(self) -> str:
        """The name of a work folder with the chunks of this job alone."""
        stats = [(x, os.stat(x)) for pair in self.paths for x in pair]
        content = (
            __version__,
            CHUNK,
            self.tokenizer.digest if self.tokenizer else self.vocab_size,
            dataclasses.astuple(self.filters),
            [(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats],
        )
        digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
        return f"work-{digest[:16]}"

    def write(self, folder: Path) -> None:
        """Writes all files of a prepared corpus into a folder."""
        corpus, filters = self.corpus, self.filters
        work = folder.parent / self.name
        work.mkdir(exist_ok=True)
        others = tuple(split for split in corpus.splits if split != "train")
        if others:
            import_tensorflow_quietly()
            from keras_transformer.train.preparation import write_texts
        for split in others:
            write_texts(folder / f"{split}.tfrecord", corpus.pairs(split))
        files = open_files(self.paths, work, corpus.source, corpus.target)
        chunks = make_chunks(files)
        if not chunks:
            raise InputError(
                f"A corpus must have pairs. Received: {corpus.name}, which is "
                "empty."
            )
        tokenizer = self.tokenizer or self._train_tokenizer(files, work)
        tokenizer.save_files(folder)
        pairs = sum(chunk.size for chunk in chunks)
        print(
            f"tokenizing: {pairs:,} pairs in {len(chunks):,} chunks, "
            f"{len([*work.glob('chunk-*')]):,} of them done earlier",
            flush=True,
        )
        transform = PrepareChunks(folder, work, filters)
        _ = self.pipeline | beam.Create(chunks) | transform
        run_pipeline(self.pipeline)
        plan = read_json(work / PLAN_FILE)
        statistics = Statistics(**plan["statistics"])
        if not statistics.pairs:
            dropped = plan["dropped"] | {
                "empty": statistics.dropped_empty,
                "long": statistics.dropped_long,
            }
            raise InputError(
                f"No pair is left to train on. Received: {pairs:,} pairs, of "
                f"which are dropped: {_list(dropped)}. Check the filters."
            )
        checksum = 0
        for number in range(len(plan["shards"])):
            arrays = (np.load(x, "r") for x in shard_paths(folder, number))
            checksum = update_checksum(checksum, TokenShard(*arrays))
        more = dataclasses.asdict(filters) | {"dropped": plan["dropped"]}
        del more["max_length"]  # has a place of its own
        write_description(
            folder,
            corpus,
            tokenizer,
            filters.max_length,
            others,
            statistics,
            checksum,
            plan["shards"],
            **({"filters": more} if filters.beyond_prepare else {}),
        )

    def _train_tokenizer(
        self, files: Sequence[TextFiles], work: Path
    ) -> Vocabulary:
        """Trains a tokenizer, unless an earlier start has written it."""
        path = work / "tokenizer.model"
        if path.exists():
            return Tokenizer.load(path)
        print(
            f"tokenizer: training with {self.vocab_size:,} tokens", flush=True
        )
        pairs = itertools.chain.from_iterable(one.read() for one in files)
        tokenizer = self.corpus.task.train_tokenizer(pairs, self.vocab_size)
        tokenizer.save_files(work)
        return tokenizer
