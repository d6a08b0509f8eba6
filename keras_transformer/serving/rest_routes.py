"""The REST API of TensorFlow Serving, for trying a client without a server.

Requests and answers have the shapes of
https://www.tensorflow.org/tfx/serving/api_rest, without metadata, versions and
values in base64; messages of errors are ours.
"""

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from keras_transformer.serving import refusals, rest_json

_BYTES_AROUND = 2**16  # names, brackets and spaces around the texts

router = APIRouter()  # below /v1/models/NAME


@router.api_route("", methods=["GET", "HEAD"])
def show_status(request: Request) -> dict[str, Any]:
    """Returns the status of the model."""
    status = {
        "version": str(request.app.state.translator.version),
        "state": "AVAILABLE",
        "status": {"error_code": "OK", "error_message": ""},
    }
    return {"model_version_status": [status]}


@router.post(":predict")
async def predict(request: Request) -> Response:
    """Returns the outputs of a signature.

    As TensorFlow Serving, it reads the body as JSON whatever its type is.
    """
    state = request.app.state
    # A signature has up to two inputs of texts.
    most_characters = 2 * rest_json.MOST_TEXTS * state.max_characters
    most_bytes = most_characters * refusals.BYTES_PER_CHARACTER + _BYTES_AROUND
    content = await refusals.read_body(request, most_bytes)
    arguments = content, state.signatures, state.max_characters
    answer = await run_in_threadpool(rest_json.predict_json, *arguments)
    return Response(answer, media_type="application/json")
