import gc
import importlib
import logging
import os
import sys
import threading
import types

import keras
import pytest

from keras_transformer.support import startup
from keras_transformer.support.errors import InputError


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Unsets what the code reads; what it sets is undone."""
    names = (
        "CUDA_VISIBLE_DEVICES",
        "KERAS_BACKEND",
        "TF_CPP_MIN_LOG_LEVEL",
        "TF_ENABLE_ONEDNN_OPTS",
    )
    for name in names:
        monkeypatch.setenv(name, "restored after the test")
        monkeypatch.delenv(name)


@pytest.fixture
def no_tensorflow(monkeypatch):
    """As in a process that has not imported TensorFlow."""
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)


@pytest.fixture
def loaded_tensorflow(monkeypatch):
    """As in a process that has imported TensorFlow."""
    monkeypatch.setitem(sys.modules, "tensorflow", types.SimpleNamespace())


def import_fake_tensorflow(monkeypatch, gpus):
    """Imports a module that prints as TensorFlow does."""

    def list_physical_devices(kind):
        assert kind == "GPU"
        os.write(2, b"failed call to cuInit\n")
        return gpus

    fake = types.SimpleNamespace(
        config=types.SimpleNamespace(
            list_physical_devices=list_physical_devices
        ),
        get_logger=lambda: logging.getLogger("fake tensorflow"),
    )
    os.write(2, b"oneDNN custom operations are on\n")
    monkeypatch.setitem(sys.modules, "tensorflow", fake)


def test_threads_that_are_quiet_leave_stderr_as_it_was(capfd):
    is_quiet, first_is_done = threading.Event(), threading.Event()

    def be_quiet():
        with startup.quiet_native_code():
            is_quiet.set()
            first_is_done.wait(timeout=60)

    second = threading.Thread(target=be_quiet)
    with startup.quiet_native_code():
        second.start()
        assert not is_quiet.wait(timeout=0.1)  # it waits for the first
    first_is_done.set()
    second.join()
    os.write(2, b"printed")
    assert capfd.readouterr().err == "printed"


def test_messages_of_the_import_are_discarded(
    no_tensorflow, monkeypatch, capfd
):
    with startup.quiet_tensorflow_import():
        import_fake_tensorflow(monkeypatch, gpus=[])
    assert capfd.readouterr().err == ""
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "3"
    assert logging.getLogger("fake tensorflow").level == logging.WARNING
    os.write(2, b"a later message\n")
    assert capfd.readouterr().err == "a later message\n"


def test_messages_are_printed_if_the_import_fails(no_tensorflow, capfd):
    with pytest.raises(ImportError, match="undefined symbol"):
        with startup.quiet_tensorflow_import():
            os.write(2, b"cannot load libtensorflow\n")
            raise ImportError("undefined symbol")
    assert capfd.readouterr().err == "cannot load libtensorflow\n"
    os.write(2, b"later\n")
    assert capfd.readouterr().err == "later\n"


def test_nothing_is_discarded_once_tensorflow_is_imported(
    loaded_tensorflow, capfd
):
    with startup.quiet_tensorflow_import():
        os.write(2, b"a message\n")
    assert capfd.readouterr().err == "a message\n"
    assert "TF_CPP_MIN_LOG_LEVEL" not in os.environ


def test_log_level_0_shows_everything(no_tensorflow, monkeypatch, capfd):
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    with startup.quiet_tensorflow_import():
        import_fake_tensorflow(monkeypatch, gpus=[])
    assert "oneDNN" in capfd.readouterr().err


def test_import_without_a_stderr(no_tensorflow, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    monkeypatch.setattr(os, "dup", None)
    with startup.quiet_tensorflow_import():
        pass


@pytest.mark.parametrize(
    ("gpus", "visible", "warns"),
    [([], None, True), (["GPU:0"], None, False), ([], "", False)],
)
def test_warning_about_a_gpu_that_tensorflow_does_not_find(
    no_tensorflow, monkeypatch, tmp_path, capfd, gpus, visible, warns
):
    monkeypatch.setattr(startup, "_NVIDIA_DRIVER", str(tmp_path))
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with startup.quiet_tensorflow_import():
        import_fake_tensorflow(monkeypatch, gpus)
    err = capfd.readouterr().err
    assert err.startswith("Warning: This machine") == warns
    assert ("keras-transformer-nmt[gpu]" in err) == warns
    assert len(err.splitlines()) == warns  # none of native code


def test_a_program_needs_the_tensorflow_backend(loaded_tensorflow, monkeypatch):
    monkeypatch.delitem(sys.modules, "keras")
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    with pytest.raises(InputError, match="Received: the backend jax"):
        startup.import_tensorflow_quietly()


def test_the_backend_of_keras_json_counts(loaded_tensorflow, monkeypatch):
    monkeypatch.setattr(keras.config, "backend", lambda: "torch")
    with pytest.raises(InputError, match="Received: the backend torch"):
        startup.import_tensorflow_quietly()


@pytest.mark.parametrize("value", ["1", "True"])
def test_keras_2_is_refused(loaded_tensorflow, monkeypatch, value):
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", value)
    message = f"need Keras 3. Received: TF_USE_LEGACY_KERAS={value}"
    with pytest.raises(InputError, match=message):
        startup.import_tensorflow_quietly()


def test_a_program_sets_the_backend_and_onednn(loaded_tensorflow, monkeypatch):
    startup.import_tensorflow_quietly()
    assert os.environ["KERAS_BACKEND"] == "tensorflow"
    assert os.environ["TF_ENABLE_ONEDNN_OPTS"] == "1"
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")  # the user's choice
    startup.import_tensorflow_quietly()
    assert os.environ["TF_ENABLE_ONEDNN_OPTS"] == "0"


def test_a_program_without_tensorflow_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(InputError, match=r'"keras-transformer-nmt\[tensor'):
        startup.import_tensorflow_quietly()


def test_garbage_of_a_program_is_collected(monkeypatch):
    monkeypatch.setattr(startup, "is_command", True)
    frozen = gc.get_freeze_count()
    startup.import_tensorflow_quietly()  # which is imported already
    assert gc.get_freeze_count() == frozen


def test_other_missing_packages_are_reported_as_they_are():
    with pytest.raises(ModuleNotFoundError, match="No module named 'nothing'"):
        with startup.explain_missing_packages(InputError):
            import nothing  # noqa: F401


@pytest.mark.parametrize("is_command", [True, False])
def test_commands_leave_packages_out(
    is_command, no_tensorflow, monkeypatch, tmp_path
):
    (tmp_path / "tensorflow.py").write_text(
        "import gc\n"
        "try:\n    import matplotlib as plots\n"
        "except ImportError:\n    plots = None\n"
        "is_collecting = gc.isenabled()\n"
    )
    (tmp_path / "matplotlib.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "matplotlib", raising=False)
    monkeypatch.setattr(startup, "is_command", is_command)
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    startup.import_tensorflow_quietly()
    tensorflow = sys.modules["tensorflow"]
    assert (tensorflow.plots is None) == is_command
    assert tensorflow.is_collecting != is_command
    assert gc.isenabled()
    assert importlib.import_module("matplotlib")  # afterwards it is there
