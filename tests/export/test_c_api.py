"""The SavedModel in a C program, which loads it as TensorFlow Serving does."""

import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text
from random_models import imported_translator
from tensorflow.core.protobuf import saved_model_pb2

import keras_transformer as kt

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
    pytest.mark.skipif(
        COMPILER is None, reason="needs a C compiler with the name cc"
    ),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("c") / "load_with_c_api"
    source = Path(__file__).with_name("load_with_c_api.c")
    folder = Path(tf.__file__).parent
    # libtensorflow_cc.so.2 on Linux, libtensorflow_cc.2.dylib on macOS.
    libraries = [*folder.glob("libtensorflow_cc.*")]
    libraries += folder.glob("libtensorflow_framework.*")
    subprocess.run(
        [
            COMPILER,
            "-Wall",
            f"-I{tf.sysconfig.get_include()}",
            source,
            *libraries,
            f"-Wl,-rpath,{folder}",
            "-o",
            path,
        ],
        check=True,
    )
    return path


@pytest.fixture(scope="module")
def run(program):
    folder = Path(tensorflow_text.__file__).parent
    suffix = sysconfig.get_config_var("SHLIB_SUFFIX")
    (library,) = folder.rglob(f"_sentencepiece_tokenizer{suffix}")

    def run(model, texts):
        content = (model / "saved_model.pb").read_bytes()
        saved = saved_model_pb2.SavedModel.FromString(content)
        signature = saved.meta_graphs[0].signature_def["serving_default"]
        return subprocess.run(
            [
                program,
                library,
                model,
                signature.inputs["text"].name,
                signature.outputs["translations"].name,
                signature.outputs["scores"].name,
            ],
            input=b"".join(text.encode() + b"\n" for text in texts),
            capture_output=True,
        )

    return run


def translations(output):
    """`[[(text, score)]]` from what the program prints."""
    return [
        [
            (bytes.fromhex(text).decode(), float(score))
            for text, score in (field.split(":") for field in line.split(" "))
        ]
        for line in output.decode().splitlines()
    ]


def test_translates_without_python_and_without_xla(run, exported, translator):
    check_texts(run, exported, translator)
    check_texts(run, exported, translator, [])


def test_an_imported_model(run, tokenizer, tmp_path):
    """Its vocabulary has a table, and texts may begin with a language."""
    translator = imported_translator(tokenizer)
    path = kt.export.save(translator, tmp_path / "1", [])
    check_texts(run, path, translator, [*TEXTS, ">>fra<< dog", ">>deu<<"])


def check_texts(run, exported, translator, texts=TEXTS):
    process = run(exported, texts)
    assert process.returncode == 0, process.stderr
    found = translations(process.stdout)
    expected = translator.translate(texts)
    assert [[text for text, _ in row] for row in found] == [
        t.texts for t in expected
    ]
    np.testing.assert_allclose(
        [[score for _, score in row] for row in found],
        [t.scores for t in expected],
        rtol=1e-4,
        atol=1e-5,
    )


def test_a_compiled_graph_fails(run, tmp_path):
    """XLA is disabled in the program: the tests above could fail."""

    @tf.function(jit_compile=True)
    def halve(x):
        return x / 2.0

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def translate(text):
        scores = halve(tf.cast(tf.strings.length(text), tf.float32))
        return {"translations": text[:, None], "scores": scores[:, None]}

    module = tf.Module()
    module.translate = translate
    tf.saved_model.save(module, tmp_path, {"serving_default": translate})
    process = run(tmp_path, ["one", "three"])
    assert process.returncode == 1
    assert b"XLA" in process.stderr
