"""The server that `serve` starts. It is not made for production.

It has a page to try a model with, and TensorFlow Serving's REST API, so that
a program that was tried here can be pointed at a real server.
"""

import ipaddress
import logging
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

from keras_transformer.inference import served_signatures
from keras_transformer.inference.served_signatures import Signature
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import POSITIVE_INTEGER, check_values
from keras_transformer.support.startup import explain_missing_packages

if TYPE_CHECKING:
    from fastapi import FastAPI

    from keras_transformer.inference.base import BaseTranslator

logger = logging.getLogger(__name__)

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def check_installed() -> None:
    """Raises an InputError unless FastAPI and Uvicorn are installed."""
    with explain_missing_packages(InputError):
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401


def make_app(
    translator: "BaseTranslator",
    name: str,
    max_characters: int,
    hosts: tuple[str, ...] = _LOOPBACK_NAMES,
    signatures: Mapping[str, Signature] | None = None,
) -> "FastAPI":
    """Returns the web application of a translator.

    It answers `GET /`, the page; `POST /translate`, a text of sentences and
    lines; `POST /document`, a text file, which is returned translated;
    `GET /trace` and `GET /attention`, the pages of a sentence and one of its
    outputs, which exports do not have; and what TensorFlow Serving answers
    under `/v1/models/NAME`, and the same under `versions/VERSION` below it.
    Requests are answered in threads.

    A browser's requests from pages of other sites are refused, so that these
    cannot use the model through the browser of their readers.

    Args:
        translator: The translator. Its `num_translations` are shown.
        name: Name of the model, in addresses.
        max_characters: Length of the longest text that is accepted; that of a
            document is a hundred times as long.
        hosts: Names that requests may use for this computer, or `()` for any.
        signatures: Further ones, such as those that an export of a run would
            have.

    Raises:
        InputError: If `max_characters` is not a positive integer, or FastAPI
            or Uvicorn is not installed.
    """
    check_installed()
    from fastapi import FastAPI

    from keras_transformer.serving import page_routes, refusals, rest_routes

    check_values(POSITIVE_INTEGER, max_characters=max_characters)
    handlers = refusals.EXCEPTION_HANDLERS
    app = FastAPI(title=name, openapi_url=None, exception_handlers=handlers)
    app.state.translator = translator
    app.state.name = name
    own = served_signatures.translator_signatures(translator)
    app.state.signatures = {**(signatures or {}), **own}
    app.state.max_characters = max_characters
    app.state.hosts = hosts
    app.middleware("http")(refusals.refuse_other_sites)
    app.include_router(page_routes.router)
    model = f"/v1/models/{name}"
    for path in (model, f"{model}/versions/{translator.version}"):
        app.include_router(rest_routes.router, prefix=path)
    return app


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket that accepts connections.

    Args:
        host: Name or address to listen on, such as `127.0.0.1`.
        port: Port to listen on; 0 for any that is free.

    Raises:
        InputError: If there is no such address, or the port is in use.
    """
    if not 0 <= port < 2**16:
        raise InputError(
            f"A port is a number from 0 to {2**16 - 1}. Received: {port}"
        )
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, *_, address = addresses[0]
        return socket.create_server(address[:2], family=family)
    except (OSError, UnicodeError) as error:  # a name that DNS cannot have
        raise InputError(
            f"Cannot listen on {host}, port {port}. Choose another --port or "
            f"--host. Received: {error}"
        ) from error


def serve(
    translator: "BaseTranslator",
    name: str,
    listening: socket.socket,
    max_characters: int,
    signatures: Mapping[str, Signature] | None = None,
) -> None:
    """Warms up, says the address, and answers until it is interrupted.

    Args:
        translator: As of `make_app`.
        name: As of `make_app`.
        listening: The socket, from `listen`.
        max_characters: As of `make_app`.
        signatures: As of `make_app`.
    """
    host, port = listening.getsockname()[:2]
    hosts = tuple(dict.fromkeys((*_LOOPBACK_NAMES, host)))
    if not ipaddress.ip_address(host).is_loopback:
        hosts = ()  # any name: those of this computer are not known
        logger.info("The page has no password: the whole network can use it.")
    app = make_app(translator, name, max_characters, hosts, signatures)
    import uvicorn

    # The first translation builds the graph: nobody should wait for it.
    translator.translate(["A1?", "A1? A1?"])
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    logger.info("%s is at http://%s; press Ctrl-C to stop", name, address)
    config = uvicorn.Config(app, log_level="warning", lifespan="off")
    uvicorn.Server(config).run(sockets=[listening])
