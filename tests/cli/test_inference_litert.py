"""The commands that use a run, with an export for LiteRT in its place."""

import contextlib
import io
import subprocess
import sys

import pytest
from commands import Chunks, check_refused, set_stdin

from keras_transformer import cli, serving
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.inference.translator import Translator
from keras_transformer.support.startup import available_cores
from keras_transformer.train import evaluation, open_corpus


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "keras_transformer.json").touch()
    return str(tmp_path)


def test_translate(run_cli, monkeypatch, fake_exports, folder):
    set_stdin(monkeypatch, Chunks([b"a cat\nlimit\n"]))
    code, out, err = run_cli("translate", folder, "--prefix", "Die")
    assert (code, out) == (0, "A CAT 0\nLIMIT 0\n")
    assert "line 2: perhaps incomplete" in err
    (translator,) = fake_exports
    assert translator.path == folder
    assert translator.workers == available_cores()
    assert translator.prefixes == ["Die", "Die"]


def test_the_search_is_that_of_the_export_unless_flags_say_otherwise(
    run_cli, monkeypatch, fake_exports, folder
):
    set_stdin(monkeypatch, Chunks([b"a\n"]))
    command = ("translate", folder, "--n-best", 2)
    assert run_cli(*command).out == "1\t-0.0000\tA 0\n1\t-1.0000\tA 1\n"
    assert fake_exports[-1].search == BeamSearch(alpha=0.5)
    assert len(fake_exports) == 1
    set_stdin(monkeypatch, Chunks([]))
    assert run_cli(*command, "--beam-size", 3).code == 0
    assert fake_exports[-1].search == BeamSearch(3, alpha=0.5)
    assert fake_exports[-1].num_translations == 2


def test_score(run_cli, monkeypatch, fake_exports, folder):
    set_stdin(monkeypatch, Chunks([b"the cat\tdie Katze\n"]))
    code, out, err = run_cli(
        *("score", folder, "--alpha", 1, "--length-penalty", "power")
    )
    assert (code, out, err) == (0, "-1.0000\t1.5000\n", "")
    assert fake_exports[-1].search == BeamSearch(
        alpha=1.0, length_penalty="power"
    )


def test_serve(run_cli, monkeypatch, fake_exports, folder):
    served = []
    monkeypatch.setattr(
        serving, "serve", lambda *given: served.append(given[0])
    )
    assert run_cli("serve", folder, "--port", 0).code == 0
    assert served == fake_exports and fake_exports[0].num_translations == 1


@pytest.mark.parametrize(
    "flags",
    [["--checkpoint", "best"], ["--dtype", "float32"], ["--sample"]],
)
def test_what_an_export_lacks_is_refused(run_cli, fake_exports, folder, flags):
    result = run_cli("translate", folder, *flags)
    check_refused(result, "Leave out ", f"Received: {folder} {flags[0]}")
    assert not fake_exports


def test_flags_of_sampling_are_refused(run_cli, fake_exports, folder):
    result = run_cli("translate", folder, "--seed", 3)
    check_refused(result, "Options of sampling need --sample", "--seed 3")


@pytest.mark.parametrize("first", ["folder", "run"])
def test_an_export_is_not_averaged(run_cli, fake_exports, folder, first):
    pair = (folder, "runs/x") if first == "folder" else ("runs/x", folder)
    for command in ("translate", "score", "serve"):
        result = run_cli(command, *pair)
        check_refused(
            result, "export RUN1 RUN2", f"Received: {pair[0]} {pair[1]}"
        )
    assert not fake_exports


# === A real export ===


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    """The folder that `export` writes, and what it prints."""
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
from keras_transformer.cli import main
from keras_transformer import serving

def serve(translator, name, listening, max_characters, signatures):
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
    expected = Translator.open(trained.run, search=search)
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
    assert lines[-1] == "not recorded: the results of an export"
    assert sorted(exported.iterdir()) == before
    # The same but for the search, which is that of the export.
    run = Translator.open(trained.run, search=BeamSearch(beam_size=2))
    corpus = open_corpus([str(trained.data)], "en", "de")
    results, _ = evaluation.evaluate(run, corpus, "test", "de")
    described = evaluation.describe(results).splitlines()
    assert lines[2:-1] == described[1:]


def test_evaluate_refuses_other_languages(run_cli, trained, exported):
    result = run_cli(
        "evaluate", exported, "--data", trained.data, "--source", "fr"
    )
    check_refused(result, "from en to de", "--source fr, --target de")
