"""Which words of a sentence the words that a model wrote stand for."""

from collections.abc import Sequence


def align(written: Sequence[str], words: Sequence[str]) -> list[int | None]:
    """Aligns two sequences with the fewest edits, in order.

    An edit is a word that is missing, one too many, or another word (the
    Levenshtein distance). Among alignments with as few edits, the first
    written word decides: it stands for a word rather than for none, and rather
    for an earlier than for a later one; then the second, and so on.

    Args:
        written: The words that a model wrote.
        words: The words of the sentence.

    Returns:
        For each written word the index of the word that it stands for, or
        None if it is one too many.
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
    found: list[int | None] = []
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
