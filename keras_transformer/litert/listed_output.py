"""The product with some rows of the output matrix.

It is a small model with placeholders, which the rows follow, with the bias as
their last column. Letters: L = ids in order, d = d_model, C = candidates
of a hypothesis.
"""

from collections.abc import Sequence

import numpy as np

from keras_transformer.support import startup

with startup.explain_missing_packages():
    from ai_edge_litert.interpreter import Interpreter

# L, and the place and the number of bytes of the rows.
LENGTH, OFFSET, SIZE = 0x71234567, 0x8123456789ABCDEF, 0x9123456789ABCDEF


class ListedOutput:
    """Computes candidates among ids `[L]`, whose rows are `[L, d + 1]`."""

    def __init__(
        self, template: bytes, ids: np.ndarray, rows: np.ndarray, threads: int
    ) -> None:
        self._ids = ids
        content = template.replace(*_packed(4, LENGTH, len(ids)))
        content = content.replace(*_packed(8, OFFSET, len(template)))
        content = content.replace(*_packed(8, SIZE, rows.nbytes))
        content += rows.tobytes()
        interpreter = Interpreter(model_content=content, num_threads=threads)
        self._output = interpreter.get_signature_runner("output")

    def __call__(
        self, states: np.ndarray, forced_ids: np.ndarray
    ) -> Sequence[np.ndarray]:
        """Returns log P and ids of C candidates, and log P of forced ids."""
        places = np.searchsorted(self._ids, forced_ids)
        # Ids that are not listed are not needed.
        places = np.minimum(places, len(self._ids) - 1).astype(np.int32)
        outputs = self._output(states=states, forced_ids=places)
        tokens = self._ids[outputs["tokens"]]
        return outputs["log_probs"], tokens, outputs["forced_log_probs"]


def _packed(width: int, *values: int) -> list[bytes]:
    return [value.to_bytes(width, "little") for value in values]
