"""Compiles and times a function of keras.ops, on any backend of Keras.

The variable KERAS_BACKEND is the backend. JAX compiles with XLA,
TensorFlow makes a graph, PyTorch executes one operation after the other.
"""

import math
import pathlib
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

_REPETITIONS = 5
_SHORTEST = 0.02  # seconds that a measurement takes at least
_MIB = 2**20


class Step(NamedTuple):
    """A compiled function and its inputs."""

    run: Callable[[], None]  # returns when the device is done
    memory: float | None  # MiB that XLA has planned; None without XLA

    def seconds(self) -> float:
        """Returns the median time of five measurements, after a warm-up."""
        self.run()
        start = time.perf_counter()
        self.run()
        once = time.perf_counter() - start
        count = max(1, math.ceil(_SHORTEST / once))
        times = []
        for _ in range(_REPETITIONS):
            start = time.perf_counter()
            for _ in range(count):
                self.run()
            times.append((time.perf_counter() - start) / count)
        return statistics.median(times)

    def peak_memory(self) -> float | None:
        """Returns the memory in MiB that the step takes besides its inputs.

        With XLA it is what the compiled program allocates for its results and
        in between. On a processor without XLA it is by how much the resident
        memory of the process grows, at most; call it before `seconds`, in a
        process of its own. None where neither is known.
        """
        if self.memory is not None:
            return self.memory
        if device() != "CPU":
            return None
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
        before = _status("VmRSS")
        self.run()
        return (_status("VmHWM") - before) / 1024


def compile_step(
    function: Callable[[Any], Any],
    x: Any,
    variables: Sequence[keras.Variable] = (),
    gradients: bool = False,
) -> Step:
    """Compiles `function(x)`.

    Args:
        function: From a tensor to a tensor.
        x: The tensor.
        variables: The weights that the function reads.
        gradients: Whether to compute the gradients of the sum of squares with
            regard to `x` and the variables, in place of the result.
    """
    maker = {"jax": _with_jax, "tensorflow": _with_tensorflow}
    make = maker.get(keras.backend.backend(), _with_torch)
    return make(function, x, list(variables), gradients)


def device() -> str:
    """Returns the name of the device, e.g. `CPU`."""
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        kind = jax.devices()[0].device_kind
        return "CPU" if kind == "cpu" else kind
    if backend == "tensorflow":
        import tensorflow as tf

        return "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    import torch

    return "GPU" if torch.cuda.is_available() else "CPU"


def _with_jax(
    function: Callable, x: Any, variables: list, gradients: bool
) -> Step:
    import jax

    def forward(values: list, x: Any) -> Any:
        mapping = list(zip(variables, values, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            return function(x)

    def loss(values: list, x: Any) -> Any:
        return ops.sum(ops.square(forward(values, x)))

    chosen = jax.grad(loss, argnums=(0, 1)) if gradients else forward
    values = [variable.value for variable in variables]
    program = jax.jit(chosen).lower(values, x).compile()
    planned = program.memory_analysis()
    planned = planned.temp_size_in_bytes + planned.output_size_in_bytes
    return Step(
        lambda: jax.block_until_ready(program(values, x)), planned / _MIB
    )


def _with_tensorflow(
    function: Callable, x: Any, variables: list, gradients: bool
) -> Step:
    import tensorflow as tf

    @tf.function
    def step(x: tf.Tensor) -> Any:
        if not gradients:
            return function(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = ops.sum(ops.square(function(x)))
        return tape.gradient(loss, [x, *(v.value for v in variables)])

    program = step.get_concrete_function(x)

    def run() -> None:
        program(x)
        tf.test.experimental.sync_devices()

    return Step(run, None)


def _with_torch(
    function: Callable, x: Any, variables: list, gradients: bool
) -> Step:
    import torch

    def run() -> None:
        if gradients:
            inputs = [x.detach().requires_grad_()]
            loss = ops.sum(ops.square(function(inputs[0])))
            torch.autograd.grad(loss, inputs + [v.value for v in variables])
        else:
            with torch.no_grad():
                function(x)
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    return Step(run, None)


def _status(name: str) -> int:
    """Returns an entry of /proc/self/status in KiB."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise RuntimeError(f"Linux must report {name}.")
