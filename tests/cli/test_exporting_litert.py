"""An export for LiteRT in place of a run, without TensorFlow and Keras."""

import contextlib
import io
import subprocess
import sys

import pytest

import keras_transformer as kt
from keras_transformer import cli
from keras_transformer.decoding.settings import BeamSearch


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    """The folder that `export` writes."""
    path = tmp_path_factory.mktemp("litert") / "en-de"
    out = io.StringIO()
    command = ["export", trained.run, "--output", path, "--format", "litert"]
    with contextlib.redirect_stdout(out):
        assert cli.main([*map(str, command), "--beam-size", "2"]) == 0
    assert f"{path} is a model for LiteRT." in out.getvalue()
    return path


WITHOUT_TENSORFLOW = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tensorflow", "keras", "h5py"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
from keras_transformer import serving
from keras_transformer.cli import main

def serve(translator, name, listening, max_characters, *others):
    serving.make_app(translator, name, max_characters)
    print(name, translator("the cat sleeps"))

serving.serve = serve
code = main(["translate", sys.argv[1]])
sys.stdin = open(sys.argv[2])
code += main(["score", sys.argv[1]])
code += main(["serve", sys.argv[1], "--port", "0"])
sys.exit(code)
"""


def test_without_tensorflow_and_keras(trained, exported, tmp_path):
    search = BeamSearch(beam_size=2)
    expected = kt.open_translator(trained.run, search=search)
    text = expected("the cat sleeps")
    score = expected.score("the cat", "die Katze")
    pairs = tmp_path / "pairs"
    pairs.write_text("the cat\tdie Katze\n", "utf-8")
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT_TENSORFLOW, exported, pairs],
        input="the cat sleeps\n\n",
        capture_output=True,
        encoding="utf-8",
    )
    assert process.returncode == 0, process.stderr
    first, empty, pair, served = process.stdout.splitlines()
    assert (first, empty) == (text, "")
    found = [float(number) for number in pair.split("\t")]
    assert found == pytest.approx([score.score, score.perplexity], rel=1e-4)
    assert served == f"en-de {text}"
