import json

import digits
import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.support.errors import InputError
from keras_transformer.train.state import (
    get_state,
    load_state,
    load_step,
    save_state,
    set_state,
)


def compiled_model(seed, **config):
    keras.utils.set_random_seed(seed)
    values = {"vocab_size": 300, **digits.TINY, **config}
    model = kt.Transformer(kt.TransformerConfig(**values), name="transformer")
    model.compile(
        kt.optimizers.adam(16, name="adam"), kt.LabelSmoothedCrossEntropy()
    )
    return model


@pytest.fixture(scope="module")
def model():
    return compiled_model(0)


def values_of(model):
    return get_state(model, 0, np.zeros((1, 2))).variables


def test_a_saved_state_is_restored(model, tmp_path):
    model.optimizer.iterations.assign(7)
    state = get_state(model, 7, np.array([[3, 4]]))
    save_state(tmp_path / "state.npz", state, "an id")
    found = load_state(tmp_path / "state.npz", "an id")
    assert (found.step, found.position.tolist()) == (7, [[3, 4]])
    assert load_step(tmp_path / "state.npz") == 7

    other = compiled_model(1)
    set_state(other, found)
    for ours, theirs in zip(values_of(other), values_of(model), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert other.optimizer.iterations.numpy() == 7


def test_the_state_has_weights_moments_and_seeds_but_no_metrics(model):
    names = get_state(model, 0, np.zeros((1, 2))).names
    assert len(set(names)) == len(names)
    weights = len(model.trainable_variables)
    optimizer = len(model.optimizer.variables)
    assert optimizer == 2 * weights + 1  # moments and iterations
    seeds = [name for name in names if "generator" in name]
    assert len(names) == weights + optimizer + len(seeds)
    assert seeds and not any("gradient_norm" in name for name in names)


def test_a_state_of_another_model_is_refused(model):
    state = get_state(compiled_model(0, d_ff=8), 0, np.zeros((1, 2)))
    with pytest.raises(InputError, match=r"\(16, 8\)\) instead of .*16, 16"):
        set_state(model, state)
    query = next(i for i, n in enumerate(state.names) if "query" in n)
    names = list(get_state(model, 0, np.zeros((1, 2))).names)
    names[query], names[query + 1] = names[query + 1], names[query]
    swapped = get_state(model, 0, np.zeros((1, 2)))._replace(names=names)
    with pytest.raises(InputError, match="key/kernel.* instead of .*query/"):
        set_state(model, swapped)


def test_a_state_of_another_run_is_refused(model, tmp_path):
    path = tmp_path / "state.npz"
    save_state(path, get_state(model, 0, np.zeros((1, 2))), "a" * 32)
    with pytest.raises(InputError, match="state of run bbbbbbbb.*run aaaaaaaa"):
        load_state(path, "b" * 32)


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "missing"])
def test_a_damaged_state_is_refused(model, tmp_path, damage):
    path = tmp_path / "state.npz"
    save_state(path, get_state(model, 0, np.zeros((1, 2))), "id")
    content = path.read_bytes()
    contents = {"cut": content[:-100], "empty": b"", "text": b"no archive"}
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(contents[damage])
    with pytest.raises(InputError, match="must be a training state"):
        load_state(path, "id")


def test_a_state_of_another_version_is_refused(tmp_path):
    path = tmp_path / "state.npz"
    np.savez(path, header=json.dumps({"format": 99}))
    with pytest.raises(
        InputError, match="format=99. It was written by another"
    ):
        load_step(path)


def test_a_failure_leaves_the_previous_state(model, tmp_path, monkeypatch):
    path = tmp_path / "state.npz"
    save_state(path, get_state(model, 3, np.zeros((1, 2))), "id")

    def fill(file, **arrays):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", fill)
    with pytest.raises(OSError, match="No space left on device: .*state.npz"):
        save_state(path, get_state(model, 4, np.zeros((1, 2))), "id")
    assert load_step(path) == 3
    assert [file.name for file in tmp_path.iterdir()] == ["state.npz"]
