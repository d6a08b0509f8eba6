"""Builds the package into dist/ and checks that it can be released.

Usage:
    python tests/helpers/release_check.py [--tag TAG] [--install [EXTRA ...]]

Checks the metadata and the list of files, of tracked files only. With
--install, wheel and source distribution are installed in a new environment for
each extra, or for those that are named, and used there: minutes, and up to
3 GB of disk at a time. Prints a line for each check, and fails at the first
that does not hold.
"""

import argparse
import email.message
import email.parser
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAME = "keras_transformer_nmt"
_PROGRAMS = ("train/", "export/")  # to which the library has links
_LINKS = ("keras_transformer/train", "keras_transformer/export")
_SOURCES = ("keras_transformer/", *_PROGRAMS)
_OF_THE_PROJECT = {
    "CHANGELOG.md",
    "CITATION.cff",
    "LICENSE",
    "MANIFEST.in",
    "README.md",
    "SECURITY.md",
    "pyproject.toml",
    "setup.py",
}
_GENERATED = {"PKG-INFO", "setup.cfg"}

# What each extra is for; "" is none. It is used through the package where that
# needs no other extra.
USES = {
    # Layers need a backend of Keras, of which it is free.
    "": """
import keras_transformer as kt
assert "base" in kt.presets.PRESETS
""",
    "text": """
import keras_transformer as kt
texts = ["A dog.", "A cat.", "Ein Hund."] * 9
assert kt.Tokenizer.train(texts, vocab_size=280).encode(["A dog."])
""",
    "tensorflow": """
import keras_transformer as kt
corpus = kt.train.open_corpus(["embedded"])
tokenizer = kt.Tokenizer.train(corpus.texts("train"), vocab_size=500)
config = kt.TransformerConfig.from_preset("tiny", vocab_size=500)
translator = kt.Translator(
    kt.Transformer(config), tokenizer, kt.BeamSearch(extra_length=5)
)
assert isinstance(translator("I am a student"), str)
""",
    "savedmodel": """
import keras_transformer as kt
model = kt.Transformer(kt.TransformerConfig.from_preset("tiny", vocab_size=500))
corpus = kt.train.open_corpus(["embedded"])
tokenizer = kt.Tokenizer.train(corpus.texts("train"), vocab_size=500)
search = kt.BeamSearch(extra_length=5)
kt.export.save(kt.Translator(model, tokenizer, search), "exported/1")
""",
    "plot": "import matplotlib.pyplot",
    "tensorboard": "import tensorboard.program",
    "tfds": "import importlib_resources, tensorflow_datasets",
    "serving": "import tensorflow_serving.apis.prediction_service_pb2_grpc",
    "beam": """
import apache_beam
from keras_transformer.beam import Translate
from keras_transformer.beam import translate_command
""",
    "litert": """
import ai_edge_litert.interpreter, sentencepiece
assert kt.open_translator("en-de")("Good morning.") == "Guten Morgen!"
""",
    "web": "import keras_transformer.serving.page_routes, uvicorn",
    "ctranslate2": "import ctranslate2",
    "convert": """
import platformdirs
from huggingface_hub import errors, snapshot_download, utils
""",
    "zstd": "import backports.zstd",
    "docs": "import material, mkdocs, mkdocstrings, nbconvert",
    "converters": "import pymarian, transformers",
    "release": "import build, twine",
}
# Gigabytes: pip only says what it would install.
ONLY_RESOLVED = ("gpu", "torch", "test")


