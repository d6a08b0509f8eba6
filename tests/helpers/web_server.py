"""The page that `serve` starts, in a thread, and requests to it."""

import contextlib
import json
import threading
import time
import urllib.error
import urllib.request

from keras_transformer.web import make_app


@contextlib.contextmanager
def served(translator, max_characters=100, note=""):
    """Yields the address of a server in a thread."""
    import uvicorn

    app = make_app(translator, "demo", max_characters, ["My.example"], note)
    config = uvicorn.Config(app, port=0, log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    (listening,) = server.servers[0].sockets
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def fetch(url, body=None, **headers):
    """Returns the status and the text of an answer."""
    headers["Content-Type"] = "application/json"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
