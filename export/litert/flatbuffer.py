"""Rewrites LiteRT models: quantizes weights and stores each of them once.

The converter's own quantization duplicates a matrix that is both embedding and
output projection, and gives the embedding a single scale for all rows.
"""

from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from keras_transformer.litert.shortlist import LENGTH, OFFSET, SIZE

_PRODUCT = schema.BuiltinOperator.FULLY_CONNECTED
_GATHER = schema.BuiltinOperator.GATHER
_FLOAT32 = schema.TensorType.FLOAT32
_LOOKUP = schema.BuiltinOperator.EMBEDDING_LOOKUP


def finalize_model(content: bytes, int8: bool) -> bytes:
    """Returns the model with duplicate weights removed.

    With `int8`, matrices are quantized with one scale per row (an output, a
    token or a position).
    """
    model = schema.ModelT.InitFromPackedBuf(content)
    if int8:
        _quantize(model)
    _share_buffers(model)
    return _packed(model)


def with_placeholders(content: bytes) -> bytes:
    """Returns the template of the product with listed rows, without them."""
    model = schema.ModelT.InitFromPackedBuf(content)
    for tensor in model.subgraphs[0].tensors:
        if _is_matrix(model, tensor):
            tensor.shape = np.array([LENGTH, tensor.shape[1]], np.int32)
            buffer = model.buffers[tensor.buffer]
            buffer.data = None
            buffer.offset = OFFSET
            buffer.size = SIZE
    content = _packed(model)
    return content + bytes(-len(content) % 64)  # the rows are aligned


def _packed(model: Any) -> bytes:
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


def _quantize(model: Any) -> None:
    """Replaces float32 matrices by int8 matrices, one per buffer.

    The operators get the first version that supports a scale per row of int8.
    """
    codes = model.operatorCodes
    lookup = schema.OperatorCodeT(
        builtinCode=_LOOKUP, deprecatedBuiltinCode=_LOOKUP, version=3
    )
    codes.append(lookup)
    matrices: dict[int, tuple] = {}  # by float32 buffer
    for graph in model.subgraphs:
        tensors: dict[int, int] = {}  # by float32 tensor
        for operator in graph.operators:
            code = codes[operator.opcodeIndex]
            is_product = code.builtinCode == _PRODUCT
            if not is_product and code.builtinCode != _GATHER:
                continue
            inputs = list(operator.inputs)
            at = int(is_product)  # the input that holds the matrix
            tensor = graph.tensors[inputs[at]]
            if not _is_matrix(model, tensor):
                continue
            if inputs[at] not in tensors:
                if tensor.buffer not in matrices:
                    matrices[tensor.buffer] = _int8_matrix(model, tensor)
                buffer, scales = matrices[tensor.buffer]
                tensors[inputs[at]] = len(graph.tensors)
                graph.tensors.append(_int8_tensor(tensor, buffer, scales))
            inputs[at] = tensors[inputs[at]]
            if is_product:
                operator.builtinOptions.asymmetricQuantizeInputs = True
                code.version = 12
            else:
                inputs.reverse()
                operator.opcodeIndex = len(codes) - 1
                operator.builtinOptions = None
                operator.builtinOptionsType = 0
            operator.inputs = inputs


def _is_matrix(model: Any, tensor: Any) -> bool:
    """Returns whether a tensor is a constant matrix of float32."""
    has_data = model.buffers[tensor.buffer].data is not None
    return tensor.type == _FLOAT32 and len(tensor.shape) == 2 and has_data


def _int8_matrix(model: Any, tensor: Any) -> tuple[int, np.ndarray]:
    """Adds a buffer, and returns its index and the scales of its rows."""
    data = bytes(model.buffers[tensor.buffer].data)
    values = np.frombuffer(data, "<f4").reshape(tensor.shape)
    scales = np.abs(values).max(axis=1, keepdims=True) / 127
    scales[scales == 0] = 1
    rounded = np.round(values / scales).astype("int8")
    data = np.frombuffer(rounded.tobytes(), "uint8")
    model.buffers.append(schema.BufferT(data))
    return len(model.buffers) - 1, scales[:, 0].astype("float32")


def _int8_tensor(tensor: Any, buffer: int, scales: np.ndarray) -> Any:
    return schema.TensorT(
        name=tensor.name,
        shape=tensor.shape,
        type=schema.TensorType.INT8,
        buffer=buffer,
        quantization=schema.QuantizationParametersT(
            scale=scales, zeroPoint=np.zeros(len(scales), "int64")
        ),  # along axis 0
    )


def _share_buffers(model: Any) -> None:
    """Merges equal buffers, and empties unused ones."""
    used = set()
    first: dict[bytes, int] = {}
    for subgraph in model.subgraphs:
        indices = set(subgraph.inputs).union(subgraph.outputs)
        for operator in subgraph.operators:
            indices.update(operator.inputs, operator.outputs)
        for index, tensor in enumerate(subgraph.tensors):
            data = model.buffers[tensor.buffer].data
            if index not in indices:
                tensor.buffer = 0  # the empty buffer
            elif data is not None:
                tensor.buffer = first.setdefault(bytes(data), tensor.buffer)
            used.add(tensor.buffer)
    used |= {entry.buffer for entry in model.metadata or ()}
    for index, buffer in enumerate(model.buffers):
        if index not in used:
            buffer.data = None