def tracked_files() -> list[str]:
    """Returns the files of the repository, as git lists them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True
    ).stdout.decode()
    paths = {name: ROOT / name for name in listed.split("\0") if name}
    return [x for x, path in paths.items() if path.is_file() or x in _LINKS]


def files_of_wheel(tracked: Collection[str]) -> set[str]:
    """Returns what of the repository belongs into the wheel, as it is there."""
    return {
        f"keras_transformer/{name}" if name.startswith(_PROGRAMS) else name
        for name in tracked
        if name.startswith(_SOURCES) and name not in _LINKS
    }


def files_of_sdist(tracked: Collection[str]) -> set[str]:
    """Returns what of the repository belongs into the source distribution."""
    return files_of_wheel(tracked) | _OF_THE_PROJECT.intersection(tracked)


def check_files(
    what: str, found: Collection[str], expected: Collection[str]
) -> None:
    """Checks for a list of files.

    Raises:
        SystemExit: If a file is missing, or does not belong there.
    """
    missing = sorted(set(expected) - set(found))
    others = sorted(set(found) - set(expected))
    if missing or others:
        sys.exit(f"{what}: missing {missing}, does not belong there: {others}")


def build(tracked: Collection[str]) -> tuple[Path, Path]:
    """Builds from the tracked files; returns the wheel and the sdist.

    In a copy: setuptools takes what earlier builds have left behind.
    """
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in tracked:
            target = Path(folder, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target, follow_symlinks=False)
        _run(sys.executable, "-m", "build", "--outdir", dist, folder)
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    return wheel, sdist


def check_distributions(
    wheel: Path, sdist: Path, tracked: Collection[str]
) -> Iterator[str]:
    """Checks files and metadata of what was built.

    Yields:
        A line for each check that succeeded.
    """
    _run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    yield "twine accepts the metadata"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        info = next(n for n in names if n.endswith(".dist-info/METADATA"))
        of_wheel = _metadata(archive.read(info))
        info = info.rpartition("/")[0]
        entry_points = archive.read(f"{info}/entry_points.txt").decode()
    assert f"{info}/licenses/LICENSE" in names, "the wheel has no license"
    assert "keras-transformer = keras_transformer.cli:main" in entry_points
    found = {name for name in names if not name.startswith(f"{info}/")}
    check_files(wheel.name, found, files_of_wheel(tracked))
    yield f"{wheel.name}: {len(found)} files, {_size(wheel)}"
    with tarfile.open(sdist) as archive:
        files = [m.name for m in archive.getmembers() if m.isfile()]
        folder = files[0].partition("/")[0]
        of_sdist = _metadata(archive.extractfile(f"{folder}/PKG-INFO").read())
    found = {name.removeprefix(f"{folder}/") for name in files}
    found = {name for name in found if ".egg-info/" not in name} - _GENERATED
    check_files(sdist.name, found, files_of_sdist(tracked))
    yield f"{sdist.name}: {len(found)} files, {_size(sdist)}"
    for key in ("Version", "Requires-Dist", "Provides-Extra"):
        assert of_wheel.get_all(key) == of_sdist.get_all(key), key
    check_extras(of_wheel.get_all("Provides-Extra"))
    text = of_wheel.get_payload()
    relative = re.findall(r"\]\((?!https?:|#)[^)]*\)", text)
    assert not relative, f"links that PyPI cannot follow: {relative}"
    yield f"version {of_wheel['Version']}; extras and links agree"


def check_extras(extras: Collection[str]) -> None:
    """Checks that every extra is installed, or resolved, by this program."""
    known = {*USES, *ONLY_RESOLVED} - {""}
    check_files("extras", set(extras), known)


def check_tag(tag: str, version: str, changelog: str) -> None:
    """Checks that a tag names the version, and that it has a dated entry.

    Raises:
        SystemExit: If not.
    """
    if tag != f"v{version}":
        sys.exit(f"The tag must be v{version}. Received: {tag}")
    entry = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$"
    if not re.search(entry, changelog, re.MULTILINE):
        sys.exit(f"CHANGELOG.md needs a date: ## [{version}] - YYYY-MM-DD")


def check_root(wheel: Path, sdist: Path) -> str:
    """Imports the installed package where its sources are, which come first.

    Returns:
        A line that says so.
    """
    uses = """
