"""The folder for LiteRT: what is damaged or missing, and what it needs."""

import json
import os
import shutil
import subprocess
import sys

import pytest

import keras_transformer as kt
from keras_transformer.support.errors import InputError


@pytest.fixture
def copy(folder, tmp_path):
    """A folder that a test may change."""
    return shutil.copytree(folder, tmp_path / "copy")


def refused(folder, message):
    with pytest.raises(InputError, match=message):
        kt.open_translator(folder)


def change_metadata(folder, **changes):
    path = folder / "keras_transformer.json"
    metadata = {**json.loads(path.read_text("utf-8")), **changes}
    kept = {name: x for name, x in metadata.items() if x is not Ellipsis}
    path.write_text(json.dumps(kept))


def flipped(content):
    """Another bit in the middle of the weights."""
    middle = len(content) // 2
    return (
        content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    )


DAMAGES = {"half": lambda x: x[: len(x) // 2], "a bit": flipped}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_model(copy, damage):
    file = copy / "model.tflite"
    file.write_bytes(damage(file.read_bytes()))
    refused(copy, "model.tflite")


def test_the_tokenizer_of_another_model(copy, pairs):
    kt.Tokenizer.train(list(pairs), vocab_size=300).save(
        copy / "tokenizer.model"
    )
    refused(copy, "tokenizer")


def test_a_damaged_tokenizer(copy):
    file = copy / "tokenizer.model"
    file.write_bytes(file.read_bytes()[:-100])
    refused(copy, "tokenizer.model")


@pytest.mark.parametrize("name", ["keras_transformer.json", "tokenizer.model"])
def test_missing_files(copy, name):
    (copy / name).unlink()
    refused(copy, f"{copy}")


def test_what_is_no_folder(tmp_path, folder):
    refused(tmp_path, f"{tmp_path}")
    refused(tmp_path / "missing", "does not exist")
    refused(folder / "model.tflite", "model.tflite")


@pytest.mark.parametrize("content", [b"", b"{"])
def test_damaged_metadata(copy, content):
    (copy / "keras_transformer.json").write_bytes(content)
    refused(copy, "JSON")


def test_an_export_for_another_system(tmp_path):
    (tmp_path / "keras_transformer.json").write_text("{}")
    refused(tmp_path, f"Received: {tmp_path}")


@pytest.mark.parametrize("name", ["search", "model_sha256", "max_length"])
def test_incomplete_metadata(copy, name):
    change_metadata(copy, **{name: ...})
    refused(copy, f"{name}=None")


# === Without TensorFlow ===

TRANSLATE = """
import sys

for name in ("tensorflow", "keras", "h5py", "torch", "jax"):
    sys.modules[name] = None  # an import raises ImportError

before = set(sys.modules)
import keras_transformer as kt

translator = kt.open_translator(sys.argv[1])
assert translator("dog") == "Hund"
found = translator.translate(["dog", "cat"], workers=2, prefixes=["", "K"])
assert [one.texts[0] for one in found] == ["Hund", "Katze"]
assert translator.score("dog", "Hund").log_prob < 0

names = {name.split(".")[0] for name in set(sys.modules) - before}
print(*sorted(names - set(sys.stdlib_module_names)))
"""
# What ai_edge_litert brings along differs between its versions.
NEEDED = {"ai_edge_litert", "keras_transformer", "numpy", "sentencepiece"}
ALLOWED = {*NEEDED, "flatbuffers", "google", "typing_extensions"}


def run_python(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env={**os.environ, "KERAS_BACKEND": "tensorflow"},
        capture_output=True,
        text=True,
    )


def test_needs_numpy_sentencepiece_and_litert_only(folder):
    process = run_python(TRANSLATE, folder)
    assert process.returncode == 0, process.stderr
    found = {name for name in process.stdout.split() if name[0] != "_"}
    assert NEEDED <= found <= ALLOWED


def test_the_extra_is_named_where_litert_is_missing():
    process = run_python("""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "ai_edge_litert":
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Missing())
import keras_transformer.litert

keras_transformer.litert.LiteEngine
""")
    assert "package ai_edge_litert, which is not installed" in process.stderr
    assert "keras-transformer-nmt[litert]" in process.stderr


def test_an_error_does_not_spoil_the_next_translation(folder, monkeypatch):
    """Its traceback refers to the memory of the interpreter."""
    opened = kt.open_translator(folder)
    assert opened("dog") == "Hund"

    def fail(*_):
        raise KeyboardInterrupt

    with (
        monkeypatch.context() as patch,
        pytest.raises(KeyboardInterrupt) as kept,
    ):
        patch.setattr(
            "keras_transformer.decoding.numpy_search._Search.advance", fail
        )
        opened("dog")
    assert opened("dog") == "Hund"
    assert kept.tb is not None
