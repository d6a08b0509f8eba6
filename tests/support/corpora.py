"""Small parallel corpora in files, and what a corpus contains."""

import tensorflow as tf

PAIRS = [
    ("A cat.", "Eine Katze."),
    ("", "Leer links."),
    ("Über alles: „so“ 🦩", "tab-free, ½"),
    ("The last line.", "Die letzte Zeile."),
]


def write_lines(path, lines, end="\n"):
    """Writes a text file and returns its path as a string."""
    path.write_bytes("".join(line + end for line in lines).encode("utf-8"))
    return str(path)


def write_sides(folder, split="train", pairs=PAIRS, end="\n"):
    """Writes SPLIT.en and SPLIT.de and returns both paths."""
    english, german = zip(*pairs, strict=True)
    return [
        write_lines(folder / f"{split}.en", english, end),
        write_lines(folder / f"{split}.de", german, end),
    ]


def as_dataset(pairs):
    """Returns a dataset of (source, target) as `Corpus.pairs` does."""
    sources, targets = zip(*pairs, strict=True)
    return tf.data.Dataset.from_tensor_slices((list(sources), list(targets)))


def as_list(dataset):
    """Returns the pairs of a dataset as a list of texts."""
    return [
        (source.decode("utf-8"), target.decode("utf-8"))
        for source, target in dataset.as_numpy_iterator()
    ]


def shards(corpus, count, split="train"):
    """Returns the pairs that each of `count` workers gets."""
    return [
        as_list(corpus.pairs(split, (index, count))) for index in range(count)
    ]


def every(count, pairs):
    """Returns the shards that consist of every `count`-th pair."""
    return [pairs[index::count] for index in range(count)]


def assert_contains(corpus, split, pairs):
    """All ways of reading a split give these pairs in order, repeatedly."""
    dataset = corpus.pairs(split)
    assert as_list(dataset) == pairs
    assert as_list(dataset) == pairs
    assert corpus.check(split) == len(pairs)
    assert list(corpus.read(split)) == pairs
    texts = [text for pair in pairs for text in pair]
    assert list(corpus.texts(split)) == texts
    source, target = dataset.element_spec
    assert source.shape == target.shape == []
