"""Starting: quiet imports, the extras of packages, cores and devices."""

import contextlib
import gc
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence

from keras_transformer.support.errors import InputError

logger = logging.getLogger(__name__)

# The modules of optional packages, and the extra that installs each.
_OF_TENSORFLOW = (
    "cyclopts sacrebleu sacremoses safetensors sentencepiece tensorflow "
    "tensorflow_text tqdm yaml"
)
_EXTRAS = dict.fromkeys(_OF_TENSORFLOW.split(), "tensorflow") | {
    "ai_edge_litert": "litert",
    "apache_beam": "beam",
    "ctranslate2": "ctranslate2",
    "fastapi": "web",
    "huggingface_hub": "convert",
    "matplotlib": "plot",
    "tensorflow_datasets": "tfds",
    "tensorflow_serving": "serving",
    "uvicorn": "web",
}
# Exists where the NVIDIA driver is installed.
_NVIDIA_DRIVER = "/proc/driver/nvidia/version"
# Whether this process is a command of ours, and not a program that uses more
# of TensorFlow and Keras.
is_command = False
# What they import if it is installed, for parts that no command uses.
_UNUSED_BY_COMMANDS = ("IPython", "jax", "matplotlib", "scipy")
# Two threads would restore each other's file: stderr would be lost.
_STDERR = threading.RLock()


@contextlib.contextmanager
def quiet_native_code(discarded: bytes = b"") -> Iterator[None]:
    """Discards lines that are written to the file descriptor of stderr.

    Those are discarded that contain some bytes; if the block raises, none.
    """
    if sys.stderr is None:
        yield
        return
    sys.stderr.flush()
    with _STDERR, tempfile.TemporaryFile() as messages:
        stderr = os.dup(2)
        os.dup2(messages.fileno(), 2)
        kept: list[bytes] = []
        try:
            yield
            messages.seek(0)
            kept = [line for line in messages if discarded not in line]
        except BaseException:
            messages.seek(0)
            kept = messages.readlines()
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            # Messages of other threads are printed late.
            sys.stderr.write(b"".join(kept).decode("utf-8", "replace"))


@contextlib.contextmanager
def quiet_tensorflow_import() -> Iterator[None]:
    """Discards messages of native code while TensorFlow is imported.

    Whatever the log level, native code writes to the file descriptor of stderr
    that it uses oneDNN and found no GPU, before TensorFlow reads any setting.
    If the block raises, the messages are printed. After the block native code
    is silent, and errors are Python exceptions as usual. The environment
    variable `TF_CPP_MIN_LOG_LEVEL=0` shows everything.
    """
    if (
        "tensorflow" in sys.modules
        or os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "0"
    ):
        yield
        return
    gpu_is_missing = False
    with quiet_native_code():
        yield
        tensorflow = sys.modules.get("tensorflow")
        if tensorflow:
            # In a notebook TensorFlow would log every file it writes.
            tensorflow.get_logger().setLevel("WARNING")
            gpu_is_missing = (
                os.path.exists(_NVIDIA_DRIVER)
                and "CUDA_VISIBLE_DEVICES" not in os.environ
                and not tensorflow.config.list_physical_devices("GPU")
            )
    if gpu_is_missing:
        logger.warning(
            "This machine has an NVIDIA driver, but TensorFlow found no GPU. "
            'Install its CUDA libraries: pip install "keras-transformer-nmt'
            '[gpu]". TF_CPP_MIN_LOG_LEVEL=0 shows what TensorFlow reports.'
        )


@contextlib.contextmanager
def _quick_import(left_out: Sequence[str]) -> Iterator[None]:
    """Imports without garbage collection, and as if packages were missing.

    What modules have is no garbage: looking for it again and again takes a
    sixth of the time. It is for a process that has done nothing else before,
    since garbage that exists is kept.
    """
    missing = [name for name in left_out if name not in sys.modules]
    sys.modules.update(dict.fromkeys(missing))  # None: not to be imported
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        for name in missing:
            if sys.modules[name] is None:
                del sys.modules[name]
        gc.freeze()
        if was_collecting:
            gc.enable()


def import_tensorflow_quietly(needs_keras: bool = True) -> None:
    """Imports TensorFlow, and checks that Keras 3 runs on it.

    oneDNN is used on every processor: TensorFlow's default leaves it out on
    those without AVX-512, where its own products are slower. A command that
    needs no Keras does not import it.

    Raises:
        InputError: If TensorFlow is not installed, or Keras runs on another
            backend.
    """
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    # Before keras.json, which is for a program that chooses nothing.
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    check_backend()
    if sys.modules.get("tensorflow"):
        return
    left_out = [*_UNUSED_BY_COMMANDS, *([] if needs_keras else ["keras"])]
    with (
        explain_missing_packages(InputError),
        quiet_tensorflow_import(),
        _quick_import(left_out) if is_command else contextlib.nullcontext(),
    ):
        import tensorflow  # noqa: F401


def check_backend() -> None:
    """Raises InputError unless Keras 3 runs, or will run, on TensorFlow."""
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    if sys.modules.get("keras"):  # None: another thread imports TensorFlow
        backend = sys.modules["keras"].config.backend()
    if backend != "tensorflow":
        raise InputError(
            "Training, search and export need Keras on TensorFlow. Received: "
            f"the backend {backend}. Set KERAS_BACKEND=tensorflow before Keras "
            "is imported, or unset it and remove keras.json."
        )
    check_keras_3()


def check_keras_3() -> None:
    """Raises InputError if `tf.keras` would be Keras 2."""
    legacy = os.environ.get("TF_USE_LEGACY_KERAS", "")
    if legacy.lower() in ("1", "true"):
        raise InputError(
            "Training, search and export need Keras 3. Received: "
            f"TF_USE_LEGACY_KERAS={legacy}, which selects Keras 2. Unset it."
        )


def available_cores() -> int:
    """Returns the number of cores that this process may use."""
    # A container may use fewer cores than the machine has. macOS cannot say.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def decoding_workers() -> int:
    """Returns how many batches to translate at once; a GPU takes one."""
    import tensorflow as tf

    has_gpu = bool(tf.config.list_physical_devices("GPU"))
    return 1 if has_gpu else available_cores()


@contextlib.contextmanager
def explain_missing_packages(
    error_type: type[Exception] = ModuleNotFoundError,
) -> Iterator[None]:
    """Names the extra to install when an import within the block fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get(error.name)
        if extra is None:
            raise
        message = (
            f"This needs the package {error.name}, which is not installed. "
            f'Run `pip install "keras-transformer-nmt[{extra}]"`.'
        )
        if extra == "tensorflow":
            message += (
                " Layers, model, losses and metrics also run on JAX and "
                "PyTorch: set KERAS_BACKEND."
            )
        explained = error_type(message)
        explained.name = error.name  # so that it can be explained again
        raise explained from None
