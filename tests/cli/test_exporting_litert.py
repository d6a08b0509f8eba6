"""An export for LiteRT in place of a run, without TensorFlow and Keras."""

import contextlib
import io
import subprocess
import sys

import pytest

import keras_transformer as kt
from keras_transformer import cli
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.train import evaluation, open_corpus


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    """The folder that `export` writes."""
    path = tmp_path_factory.mktemp("litert") / "en-de"
    out = io.StringIO()
    command = ["export", trained.run, "--output", path, "--format", "litert"]
    with contextlib.redirect_stdout(out):
        assert cli.main([*map(str, command), "--beam-size", "2"]) == 0
    assert f"{path} holds a model for LiteRT." in out.getvalue()
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


def test_evaluate(run_cli, trained, exported):
    before = sorted(exported.iterdir())
    code, out, _ = run_cli("evaluate", exported, "--data", trained.data)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == f"decoding test of {trained.data}"
    assert lines[1].startswith("test: 3 sentences, beam 2, alpha 0.6, ")
    assert lines[-1] == "not recorded: the results of an ensemble or an export"
    assert sorted(exported.iterdir()) == before
    # The same but for the search, which is that of the export.
    run = kt.open_translator(trained.run, search=BeamSearch(beam_size=2))
    corpus = open_corpus([str(trained.data)], "en", "de")
    results, _ = evaluation.evaluate(run, corpus, "test", "de")
    described = evaluation.describe(results).splitlines()
    assert lines[2:-1] == described[1:]
