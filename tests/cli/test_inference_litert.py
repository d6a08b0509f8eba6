"""The commands that use a run, with an export for LiteRT in its place."""

import pytest
from commands import Chunks, check_refused, set_stdin, write_corpus

from keras_transformer.decoding.search import BeamSearch
from keras_transformer.showing import web
from keras_transformer.support.startup import available_cores


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.tflite").touch()
    return str(tmp_path)


def test_translate(run_cli, monkeypatch, fake_exports, folder):
    set_stdin(monkeypatch, Chunks([b"a cat\nlimit\n"]))
    code, out, err = run_cli("translate", folder, "--prefix", "Die")
    assert (code, out) == (0, "A CAT 0\nLIMIT 0\n")
    assert "the translation of line 2 may be incomplete" in err
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
    code, out, err = run_cli("score", folder, "--alpha", 1)
    assert (code, out, err) == (0, "-1.0000\t1.5000\n", "")
    assert fake_exports[-1].search == BeamSearch(alpha=1.0)


def test_serve(run_cli, monkeypatch, fake_exports, folder):
    served = []
    monkeypatch.setattr(web, "serve", lambda *given: served.append(given[0]))
    assert run_cli("serve", folder, "--port", 0).code == 0
    assert served == fake_exports and fake_exports[0].num_translations == 4


@pytest.mark.parametrize(
    ("flags", "received"),
    [
        (["--checkpoint", "best"], "--checkpoint best"),
        (["--dtype", "float32"], "--dtype float32"),
        (["--sample"], "--sample"),
    ],
)
def test_what_an_export_lacks_is_refused(
    run_cli, fake_exports, folder, flags, received
):
    result = run_cli("translate", folder, *flags)
    check_refused(result, "Leave out --", f"Received: {received}")
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
            result, "export RUN1 RUN2 --format litert", f"{pair[0]} {pair[1]}"
        )
    assert not fake_exports


@pytest.mark.parametrize(
    "command",
    [["parse"], ["export", "--output", "x"], ["trace", "a"]],
)
def test_other_commands_need_a_run(run_cli, fake_exports, folder, command):
    result = run_cli(command[0], folder, *command[1:])
    check_refused(result, "A run folder", f"Received: {folder}")


# === evaluate ===


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(
        tmp_path / "data", test_en="a\nthe cat\n", test_de="A 0\nDIE\n"
    )


def test_evaluate(run_cli, fake_exports, folder, corpus):
    code, out, err = run_cli("evaluate", folder, "--data", corpus)
    print(out, err)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == f"decoding test of {corpus}"
    assert lines[1].startswith("test: 2 sentences, beam 4, alpha 0.5, ")
    assert lines[-1] == f"not recorded: {folder} is an export"
    assert any(line.startswith("BLEU") for line in lines)
    assert not list(corpus.parent.glob("*.json"))


def test_evaluate_refuses_other_languages(
    run_cli, fake_exports, folder, corpus
):
    result = run_cli("evaluate", folder, "--data", corpus, "--source", "fr")
    check_refused(result, "translates from en to de", "source=fr, target=de")


# === Without TensorFlow ===
