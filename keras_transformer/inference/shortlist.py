"""Shortlists: the few target ids that may translate the ids of a source.

export/shortlist.py makes them.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

SHORTLIST_FILE = "shortlist.npz"


class Shortlist(NamedTuple):
    """The target ids that translate each source id."""

    always: np.ndarray  # int32, in the list of every source
    targets: np.ndarray  # int32, of all source ids
    starts: np.ndarray  # in `targets`, of each source id; and the end

    def ids(self, sources: Sequence, prefixes: Sequence = ()) -> np.ndarray:
        """Returns the target ids of a batch, with prefixes, in order."""
        chosen = set(itertools.chain(*sources))
        parts = [self.targets[slice(*self.starts[i : i + 2])] for i in chosen]
        parts += [self.always, *(np.array(ids, np.int32) for ids in prefixes)]
        return np.unique(np.concatenate(parts))
