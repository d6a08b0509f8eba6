"""Runs the signatures of a model for LiteRT, with its keys and values.

Letters: B = batch, S = source length, K = hypotheses of a source (the beam),
R = positions with room in the cache, H = heads, w = width of a head, L = ids of
a shortlist in order.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

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


class PastTensor(NamedTuple):
    """Where the interpreter has the keys, or the values, of a layer."""

    past: int  # index of the input: `[B, H, R*K, w]`, or `[B, H, w, R*K]`
    new: int  # index of the output of a step, with K positions
    shape: np.ndarray  # of the input in the file
    axis: int  # of the positions: 2 in keys, 3 in values


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
        self.outputs = decode.get_output_details()
        del decode  # the interpreter does not run while this refers to it
        self.past_tensors = [
            PastTensor(
                past=details["index"],
                new=self.outputs[f"new_{name}"]["index"],
                shape=details["shape"],
                axis=2 if name.startswith("keys") else 3,
            )
            for name, details in self.inputs.items()
            if name.startswith(("keys", "values"))
        ]
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
            """Returns the arrays of `Predictions`, by rows."""
            # No log P is needed of ids that are not in the list.
            places = np.minimum(np.searchsorted(ids, forced_ids), len(ids) - 1)
            best = run(states=states, forced_ids=places.astype(np.int32))
            tokens = ids[best["tokens"]]
            return best["log_probs"], tokens, best["forced_log_probs"]

        return output

    def encode(self, sources: Sequence[Sequence[int]]) -> dict[str, np.ndarray]:
        """Returns the inputs of a step for sources of one id or more."""
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
        memory = encode(
            ids=ids.reshape(-1),
            positions=np.tile(np.arange(longest, dtype=np.int32), batch),
            mask=mask,
            **_indices(encode.get_input_details(), batch, longest),
        )
        is_empty = ~is_token.any(axis=1)
        for keys_or_values in memory.values():
            keys_or_values[is_empty] = 0  # nothing to attend to gives 0
        return memory | {"memory_mask": memory_mask}


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
        self._output = output
        self._memory = model.encode(sources)
        self._length = 0  # positions decoded so far
        self._allocate(_INITIAL_ROOM, beam_size=1)

    def step(
        self, ids: np.ndarray, parents: np.ndarray, forced_ids: np.ndarray
    ) -> Predictions:
        """Decodes one more token; see `Decoding.step` in `numpy_search.py`."""
        at = self._length
        rows = np.arange(len(ids))
        room = self._room
        if at == room:
            room += min(room, _MAX_ADDED_ROOM)
        # In the first step all hypotheses are the same, and are computed once.
        beam_size = ids.shape[1] if at else 1
        copies = ids.shape[1] // beam_size
        ids = ids[:, :beam_size]
        forced_ids = forced_ids[:, :beam_size].reshape(-1, 1)
        if room != self._room or beam_size != self._mask.shape[1]:
            self._move(room, beam_size, rows)
        if at:
            self._mask = self._mask[rows[:, None], parents]
        window = self._model.window
        if window is not None and at >= window:
            first = (at - window) * beam_size
            self._mask[..., first : first + beam_size] = _MASKED
        self._put("mask", self._mask[:, None])
        self._put("ids", ids.reshape(-1))
        self._put("position", np.array([at], np.int32))
        self._put("forced_ids", forced_ids)
        self._model.interpreter.invoke()
        now = slice(at * beam_size, (at + 1) * beam_size)
        for tensor in self._model.past_tensors:
            past = self._view(tensor.past, tensor.axis)
            past[:, :, now] = self._view(tensor.new, tensor.axis)
        del past  # the interpreter does not run while this refers to it
        own = np.arange(beam_size)
        self._mask[:, own, at * beam_size + own] = 0
        self._length += 1
        if self._output is None:
            arrays = [self._get(name) for name in Predictions._fields]
        else:
            arrays = self._output(self._get("states"), forced_ids)
        arrays = [x.reshape(*ids.shape, -1) for x in arrays]
        return Predictions._make(np.repeat(x, copies, axis=1) for x in arrays)

    def keep(self, rows: np.ndarray) -> None:
        """Removes all sentences except those in these rows."""
        self._memory = {name: x[rows] for name, x in self._memory.items()}
        self._move(self._room, self._mask.shape[1], rows)

    def _move(self, room: int, beam_size: int, rows: np.ndarray) -> None:
        """Allocates memory, and copies the past of some sentences into it."""
        past = [
            self._view(x.past, x.axis)[rows] for x in self._model.past_tensors
        ]
        mask = self._mask[rows]
        self._allocate(room, beam_size)
        self._mask[..., : mask.shape[-1]] = mask
        for tensor, values in zip(self._model.past_tensors, past, strict=True):
            view = self._view(tensor.past, tensor.axis)
            view[:, :, : values.shape[2]] = values

    def _allocate(self, room: int, beam_size: int) -> None:
        """Allocates memory for R positions, which forgets the past."""
        self._room = room
        model = self._model
        batch = len(self._memory["memory_mask"])
        shape = (batch, beam_size, room * beam_size)
        self._mask = np.full(shape, _MASKED, np.float32)
        ids = np.zeros((batch * beam_size, 1), np.int32)
        inputs = self._memory | _indices(model.inputs, batch, beam_size)
        inputs |= dict(mask=self._mask[:, None], ids=ids[:, 0], forced_ids=ids)
        for name, value in inputs.items():
            index = model.inputs[name]["index"]
            model.interpreter.resize_tensor_input(index, value.shape)
        for tensor in model.past_tensors:
            shape = tensor.shape.copy()
            shape[0] = batch
            shape[tensor.axis] = room * beam_size
            model.interpreter.resize_tensor_input(tensor.past, shape)
        model.interpreter.allocate_tensors()
        for name, value in inputs.items():
            self._put(name, value)
        for tensor in model.past_tensors:  # new memory may contain NaN
            self._view(tensor.past, tensor.axis)[:] = 0

    def _get(self, name: str) -> np.ndarray:
        index = self._model.outputs[name]["index"]
        return self._model.interpreter.get_tensor(index)

    def _put(self, name: str, value: np.ndarray) -> None:
        index = self._model.inputs[name]["index"]
        self._model.interpreter.set_tensor(index, value)

    def _view(self, index: int, axis: int) -> np.ndarray:
        """Returns the memory of keys or values, `[B, H, positions, w]`."""
        return self._model.interpreter.tensor(index)().swapaxes(2, axis)


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
