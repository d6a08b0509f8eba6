"""Shortlists: the few target ids that may translate the ids of a source.

export/shortlist.py makes them. The product with their rows of the output matrix
is a small model of its own. Letters: L = ids in order, d = d_model.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

SHORTLIST_FILE = "shortlist.npz"
# Placeholders in the template of a product: L, and the place and the number of
# bytes of the rows.
LENGTH = 0x71234567
OFFSET = 0x8123456789ABCDEF
SIZE = 0x9123456789ABCDEF


class Shortlist(NamedTuple):
    """The target ids that translate each source id."""

    always: np.ndarray  # int32, in the list of every source
    targets: np.ndarray  # int32, of all source ids
    starts: np.ndarray  # in `targets`, of each source id; and the end

    def ids(self, sources: Sequence, prefixes: Sequence = ()) -> np.ndarray:
        """Returns the target ids of a batch, with prefixes, in order."""
        parts = [self.always]
        for i in set(itertools.chain.from_iterable(sources)):
            parts.append(self.targets[self.starts[i] : self.starts[i + 1]])
        parts += [np.array(ids, np.int32) for ids in prefixes]
        return np.unique(np.concatenate(parts))


class ExportedShortlist(NamedTuple):
    """The shortlist of an export, and the product with listed rows."""

    shortlist: Shortlist
    all_ids: np.ndarray  # of the target vocabulary
    template: bytes  # the model of the product, without its rows

    @classmethod
    def find(cls, folder: Path) -> "ExportedShortlist | None":
        """Reads the shortlist of an export; None if it has none."""
        file = folder / SHORTLIST_FILE
        if not file.exists():
            return None
        arrays = np.load(file)
        return cls(
            Shortlist(arrays["always"], arrays["targets"], arrays["starts"]),
            all_ids=np.arange(arrays["size"], dtype=np.int32),
            template=arrays["template"].tobytes(),
        )

    def model_with(self, rows: np.ndarray) -> bytes:
        """Returns the model of the product with rows `[L, d + 1]`.

        The bias is their last column. The rows are appended as constants, since
        an ordinary input of the graph was slower.
        """
        content = self.template
        for placeholder, value, width in (
            (LENGTH, len(rows), 4),
            (OFFSET, len(content), 8),
            (SIZE, rows.nbytes, 8),
        ):
            content = content.replace(
                placeholder.to_bytes(width, "little"),
                value.to_bytes(width, "little"),
            )
        return content + rows.tobytes()
