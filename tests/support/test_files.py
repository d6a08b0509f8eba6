import errno
import os

import pytest

from keras_transformer.support.errors import InputError
from keras_transformer.support.files import (
    atomic_write,
    check_new,
    check_output,
    reserve_disk_space,
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


def test_a_new_file(tmp_path):
    with atomic_write(str(tmp_path / "file")) as partial:
        partial.write_bytes(b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


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


def test_a_disk_that_fails_late_leaves_the_previous_file(path, monkeypatch):
    def fail(descriptor):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="Input/output error") as error:
        with atomic_write(path) as partial:
            partial.write_text("new")
    assert error.value.filename == str(path)
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_errors_name_the_file(path):
    with pytest.raises(OSError, match="No space left") as error:
        with atomic_write(path):
            raise OSError(errno.ENOSPC, "No space left on device")
    assert (error.value.errno, error.value.filename) == (
        errno.ENOSPC,
        str(path),
    )
    with pytest.raises(FileNotFoundError) as error:
        with atomic_write(path):
            raise FileNotFoundError(errno.ENOENT, "No such file", "another")
    assert error.value.filename == "another"


def test_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(FileNotFoundError):
        with atomic_write(tmp_path / "folder" / "file") as partial:
            partial.write_text("new")


@pytest.mark.parametrize("name", ["x" * 251, "ä" * 125 + "x"])
def test_long_names(tmp_path, name):
    path = tmp_path / f"{name}.txt"
    check_output(path, [".txt"])
    with atomic_write(path) as partial:
        partial.write_text("new", "utf-8")
        assert partial.suffix == ".txt"
    assert os.listdir(tmp_path) == [path.name]


def test_names_that_cannot_be_written_are_refused_at_once(tmp_path, path):
    (tmp_path / "a.txt").mkdir()
    with pytest.raises(InputError, match="of a folder. Received: .*a.txt"):
        check_output(tmp_path / "a.txt", [".txt"])
    for check in (check_new, lambda path: check_output(path, [".txt"])):
        with pytest.raises(OSError, match="File name too long"):
            check(tmp_path / f"{'x' * 252}.txt")
    (tmp_path / "link").symlink_to("nowhere")
    for existing in (path, tmp_path, tmp_path / "link"):
        with pytest.raises(InputError, match=f"{existing} already exists"):
            check_new(existing)
    check_new(tmp_path / "new" / "1")


def test_reserving_disk_space_leaves_no_file(tmp_path):
    reserve_disk_space(tmp_path / "file", 10_000)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(
    not hasattr(os, "posix_fallocate"), reason="the system cannot reserve"
)
def test_reserving_more_than_the_disk_has(tmp_path):
    with pytest.raises(OSError) as error:
        reserve_disk_space(tmp_path / "file", 1 << 62)
    assert error.value.errno in (errno.ENOSPC, errno.EFBIG)
    assert error.value.filename == str(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []
