import errno

import pytest

from keras_transformer.support import files
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import atomic_folder, locked

fcntl = pytest.importorskip("fcntl")


def test_a_folder_is_locked_once(tmp_path):
    folder = tmp_path / "new" / "folder"
    with locked(folder):
        with pytest.raises(InputError, match=f"{folder}"), locked(folder):
            pass
        with locked(folder, name="other"):
            pass
    with locked(folder):
        pass


@pytest.fixture
def fail(monkeypatch):
    """Lets every lock fail with the number of an error."""

    def fail(code):
        def flock(descriptor, operation):
            raise OSError(code, "no lock")

        monkeypatch.setattr(fcntl, "flock", flock)
        files._warn_once.cache_clear()

    return fail


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks(fail, tmp_path, capsys, code):
    fail(code)
    for _ in range(2):
        with locked(tmp_path), locked(tmp_path, wait=True, name="other"):
            pass
    assert capsys.readouterr().err.count("no lock)") == 1
    with atomic_folder(tmp_path / "run") as folder:
        (folder / "file").touch()
    assert (tmp_path / "run" / "file").exists()


def test_other_errors_of_locks(fail, tmp_path):
    fail(errno.EIO)
    with pytest.raises(OSError, match="no lock"), locked(tmp_path):
        pass
