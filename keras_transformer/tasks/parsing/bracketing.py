"""Scores of trees by their brackets, as counted by the program evalb.

The rules follow evalb with the parameters COLLINS.prm (Sekine and Collins,
1997), the standard on the Penn Treebank:

- A bracket is a constituent's label, first word and last word. Tags are not
  brackets. A bracket that occurs several times is counted each time.
- Words tagged as punctuation (`PUNCTUATION`) are removed first, and then
  constituents without words.
- Roots are not counted. Functions are removed from labels: `NP-SBJ` is `NP`.
  `PRT` is `ADVP`.
- Sentences without words other than punctuation are omitted.

In both trees the reference's tags decide which words are punctuation. evalb
uses each tree's own tags and omits sentences where the numbers of words then
differ, which would reward wrong tags. If the tags agree, so do the scores.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from keras_transformer.support.errors import InputError
from keras_transformer.tasks.parsing.penn import EMPTY, ROOTS, base_label
from keras_transformer.tasks.parsing.trees import Tree

PUNCTUATION = frozenset([",", ":", "``", "''", "."])
_NOT_COUNTED = PUNCTUATION | {EMPTY, *ROOTS}


def bracketing_scores(
    hypotheses: Sequence[str], references: Sequence[str]
) -> dict[str, float]:
    """Returns scores of trees, compared with the correct trees.

    Args:
        hypotheses: Trees of a parser, as texts: `str(tree)`.
        references: The correct trees.

    Returns:
        Percentages over all sentences together:

        - `f1`, `precision`, `recall`: of the brackets;
        - `unlabelled_f1`, `unlabelled_precision`, `unlabelled_recall`: of the
          brackets without labels;
        - `complete_match`: sentences in which all brackets are correct;
        - `tag_accuracy`: tags of words other than punctuation.

        A score is 0 if there is nothing to count.

    Raises:
        InputError: If the words of two trees differ, or a text is not a tree.
    """
    total: Counter[str] = Counter()
    for number, pair in enumerate(zip(hypotheses, references, strict=True), 1):
        hypothesis, reference = [Tree.from_string(text) for text in pair]
        if hypothesis.words != reference.words:
            raise InputError(
                "A hypothesis and its reference must have the same words. "
                f"Received: sentence {number} with "
                f"{' '.join(hypothesis.words)!r} instead of "
                f"{' '.join(reference.words)!r}"
            )
        total += _count(hypothesis, reference)

    def percent(part: str, whole: str) -> float:
        return 100.0 * total[part] / total[whole] if total[whole] else 0.0

    scores = {}
    for prefix in ("", "unlabelled_"):
        precision = percent(f"{prefix}correct", "hypothesis")
        recall = percent(f"{prefix}correct", "reference")
        both = precision + recall
        scores |= {
            f"{prefix}f1": 2 * precision * recall / both if both else 0.0,
            f"{prefix}precision": precision,
            f"{prefix}recall": recall,
        }
    return scores | {
        "complete_match": percent("complete", "sentences"),
        "tag_accuracy": percent("correct_tags", "words"),
    }


def _count(hypothesis: Tree, reference: Tree) -> Counter[str]:
    """Returns the counts of one sentence."""
    tags = reference.tags
    counted = [tag not in PUNCTUATION for tag in tags]
    if not any(counted):
        return Counter()
    brackets = Counter(_brackets(hypothesis, counted))
    correct = Counter(_brackets(reference, counted))
    spans = Counter(bracket[1:] for bracket in brackets.elements())
    correct_spans = Counter(bracket[1:] for bracket in correct.elements())
    tag_pairs = zip(hypothesis.tags, tags, counted, strict=True)
    return Counter(
        sentences=1,
        hypothesis=brackets.total(),
        reference=correct.total(),
        correct=(brackets & correct).total(),
        unlabelled_correct=(spans & correct_spans).total(),
        complete=brackets == correct,
        words=sum(counted),
        correct_tags=sum(a == b for a, b, counts in tag_pairs if counts),
    )


def _brackets(
    tree: Tree, counted: Sequence[bool]
) -> Iterator[tuple[str, int, int]]:
    """Yields label, first word and end of each bracket, in counted words."""
    starts: list[int] = []
    is_counted = iter(counted)
    position = 0
    for event, node in tree.walk():
        if event == "open":
            starts.append(position)
        elif event == "word":
            position += next(is_counted)
        else:
            label = base_label(node.label)
            start = starts.pop()
            if label not in _NOT_COUNTED and start < position:
                yield "ADVP" if label == "PRT" else label, start, position
