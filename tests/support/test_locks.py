"""Locks of folders; tests of their users are in tests/train."""

import errno
import fcntl
import shutil
from pathlib import Path

import pytest

from keras_transformer.support.errors import InputError
from keras_transformer.support.locks import locked


def test_a_folder_is_locked_once(tmp_path):
    folder = tmp_path / "new" / "folder"
    with locked(folder):
        message = f"Another process is writing to {folder}. Wait"
        with pytest.raises(InputError, match=message), locked(folder):
            pass
        with locked(folder, name="other"):
            pass
    with locked(folder):
        pass


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.ENOTSUP])
def test_a_file_system_without_locks(tmp_path, monkeypatch, capsys, error):
    def flock(*_):
        raise OSError(error, "not supported")

    monkeypatch.setattr("fcntl.flock", flock)
    with locked(tmp_path):
        pass
    assert "does not support locks" in capsys.readouterr().err


def test_a_folder_that_moves_before_it_is_locked(tmp_path, monkeypatch):
    folder, mkdir, flock = tmp_path / "new", Path.mkdir, fcntl.flock
    moves = [folder.rmdir, lambda: shutil.rmtree(folder)]

    def mkdir_and_move(path, **options):
        mkdir(path, **options)
        if len(moves) == 2:
            moves.pop(0)()

    def flock_and_move(*arguments):
        flock(*arguments)
        if moves:
            moves.pop()()

    monkeypatch.setattr(Path, "mkdir", mkdir_and_move)
    monkeypatch.setattr("fcntl.flock", flock_and_move)
    with locked(folder):
        assert [file.name for file in folder.iterdir()] == ["lock"]
    assert not moves


def test_another_error_of_a_lock_is_raised(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.EIO, "input/output error")

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(OSError, match="input/output"), locked(tmp_path):
        pass
