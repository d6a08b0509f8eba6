"""The graph of a SavedModel, of which only the parts in use are loaded.

`tf.saved_model.load` makes a Python object of every operation of every
signature, which takes longer than all else until the first translation. With
the whole graph in a session, as TensorFlow's own loader has it, the first one
comes after 5.1 s; with parts after 3.3 s, of which `import tensorflow` takes 3.
"""

import importlib.util
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_transformer.inference.served_signatures import (
    Arrays,
    Signature,
    TensorSpec,
    input_errors,
    tensor_spec,
)
from keras_transformer.support.errors import InputError

_INITIALIZE = "__saved_model_init_op"  # a signature that fills tables


def load_tokenizer() -> None:
    """Does what `import tensorflow_text` does, which also imports Keras."""
    package = importlib.util.find_spec("tensorflow_text")
    if package is None:
        raise ModuleNotFoundError(name="tensorflow_text")
    for library in Path(package.origin).parent.glob("python/ops/*.so"):
        try:
            tf.load_op_library(str(library))
        except tf.errors.OpError as error:
            version = tf.__version__.rpartition(".")[0]
            raise InputError(
                f"tensorflow-text must be one for TensorFlow {version}. "
                f"Received: {error!s:.200}. "
                f'Run `pip install "tensorflow-text=={version}.*"`.'
            ) from error


class SavedGraph:
    """A SavedModel in a session of its own, as in TensorFlow Serving.

    A signature is loaded when it is first called. What is loaded has a name
    scope; variables and tables have the same names in all scopes. It needs the
    operations that `load_tokenizer` loads.
    """

    def __init__(self, folder: Path) -> None:
        content = (folder / "saved_model.pb").read_bytes()
        model = saved_model_pb2.SavedModel.FromString(content)
        self._meta_graph = model.meta_graphs[0]
        config = _session_config()
        self._session = tf.compat.v1.Session(graph=tf.Graph(), config=config)
        self._scopes: set[str] = set()
        self._loading = threading.Lock()
        saver = self._meta_graph.saver_def
        if not saver.restore_op_name:
            raise ValueError("a graph that restores no variables")
        self._run(
            ".restore",  # no name of a signature
            saver.restore_op_name,
            {saver.filename_tensor_name: str(folder / "variables/variables")},
        )
        start = self._meta_graph.signature_def.get(_INITIALIZE)
        if start is not None:
            files = {
                asset.tensor_info.name: str(folder / "assets" / asset.filename)
                for asset in self._meta_graph.asset_file_def
            }
            self._run(".start", start.outputs[_INITIALIZE].name, files)

    def signatures(self) -> dict[str, Signature]:
        """Returns what the model has, by name."""
        definitions = self._meta_graph.signature_def
        names = sorted(set(definitions) - {_INITIALIZE})
        return {x: self._signature(x, definitions[x]) for x in names}

    def _signature(self, scope: str, definition: Any) -> Signature:
        inputs, outputs = dict(definition.inputs), dict(definition.outputs)
        fetches = {name: outputs[name].name for name in sorted(outputs)}

        def call(arrays: Arrays) -> Arrays:
            feeds = {inputs[x].name: arrays[x] for x in sorted(inputs)}
            with input_errors():
                return self._run(scope, fetches, feeds)

        return Signature(_specs(inputs), lambda: _specs(outputs), call)

    def _run(self, scope: str, fetches: Any, feeds: dict[str, Any]) -> Any:
        """Runs nodes with names that those of a scope have in the model."""
        with self._loading:
            if scope not in self._scopes:
                names = [*tf.nest.flatten(fetches), *feeds]
                names = {name.partition(":")[0] for name in names}
                part = _part_of_graph(self._meta_graph.graph_def, names)
                with self._session.graph.as_default():
                    tf.graph_util.import_graph_def(part, name=f"{scope}/")
                self._scopes.add(scope)
        fetches = tf.nest.map_structure(lambda x: f"{scope}/{x}", fetches)
        feeds = {f"{scope}/{name}": value for name, value in feeds.items()}
        return self._session.run(fetches, feeds)


def _session_config() -> Any:
    """Returns the settings of `tf.config`, which sessions do not read."""
    threads, gpus = tf.config.threading, tf.config.get_visible_devices("GPU")
    between = threads.get_inter_op_parallelism_threads()
    within = threads.get_intra_op_parallelism_threads()
    numbers = ",".join(gpu.name.rpartition(":")[2] for gpu in gpus)
    return tf.compat.v1.ConfigProto(
        allow_soft_placement=True,
        inter_op_parallelism_threads=between,
        intra_op_parallelism_threads=within,
        device_count={} if gpus else {"GPU": 0},
        gpu_options=dict(allow_growth=True, visible_device_list=numbers),
    )


def _part_of_graph(graph: Any, names: Iterable[str]) -> Any:
    """Returns a `GraphDef` of the named nodes, and of what they need."""
    nodes = {node.name: node for node in graph.node}
    functions = {f.signature.name: f for f in graph.library.function}
    part = tf.compat.v1.GraphDef(versions=graph.versions)
    names = list(names)
    while names:
        node = nodes.pop(names.pop(), None)
        if node is not None:  # which the part lacks so far
            part.node.append(node)
            names += [x.lstrip("^").partition(":")[0] for x in node.input]
    callers = list(part.node)
    while callers:
        for value in callers.pop().attr.values():
            for call in (value.func, *value.list.func):
                function = functions.pop(call.name, None)
                if function is not None:
                    part.library.function.append(function)
                    callers += function.node_def
    return part


def _specs(tensors: dict[str, Any]) -> dict[str, TensorSpec]:
    return {
        name: tensor_spec(
            tf.TensorSpec(tf.TensorShape(tensor.tensor_shape), tensor.dtype)
        )
        for name, tensor in sorted(tensors.items())
    }
