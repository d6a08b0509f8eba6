import pickle
import struct
import zipfile

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
    with pytest.raises(InputError) as caught:
        read_tensors(path)
    assert str(path) in str(caught.value)
    return str(caught.value).partition("Received: ")[2]


@pytest.mark.parametrize("view", [(), (None,)])
def test_every_tensor_has_its_values(write, view):
    state, expected = example_state(*view)
    tensors = read_tensors(write(state, NUMBERS))
    assert list(tensors) == list(expected)
    for name, array in expected.items():
        assert tensors[name].dtype == array.dtype, name
        np.testing.assert_array_equal(tensors[name], array)


def test_numbers_are_mapped_and_tied_ones_are_one_memory(write):
    path = write(example_state()[0], NUMBERS)
    tensors = read_tensors(path)
    matrix, tied = tensors["matrix"], tensors["tied"]
    content = path.read_bytes()
    old = NUMBERS["0"].tobytes()
    with open(path, "r+b") as file:
        file.seek(content.index(old))
        file.write(np.full(12, 7, "float32").tobytes())
    assert (matrix == 7).all() and (tied == 7).all()
    assert not matrix.flags.writeable


def test_nothing_is_executed(write, tmp_path):
    marker = tmp_path / "executed"
    command = f"echo > {marker}"
    attacks = {
        "names 'posix.system'": called("posix", "system", command),
        "names 'builtins.eval'": called("builtins", "eval", command),
        "operation INST": Code(b"(" + code(command) + b"iposix\nsystem\n"),
        "operation STACK_GLOBAL": Code(
            code("posix") + code("system") + b"\x93" + code((command,)) + b"R"
        ),
    }
    for expected, attack in attacks.items():
        for state in (attack, {"w": attack}, {"w": GOOD, "x": attack}):
            assert expected in problem(write(state))
            assert not marker.exists()
    # The attack is a real one.
    pickle.loads(pickled(attacks["names 'posix.system'"]))
    assert marker.exists()


def built(state, changes):
    """A pickle that gives a value a new state."""
    return Code(code(state) + code(changes) + b"b")


@pytest.mark.parametrize(
    "changed",
    [
        built(named("torch", "FloatStorage"), {"name": "torch.ByteStorage"}),
        built(named("torch", "FloatStorage"), (None, {"__call__": 1})),
        built(named("torch._utils", "_rebuild_tensor_v2"), {"name": "x"}),
        tensor(built(FLOATS, {"file": "/etc/passwd"}), 0, (3,), (1,)),
        built(GOOD, {"shape": (10**9,)}),
        built(GOOD, (None, {"offset": 10**9})),
    ],
)
def test_nothing_is_changed(write, changed):
    assert "changes its objects" in problem(write({"v": GOOD, "w": changed}))


def test_calls_that_look_for_more(write):
    for attack, expected in {
        called("builtins", "getattr", GOOD, "read"): "'builtins.getattr'",
        called("torch._utils", "read.__globals__"): "read.__globals__",
        called("torch", "_utils._rebuild_tensor_v2"): "wrong arguments",
        called("collections", "OrderedDict.fromkeys"): "OrderedDict.fromkeys",
        Code(code("x") + code(()) + b"R"): "TypeError",
        Code(GOOD + code(()) + b"R"): "TypeError",
        Code(named("torch", "FloatStorage") + b")\x81"): "operation NEWOBJ",
        Code(b"\x96" + struct.pack("<Q", 0)): "operation BYTEARRAY8",
        Code(b"\x82\x01"): "operation EXT1",
        Code(b"\x8e" + struct.pack("<Q", 2**62)): f"expected {2**62} bytes",
        Code(
            b"X" + struct.pack("<I", 2**32 - 1)
        ): f"expected {2**32 - 1} bytes",
    }.items():
        assert expected in problem(write({"v": GOOD, "w": attack}))


