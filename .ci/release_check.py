"""Builds the package into dist/ and checks that it can be released.

Usage:
    python .ci/release_check.py [--tag TAG] [--install [EXTRA ...]]

Checks the metadata, and that the files are tracked ones. With --install, uses
the wheel in a new environment for each extra: minutes, and up to 3 GB of disk.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
_PROGRAMS = ("train/", "export/")  # to which the library has links
_LINKS = ("keras_transformer/train", "keras_transformer/export")
_SOURCES = ("keras_transformer/", *_PROGRAMS)
_OF_THE_PROJECT = {
    *("CHANGELOG.md", "CITATION.cff", "LICENSE", "MANIFEST.in", "README.md"),
    *("SECURITY.md", "pyproject.toml", "setup.py"),
}
_GENERATED = {"PKG-INFO", "setup.cfg"}

_MODEL = """
import keras_transformer as kt
corpus = kt.train.open_corpus(["embedded"])
tokenizer = kt.Tokenizer.train(corpus.texts("train"), vocab_size=500)
config = kt.TransformerConfig.from_preset("tiny", vocab_size=500)
search = kt.BeamSearch(extra_length=5)
translator = kt.Translator(kt.Transformer(config), tokenizer, search)
"""
# A program that uses each extra; "" is none. Most need no other extra.
USES = {
    "": "import keras_transformer as kt; kt.presets.PRESETS['base']",
    "text": """
import keras_transformer as kt
texts = ["A dog.", "A cat.", "Ein Hund."] * 9
assert kt.Tokenizer.train(texts, vocab_size=280).encode(["A dog."])
""",
    "tensorflow": f"{_MODEL}assert isinstance(translator('I am'), str)",
    "jax": f"import os; os.environ['KERAS_BACKEND'] = 'jax'{_MODEL}"
    "assert isinstance(translator('I am'), str)",
    "savedmodel": f"{_MODEL}kt.export.save(translator, 'exported/1')",
    "plot": "import matplotlib.pyplot",
    "tensorboard": "import tensorboard.program",
    "tfds": "import importlib_resources, tensorflow_datasets",
    "serving": "import tensorflow_serving.apis.prediction_service_pb2_grpc",
    "beam": """
import apache_beam
from keras_transformer.bulk import Translate, translate_command
""",
    "litert": """
import keras_transformer as kt
assert kt.open_translator("en-de")("Good morning.") == "Guten Morgen."
""",
    "web": "import keras_transformer.web.page_routes, uvicorn",
    "ctranslate2": "import ctranslate2",
    "convert": "import huggingface_hub, platformdirs",
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
    """Returns the files of the wheel."""
    return {
        f"keras_transformer/{name}" if name.startswith(_PROGRAMS) else name
        for name in tracked
        if name.startswith(_SOURCES) and name not in _LINKS
    }


def files_of_sdist(tracked: Collection[str]) -> set[str]:
    """Returns the files of the source distribution."""
    return files_of_wheel(tracked) | _OF_THE_PROJECT.intersection(tracked)


def check_files(
    what: str, found: Collection[str], expected: Collection[str]
) -> None:
    """Exits if a file is missing or does not belong there."""
    if wrong := sorted({*found} ^ {*expected}):
        sys.exit(f"{what}: missing, or do not belong there: {wrong}")


def build(tracked: Collection[str]) -> tuple[Path, Path]:
    """Returns the wheel and the sdist, built from a copy of the tracked files.

    In place, setuptools would include leftovers of earlier builds.
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
    """Checks files and metadata; yields a line for each check."""
    _run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    yield "twine accepts the metadata"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    found = {name for name in names if ".dist-info/" not in name}
    check_files(wheel.name, found, files_of_wheel(tracked))
    licenses = [n for n in names if n.endswith("/licenses/LICENSE")]
    assert licenses, f"{wheel.name}: no license"
    yield f"{wheel.name}: {len(found)} files"
    with tarfile.open(sdist) as archive:
        files = [m.name for m in archive.getmembers() if m.isfile()]
    found = {name.partition("/")[2] for name in files}
    found = {name for name in found if ".egg-info/" not in name} - _GENERATED
    check_files(sdist.name, found, files_of_sdist(tracked))
    yield f"{sdist.name}: {len(found)} files"


def check_tag(tag: str, version: str, changelog: str) -> None:
    """Exits unless the tag is the version and its entry has a date."""
    if tag != f"v{version}":
        sys.exit(f"The tag must be v{version}. Received: {tag}")
    entry = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$"
    if not re.search(entry, changelog, re.MULTILINE):
        sys.exit(f"CHANGELOG.md needs a date: ## [{version}] - YYYY-MM-DD")


def check_root(wheel: Path, sdist: Path) -> str:
    """Imports the installed package next to its sources, which come first."""
    program = "import keras_transformer as kt; kt.train.Recipe, kt.export"
    with tempfile.TemporaryDirectory() as folder:
        _run(sys.executable, "-m", "venv", "--without-pip", "env", cwd=folder)
        python = Path(folder, "env/bin/python")
        pip = (sys.executable, "-m", "pip", "-q", "--python", python)
        _run(*pip, "install", "--no-deps", wheel, "numpy")
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        unpacked = Path(folder, sdist.name.removesuffix(".tar.gz"))
        for root in (ROOT, unpacked):
            _run(python, "-c", program, cwd=root)
    return "imported at the root of the repository and of the sdist"


def check_installed(wheel: Path, extra: str) -> str:
    """Uses the wheel with an extra in a new environment."""
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    with tempfile.TemporaryDirectory() as folder:
        _run(sys.executable, "-m", "venv", "env", cwd=folder)
        binaries = Path(folder, "env/bin")
        python, script = binaries / "python", binaries / "keras-transformer"
        pip = (python, "-m", "pip", "--disable-pip-version-check", "-q")
        if extra in ONLY_RESOLVED:
            _run(*pip, "install", "--dry-run", wanted, cwd=folder)
            return f"[{extra}] resolved"
        _run(*pip, "install", wanted, cwd=folder)
        _run(*pip, "check", cwd=folder)
        _run(python, "-c", USES[extra], cwd=folder)
        if extra in ("tensorflow", "litert"):  # with the command line
            _run(script, "--version", cwd=folder)
    return f"[{extra}] works"


def _run(*command: str | Path, cwd: str | Path = ROOT) -> None:
    # Use the installed package, not the sources.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    result = subprocess.run(command, cwd=cwd, env=environment, check=False)
    if result.returncode:
        words = " ".join(map(str, command))
        sys.exit(f"Exit code {result.returncode}: {words}")


def main() -> None:
    """Runs the checks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tag", help="of the release, to compare")
    parser.add_argument("--install", nargs="*", help="extras, by default all")
    options = parser.parse_args()
    tracked = tracked_files()
    wheel, sdist = build(tracked)
    for line in check_distributions(wheel, sdist, tracked):
        print(line, flush=True)
    print(check_root(wheel, sdist), flush=True)
    if options.tag:
        changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
        check_tag(options.tag, wheel.name.split("-")[1], changelog)
    if options.install is not None:
        for extra in options.install or [*USES, *ONLY_RESOLVED]:
            print(check_installed(wheel, extra), flush=True)
    print(f"{wheel.name} and {sdist.name} in dist/ can be released.")


if __name__ == "__main__":
    main()
