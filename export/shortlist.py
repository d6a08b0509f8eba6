"""Makes shortlists from pairs of texts, or from Marian's lexical tables."""

import itertools
import os
import re
from collections.abc import Iterable, Sequence

import numpy as np

from keras_transformer.litert.shortlist import Shortlist
from keras_transformer.support.text_files import read_lines
from keras_transformer.text import Tokenizer

Table = Sequence[np.ndarray]  # source ids, target ids, P(target | source)
_PASSES = 5
_PER_SOURCE = 100
_FREQUENT = 300
# Source and target tokens that meet in a pair of texts; each takes 50 bytes.
_MOST_MEETINGS = 25_000_000
_MOST_PAIRS = 400_000


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
    texts = list(itertools.islice(pairs, _MOST_PAIRS))
    sources = tokenizer.encode_sources([source for source, _ in texts])
    targets = tokenizer.encode_targets([target for _, target in texts])
    pairs = [x for x in zip(sources, targets, strict=True) if all(x)]
    meetings = np.cumsum([len(ids) * len(others) for ids, others in pairs])
    del pairs[np.searchsorted(meetings, _MOST_MEETINGS, "right") :]
    counts = np.bincount(np.concatenate([target for _, target in pairs]))
    frequent = np.argsort(-counts, kind="stable")
    return _best(tokenizer, _translation_table(pairs), frequent)


def read_lexicon(tokenizer: Tokenizer, file: str | os.PathLike) -> Shortlist:
    """Returns the shortlist of a lexical table of Marian, such as `lex.s2t.gz`.

    Args:
        tokenizer: The model's tokenizer.
        file: Lines of a target piece, a source piece and a probability.
    """
    source_ids = {x: i for i, x in enumerate(tokenizer.source.pieces())}
    target_ids = {x: i for i, x in enumerate(tokenizer.target.pieces())}
    rows = []
    for line in read_lines(file):
        target, source, probability = re.findall(r"\S+", line, re.ASCII)
        if source in source_ids and target in target_ids:  # or NULL, no word
            row = source_ids[source], target_ids[target], float(probability)
            rows.append(row)
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    # The ids of Marian's vocabularies are sorted by frequency.
    return _best(tokenizer, columns, frequent=np.arange(_FREQUENT))


def _translation_table(pairs: Sequence[tuple[list[int], list[int]]]) -> Table:
    """Returns the table of IBM Model 1, of the tokens that meet."""
    sources = np.concatenate([source for source, _ in pairs]).astype(np.int64)
    targets = np.concatenate([target for _, target in pairs]).astype(np.int64)
    lengths = np.array([len(source) for source, _ in pairs])
    target_lengths = [len(target) for _, target in pairs]
    # Every target token meets every source token of its pair of texts.
    met = np.repeat(lengths, target_lengths)
    first = np.repeat(np.cumsum(lengths) - lengths, target_lengths)
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
    sources, targets, probabilities = table
    if tokenizer.is_shared:  # names and numbers are copied
        ids = np.arange(tokenizer.vocab_size)
        sources, targets = np.append(sources, ids), np.append(targets, ids)
        probabilities = np.append(probabilities, np.full(len(ids), np.inf))
    order = np.lexsort((-probabilities, sources))
    sources = sources[order]
    rank = np.arange(len(sources)) - np.searchsorted(sources, sources)
    is_best = rank < _PER_SOURCE
    ids = np.arange(tokenizer.source.vocab_size + 1)
    special = [tokenizer.unk_id, tokenizer.eos_id]
    return Shortlist(
        always=np.union1d(frequent[:_FREQUENT], special).astype(np.int32),
        targets=targets[order][is_best].astype(np.int32),
        starts=np.searchsorted(sources[is_best], ids),
    )
