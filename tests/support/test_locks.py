import pytest

from keras_transformer.support.errors import InputError
from keras_transformer.support.locks import locked


def test_a_folder_is_locked_once(tmp_path):
    folder = tmp_path / "new" / "folder"
    with locked(folder):
        with pytest.raises(InputError, match=f"{folder}"), locked(folder):
            pass
        with locked(folder, name="other"):
            pass
    with locked(folder):
        pass