import keras_transformer as kt
kt.train.Recipe
kt.export
import keras_transformer.beam
"""
    with tempfile.TemporaryDirectory() as folder:
        _run(sys.executable, "-m", "venv", "--without-pip", "env", cwd=folder)
        python = Path(folder, "env/bin/python")
        pip = (sys.executable, "-m", "pip", "-q", "--python", python)
        _run(*pip, "install", "--no-deps", wheel)
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        unpacked = Path(folder, sdist.name.removesuffix(".tar.gz"))
        for root in (ROOT, unpacked):
            _run(python, "-c", uses, cwd=root)
    return "imported at the root of the repository and of the sdist"


def check_installed(wheel: Path, sdist: Path, extra: str) -> str:
    """Installs both with an extra in a new environment, and uses them.

    The dependencies are installed once: those of both are the same.

    Returns:
        A line that says what it took.
    """
    start = time.monotonic()
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    with tempfile.TemporaryDirectory() as folder:
        _run(sys.executable, "-m", "venv", "env", cwd=folder)
        binaries = Path(folder, "env/bin")
        python, script = binaries / "python", binaries / "keras-transformer"
        pip = (python, "-m", "pip", "--disable-pip-version-check", "-q")
        if extra in ONLY_RESOLVED:
            _run(*pip, "install", "--dry-run", wanted, cwd=folder)
            return f"[{extra}] resolved in {time.monotonic() - start:.0f} s"
        _run(*pip, "install", wanted, cwd=folder)
        _run(*pip, "check", cwd=folder)
        size = _size(Path(folder, "env"))
        for installed in (wheel, sdist):
            if installed == sdist:
                _run(*pip, "uninstall", "-y", NAME, cwd=folder)
                _run(*pip, "install", "--no-deps", sdist, cwd=folder)
            files = Path(folder, installed.name)
            files.mkdir()
            _run(python, "-c", USES[extra], cwd=files)
            if extra in ("tensorflow", "litert"):  # have the command line
                _run(script, "presets", cwd=files, stdout=subprocess.DEVNULL)
                _run(script, "--version", cwd=files, stdout=subprocess.DEVNULL)
    what = f"[{extra}]" if extra else "no extra"
    return f"{what} works: {time.monotonic() - start:.0f} s, {size}"


def _run(
    *command: str | Path, cwd: str | Path = ROOT, stdout: int | None = None
) -> None:
    # What is installed is used, not the sources.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    result = subprocess.run(
        command, cwd=cwd, env=environment, stdout=stdout, check=False
    )
    if result.returncode:
        words = " ".join(map(str, command))
        sys.exit(f"Exit code {result.returncode}: {words}")


def _metadata(text: bytes) -> email.message.Message:
    return email.parser.BytesParser().parsebytes(text)


def _size(path: Path) -> str:
    files = path.rglob("*") if path.is_dir() else [path]
    size = sum(file.lstat().st_size for file in files)
    return f"{size / 1e6:,.1f} MB"


def main() -> None:
    """Runs the checks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tag", help="of the release, to compare")
    parser.add_argument(
        "--install",
        metavar="EXTRA",
        nargs="*",
        choices=[*USES, *ONLY_RESOLVED],
        help="install with each extra, or with these",
    )
    options = parser.parse_args()
    tracked = tracked_files()
    wheel, sdist = build(tracked)
    for line in check_distributions(wheel, sdist, tracked):
        print(line, flush=True)
    print(check_root(wheel, sdist), flush=True)
    if options.tag:
        version = wheel.name.split("-")[1]
        changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
        check_tag(options.tag, version, changelog)
        print(f"{options.tag} is the version, and has a date", flush=True)
    if options.install is not None:
        for extra in options.install or [*USES, *ONLY_RESOLVED]:
            print(check_installed(wheel, sdist, extra), flush=True)
    print(f"{wheel.name} and {sdist.name} in dist/ can be released.")


if __name__ == "__main__":
    main()