def test_a_pickle_cannot_make_more_than_it_has(write):
    # Lists of twice the previous one: 2^200 items for who visits them.
    laughs = b"(]q\x00"
    for i in range(200):
        again = b"h" + bytes([i])
        laughs += b"](" + 2 * again + b"eq" + bytes([i + 1])
    assert "'w': a tuple, not a tensor" in problem(
        write({"v": GOOD, "w": Code(laughs + b"t")})
    )
    # `pickle` would reserve 32 GiB for this place in its memory.
    far = Code(code("w") + b"r" + struct.pack("<I", 2**31 - 1))
    refused = problem(write(Code(b"}" + far + GOOD + b"s")))
    assert "remembers 2147483647 values" in refused
    # Python crashes when it hashes this.
    deep = Code(b")" + b"\x85" * 2 * 10**5)
    refused = problem(write(Code(b"}" + deep + GOOD + b"s")))
    assert "more than 10000 tuples" in refused


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ([GOOD], "a list instead of tensors by name"),
        ({"w": {"x": GOOD}}, "'w': a dict, not a tensor"),
        ({"w": GOOD, "step": 3}, "'step': a int, not a tensor"),
        ({"w": parameter(3)}, "wrong arguments of 'torch._utils._rebuild_p"),
        (called("collections", "OrderedDict", []), "wrong arguments"),
        (called("collections", "Counter"), "names 'collections.Counter'"),
        ({"w": Code(code("weights.npy") + b"Q")}, "something unknown"),
        (
            {"w": Code(code(("module", "0", "1", 2)) + b"Q")},
            "something unknown",
        ),
        ({"w": storage("float32", "0", 12, ("0", 0, 4))}, "something unknown"),
        ({"w": storage("float32", "0", -1)}, "something unknown"),
        (
            {"w": GOOD, "x": tensor(storage("int32", "0", 12), 0, (), ())},
            "two types or sizes",
        ),
        ({"w": tensor(FLOATS, 1, (3, 4), (4, 1))}, "[3, 4] that does not fit"),
        ({"w": tensor(FLOATS, 0, (3, 4), (5, 1))}, "[3, 4] that does not fit"),
        ({"w": tensor(FLOATS, 0, (10**9,), (0,))}, "does not fit"),
        ({"w": tensor(FLOATS, 2**80, (1,), (1,))}, "does not fit"),
        ({"w": tensor(FLOATS, -1, (3,), (1,))}, "wrong offset"),
        ({"w": tensor(FLOATS, 11, (3,), (-1,))}, "wrong offset"),
        ({"w": tensor(FLOATS, 0, (-3,), (1,))}, "wrong offset"),
        ({"w": tensor(FLOATS, 0, ("3",), (1,))}, "wrong offset"),
        ({"w": tensor(FLOATS, 0, (3, 4), (1,))}, "wrong offset"),
        ({"w": tensor(FLOATS, 0, (1,) * 33, (1,) * 33)}, "wrong offset"),
        ({"w": tensor(named("torch", "FloatStorage"), 0, (), ())}, "arguments"),
    ],
)
def test_a_pickle_of_anything_else_is_refused(write, state, expected):
    assert expected in problem(write(state))


def test_what_else_a_zip_archive_may_have(path):
    def received(**options):
        write_zip(path, {"w": GOOD}, {"0": NUMBERS["0"]}, **options)
        return problem(path)

    assert "not little-endian" in received(order=b"big")
    assert "without a single data.pkl" in received(pickle="other.pkl")
    write_zip(path, {"w": GOOD}, {"0": NUMBERS["0"][:-1]})
    assert "no entry data/0 of 12 float32" in problem(path)
    write_zip(path, {"w": GOOD}, {})
    assert "no entry data/0 of 12 float32" in problem(path)
    write_zip(path, {"w": GOOD}, {"0": NUMBERS["0"]})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model/data/1", bytes(1000))
    assert "compressed or encrypted" in problem(path)


def test_the_place_of_an_entry_is_checked(path):
    write_zip(path, {"w": GOOD}, {"0": NUMBERS["0"]})
    content = path.read_bytes()
    header = content.index(b"model/data/0") - 30
    # The mark of a header; the length of what follows the name.
    for place, change in (header, b"KP"), (header + 28, b"\xff\xff"):
        damaged = content[:place] + change + content[place + 2 :]
        path.write_bytes(damaged)
        assert "a damaged entry 'model/data/0'" in problem(path)


def test_what_else_the_older_layout_may_have(path):
    def received(numbers=NUMBERS["0"], **options):
        write_legacy(path, {"w": GOOD}, {"0": numbers}, **options)
        return problem(path)

    assert "not little-endian" in received(little_endian=False)
    assert "other storages" in received(keys=["0", "0"])
    assert "other storages" in received(keys=[])
    assert "other storages" in received(keys=[0])
    assert "13 numbers in storage 0" in received(np.zeros(13, "float32"))
    write_legacy(path, {"w": GOOD}, {"0": NUMBERS["0"]})
    path.write_bytes(path.read_bytes()[:-1])
    assert "ends before its numbers do" in problem(path)


def test_damaged_files_are_refused_or_read(write):
    """Cut off anywhere, or with any byte changed: nothing else is raised."""
    path = write({"w": GOOD})
    content = path.read_bytes()
    for length in range(0, len(content), 3):
        path.write_bytes(content[:length])
        problem(path)
    read = 0
    for i in range(len(content)):
        changed = bytearray(content)
        changed[i] ^= 0xFF
        path.write_bytes(changed)
        try:
            tensors = read_tensors(path)
            read += sum(tensors[name].size for name in tensors) > 0
        except InputError:
            pass
    assert read >= NUMBERS["0"].nbytes
