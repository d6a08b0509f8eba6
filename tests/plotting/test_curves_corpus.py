"""The figure of a corpus."""

import numpy as np
import pytest

from keras_transformer.plotting.curves import corpus_figure
from keras_transformer.support.errors import InputError
from keras_transformer.tasks import ParsingTask

pytest.importorskip("matplotlib")


def test_a_corpus(tokenizer):
    pairs = [("dog", "Hund"), ("cat dog", "Katze"), ("", "Haus")]
    figure = corpus_figure(iter(pairs), tokenizer)
    of_lengths, of_ratios, of_tokens = figure.axes
    lengths = [
        [len(tokenizer.tokenize([pair[i]])[0]) for pair in pairs]
        for i in range(2)
    ]
    labels = [text.get_text() for text in of_lengths.get_legend().texts]
    assert labels == [
        f"source, mean {np.mean(lengths[0]):.1f}",
        f"target, mean {np.mean(lengths[1]):.1f}",
    ]
    total = sum(map(sum, lengths))
    assert figure.get_suptitle() == f"3 pairs, {total} tokens"
    # A pair with an empty side has no ratio.
    assert sum(bar.get_height() for bar in of_ratios.patches) == 2
    named = corpus_figure(pairs, tokenizer, title="Sample of train")
    title = named.get_suptitle()
    assert title == f"Sample of train: 3 pairs, {total} tokens"
    counts = of_tokens.lines[0].get_ydata()
    assert counts.sum() == total and (np.diff(counts) <= 0).all()
    with pytest.raises(InputError, match="needs pairs"):
        corpus_figure([], tokenizer)


def test_a_treebank():
    pairs = [("the dog", "(TOP (NP (DT the) (NN dog)))")]
    task = ParsingTask(split_words=False)
    tokenizer = task.train_tokenizer(pairs * 20, 280)
    figure = corpus_figure(pairs, tokenizer, task)
    targets = len(task.target_ids(tokenizer, [pairs[0][1]])[0])
    sources = len(tokenizer.tokenize(["the dog"])[0])
    assert targets == sources + 4
    assert figure.get_suptitle() == f"1 pairs, {sources + targets} tokens"
