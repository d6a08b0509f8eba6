"""The SavedModel in a C program, which loads it as TensorFlow Serving does."""

import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text
from tensorflow.core.protobuf import saved_model_pb2

COMPILER = shutil.which("cc")
TEXTS = [
    "The good house sleeps.",
    "dog",
    "",
    "The red\0cat 🙂 sleeps.",
    "The red dog " * 8_333 + "red.",  # 100,000 characters
]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(COMPILER is None, reason="needs a C compiler"),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("c") / "load_with_c_api"
    source = Path(__file__).with_name("load_with_c_api.c")
    folder = Path(tf.__file__).parent
    # libtensorflow_cc.so.2 on Linux, libtensorflow_cc.2.dylib on macOS.
    libraries = [*folder.glob("libtensorflow_cc.*")]
    libraries += folder.glob("libtensorflow_framework.*")
    command = [COMPILER, "-Wall", f"-I{tf.sysconfig.get_include()}", source]
    command += [*libraries, f"-Wl,-rpath,{folder}", "-o", path]
    subprocess.run(command, check=True)
    return path


def run(program, model, texts):
    folder = Path(tensorflow_text.__file__).parent
    suffix = sysconfig.get_config_var("SHLIB_SUFFIX")
    (library,) = folder.rglob(f"_sentencepiece_tokenizer{suffix}")
    content = (model / "saved_model.pb").read_bytes()
    saved = saved_model_pb2.SavedModel.FromString(content)
    signature = saved.meta_graphs[0].signature_def["serving_default"]
    names = [signature.inputs["text"].name]
    names += [signature.outputs[x].name for x in ("translations", "scores")]
    return subprocess.run(
        [program, library, model, *names],
        input=b"".join(text.encode() + b"\n" for text in texts),
        capture_output=True,
    )


@pytest.mark.parametrize("texts", [TEXTS, []], ids=["texts", "none"])
def test_translations_without_xla(program, exported, translator, texts):
    process = run(program, exported, texts)
    assert process.returncode == 0, process.stderr
    lines = process.stdout.decode().splitlines()
    found = [[x.split(":") for x in line.split(" ")] for line in lines]
    expected = translator.translate(texts)
    assert [[bytes.fromhex(x).decode() for x, _ in row] for row in found] == [
        t.texts for t in expected
    ]
    np.testing.assert_allclose(
        [[float(score) for _, score in row] for row in found],
        [t.scores for t in expected],
        rtol=1e-4,
        atol=1e-5,
    )
