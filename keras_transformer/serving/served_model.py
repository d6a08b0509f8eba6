"""The model of a server, and the bodies of requests to it."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated

from fastapi import Depends, HTTPException, Request
from starlette.requests import ClientDisconnect

from keras_transformer.inference.base import BaseTranslator
from keras_transformer.inference.served_signatures import Signature
from keras_transformer.support.errors import InputError

BYTES_PER_CHARACTER = 12  # at most, in JSON: two escapes of UTF-16


@dataclasses.dataclass(frozen=True)
class ServedModel:
    """The model of a server, in its `app.state.model`."""

    translator: BaseTranslator
    name: str  # in addresses
    signatures: Mapping[str, Signature]  # of the REST API
    max_characters: int  # of a text
    hosts: tuple[str, ...]  # names of this computer in requests; () for any

    def check_text(self, text: str) -> None:
        """Raises InputError if a text is too long."""
        if len(text) > self.max_characters:
            raise InputError(
                f"A text may have at most {self.max_characters:,} characters. "
                f"Received: {len(text):,}"
            )


async def _served_model(request: Request) -> ServedModel:
    return request.app.state.model


# An argument of a handler, which FastAPI fills in.
Model = Annotated[ServedModel, Depends(_served_model)]


async def read_body(request: Request, most_bytes: int) -> bytes:
    """Returns the body of a request.

    Raises:
        HTTPException: If it is larger.
        InputError: If the client leaves before its end.
    """
    content = bytearray()
    try:
        async for part in request.stream():
            content += part
            if len(content) > most_bytes:
                raise HTTPException(
                    413,
                    f"A request may have at most {most_bytes:,} bytes. "
                    "Received: more",
                )
    except ClientDisconnect as error:  # nobody reads the answer
        raise InputError("The request is incomplete.") from error
    return bytes(content)
