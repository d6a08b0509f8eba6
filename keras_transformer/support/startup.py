"""Starting: quiet imports, backends, the extras of packages, cores."""

import contextlib
import importlib.util
import math
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from keras_transformer.support.errors import InputError, MissingPackageError

# The modules of optional packages, by the extra that installs them.
_MODULES = {
    "beam": "apache_beam",
    "convert": "huggingface_hub platformdirs",
    "ctranslate2": "ctranslate2",
    "jax": "jax",
    "litert": "ai_edge_litert",
    "plot": "matplotlib",
    "savedmodel": "tensorflow_text",
    "serving": "grpc tensorflow_serving",
    "tensorflow": "cyclopts filelock keras langcodes sacrebleu sacremoses "
    "safetensors tensorflow tqdm yaml",
    "text": "google google.protobuf sentencepiece",
    "tfds": "tensorflow_datasets",
    "torch": "torch",
    "web": "fastapi pydantic uvicorn",
    "zstd": "backports backports.zstd",
}
_EXTRAS = {name: x for x, names in _MODULES.items() for name in names.split()}

_CGROUP = Path("/sys/fs/cgroup")  # of a container

# Two threads would restore each other's file.
_STDERR = threading.RLock()


@contextlib.contextmanager
def quiet_native_code() -> Iterator[None]:
    """Discards what native code writes to stderr."""
    with _STDERR, open(os.devnull, "wb") as nothing:
        stderr = os.dup(2)
        os.dup2(nothing.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


@contextlib.contextmanager
def quiet_tensorflow_import() -> Iterator[None]:
    """Hides native log messages during the import of TensorFlow.

    Set `TF_CPP_MIN_LOG_LEVEL=0` to show them.
    """
    if (
        "tensorflow" in sys.modules
        or os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "0"
    ):
        yield
        return
    with quiet_native_code():
        yield
    if tensorflow := sys.modules.get("tensorflow"):
        # In a notebook TensorFlow would log every file it writes.
        tensorflow.get_logger().setLevel("WARNING")


def start_keras() -> str:
    """Imports Keras on the backend that the user chose; returns its name.

    On TensorFlow oneDNN is used on every processor: TensorFlow's default leaves
    it out on those without AVX-512, where its own products are slower.
    """
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    backend = os.environ.get("KERAS_BACKEND") or "tensorflow"
    if backend not in ("tensorflow", "jax", "torch"):
        raise InputError(
            "KERAS_BACKEND must be tensorflow, jax or torch. Received: "
            f"{backend}"
        )
    with explain_missing_packages(), quiet_tensorflow_import():
        import keras
    return keras.config.backend()


def require_tensorflow(purpose: str) -> None:
    """Raises InputError unless Keras runs on TensorFlow, as `purpose` need."""
    if (backend := start_keras()) != "tensorflow":
        raise InputError(
            f"{purpose} need Keras on TensorFlow. Received: the backend "
            f"{backend}. Set KERAS_BACKEND=tensorflow before Keras is imported."
        )


def import_file(path: str | os.PathLike) -> None:
    """Imports a Python file, which may import others in its folder."""
    path = Path(path).resolve()
    if path.suffix != ".py" or not path.is_file():
        raise InputError(
            f"must be a Python file that exists. Received: {path}",
            argument="module",
        )
    start_keras()
    name = f"module of keras-transformer: {path}"  # one that nobody else has
    if name in sys.modules:
        return
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def available_cores() -> int:
    """Returns the number of cores that this process may use."""
    # A container may use fewer cores than the machine has. macOS does not tell.
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    # Without a limit the quota is "max", or there is no file.
    with contextlib.suppress(OSError, ValueError):
        quota, period = _CGROUP.joinpath("cpu.max").read_text().split()
        cores = min(cores, math.ceil(int(quota) / int(period)))
    return cores


def decoding_workers() -> int:
    """Returns how many batches to translate at once; a GPU takes one."""
    import keras

    is_cpu = keras.distribution.list_devices()[0].startswith("cpu")
    return available_cores() if is_cpu else 1


@contextlib.contextmanager
def explain_missing_packages() -> Iterator[None]:
    """Names the extra to install when an import within the block fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        extra = _EXTRAS[error.name]
        advice = f'Run `pip install ".[{extra}]"` in the checkout'
        backend = os.environ.get("KERAS_BACKEND") or "tensorflow"
        if error.name == backend == "tensorflow":
            advice += ", or set KERAS_BACKEND to jax or torch if you have that"
        elif extra == "savedmodel":
            advice += ", on Linux or macOS"
        raise MissingPackageError(
            f"This needs the package {error.name}, which is not installed. "
            f"{advice}."
        ) from None
