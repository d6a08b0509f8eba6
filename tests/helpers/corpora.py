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
    """Returns a dataset of (source, target) scalar strings."""
    sources, targets = zip(*pairs, strict=True)
    return tf.data.Dataset.from_tensor_slices((list(sources), list(targets)))


def assert_contains(corpus, split, pairs):
    """A split has these pairs in order, repeatedly."""
    found = corpus.pairs(split)
    assert list(found) == list(found) == pairs
    texts = [text for pair in pairs for text in pair]
    assert list(corpus.texts(split)) == texts


def read(corpus, split="train"):
    """Reads a split, which raises if it is damaged."""
    return list(corpus.pairs(split))
