"""The server that `serve` starts. It is not made for production.

It has a page to try a model with, and TensorFlow Serving's REST API, so that
a program that was tried here can be pointed at a real server.
"""

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Collection, Mapping
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

_SECONDS_TO_FINISH = 5  # that requests have when the server is stopped


def check_installed() -> None:
    """Raises an InputError unless FastAPI and Uvicorn are installed."""
    with explain_missing_packages(InputError):
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401


def make_app(
    translator: "BaseTranslator",
    name: str,
    max_characters: int,
    hosts: Collection[str] = ("localhost",),
    signatures: Mapping[str, Signature] | None = None,
) -> "FastAPI":
    """Returns the web application of a translator.

    It answers `GET /`, the page; `POST /translate`, a text of sentences and
    lines; `POST /document`, a text file, which is returned translated;
    `GET /trace` and `GET /attention`, the pages of a sentence and one of its
    outputs, which exports do not have; and what TensorFlow Serving answers to
    `GET /v1/models/NAME` and `POST /v1/models/NAME:predict`. Requests are
    answered in threads.

    A browser's requests from pages of other sites are refused, so that these
    cannot use the model through the browser of their readers.

    Args:
        translator: The translator. Its `num_translations` are shown.
        name: Name of the model, in addresses.
        max_characters: Length of the longest text that is accepted; that of a
            document is a hundred times as long.
        hosts: Names that requests may use for this computer, in lower case,
            beside IP addresses. Other sites may have any other name.
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
    app.include_router(rest_routes.router, prefix=f"/v1/models/{name}")
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
    allowed_hosts: Collection[str] = (),
) -> None:
    """Warms up, says the address, and answers until it is interrupted.

    Requests then have some seconds to end.

    Args:
        translator: As of `make_app`.
        name: As of `make_app`.
        listening: The socket, from `listen`.
        max_characters: As of `make_app`.
        signatures: As of `make_app`.
        allowed_hosts: Names of this computer beside its own.
    """
    host, port = listening.getsockname()[:2]
    names = [*_own_names(), *allowed_hosts]
    if not ipaddress.ip_address(host).is_loopback:
        names.append(socket.getfqdn())  # it may ask DNS, for seconds
        logger.info("The page has no password: the whole network can use it.")
    if ipaddress.ip_address(host).is_unspecified:  # nobody can open 0.0.0.0
        host = names[-1]
    hosts = tuple(dict.fromkeys(name.lower() for name in names if name))
    app = make_app(translator, name, max_characters, hosts, signatures)
    import uvicorn

    # The first translation builds the graph: nobody should wait for it.
    languages = translator.target_languages
    start = f">>{languages[0]}<< " if languages else ""
    translator.translate([f"{start}A1?", f"{start}A1? A1?"])
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    logger.info("%s is at http://%s (Ctrl-C stops it)", name, address)
    config = uvicorn.Config(
        app,
        log_level="warning",
        lifespan="off",
        timeout_graceful_shutdown=_SECONDS_TO_FINISH,
    )
    logging.getLogger("uvicorn.error").addFilter(_is_no_cancellation)
    uvicorn.Server(config).run(sockets=[listening])


def _own_names() -> list[str]:
    """Returns the names that this computer is known to have."""
    name = socket.gethostname()
    short = name.partition(".")[0]
    return ["localhost", name, short, f"{short}.local"]


def _is_no_cancellation(record: logging.LogRecord) -> bool:
    """Whether a message is not that a request was ended at the end."""
    error = record.exc_info and record.exc_info[1]
    return not isinstance(error, asyncio.CancelledError)
