"""The server of the page. It is not made for production."""

import ipaddress
import logging
import socket
from collections.abc import Collection
from typing import TYPE_CHECKING

from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import explain_missing_packages

if TYPE_CHECKING:
    from fastapi import FastAPI

    from keras_transformer.inference.translator import Translator

logger = logging.getLogger(__name__)

_OWN_NAMES = ("localhost", "127.0.0.1", "::1")
_SECONDS_TO_FINISH = 5  # for requests when the server is stopped


def make_app(
    translator: "Translator",
    name: str,
    max_characters: int,
    allowed_hosts: Collection[str] = (),
    note: str = "",
) -> "FastAPI":
    """Returns the web application of a translator.

    `GET /` returns the page, and `POST /translate` translates a text. `GET
    /trace` and `GET /attention` return the pages of a sentence and one of its
    outputs, unless the model is an export. Requests are answered in threads.

    Only requests to a name of this computer or an allowed name are answered,
    and none from pages of other sites: a site cannot use the model through the
    browsers of its readers.

    Args:
        translator: The translator. Its `num_translations` are shown.
        name: Name of the model, which the page shows.
        max_characters: Length of the longest text.
        allowed_hosts: Names and addresses under which browsers may open the
            page, besides `localhost` and the name of this computer.
        note: What the page says about the model.

    Raises:
        InputError: If FastAPI or Uvicorn is not installed, or a name has a `*`.
    """
    if wrong := [host for host in allowed_hosts if "*" in host]:
        raise InputError(
            f"must be complete names. Received: {', '.join(wrong)}",
            argument="allowed_hosts",
        )
    with explain_missing_packages():
        import uvicorn  # noqa: F401
        from fastapi import FastAPI
        from fastapi.middleware.trustedhost import TrustedHostMiddleware

        from keras_transformer.web import page_routes

    app = FastAPI(title=name, openapi_url=None)
    app.state.translator = translator
    app.state.name = name
    app.state.note = note
    app.state.max_characters = max_characters
    hostname = socket.gethostname()
    hosts = [*_OWN_NAMES, hostname, f"{hostname}.local", *allowed_hosts]
    hosts += [f"[{host}]" for host in hosts if ":" in host]  # of version 6
    app.state.hosts = [host.lower() for host in hosts]
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=app.state.hosts)
    app.add_exception_handler(InputError, page_routes.explain)
    app.include_router(page_routes.router)
    return app


def listen(host: str, port: int) -> socket.socket:
    """Returns a socket that accepts connections.

    Args:
        host: Name or address to listen on, such as `127.0.0.1`.
        port: Port to listen on; 0 for any that is free.

    Raises:
        InputError: If the address does not exist, or the port is in use.
    """
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        family, *_, address = addresses[0]
        return socket.create_server((address[0], port), family=family)
    except (OSError, OverflowError) as error:  # of a port above 65535
        raise InputError(
            f"Cannot listen on {host}, port {port}. Choose a different host or "
            f"port. Received: {error}"
        ) from error


def serve(
    translator: "Translator",
    name: str,
    listening: socket.socket,
    max_characters: int,
    allowed_hosts: Collection[str] = (),
    note: str = "",
) -> None:
    """Warms up, logs the address, and answers until it is interrupted.

    Requests then get some seconds to finish. `listening` is a socket, from
    `listen`; the other arguments are as in `make_app`.
    """
    app = make_app(translator, name, max_characters, allowed_hosts, note)
    import uvicorn

    # The first translation builds the graph: nobody should wait for it.
    languages = translator.target_languages
    start = f">>{languages[0]}<< " if languages else ""
    translator.translate([f"{start}A1?", f"{start}A1? A1?"])
    host, port = listening.getsockname()[:2]
    address = ipaddress.ip_address(host)
    if not address.is_loopback:
        logger.info(
            "The page has no password: the whole network can use it as %s. "
            "`allowed_hosts` adds a name or an address.",
            ", ".join(app.state.hosts),
        )
    if address.is_unspecified:  # nobody can open 0.0.0.0
        host = socket.gethostname()
    elif address.version == 6:
        host = f"[{host}]"
    logger.info("%s is at http://%s:%d (Ctrl-C stops it)", name, host, port)
    config = uvicorn.Config(
        app,
        log_level="warning",
        lifespan="off",
        timeout_graceful_shutdown=_SECONDS_TO_FINISH,
    )
    uvicorn.Server(config).run(sockets=[listening])
