import logging
import math
import os
import sys
import types

import keras
import pytest

from keras_transformer.support import startup
from keras_transformer.support.errors import InputError


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Unsets what the code reads; what it sets is undone."""
    names = "KERAS_BACKEND", "TF_CPP_MIN_LOG_LEVEL", "TF_ENABLE_ONEDNN_OPTS"
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


@pytest.mark.parametrize(("level", "shown"), [(None, ""), ("0", "oneDNN\n")])
def test_notices_of_the_import(no_tensorflow, monkeypatch, capfd, level, shown):
    if level:
        monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", level)
    logger = logging.getLogger("fake tensorflow")
    with startup.quiet_tensorflow_import():
        os.write(2, b"oneDNN\n")
        fake = types.SimpleNamespace(get_logger=lambda: logger)
        monkeypatch.setitem(sys.modules, "tensorflow", fake)
    os.write(2, b"later\n")
    assert capfd.readouterr().err == f"{shown}later\n"


def test_stderr_is_back_if_the_import_fails(no_tensorflow, capfd):
    with pytest.raises(ImportError), startup.quiet_tensorflow_import():
        raise ImportError("undefined symbol")
    os.write(2, b"later\n")
    assert capfd.readouterr().err == "later\n"


def test_nothing_is_hidden_once_tensorflow_is_imported(
    loaded_tensorflow, capfd
):
    with startup.quiet_tensorflow_import():
        os.write(2, b"a message\n")
    assert capfd.readouterr().err == "a message\n"
    assert "TF_CPP_MIN_LOG_LEVEL" not in os.environ


def test_what_needs_tensorflow_names_the_backend(monkeypatch):
    monkeypatch.setattr("keras.config.backend", lambda: "jax")
    with pytest.raises(InputError, match="SavedModels need.*backend jax"):
        startup.require_tensorflow("SavedModels")


def test_a_program_sets_onednn(loaded_tensorflow, monkeypatch):
    assert startup.start_keras() == keras.config.backend()
    assert os.environ["TF_ENABLE_ONEDNN_OPTS"] == "1"
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")  # the user's choice
    startup.start_keras()
    assert os.environ["TF_ENABLE_ONEDNN_OPTS"] == "0"


def test_other_missing_packages_are_reported_as_they_are():
    with pytest.raises(ModuleNotFoundError, match="No module named 'nothing'"):
        with startup.explain_missing_packages():
            import nothing  # noqa: F401


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, math.inf),
        ({"cpu.max": "max 100000\n"}, math.inf),
        ({"cpu.max": "200000 100000\n"}, 2),
        ({"cpu.max": "250000 100000\n"}, 3),
        ({"cpu.max": "5000 100000\n"}, 1),
    ],
)
def test_the_quota_of_a_container(tmp_path, monkeypatch, files, cores):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(startup, "_CGROUP", tmp_path)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64), False)
    assert startup.available_cores() == min(cores, 64)
