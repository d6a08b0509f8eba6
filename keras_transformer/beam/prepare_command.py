"""`prepare`: text files to a prepared corpus, with many workers."""

import dataclasses
import hashlib
import itertools
import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import apache_beam as beam
from cyclopts import Parameter

from keras_transformer import __version__
from keras_transformer.beam import corpus_chunks, corpus_files, runners
from keras_transformer.cli import flags
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_folder, check_free
from keras_transformer.support.startup import import_tensorflow_quietly
from keras_transformer.text import Tokenizer, Vocabulary, open_tokenizer
from keras_transformer.train.data.corpus import Corpus, open_corpus
from keras_transformer.train.data.encoding import check_max_length, ids_dtype
from keras_transformer.train.data.filters import (
    ExaminedPairs,
    PairFilters,
    keep_passing,
)
from keras_transformer.train.data.prepared import (
    Prepared,
    write_description,
    write_shards,
)
from keras_transformer.train.recipe import Recipe

_Size = Annotated[
    flags.PositiveInteger | None, Parameter(show_default="the preset's")
]


def prepare(
    *beam_flags: runners.BeamFlags,
    input: list[str],
    output: str,
    source: flags.SourceFlag = None,
    target: flags.TargetFlag = None,
    tokenizer: flags.TokenizerFlag = None,
    preset: str = "small",
    vocab_size: _Size = None,
    max_length: _Size = None,
    filters: flags.FilterFlags = None,
) -> None:
    """Prepare a large corpus for training, as `keras-transformer prepare` does.

    A job that was stopped is resumed by the same command. Options that are not
    listed are Beam's, such as --runner.

    Args:
        *beam_flags: Flags of Beam, and their values.
        input: A folder of {train,valid,test}.LANGUAGE; .tsv files; or files of
            source and of target: `'web-*.en.gz' 'web-*.de.gz'`.
        output: New folder; every worker must find it there.
        preset: Its sizes are the defaults: tiny, small, base, big,
            parsing-wsj; `keras-transformer presets` lists all.
        vocab_size: Tokens of the tokenizer to train.
        max_length: Drop pairs with more tokens on a side.
    """
    vocabulary = None
    if tokenizer is not None:
        vocabulary = open_tokenizer(tokenizer, vocab_size)
    sizes = {"vocab_size": vocab_size, "max_length": max_length}
    sizes = {name: size for name, size in sizes.items() if size is not None}
    recipe = Recipe.from_preset(preset, **sizes)
    check_max_length(recipe.max_length)
    pair_filters = PairFilters(**(filters or {}))
    corpus, paths = corpus_files.find_corpus(input, source, target)
    first = open_corpus(paths[0]).pairs("train")
    ExaminedPairs(first, pair_filters, source, target).check()
    corpus_files.check_on_disk(output, "--output")
    folder = Path(output).resolve()
    check_free(folder)

    job = PreparationJob(corpus, paths, recipe, pair_filters, vocabulary)
    pipeline = runners.make_pipeline(beam_flags)
    with atomic_folder(folder, keep=job.name) as partial:
        job.write(partial, pipeline)
    statistics = Prepared.open(folder).statistics
    print(f"train: {statistics.describe(recipe.max_length)}")
    print(
        f"\nThe corpus is in {folder}. Next:\n  keras-transformer train "
        f"{shlex.quote(output)} --preset {preset} --output runs/mine"
    )


@dataclasses.dataclass(frozen=True)
class PreparationJob:
    """A corpus, and how it is prepared."""

    corpus: Corpus
    paths: Sequence[tuple[str, ...]]  # of the training split
    recipe: Recipe  # whose sizes are used
    filters: PairFilters
    vocabulary: Vocabulary | None  # None: one is trained

    @property
    def name(self) -> str:
        """The name of a work folder, which has the chunks of this job alone."""
        recipe = self.recipe
        stats = [(x, os.stat(x)) for pair in self.paths for x in pair]
        content = (
            __version__,
            corpus_chunks.CHUNK,
            self.vocabulary.digest if self.vocabulary else recipe.vocab_size,
            recipe.max_length,
            dataclasses.astuple(self.filters),
            (self.corpus.source, self.corpus.target),
            [(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats],
        )
        digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()
        return f"work-{digest[:16]}"

    def write(self, folder: Path, pipeline: beam.Pipeline) -> None:
        """Writes a prepared corpus.

        Chunks, copies and a tokenizer in the work folder are kept: an earlier
        start has written them.
        """
        corpus, filters = self.corpus, self.filters
        work = folder.with_name(self.name)
        work.mkdir(exist_ok=True)
        others = [split for split in corpus.splits if split != "train"]
        if others:
            import_tensorflow_quietly()
            from keras_transformer.train.preparation import write_texts
        for split in others:
            write_texts(folder / f"{split}.tfrecord", corpus.pairs(split))
        languages = corpus.source, corpus.target
        files = [
            ExaminedPairs(part, filters, *languages)
            for part in corpus_files.open_files(self.paths, work, *languages)
        ]
        chunks = corpus_chunks.make_chunks(files)
        if not chunks:
            raise InputError(
                f"A corpus must have pairs. Received: {corpus.name}, which is "
                "empty."
            )
        vocabulary = self.vocabulary or self._train_vocabulary(files, work)
        vocabulary.save_files(folder)
        pairs = sum(chunk.size for chunk in chunks)
        chunk_paths = [chunk.path(work) for chunk in chunks]
        done = sum(path.exists() for path in chunk_paths)
        print(
            f"tokenizing: {pairs:,} pairs in {len(chunks):,} chunks, {done:,} "
            "of them done earlier",
            flush=True,
        )
        created = pipeline | beam.Create(chunks)
        max_length = self.recipe.max_length
        options = max_length, filters.deduplicate
        corpus_chunks.tokenize_chunks(created, folder, work, *options)
        runners.run_pipeline(pipeline)

        statistics = corpus_chunks.count_pairs(chunk_paths)
        statistics.check(max_length)
        joined = corpus_chunks.join_chunks(chunk_paths, ids_dtype(vocabulary))
        shards = write_shards(folder, joined)
        write_description(
            folder,
            corpus,
            vocabulary,
            self.recipe,
            filters,
            others,
            statistics,
            shards,
        )

    def _train_vocabulary(
        self, files: Sequence[ExaminedPairs], work: Path
    ) -> Vocabulary:
        """Trains a tokenizer, unless an earlier start has written it."""
        path, size = work / "tokenizer.model", self.recipe.vocab_size
        if path.exists():
            return Tokenizer.load(path)
        print(f"tokenizer: training with {size:,} tokens", flush=True)
        pairs = keep_passing(itertools.chain.from_iterable(files))
        vocabulary = self.corpus.task.train_tokenizer(pairs, size)
        vocabulary.save_files(work)
        return vocabulary
