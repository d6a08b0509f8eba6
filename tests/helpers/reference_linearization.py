"""Linearization and repair in Python, which the graphs are compared with."""

import re

from keras_transformer.tasks.parsing.trees import Tree

_SYMBOL = re.compile(r"[(/)][^() \t\n\r\f\v]+")


def linearize(tree):
    found = []
    for kind, node in tree.walk():
        if kind == "word":
            found += [f"▁{node.children}", f"/{node.label}"]
        else:
            found.append(("(" if kind == "open" else ")") + node.label)
    return " ".join(found[1:-1])


def symbols_of(tree):
    return [
        one for one in linearize(tree).split(" ") if one[:1] in tuple("(/)")
    ]


def restore(sequence, words):
    """Returns the tree, and whether the sequence was repaired."""
    symbols, written, word = [], [], ""
    for part in sequence:
        if _SYMBOL.fullmatch(part) is None:
            word += part
            continue
        symbols.append(part)
        if part[0] == "/":
            written.append(word)
        word = ""
    places = iter(align(written, [f"▁{word}" for word in words]))
    stack = [("TOP", [])]  # label and children of what is open
    used = 0

    def close_from(at):
        while len(stack) > at:
            label, children = stack.pop()
            if children:
                stack[-1][1].append(Tree(label, tuple(children)))

    def add_unknown(end):
        stack[-1][1].extend(Tree("XX", word) for word in words[used:end])

    for symbol in symbols:
        kind, label = symbol[0], symbol[1:]
        if kind == "(":
            stack.append((label, []))
        elif kind == ")":
            for at in reversed(range(1, len(stack))):
                if stack[at][0] == label:
                    close_from(at)
                    break
        elif (place := next(places)) is not None:
            add_unknown(place)
            stack[-1][1].append(Tree(label, words[place]))
            used = place + 1
    add_unknown(len(words))
    close_from(1)
    tree = Tree("TOP", tuple(stack[0][1]))
    return tree, symbols_of(tree) != symbols


def align(written, words):
    """Returns the index of the word that each written word stands for, or None.

    The alignment has the fewest edits. Of several the first written word is
    paired with the first word if possible, or else dropped if possible, or
    else the first word is missing; and so on.
    """
    n = len(words)
    if list(written) == list(words):  # as of most outputs
        return list(range(n))
    # distances[i][j] is that of written[i:] and words[j:].
    distances = [[n - j for j in range(n + 1)]]
    for one in reversed(written):
        below = distances[-1]
        row = [*below[:n], below[n] + 1]
        for j in reversed(range(n)):
            paired = below[j + 1] + (one != words[j])
            row[j] = min(paired, below[j] + 1, row[j + 1] + 1)
        distances.append(row)
    distances.reverse()
    found = []
    j = 0
    for i, one in enumerate(written):
        row, below = distances[i], distances[i + 1]
        while True:
            if j < n and row[j] == below[j + 1] + (one != words[j]):
                found.append(j)
                j += 1
                break
            if row[j] == below[j] + 1:
                found.append(None)
                break
            j += 1  # this word is missing
    return found
