"""The batches from which the included translator is trained on JAX."""

import numpy as np
import train_en_de

import keras_transformer as kt
from keras_transformer.train.data.encoding import TokenShard

CONFIG = kt.TransformerConfig.from_preset(
    "tiny", vocab_size=100, pad_id=0, bos_id=1, eos_id=2
)


def shard(pairs):
    texts = [text for pair in pairs for text in pair]
    offsets = np.cumsum([0, *map(len, texts)])
    return TokenShard(np.concatenate(texts).astype("uint16"), offsets)


def unpadded(row):
    return tuple(row[row != CONFIG.pad_id].tolist())


def test_batches_have_each_pair_once_with_its_special_tokens():
    draw = np.random.default_rng(1)
    pairs = [
        [draw.integers(3, 100, length) for length in draw.integers(1, 24, 2)]
        for _ in range(500)
    ]
    batches = train_en_de.Batches(
        [shard(pairs[:200]), shard(pairs[200:])], CONFIG, batch_tokens=128
    )
    seen = []
    for index in range(len(batches)):
        inputs, labels = batches[index]
        assert inputs["source"].shape == inputs["target"].shape == labels.shape
        assert labels.size * 2 <= 128
        assert (inputs["target"][:, 0] == CONFIG.bos_id).all()
        np.testing.assert_array_equal(inputs["target"][:, 1:], labels[:, :-1])
        rows = zip(inputs["source"], labels, strict=True)
        seen += [tuple(map(unpadded, row)) for row in rows]
    expected = [
        tuple((*map(int, text), CONFIG.eos_id) for text in pair)
        for pair in pairs
    ]
    # Of each length, less than a batch is left out: of 5, 4 and 2 pairs.
    assert len(set(seen)) == len(seen) >= len(pairs) - 4 - 3 - 1
    assert set(seen) <= set(expected)
    before = batches[0][1].tolist()
    batches.on_epoch_end()
    assert before != batches[0][1].tolist()
