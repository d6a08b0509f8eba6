"""Small parallel corpora in files."""

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
    en, de = zip(*pairs, strict=True)
    return [
        write_lines(folder / f"{split}.{code}", lines, end)
        for code, lines in (("en", en), ("de", de))
    ]


def read(corpus, split="train"):
    """Reads a split, which raises if it is damaged."""
    return list(corpus.pairs(split))
