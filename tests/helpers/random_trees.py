import random

from keras_transformer.tasks.parsing import Tree

LABELS = ["S", "NP", "VP", "PRT", "ADVP", "NP-SBJ", "TOP", ",", "X/Y"]
TAGS = ["NN", "DT", ",", ".", "``", "''", ":", "-LRB-", "XX", "PRP$", "/"]
WORDS = ["dog", "the", ",", ".", "-LRB-", "größer", "1/2", "\u00a0", "TOP"]


def random_trees(count):
    generator = random.Random(0)

    def child(depth):
        if depth == 0 or generator.random() < 0.4:
            return Tree(generator.choice(TAGS), generator.choice(WORDS))
        children = (child(depth - 1) for _ in range(generator.randint(1, 3)))
        return Tree(generator.choice(LABELS), tuple(children))

    sizes = (generator.randint(0, 3) for _ in range(count))
    return [Tree("TOP", tuple(child(4) for _ in range(n))) for n in sizes]
