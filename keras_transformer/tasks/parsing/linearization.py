"""Trees as sequences of symbols, which a model learns to write, and back.

The sequence of a sentence is its tree in the order of the text, without the
root: `(NP` opens a constituent, `▁the` is a word, `/DT` is the tag of the
word before it, and `)NP` closes a constituent. All but the words are symbols.
The tree gets the words of the parsed sentence; the words that a model writes
only align its tags with them.

As in Vinyals et al., 2015 (Grammar as a Foreign Language), which section 6.3
of the paper cites, except that tags and words are kept: without them a model
would have to count the words.
"""

from collections.abc import Iterable, Sequence

from keras_transformer.tasks.parsing.trees import ROOT, Tree

# The first character of a word, as in SentencePiece.
WORD = "▁"
# Tag of words for which the sequence contains no tag, as in OntoNotes.
UNKNOWN_TAG = "XX"


def symbols(trees: Iterable[Tree]) -> list[str]:
    """Returns the distinct symbols of several trees, sorted."""
    parts = {part for tree in trees for part in linearize(tree)}
    return sorted(part for part in parts if not part.startswith(WORD))


def linearize(tree: Tree) -> list[str]:
    """Returns the words and symbols of a tree's sequence."""
    parts = []
    for event, node in tree.walk():
        if event == "word":
            parts += [f"{WORD}{node.children}", f"/{node.label}"]
        elif node is not tree:
            parts.append(f"{'(' if event == 'open' else ')'}{node.label}")
    return parts


def restore_tree(
    pieces: Iterable[str],
    are_symbols: Iterable[bool],
    words: Sequence[str],
    spelled: Iterable[str],
) -> tuple[Tree, bool]:
    """Returns the tree of a sequence, and whether it was repaired.

    docs/parsing.md describes the rules of the repair.

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
