"""The process that loads a SavedModel, with a fake TensorFlow.

Importing the real one takes seconds; `exported` does so once.
"""

import time

import pytest

from keras_transformer.export import translate_in_subprocess
from keras_transformer.export.saved_model.to_saved_model import (
    process_that_translates,
)
from keras_transformer.inference.records import Translation
from keras_transformer.support.errors import InputError

FAKE_TENSORFLOW = """
constant = lambda values: values

class Output(list):
    def numpy(self):
        return self
    tolist = numpy

class saved_model:
    def load(path):
        {load}
        saved_model.signatures = {{"serving_default": translate}}
        return saved_model

def translate(text):
    return dict(
        translations=Output([[t.upper().encode()] for t in text]),
        scores=Output([[-1.0] for _ in text]),
        source_truncated=Output([False for _ in text]),
        at_length_limit=Output([True for _ in text]),
    )
"""


@pytest.fixture
def fake_tensorflow(tmp_path, monkeypatch):
    """Returns a function that puts a fake TensorFlow first in `sys.path`."""

    def install(load="pass", text=""):
        source = FAKE_TENSORFLOW.format(load=load)
        (tmp_path / "tensorflow.py").write_text(source)
        (tmp_path / "tensorflow_text.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)

    return install


def test_process_finds_tensorflow_wherever_this_one_does(fake_tensorflow):
    # As with PYTHONPATH, or packages that `pip install --user` installed.
    fake_tensorflow()
    found = translate_in_subprocess("folder", ["dog", "Käse 🙂"])
    assert found == [
        Translation(["DOG"], [-1.0], False, True),
        Translation(["KÄSE 🙂"], [-1.0], False, True),
    ]


def test_process_imports_tensorflow_before_there_is_a_model(
    fake_tensorflow, tmp_path
):
    imported = tmp_path / "imported"
    fake_tensorflow(text=f"open({str(imported)!r}, 'w').close()")
    with process_that_translates() as translate:
        for _ in range(1_000):  # of 0.01 s
            if not imported.exists():
                time.sleep(0.01)
        assert imported.exists()
        assert translate("folder", ["a"])[0].texts == ["A"]
    with pytest.raises(InputError), process_that_translates():
        raise InputError("the model is invalid")  # and the process ends


def test_process_without_tensorflow_does_not_blame_the_model(fake_tensorflow):
    fake_tensorflow(text="raise OSError('undefined symbol')")
    with pytest.raises(RuntimeError) as error:
        translate_in_subprocess("folder", ["dog"])
    message = str(error.value)
    assert "cannot import TensorFlow and tensorflow-text" in message
    assert "undefined symbol" in message
    assert "was not verified" in message and "must translate" not in message


def test_process_that_fails_reports_its_error(fake_tensorflow):
    fake_tensorflow(load="raise OSError(f'{path} is damaged')")
    with pytest.raises(RuntimeError, match="exit code 1(.|\n)*x is damaged"):
        translate_in_subprocess("x", ["dog"])


@pytest.mark.parametrize("name", ["keras_transformer", "sentencepiece"])
def test_process_must_not_import_what_a_server_lacks(
    fake_tensorflow, tmp_path, name
):
    fake_tensorflow(load=f"import {name}")
    (tmp_path / f"{name}.py").write_text("")
    with pytest.raises(RuntimeError, match=f"must not depend on {name}"):
        translate_in_subprocess("x", ["dog"])
