# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Parse sentences with a Transformer
#
# In section 6.3 of the paper
# [Attention Is All You Need](https://arxiv.org/abs/1706.03762), the translation
# model learns to read a sentence and write its tree. Here it learns a small
# grammar in a few minutes on two CPU cores. Nothing is downloaded.

# %% [markdown]
# ## Install
#
# In a local Jupyter, `make install` has installed everything. In Colab, bring
# the project first, since the package is not on PyPI. Pack a checkout with
# `git archive --output keras-transformer.zip HEAD`, upload the file with the
# folder symbol at the left, and run
# `!unzip -q keras-transformer.zip -d keras-transformer` in a new cell. The next
# cell keeps Colab's TensorFlow.

# %%
import os
import sys

if "google.colab" in sys.modules:
    checkout = "/content/keras-transformer"
    assert os.path.isdir(checkout), (
        f"Upload the project, and unpack it at {checkout}, as described above"
    )
    # %pip install -q "{checkout}[tensorflow,plot]"

# How long to train. The tests of the project set a few steps.
os.environ.setdefault("STEPS", "2000")

# %% [markdown]
# ## A treebank
#
# Real treebanks are licensed, so we generate one. Its grammar has a difficulty
# of English in small. The tags of "sees the dog with a hat" and "sees the dog
# of a child" are the same, but the first phrase belongs to the verb, and the
# second to the noun.

# %%
import random
from pathlib import Path

import keras_transformer as kt

# What each symbol becomes; what is listed twice is twice as frequent.
GRAMMAR = {
    "S": ["NP VP ."],
    "NP": ["DT NN", "DT NN", "DT JJ NN", "NP PP-of", "PRP"],
    "VP": ["VBZ NP", "VBZ NP", "VBZ NP PP-with", "VBZ SBAR", "VBZ"],
    "PP-of": ["IN-of NP"],
    "PP-with": ["IN-with NP"],
    "SBAR": ["IN-that NP VP"],
}
WORDS = {
    "DT": ["the", "a", "every", "no"],
    "JJ": ["red", "old", "small", "happy", "tired"],
    "NN": ["dog", "tree", "house", "cat", "child", "hat", "man", "woman"],
    "PRP": ["she", "he", "somebody", "everybody"],
    "VBZ": ["sees", "likes", "finds", "hears", "knows"],
    "IN-of": ["of", "from"],
    "IN-with": ["with", "without"],
    "IN-that": ["that", "because"],
    ".": ["."],
}


def generate(symbol="S", depth=0):
    """Returns a tree, such as `(S (NP (DT the) (NN dog)) ...)`."""
    label = symbol.split("-")[0]
    if symbol in WORDS:
        return f"({label} {random.choice(WORDS[symbol])})"
    # Deep in a tree only the first, short choices are left.
    choice = random.choice(GRAMMAR[symbol][: 2 if depth > 6 else None])
    children = (generate(child, depth + 1) for child in choice.split())
    return f"({label} {' '.join(children)})"


random.seed(1)
treebank = Path("runs/treebank")
treebank.mkdir(parents=True, exist_ok=True)
trees = list({f"(TOP {generate()})" for _ in range(20_000)})
random.shuffle(trees)
(treebank / "valid.mrg").write_text("\n".join(trees[:200]) + "\n")
(treebank / "train.mrg").write_text("\n".join(trees[200:]) + "\n")
print(f"{len(trees):,} different trees")
print(kt.parsing.pretty(kt.parsing.Tree.from_string(trees[0])))

# %% [markdown]
# ## Trees as sequences
#
# The decoder writes tokens, so a tree becomes a sequence. Each constituent has
# an opening and a closing bracket with its label, and its tag follows each
# word.

# %%
from keras_transformer.tasks.parsing import linearization, repair

tree = kt.parsing.Tree.from_string(
    "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ knows)) (. .)))"
)
sequence = linearization.linearize(tree)
print(*sequence)

# %% [markdown]
# The output of a model need not be a tree. It is repaired in any case, by the
# rule in `docs/parsing.md`. Here the bracket that closes the subject is
# missing.

# %%
broken = [part for part in sequence if part != ")NP"]
are_symbols = [not part.startswith("▁") for part in broken]
spelled = [f"▁{word}" for word in tree.words]
repaired, had_to = repair.restore_tree(broken, are_symbols, tree.words, spelled)
print(repaired, had_to)

# %% [markdown]
# ## Train
#
# A parser trains in the same way as a translator. The differences are in one
# class, the task, which the command chooses when it finds trees.

# %% language="bash"
# rm -rf runs/parser
# keras-transformer train runs/treebank --preset tiny --vocab-size 480 \
#     --steps $STEPS --warmup-steps 200 --output runs/parser

# %% [markdown]
# ## Evaluate
#
# The score is F1 of the labelled brackets, by the rules of evalb, on trees that
# were not used for training. The search has the beam of the paper's parser, 21.

# %% language="bash"
# keras-transformer evaluate runs/parser --data runs/treebank --split valid

# %% [markdown]
# ## Parse
#
# The preposition decides what the last phrase belongs to.

# %%
parser = kt.open_translator("runs/parser")
for text in (
    "The man sees the dog with a hat.",
    "The man sees the dog of a child.",
):
    parsed = parser.translate(text.lower())
    print(f"{text}  score {parsed.scores[0]:.3f}, repaired {parsed.repaired}")
    print(kt.parsing.pretty(kt.parsing.Tree.from_string(parsed.texts[0])), "\n")
