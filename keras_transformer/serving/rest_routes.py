"""The REST API of TensorFlow Serving, for trying a client without a server.

Requests and answers have the shapes of
https://www.tensorflow.org/tfx/serving/api_rest; messages of errors are ours.
"""

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from keras_transformer.serving.rest_json import (
    MOST_TEXTS,
    describe_signature,
    predict_json,
)
from keras_transformer.serving.served_model import (
    BYTES_PER_CHARACTER,
    Model,
    read_body,
)

_BYTES_AROUND = 2**16  # names, brackets and spaces around the texts

router = APIRouter()  # below /v1/models/NAME


@router.get("")
def show_status(model: Model) -> dict[str, Any]:
    """Returns the status of the model."""
    status = {
        "version": str(model.translator.version),
        "state": "AVAILABLE",
        "status": {"error_code": "OK", "error_message": ""},
    }
    return {"model_version_status": [status]}


@router.get("/metadata")
def show_metadata(model: Model) -> dict[str, Any]:
    """Returns the signatures; all graphs are traced, which takes seconds."""
    signatures = {
        name: describe_signature(name, signature)
        for name, signature in model.signatures.items()
    }
    return {
        "model_spec": {
            "name": model.name,
            "signature_name": "",
            "version": str(model.translator.version),
        },
        "metadata": {"signature_def": {"signature_def": signatures}},
    }


@router.post(":predict")
async def predict(model: Model, request: Request) -> Response:
    """Returns the outputs of a signature.

    As TensorFlow Serving, it reads the body as JSON whatever its type is.
    """
    texts = 2 * MOST_TEXTS  # a signature has up to two inputs of texts
    characters = texts * model.max_characters
    most_bytes = characters * BYTES_PER_CHARACTER + _BYTES_AROUND
    answer = await run_in_threadpool(
        predict_json,
        await read_body(request, most_bytes),
        model.signatures,
        model.max_characters,
    )
    return Response(answer, media_type="application/json")
