"""Runs the signatures of a model for LiteRT, with its keys and values.

Letters: B = batch, S = source length, K = hypotheses of a source (the beam),
R = positions with room in the cache, H = heads, w = width of a head, L = ids of
a shortlist in order.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from keras_transformer.decoding.numpy_search import Decoding, Predictions
from keras_transformer.litert.shortlist import ExportedShortlist
from keras_transformer.support import startup
from keras_transformer.text.ids import padded

with startup.explain_missing_packages():
    from ai_edge_litert.interpreter import Interpreter

# Added to the attention scores of masked positions.
_MASKED = -1e9
# The initial R, and the most that is added when all positions are used.
# Resizing takes as long as a step or two; unused room makes each step slower.
_INITIAL_ROOM = 8
_MAX_ADDED_ROOM = 16


class LiteModel:
    """Runs one computation at a time.

    It maps the file, and keeps a packed copy of the weights.
    """

    def __init__(
        self, path: Path, threads: int, pad_id: int, window: int | None = None
    ) -> None:
        self.interpreter = Interpreter(str(path), num_threads=threads)
        self._pad_id = pad_id
        self._threads = threads
        self.window = window
        decode = self.interpreter.get_signature_runner("decode_step")
        self.inputs = decode.get_input_details()
        self.outputs = {
            name: details["index"]
            for name, details in decode.get_output_details().items()
        }
        del decode  # the interpreter does not run while this refers to it
        for name, value in _indices(self.inputs, 1, 1).items():
            index = self.inputs[name]["index"]
            self.interpreter.resize_tensor_input(index, value.shape)
        # It logs the first delegate of a process at any log level.
        with startup.quiet_native_code():
            self.interpreter.allocate_tensors()

    def listed_output(
        self, shortlist: ExportedShortlist, ids: np.ndarray
    ) -> Callable[[np.ndarray, np.ndarray], Sequence[np.ndarray]]:
        """Returns a function that computes candidates among the ids `[L]`."""
        rows = self.interpreter.get_signature_runner("output_rows")(ids=ids)
        content = shortlist.model_with(rows["rows"])
        product = Interpreter(model_content=content, num_threads=self._threads)
        run = product.get_signature_runner("output")

        def output(states: np.ndarray, forced_ids: np.ndarray) -> Sequence:
            """Returns log P and ids of candidates, and log P of forced ids."""
            # Ids that are not listed are not needed.
            places = np.minimum(np.searchsorted(ids, forced_ids), len(ids) - 1)
            found = run(states=states, forced_ids=places.astype(np.int32))
            tokens = ids[found["tokens"]]
            return found["log_probs"], tokens, found["forced_log_probs"]

        return output

    def encode(self, sources: Sequence[Sequence[int]]) -> dict[str, np.ndarray]:
        """Returns the inputs of a step that belong to the sources.

        Each source has its end token, or padding.
        """
        ids = padded(sources, self._pad_id)
        batch, longest = ids.shape
        is_token = ids != self._pad_id
        hidden = np.where(is_token, 0, _MASKED).astype(np.float32)
        memory_mask = mask = hidden[:, None, None]
        if self.window is not None:
            # As `masks.window_mask`: an even window has one more before.
            distance = np.subtract.outer(np.arange(longest), np.arange(longest))
            is_before = distance > self.window // 2
            is_far = is_before | (distance < -((self.window - 1) // 2))
            mask = np.where(is_far, np.float32(_MASKED), mask)
        encode = self.interpreter.get_signature_runner("encode")
        values = encode(
            ids=ids.reshape(-1),
            positions=np.tile(np.arange(longest, dtype=np.int32), batch),
            mask=mask,
            **_indices(encode.get_input_details(), batch, longest),
        )
        is_empty = ~is_token.any(axis=1)
        for name, array in values.items():
            if "values" in name:  # nothing to attend to gives 0
                array[is_empty] = 0
        return values | {"memory_mask": memory_mask}


class LiteDecoding(Decoding):
    """Decodes token by token. A model has one decoding at a time, the last.

    The keys of all K hypotheses lie side by side, and are never reordered when
    hypotheses swap; the mask marks each hypothesis' own past. The interpreter
    never overwrites inputs: they keep past keys and values.
    """

    finished_share = 1 / 8

    def __init__(
        self,
        model: LiteModel,
        sources: Sequence[Sequence[int]],
        output: Callable | None,
    ) -> None:
        self._model = model
        self._interpreter = model.interpreter
        self._output = output
        self._memory = model.encode(sources)
        self._length = 0  # positions decoded so far
        # Inputs with past keys and values, and outputs with the new ones.
        self._past = {
            name: model.outputs[f"new_{name}"]
            for name in model.inputs
            if f"new_{name}" in model.outputs
        }
        self._allocate(_INITIAL_ROOM, beam_size=1)
        for name in self._past:
            self._view(name)[:] = 0  # memory that was never written may be NaN

    def step(
        self, ids: np.ndarray, parents: np.ndarray, forced_ids: np.ndarray
    ) -> Predictions:
        """Decodes one more token; see `numpy_search.beam_search`."""
        at = self._length
        room = self._room
        if at == room:
            room += min(room, _MAX_ADDED_ROOM)
        # In the first step all hypotheses are the same, and are computed once.
        beam_size = ids.shape[1] if at else 1
        copies = ids.shape[1] // beam_size
        ids = ids[:, :beam_size]
        forced_ids = forced_ids[:, :beam_size].reshape(-1, 1)
        if (room, beam_size) != (self._room, self._beam_size):
            self._move(room, beam_size, self._rows[:, 0])
        if at:
            self._mask = self._mask[self._rows, parents]
        window = self._model.window
        if window is not None and at >= window:
            first = (at - window) * beam_size
            self._mask[..., first : first + beam_size] = _MASKED
        self._put("mask", self._mask[:, None])
        self._put("ids", ids.reshape(-1))
        self._put("position", np.array([at], np.int32))
        self._put("forced_ids", forced_ids)
        self._interpreter.invoke()
        now = slice(at * beam_size, (at + 1) * beam_size)
        for name, output in self._past.items():
            new = self._interpreter.tensor(output)()
            self._view(name)[:, :, now] = _by_position(name, new)
        del new  # nothing may refer to the interpreter's memory when it runs
        own = np.arange(beam_size)
        self._mask[:, own, at * beam_size + own] = 0
        self._length += 1
        if self._output is None:
            names = ("log_probs", "tokens", "forced_log_probs")
            arrays = [self._get(name) for name in names]
        else:
            arrays = self._output(self._get("states"), forced_ids)
        arrays = [x.reshape(*ids.shape, -1) for x in arrays]
        return Predictions._make(np.repeat(x, copies, axis=1) for x in arrays)

    def keep(self, rows: np.ndarray) -> None:
        """Removes all other sentences."""
        self._memory = {name: x[rows] for name, x in self._memory.items()}
        self._move(self._room, self._beam_size, rows)

    def _move(self, room: int, beam_size: int, rows: np.ndarray) -> None:
        """Copies the past of some sentences to an allocation with more room."""
        past = {name: self._view(name)[rows] for name in self._past}
        mask = self._mask[rows]
        self._allocate(room, beam_size)
        self._mask[..., : mask.shape[-1]] = mask
        for name, values in past.items():
            view = self._view(name)
            view[:, :, : values.shape[2]] = values
            view[:, :, values.shape[2] :] = 0

    def _allocate(self, room: int, beam_size: int) -> None:
        """Makes room for positions; deletes the past."""
        self._room, self._beam_size = room, beam_size
        batch = len(self._memory["memory_mask"])
        self._rows = np.arange(batch)[:, None]
        self._mask = np.full(  # [B, K, R*K]
            (batch, beam_size, room * beam_size), _MASKED, np.float32
        )
        values = self._memory | _indices(self._model.inputs, batch, beam_size)
        shapes = {name: value.shape for name, value in values.items()}
        shapes["mask"] = self._mask[:, None].shape
        shapes["ids"] = (batch * beam_size,)
        shapes["forced_ids"] = (batch * beam_size, 1)
        for name in self._past:
            _, heads, *sizes = self._model.inputs[name]["shape"]
            sizes[1 if "values" in name else 0] = room * beam_size
            shapes[name] = (batch, heads, *sizes)
        for name, shape in shapes.items():
            index = self._model.inputs[name]["index"]
            self._interpreter.resize_tensor_input(index, shape)
        self._interpreter.allocate_tensors()
        for name, value in values.items():
            self._put(name, value)

    def _get(self, name: str) -> np.ndarray:
        return self._interpreter.get_tensor(self._model.outputs[name])

    def _put(self, name: str, value: np.ndarray) -> None:
        self._interpreter.set_tensor(self._model.inputs[name]["index"], value)

    def _view(self, name: str) -> np.ndarray:
        array = self._interpreter.tensor(self._model.inputs[name]["index"])()
        return _by_position(name, array)


def _by_position(name: str, array: np.ndarray) -> np.ndarray:
    """Returns a view, `[B, H, positions, w]`, of keys or values."""
    return array.swapaxes(2, 3) if "values" in name else array


def _indices(inputs: dict, batch: int, length: int) -> dict[str, np.ndarray]:
    """Returns the indices by which a graph orders heads."""
    indices = {}
    for name in inputs:
        prefix, _, heads = name.partition("_")
        if prefix == "heads":
            sizes = (batch, length, int(heads))  # the rows of [B, K, H, w]
        elif prefix == "joint":
            sizes = (batch, int(heads), length)  # the rows of [B, H, K, w]
        else:
            continue
        rows = np.arange(np.prod(sizes), dtype=np.int32).reshape(sizes)
        rows = rows.transpose(0, 2, 1)
        indices[name] = rows if prefix == "heads" else rows.reshape(-1)
    return indices
