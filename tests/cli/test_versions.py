import platform
import sys
import types

import keras
import pytest
import tensorflow as tf

from keras_transformer import __version__
from keras_transformer.cli import main


@pytest.fixture
def printed_lines(capsys):
    """Returns the lines that `--version` prints."""

    def show():
        assert main(["--version"]) == 0
        return capsys.readouterr().out.splitlines()

    return show


def set_devices(monkeypatch, **names):
    """Gives TensorFlow a device of each type, with a name or none."""
    devices = [types.SimpleNamespace(device_type=kind) for kind in names]
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda: devices)
    monkeypatch.setattr(
        tf.config.experimental,
        "get_device_details",
        lambda device: (
            {"device_name": names[device.device_type]}
            if names[device.device_type]
            else {}
        ),
    )


def test_versions_and_devices(printed_lines, monkeypatch):
    monkeypatch.setattr(
        "keras_transformer.support.startup.available_cores", lambda: 6
    )
    set_devices(monkeypatch, CPU=None, GPU="NVIDIA Tesla T4", TPU=None)
    first, python, *others = printed_lines()
    assert first == f"keras-transformer {__version__}"
    assert python.startswith(f"Python {platform.python_version()} on ")
    assert others == [
        f"Keras {keras.__version__}",
        f"TensorFlow {tf.__version__}",
        "Devices: CPU with 6 cores, GPU NVIDIA Tesla T4, TPU",
    ]


def test_without_tensorflow(printed_lines, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    assert printed_lines()[3:] == [
        "TensorFlow is not installed: "
        'pip install "keras-transformer-nmt[tensorflow]"'
    ]
