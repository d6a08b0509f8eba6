"""The option `--version`."""

import argparse
import platform
from importlib.metadata import version
from typing import Any

from keras_transformer import __version__
from keras_transformer.support.startup import (
    available_cores,
    quiet_tensorflow_import,
)


class ShowVersions(argparse.Action):
    """Prints the versions of what computes, and the devices, and exits.

    A report of a problem needs all of them. TensorFlow is imported for them,
    and only then.
    """

    def __init__(self, option_strings: list[str], dest: str, **_: Any):
        super().__init__(
            option_strings,
            argparse.SUPPRESS,
            nargs=0,
            help="print the versions of the package, of TensorFlow and Keras, "
            "and the devices",
        )

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        # TensorFlow takes seconds.
        print(f"keras-transformer {__version__}", flush=True)
        print(f"Python {platform.python_version()} on {platform.platform()}")
        print(f"Keras {version('keras')}")
        print(_tensorflow_and_devices())
        parser.exit()


def _tensorflow_and_devices() -> str:
    try:
        with quiet_tensorflow_import():
            import tensorflow as tf
    except ModuleNotFoundError:
        return (
            "TensorFlow is not installed: "
            'pip install "keras-transformer-nmt[tensorflow]"'
        )
    devices = []
    for device in tf.config.list_physical_devices():
        details = tf.config.experimental.get_device_details(device)
        of_cpu = f"with {available_cores()} cores"
        name = of_cpu if device.device_type == "CPU" else ""
        name = details.get("device_name", name)
        devices.append(f"{device.device_type} {name}".strip())
    return f"TensorFlow {tf.__version__}\nDevices: {', '.join(devices)}"
