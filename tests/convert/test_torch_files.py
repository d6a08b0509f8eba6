import pickle

import numpy as np
import pytest
from weight_files import (
    NUMBERS,
    Code,
    called,
    code,
    example_state,
    named,
    parameter,
    pickled,
    storage,
    tensor,
    write_legacy,
    write_zip,
)

from keras_transformer.convert.tensor_files import read_tensors
from keras_transformer.support.errors import InputError

LAYOUTS = {"zip": write_zip, "legacy": write_legacy}
FLOATS = storage("float32", "0", 12)
GOOD = tensor(FLOATS, 0, (3, 4), (4, 1))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "pytorch_model.bin"


@pytest.fixture(params=LAYOUTS)
def write(request, path):
    """Writes a file of one layout with a state and the storage "0"."""

    def write(state, numbers=None, **options):
        numbers = {"0": NUMBERS["0"]} if numbers is None else numbers
        LAYOUTS[request.param](path, state, numbers, **options)
        return path

    return write


def problem(path):
    """Returns why a file cannot be read."""
    with pytest.raises(InputError, match=str(path)) as caught:
        tensors = read_tensors(path)
        for name in tensors:
            tensors[name]
    return str(caught.value).partition("Received: ")[2]


@pytest.mark.parametrize("view", [(), (None,)])
def test_every_tensor_has_its_values(write, view):
    state, expected = example_state(*view)
    tensors = read_tensors(write(state, NUMBERS))
    assert list(tensors) == list(expected)
    for name, array in expected.items():
        assert tensors[name].dtype == array.dtype, name
        np.testing.assert_array_equal(tensors[name], array)
        assert not tensors[name].flags.writeable or not array.size


def test_nothing_is_executed(write, tmp_path):
    marker = tmp_path / "executed"
    command = f"echo > {marker}"
    attacks = [
        called("posix", "system", command),
        called("builtins", "eval", command),
        called("builtins", "getattr", GOOD, "read"),
        called("torch._utils", "read.__globals__"),
        called("collections", "OrderedDict.fromkeys"),
        Code(b"(" + code(command) + b"iposix\nsystem\n"),
        Code(
            code("posix") + code("system") + b"\x93" + code((command,)) + b"R"
        ),
    ]
    for attack in attacks:
        for state in (attack, {"w": attack}, {"w": GOOD, "x": attack}):
            assert "names" in problem(write(state))
            assert not marker.exists()
    # The attack is a real one.
    pickle.loads(pickled(attacks[0]))
    assert marker.exists()


def built(state, changes):
    """A pickle that gives a value a new state."""
    return Code(code(state) + code(changes) + b"b")


@pytest.mark.parametrize(
    "changed",
    [
        built(named("torch", "FloatStorage"), {"name": "torch.ByteStorage"}),
        tensor(built(FLOATS, {"size": 10**9}), 0, (3,), (1,)),
        built(GOOD, {"shape": (10**9,)}),
        built(GOOD, (None, {"offset": 10**9})),
    ],
)
def test_nothing_is_changed(write, changed):
    problem(write({"v": GOOD, "w": changed}))


@pytest.mark.parametrize(
    "state",
    [
        [GOOD],
        {"w": {"x": GOOD}},
        {"w": GOOD, "step": 3},
        {"w": parameter(3)},
        {"w": Code(code("weights.npy") + b"Q")},
        {"w": Code(code(("module", "0", "1", 2)) + b"Q")},
        {"w": storage("float32", "0", -1)},
        {"w": tensor(FLOATS, 1, (3, 4), (4, 1))},
        {"w": tensor(FLOATS, 0, (3, 4), (5, 1))},
        {"w": tensor(FLOATS, 0, (10**9,), (0,))},
        {"w": tensor(FLOATS, 2**80, (1,), (1,))},
        {"w": tensor(FLOATS, -1, (3,), (1,))},
        {"w": tensor(FLOATS, 11, (3,), (-1,))},
        {"w": tensor(FLOATS, 0, (-3,), (1,))},
        {"w": tensor(FLOATS, 0, ("3",), (1,))},
        {"w": tensor(FLOATS, 0, (3, 4), (1,))},
        {"w": tensor(storage("float32", "0", 13), 0, (13,), (1,))},
        {"w": tensor(storage("float32", "1", 12), 0, (12,), (1,))},
        {"w": tensor(named("torch", "FloatStorage"), 0, (), ())},
    ],
)
def test_a_pickle_of_anything_else(write, state):
    problem(write(state))


def test_what_a_zip_archive_lacks(path):
    write_zip(path, {"w": GOOD}, {"0": NUMBERS["0"]}, pickle="other.pkl")
    problem(path)
    write_zip(path, {"w": GOOD}, {"0": NUMBERS["0"][:-1]})
    assert "12 numbers" in problem(path)


def test_truncated_files(write):
    path = write({"w": GOOD})
    content = path.read_bytes()
    for length in range(0, len(content), 3):
        path.write_bytes(content[:length])
        problem(path)
