"""Repairs sequences of symbols to trees, by the rules in docs/parsing.md."""

from collections.abc import Iterable, Sequence

from keras_transformer.tasks.parsing.linearization import (
    UNKNOWN_TAG,
    WORD,
    linearize,
)
from keras_transformer.tasks.parsing.trees import ROOT, Tree


def restore_tree(
    pieces: Iterable[str],
    are_symbols: Iterable[bool],
    words: Sequence[str],
    spelled: Iterable[str],
) -> tuple[Tree, bool]:
    """Returns the tree of a sequence, and whether it was repaired.

    Args:
        pieces: Symbols and pieces of words.
        are_symbols: Whether each piece is a symbol.
        words: The words of the sentence, without round brackets.
        spelled: The joined pieces of each word.
    """
    symbols = []
    written = []
    word = ""
    for piece, is_symbol in zip(pieces, are_symbols, strict=True):
        if not is_symbol:  # rule 1
            word += piece
            continue
        symbols.append(piece)
        if piece.startswith("/"):
            written.append(word)
        word = ""
    tree = _build(symbols, align(written, list(spelled)), words)
    restored = [part for part in linearize(tree) if not part.startswith(WORD)]
    return tree, restored != symbols


def _build(
    symbols: Sequence[str], places: Iterable[int | None], words: Sequence[str]
) -> Tree:
    """Returns the tree of symbols; `places` has the word of each tag."""
    # Label and children so far of each open constituent.
    stack: list[tuple[str, list[Tree]]] = [(ROOT, [])]
    remaining = iter(places)
    used = 0

    def close(depth: int) -> None:
        while len(stack) > depth:
            label, children = stack.pop()
            if children:  # rule 5
                stack[-1][1].append(Tree(label, tuple(children)))

    def add_missing(end: int) -> None:  # rule 2
        missing = (Tree(UNKNOWN_TAG, word) for word in words[used:end])
        stack[-1][1].extend(missing)

    for symbol in symbols:
        label = symbol[1:]
        if symbol.startswith("("):
            stack.append((label, []))
        elif symbol.startswith(")"):  # rule 3
            depths = [i for i in range(1, len(stack)) if stack[i][0] == label]
            if depths:
                close(depths[-1])
        else:
            place = next(remaining)
            if place is not None:
                add_missing(place)
                stack[-1][1].append(Tree(label, words[place]))
                used = place + 1
    add_missing(len(words))
    close(1)  # rule 4
    return Tree(ROOT, tuple(stack[0][1]))


def align(written: Sequence[str], words: Sequence[str]) -> list[int | None]:
    """Returns the place of each written word in a sentence, None if surplus."""
    if written == words:  # as in most outputs
        return list(range(len(words)))
    n = len(words)
    # distances[i][j] is the distance between written[i:] and words[j:].
    distances = [[n - j for j in range(n + 1)]]
    for word in reversed(written):
        below = distances[0]
        row = [*below[:n], below[n] + 1]
        for j in reversed(range(n)):
            paired = below[j + 1] + (word != words[j])
            row[j] = min(paired, below[j] + 1, row[j + 1] + 1)
        distances.insert(0, row)
    places: list[int | None] = []
    j = 0
    for i, word in enumerate(written):
        row, below = distances[i : i + 2]
        while True:
            if j < n and row[j] == below[j + 1] + (word != words[j]):
                places.append(j)
                j += 1
                break
            if row[j] == below[j] + 1:
                places.append(None)
                break
            j += 1  # this word is missing
    return places
