import errno
import json
import math
import os
from pathlib import Path

import pytest

from keras_transformer.support.errors import InputError, explain_damage
from keras_transformer.support.files import (
    atomic_folder,
    atomic_write,
    check_free,
    check_output,
    partial_path,
    read_json,
    read_yaml,
    reserve_disk_space,
    write_json,
)


@pytest.fixture
def path(tmp_path):
    """A file that exists already."""
    path = tmp_path / "file.txt"
    path.write_text("old")
    return path


def test_the_file_is_replaced_at_the_end(path):
    with atomic_write(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
        assert (partial.parent, partial.suffix) == (path.parent, ".txt")
    assert path.read_text() == "new"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_the_previous_file_and_nothing_else(path, error):
    with pytest.raises(error), atomic_write(path) as partial:
        partial.write_text("half of the n")
        raise error
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_the_content_is_on_the_disk_before_the_file_is_replaced(
    path, monkeypatch
):
    calls = []

    def fsync(descriptor):
        written = os.pread(descriptor, 100, 0)
        calls.append(("fsync", written))

    def replace(source, target):
        calls.append(("replace", source.read_bytes(), target))

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    with atomic_write(path) as partial:
        partial.write_text("new")
    assert calls == [("fsync", b"new"), ("replace", b"new", path)]


def test_errors_name_the_file(path):
    for writing in (atomic_write(path), atomic_folder(path.parent / "new")):
        with pytest.raises(OSError, match=f"No space left.*{path.parent}"):
            with writing:
                raise OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(FileNotFoundError) as error:
        with atomic_write(path):
            raise FileNotFoundError(errno.ENOENT, "No such file", "another")
    assert error.value.filename == "another"


def names_in(folder):
    return {file.name for file in folder.rglob("*")}


@pytest.mark.parametrize("exists", [False, True])
def test_a_folder_appears_when_it_is_complete(tmp_path, exists):
    """Also in an empty one, which may be a mount point and stays the same."""
    path = tmp_path / "a" / "b"
    if exists:
        path.mkdir(parents=True)
        before = path.stat().st_ino
    with atomic_folder(path) as partial:
        (partial / "c").mkdir()
        (partial / "c" / "d").write_text("new")
        (partial / "e.json").touch()
        assert partial.name == "b"
        assert not path.exists() or names_in(path) == {
            *(".partial-b", ".lock", "b", "c", "d", "e.json")
        }
    assert names_in(tmp_path) == {"a", "b", "c", "d", "e.json"}
    assert (path / "c" / "d").read_text() == "new"
    assert not exists or path.stat().st_ino == before


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_folder_that_fails_leaves_nothing(tmp_path, exists, error):
    path = tmp_path / "a"
    if exists:
        path.mkdir()
    with pytest.raises(error), atomic_folder(path) as partial:
        (partial / "b").touch()
        raise error
    assert names_in(tmp_path) == ({"a"} if exists else set())


@pytest.mark.parametrize("parent", ["", "a"])
def test_what_a_killed_process_has_left_of_a_folder(tmp_path, parent):
    left = tmp_path / parent / ".partial-a"
    (left / "a" / "b").mkdir(parents=True)
    for name in (".lock", "a/c"):
        (left / name).write_text("left")
    with atomic_folder(tmp_path / "a") as partial:
        (partial / "e").touch()
        # Whatever the other one is called until it is complete.
        with pytest.raises(InputError, match=f"{tmp_path / 'a'}"):
            with atomic_folder(tmp_path / "a"):
                pass
        assert names_in(left) == {".lock", "a", "e"}
    assert names_in(tmp_path) == {"a", "e"}


def test_the_files_of_a_folder_are_on_the_disk_before_it_appears(
    tmp_path, monkeypatch
):
    synced, path = [], tmp_path / "a"

    def fsync(descriptor):
        assert not path.exists()
        synced.append(os.pread(descriptor, 100, 0))

    monkeypatch.setattr(os, "fsync", fsync)
    with atomic_folder(path) as partial:
        (partial / "b").mkdir()
        for name in ("c", "b/d"):
            (partial / name).write_text(name)
    assert sorted(synced) == [b"b/d", b"c"]


def test_json_appears_last_in_a_folder(tmp_path, monkeypatch):
    """A run or a corpus is complete as soon as its JSON is there."""
    moved, replace = [], os.replace

    def record(source, target):
        moved.append(target.name)
        replace(source, target)

    monkeypatch.setattr(os, "replace", record)
    with atomic_folder(tmp_path) as partial:
        for name in ("a", "config.json", "x"):
            (partial / name).touch()
    assert moved[-1] == "config.json" and len(moved) == 3


def test_names_of_outputs(tmp_path, path):
    check_output(path, [".txt"])
    with pytest.raises(InputError, match="file.txt"):
        check_output(path, [".html"])
    with pytest.raises(InputError, match="a.txt"):
        check_output(tmp_path / "new" / "a.txt", [".txt"])


@pytest.mark.parametrize("mine", ["tokenizer.model", "checkpoints/a", "a"])
def test_outputs_that_are_not_free(tmp_path, mine):
    (tmp_path / mine).parent.mkdir(exist_ok=True)
    (tmp_path / mine).touch()
    with pytest.raises(InputError, match="already exists"):
        check_free(tmp_path)


@pytest.mark.skipif(
    not hasattr(os, "posix_fallocate"), reason="the system cannot reserve"
)
def test_reserving_more_than_the_disk_has(tmp_path):
    with pytest.raises(OSError) as error:
        reserve_disk_space(tmp_path / "file", 1 << 62)
    assert error.value.errno in (errno.ENOSPC, errno.EFBIG)
    assert list(tmp_path.iterdir()) == []


def test_json_is_valid_whatever_the_numbers(path):
    values = {"schläft": [1.5, math.nan, {"x": -math.inf}], "n": 3}
    write_json(path, values)

    def fail(constant):
        raise ValueError(constant)

    found = json.loads(path.read_text("utf-8"), parse_constant=fail)
    assert found == {"schläft": [1.5, None, {"x": None}], "n": 3}
    assert "schläft" in path.read_text("utf-8")


def test_json_that_is_too_deep(path):
    path.write_text("[" * 100_000)
    with pytest.raises(InputError, match=str(path)):
        read_json(path)


# === Folders that are no place for an output ===


def test_the_root_of_a_disk():
    with pytest.raises(InputError, match="^/ already exists"):
        check_free("/")
    assert partial_path(Path("/")).parent == Path("/")


def test_a_link_to_itself(tmp_path):
    link = tmp_path / "link"
    link.symlink_to(link)
    with pytest.raises(InputError, match=str(link)):
        check_free(link)
    with pytest.raises(InputError, match=str(link)), atomic_folder(link):
        pass
    assert names_in(tmp_path) == {"link"}


def test_a_link_to_a_new_folder(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "new")
    check_free(tmp_path / "link")
    with atomic_folder(tmp_path / "link") as folder:
        (folder / "a").touch()
    assert names_in(tmp_path) == {"link", "new", "a"}


# === YAML ===


def test_yaml():
    content = b"a: [1, 2]\nno: 1.5\nb: null\n"
    assert read_yaml(content, "a.yml") == {"a": [1, 2], False: 1.5, "b": None}
    texts = read_yaml(content, "a.yml", as_texts=True)
    assert texts == {"a": ["1", "2"], "no": "1.5"}
    assert read_yaml("# nothing", "a.yml", as_texts=True) == {}


@pytest.mark.parametrize(
    "content",
    [
        "a: [",
        # Python objects.
        "a: !!python/name:os.system",
        "a: !!python/object/apply:os.system [ls]",
        "\x01",
        "[" * 9_999,
        "a: b: c",
        "2020-13-01",
    ],
)
def test_invalid_yaml(content):
    with pytest.raises(InputError, match="a.yml"):
        read_yaml(content.encode(), "a.yml")


# === Damage ===


@pytest.mark.parametrize(
    ("error", "received"),
    [
        (ValueError("a bad number"), "a bad number"),
        (KeyError("name"), "KeyError: 'name'"),
        (OSError("file signature not found"), "file signature not found"),
    ],
)
def test_what_was_read_and_does_not_fit_is_damaged(error, received):
    with pytest.raises(InputError) as found:
        with explain_damage("a.h5", "a file", "Restore it."):
            raise error
    expected = f"a.h5 must be a file. Received: {received}. Restore it."
    assert str(found.value) == expected


def test_what_the_system_cannot_read_is_not_damaged():
    with pytest.raises(PermissionError):
        with explain_damage("a.h5", "a file"):
            raise OSError(errno.EACCES, "no permission")
    with pytest.raises(MemoryError), explain_damage("a.h5", "a file", ""):
        raise MemoryError
