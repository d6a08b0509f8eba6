"""Signatures of all types, without a model."""

import math

import numpy as np

from keras_transformer.inference.served_signatures import Signature, TensorSpec

TEXTS = TensorSpec("string", (None,))


def add_options(arrays):
    """A signature of several types, as `sample` is."""
    texts, count = arrays["text"], int(arrays["count"])
    found = np.array([[x.decode()] * count for x in texts], object)
    factor = np.full(len(texts), arrays["factor"], np.float32)
    return {"texts": found, "factors": factor, "sources": texts}


SIGNATURES = {
    "options": Signature(
        {
            "text": TEXTS,
            "count": TensorSpec("int32", ()),
            "factor": TensorSpec("float32", ()),
        },
        lambda: {
            "texts": TensorSpec("string", (None, None)),
            "factors": TensorSpec("float32", (None,)),
            "sources": TEXTS,
        },
        add_options,
    ),
    "double": Signature(
        {"text": TEXTS},
        lambda: {"texts": TEXTS},
        lambda x: {"t": 2 * x["text"]},
    ),
    "two": Signature(
        {"text": TEXTS, "other": TEXTS},
        lambda: {},
        lambda x: {"joined": x["text"] + x["other"], "y": x["other"]},
    ),
    "total": Signature(
        {"text": TEXTS}, lambda: {}, lambda x: {"n": np.array(len(x["text"]))}
    ),
    "flags": Signature(
        {"flag": TensorSpec("bool", (None,))}, lambda: {}, lambda x: x
    ),
    "infinite": Signature(
        {"text": TEXTS}, lambda: {}, lambda x: {"x": np.array([-math.inf])}
    ),
}
