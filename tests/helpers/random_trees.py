"""Random trees for tests with hypothesis."""

from hypothesis import settings
from hypothesis import strategies as st

from keras_transformer.tasks.parsing import Tree

# The same trees in every run, from short lists: hypothesis takes other values
# from the modules that are imported, which depend on what ran before.
fixed = settings(derandomize=True, database=None, deadline=None)
LABELS = ["S", "NP", "VP", "PRT", "ADVP", "NP-SBJ", "TOP", ",", "X/Y"]
TAGS = ["NN", "DT", ",", ".", "``", "''", ":", "-LRB-", "XX", "PRP$", "/"]
WORDS = ["dog", "the", ",", ".", "-LRB-", "größer", "1/2", "\u00a0", "TOP"]

words = st.sampled_from(WORDS)
_tagged = st.builds(Tree, st.sampled_from(TAGS), words)


def _constituents(children):
    return st.builds(
        Tree,
        st.sampled_from(LABELS),
        st.lists(children, min_size=1, max_size=4).map(tuple),
    )


trees = st.lists(
    st.recursive(_tagged, _constituents, max_leaves=12), max_size=3
).map(lambda children: Tree("TOP", tuple(children)))
