"""What is counted of a corpus is in test_pipeline.py, beside what it gives."""

import tensorflow as tf

from keras_transformer.train.data.statistics import checksum


def dataset(pairs):
    sources, targets = zip(*pairs, strict=True)
    return tf.data.Dataset.from_tensor_slices((list(sources), list(targets)))


def test_the_checksum_is_of_the_texts_and_their_order():
    many = [(f"{i % 300} dogs", f"{i % 300} Hunde") for i in range(3000)]
    (source, target), *others = many  # in several chunks
    assert checksum(dataset(many)) == checksum(dataset(list(many)))
    different = [
        [*others, many[0]],
        many[::-1],
        many[1024:] + many[:1024],
        [(target, source), *others],
        [(source + "s", target), *others],
    ]
    found = {checksum(dataset(pairs)) for pairs in [many, *different]}
    assert len(found) == 6


def test_the_checksum_of_two_pairs():
    """It is recorded, so it must not change between versions."""
    first, second = (
        int(tf.strings.to_hash_bucket_fast(text, 2**31))
        for text in ("a\tb", "c\td")
    )
    found = checksum(dataset([("a", "b"), ("c", "d")]))
    assert found == (first + 2 * second) % 2**32
