"""`--version`: the versions of what computes, and the devices."""

import platform
from importlib.metadata import version

from keras_transformer import __version__
from keras_transformer.support import startup


def print_versions() -> None:
    """Print the versions of the packages, and the devices."""
    # First: to import TensorFlow, for its version and devices, takes seconds.
    print(f"keras-transformer {__version__}", flush=True)
    print(f"Python {platform.python_version()} on {platform.platform()}")
    print(f"Keras {version('keras')}")
    try:
        with startup.quiet_tensorflow_import():
            import tensorflow as tf
    except ModuleNotFoundError:
        install = 'pip install "keras-transformer-nmt[tensorflow]"'
        print(f"TensorFlow is not installed: {install}")
        return
    devices = []
    for device in tf.config.list_physical_devices():
        details = tf.config.experimental.get_device_details(device)
        cores = f"with {startup.available_cores()} cores"
        name = cores if device.device_type == "CPU" else ""
        name = details.get("device_name", name)
        devices.append(f"{device.device_type} {name}".strip())
    print(f"TensorFlow {tf.__version__}\nDevices: {', '.join(devices)}")
