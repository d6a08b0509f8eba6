"""A server on this machine that answers as the Hugging Face Hub does."""

import contextlib
import hashlib
import http.server
import json
import threading
import urllib.parse
from pathlib import Path
from typing import NamedTuple

from huggingface_hub import constants


class Hub(NamedTuple):
    """A running server."""

    address: str
    models: dict[str, Path]  # folders by OWNER/NAME@BRANCH
    gated: set[str]  # names of models whose files nobody is given
    requests: list[str]  # methods and paths, as they come

    def files(self) -> list[str]:
        """Returns the names of files that were asked for, sorted."""
        files = {
            x.rpartition("/")[2] for x in self.requests if "/resolve/" in x
        }
        return sorted(files)

    def commit(self, model: str) -> str:
        """Returns the commit of OWNER/NAME@BRANCH."""
        return hashlib.sha1(model.encode()).hexdigest()


@contextlib.contextmanager
def serving_hub(monkeypatch, cache):
    """Yields a Hub without models, whose files come into a folder.

    huggingface_hub reads the environment when it is imported: what it has read
    is replaced.
    """
    handler = type("Handler", (_Handler,), {})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    address = f"http://127.0.0.1:{server.server_port}"
    handler.hub = hub = Hub(address, {}, set(), [])
    for name, value in dict(
        ENDPOINT=address,
        HUGGINGFACE_CO_URL_TEMPLATE=address
        + "/{repo_id}/resolve/{revision}/{filename}",
        HF_HUB_CACHE=str(cache),
        HF_HUB_OFFLINE=False,
        HF_HUB_DISABLE_IMPLICIT_TOKEN=True,
    ).items():
        monkeypatch.setattr(constants, name, value)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    """Answers requests about the models of `hub`."""

    hub: Hub

    def do_GET(self) -> None:
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        self.hub.requests.append(f"{self.command} {path}")
        match path.strip("/").split("/"):
            case "api", "models", owner, name, "revision", revision:
                self._answer_info(f"{owner}/{name}", revision)
            case "api", "models", owner, name, "tree", revision:
                self._answer_tree(f"{owner}/{name}", revision)
            case owner, name, "resolve", revision, file:
                self._answer_file(f"{owner}/{name}", revision, file)
            case "cdn", model, file:
                content = (
                    self.hub.models[model.replace(":", "/")] / file
                ).read_bytes()
                self._send(content)
            case _:
                self.send_error(500)

    do_HEAD = do_GET

    def log_message(self, *args) -> None:
        """Prints nothing."""

    def _find(self, name: str, revision: str) -> str | None:
        """Returns OWNER/NAME@BRANCH; otherwise sends an error."""
        models = [x for x in self.hub.models if x.split("@")[0] == name]
        for model in models:
            if revision in (model.split("@")[1], self.hub.commit(model)):
                return model
        code = "RevisionNotFound" if models else "RepoNotFound"
        self._send(b"", 404, {"X-Error-Code": code})
        return None

    def _answer_info(self, name: str, revision: str) -> None:
        model = self._find(name, revision)
        if model and not self.hub.models[model].is_dir():
            self._send(b"", 500)
        elif model:
            files = [
                {"rfilename": x.name} for x in self.hub.models[model].iterdir()
            ]
            sha = self.hub.commit(model)
            info = dict(id=name, modelId=name, sha=sha, siblings=files)
            self._send(json.dumps(info).encode())

    def _answer_tree(self, name: str, revision: str) -> None:
        if model := self._find(name, revision):
            tree = []
            for path in self.hub.models[model].iterdir():
                content = path.read_bytes()
                entry = dict(type="file", path=path.name, size=len(content))
                entry["oid"] = hashlib.sha1(content).hexdigest()
                if _is_large(path):
                    digest = hashlib.sha256(content).hexdigest()
                    entry["lfs"] = dict(
                        oid=digest, size=len(content), pointerSize=130
                    )
                tree.append(entry)
            self._send(json.dumps(tree).encode())

    def _answer_file(self, name: str, revision: str, file: str) -> None:
        model = self._find(name, revision)
        if model is None:
            return
        if name in self.hub.gated:
            self._send(b"", 401, {"X-Error-Code": "GatedRepo"})
            return
        path = self.hub.models[model] / file
        headers = {"X-Repo-Commit": self.hub.commit(model)}
        if not path.is_file():
            self._send(b"", 404, headers | {"X-Error-Code": "EntryNotFound"})
            return
        content = path.read_bytes()
        if not _is_large(path):
            tag = hashlib.sha1(content).hexdigest()
            self._send(content, 200, headers | {"ETag": f'"{tag}"'})
            return
        tag = hashlib.sha256(content).hexdigest()
        # On another host, as that of large files is.
        address = self.hub.address.replace("127.0.0.1", "localhost")
        location = f"{address}/cdn/{model.replace('/', ':')}/{file}"
        headers |= {
            "X-Linked-ETag": f'"{tag}"',
            "X-Linked-Size": str(len(content)),
            "Location": urllib.parse.quote(location, ":/"),
        }
        self._send(b"", 302, headers)

    def _send(self, content: bytes, status: int = 200, headers=None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _is_large(path: Path) -> bool:
    """Returns whether a file is kept apart, as by git-lfs."""
    return path.suffix in (".safetensors", ".bin", ".spm")
