"""Makes shortlists: from pairs of texts, or from Marian's lexical tables."""

import itertools
import os
from collections.abc import Iterable

import numpy as np

from keras_transformer.litert.shortlist import Shortlist
from keras_transformer.support.text_files import read_lines
from keras_transformer.text import Tokenizer

Table = Iterable[np.ndarray]  # source ids, target ids, P(target | source)
_PASSES = 5
_PER_SOURCE, _FREQUENT = 100, 300
# Source and target tokens that meet in a pair of texts; each takes 50 bytes.
_MOST_MEETINGS, _MOST_PAIRS = 25_000_000, 400_000


def make_shortlist(
    tokenizer: Tokenizer, pairs: Iterable[tuple[str, str]]
) -> Shortlist:
    """Returns the tokens that translate each source token in a corpus.

    They are the 100 most likely ones of IBM Model 1 (Brown et al., 1993), with
    a shared vocabulary the source token first, and the 300 most frequent ones.

    Args:
        tokenizer: The model's tokenizer.
        pairs: Sources and targets. Of many, the first are used: about 200,000
            pairs of short sentences.
    """
    sources, targets = zip(*itertools.islice(pairs, _MOST_PAIRS), strict=True)
    sides = tokenizer.encode_sources(sources), tokenizer.encode_targets(targets)
    both = [ids for ids in zip(*sides, strict=True) if all(ids)]
    lengths = np.array([[len(ids) for ids in pair] for pair in both]).T
    used = np.cumsum(lengths.prod(axis=0)) <= _MOST_MEETINGS
    sides = zip(*itertools.compress(both, used), strict=True)
    ids = [np.concatenate(side).astype(np.int64) for side in sides]
    table = _translation_table(*ids, *lengths[:, used])
    frequent = np.argsort(-np.bincount(ids[1]), kind="stable")
    return _best(tokenizer, table, frequent)


def read_lexicon(tokenizer: Tokenizer, file: str | os.PathLike) -> Shortlist:
    """Returns the shortlist of a lexical table of Marian, such as `lex.s2t.gz`.

    Args:
        tokenizer: The model's tokenizer.
        file: Lines of a target piece, a source piece and a probability.
    """
    sides = tokenizer.target, tokenizer.source
    ids = [{piece: i for i, piece in enumerate(x.pieces())} for x in sides]
    rows = []
    for line in read_lines(file):
        target, source, probability = line.split(" ")
        row = ids[1].get(source), ids[0].get(target)
        if None not in row:  # NULL, no word
            rows.append((*row, float(probability)))
    columns = map(np.array, zip(*rows, strict=True))
    # The ids of Marian's vocabularies are sorted by frequency.
    return _best(tokenizer, columns, np.arange(_FREQUENT))


def _translation_table(
    sources: np.ndarray, targets: np.ndarray, *lengths: np.ndarray
) -> Table:
    """Returns the table of IBM Model 1, of the tokens that meet."""
    # Every target token meets every source token of its pair of texts.
    first = np.cumsum(lengths[0]) - lengths[0]
    first, met = np.repeat([first, lengths[0]], lengths[1], axis=1)
    starts = np.cumsum(met) - met  # of each target token
    places = np.arange(met.sum()) + np.repeat(first - starts, met)
    keys = sources[places] << 32 | np.repeat(targets, met)
    keys, occurrences = np.unique(keys, return_inverse=True)
    source, target = keys >> 32, keys & (1 << 32) - 1
    table = np.ones(len(keys))
    for _ in range(_PASSES):
        expected = table[occurrences]
        expected /= np.repeat(np.add.reduceat(expected, starts), met)
        table = np.bincount(occurrences, expected)
        table /= np.bincount(source, table)[source]
    return source, target, table


def _best(
    tokenizer: Tokenizer, table: Table, frequent: np.ndarray
) -> Shortlist:
    """Returns the most likely target ids of each source id."""
    if tokenizer.is_shared:  # names and numbers are copied
        own = np.arange(tokenizer.vocab_size)
        table = map(np.append, table, (own, own, np.full(len(own), np.inf)))
    sources, targets, probabilities = table
    order = np.lexsort((-probabilities, sources))
    sources, targets = sources[order], targets[order].astype(np.int32)
    rank = np.arange(len(sources)) - np.searchsorted(sources, sources)
    is_best = rank < _PER_SOURCE
    ids = np.arange(tokenizer.source.vocab_size + 1)
    starts = np.searchsorted(sources[is_best], ids)
    special = [tokenizer.unk_id, tokenizer.eos_id]
    always = np.union1d(frequent[:_FREQUENT], special).astype(np.int32)
    return Shortlist(always, targets[is_best], starts)
