"""The commands that translate with a trained run."""

import os
import socket

import pytest
from commands import Chunks, check_refused, set_stdin

from keras_transformer.decoding.search import BeamSearch, Sampling
from keras_transformer.inference.translator import Translator
from keras_transformer.showing import web
from keras_transformer.support.startup import available_cores

# === translate ===


@pytest.mark.parametrize(("before", "after"), [(None, "1"), ("3", "3")])
def test_batches_are_translated_by_one_thread_each(
    run_cli, fake_translators, monkeypatch, before, after
):
    name = "TF_NUM_INTRAOP_THREADS"
    # TensorFlow has read it already, so that the change has no effect here.
    monkeypatch.setenv(name, before or "")
    if before is None:
        monkeypatch.delenv(name)
    set_stdin(monkeypatch, Chunks([b"a\n"]))
    assert run_cli("translate", "runs/mine").code == 0
    assert os.environ[name] == after
    assert fake_translators[0].workers == available_cores()


def test_translate_translates(run_cli, trained, monkeypatch):
    text = "the cat sleeps\n\n" + "a" * 100_000 + "\nschläft"
    set_stdin(monkeypatch, Chunks([text.encode()]))
    code, out, err = run_cli("translate", trained.run)
    assert code == 0
    assert out.count("\n") == 4
    assert out.split("\n")[1] == ""
    assert "keras-transformer: line 3 was truncated" in err
    assert "line 2" not in err


def test_translate_prints_a_line_per_line(
    run_cli, monkeypatch, fake_translators
):
    set_stdin(monkeypatch, Chunks([b"a cat\n\nlong\nlimit\n"]))
    code, out, err = run_cli("translate", "runs/x", "--extra-length", 7)
    assert (code, out) == (0, "A CAT 0\n 0\nLONG 0\nLIMIT 0\n")
    cut = "truncated: it has more than 31 tokens, which is all that the model"
    limit = (
        "may be incomplete: it has as many tokens as it may have, 32 or fewer "
        "(--extra-length, --length-factor)"
    )
    assert err == (
        f"keras-transformer: line 3 was {cut} reads\n"
        f"keras-transformer: the translation of line 3 {limit}\n"
        f"keras-transformer: the translation of line 4 {limit}\n"
    )


def test_translate_n_best_prints_number_score_and_text(
    run_cli, monkeypatch, fake_translators
):
    set_stdin(monkeypatch, Chunks([b"a\n", b"b\n"]))
    code, out, _ = run_cli("translate", "runs/x", "--n-best", 2)
    assert code == 0
    assert out.splitlines() == [
        "1\t-0.0000\tA 0",
        "1\t-1.0000\tA 1",
        "2\t-0.0000\tB 0",
        "2\t-1.0000\tB 1",
    ]


def test_translate_passes_its_flags_on(run_cli, monkeypatch, fake_translators):
    set_stdin(monkeypatch, Chunks([]))
    code, *_ = run_cli(
        *("translate", "runs/x", "--checkpoint", "best", "--beam-size", 3),
        *("--alpha", 1, "--extra-length", 7, "--n-best", 2),
        *("--length-factor", 1.5, "--dtype", "bfloat16"),
    )
    assert code == 0
    (translator,) = fake_translators
    assert translator.dtype == "bfloat16"
    assert [run.path for run in translator.runs] == ["runs/x"]
    assert translator.checkpoint == "best"
    assert translator.search == BeamSearch(3, 1.0, 7, 1.5, "power")
    assert translator.num_translations == 2


def test_translate_samples(run_cli, monkeypatch, fake_translators):
    set_stdin(monkeypatch, Chunks([b"a\n"]))
    code, out, _ = run_cli(
        *("translate", "runs/x", "--sample", "--temperature", 0.8),
        *("--top-k", 10, "--top-p", 0.9, "--seed", 3, "--num-samples", 5),
        *("--alpha", 0, "--extra-length", 7, "--n-best", 2),
    )
    assert (code, out) == (0, "1\t-0.0000\tA 0\n1\t-1.0000\tA 1\n")
    (translator,) = fake_translators
    assert translator.search == Sampling(
        *(0.8, 10, 0.9, 3, 5, 0.0, 7), length_penalty="power"
    )


@pytest.mark.parametrize(
    ("flags", "message", "received"),
    [
        (["--temperature", 0.5, "--seed", 1], "need --sample", "--temperature"),
        (["--top-k", 3], "need --sample", "--top-k 3"),
        (["--sample", "--beam-size", 2], "exclude --sample", "--beam-size 2"),
        (
            ["--sample", "--temperature", 0],
            "from 0.001 to 100",
            "temperature=0.0",
        ),
    ],
)
def test_contradictory_flags_of_the_search_are_refused(
    run_cli, fake_translators, flags, message, received
):
    result = run_cli("translate", "runs/x", *flags)
    check_refused(result, message, f"Received: {received}")
    assert not fake_translators


def test_translate_with_a_prefix(run_cli, monkeypatch, fake_translators):
    set_stdin(monkeypatch, Chunks([b"a\nb\n"]))
    assert run_cli("translate", "runs/x", "--prefix", "Der").code == 0
    assert fake_translators[0].prefixes == ["Der", "Der"]


def test_translate_with_several_runs(run_cli, monkeypatch, fake_translators):
    set_stdin(monkeypatch, Chunks([b"a\n"]))
    assert run_cli("translate", "runs/x", "runs/y").code == 0
    paths = [run.path for run in fake_translators[0].runs]
    assert paths == ["runs/x", "runs/y"]


def test_translate_answers_at_once(
    run_cli, monkeypatch, capsys, fake_translators
):
    answers = []
    stream = Chunks(
        [b"a\n", b"b\nc\n"], lambda: answers.append(capsys.readouterr().out)
    )
    set_stdin(monkeypatch, stream)
    assert run_cli("translate", "runs/x").code == 0
    assert answers == ["", "A 0\n", "B 0\nC 0\n"]


def test_translate_answers_the_lines_before_an_invalid_one(
    run_cli, monkeypatch, fake_translators
):
    set_stdin(monkeypatch, Chunks([b"a\nb\n\xff\nc\n"]))
    result = run_cli("translate", "runs/x")
    check_refused(result, "UTF-8", "line 3")
    assert result.out == "A 0\nB 0\n"


@pytest.mark.parametrize(
    ("flags", "received"),
    [
        (["--beam-size", 0], "beam_size=0"),
        (["--alpha", -1], "alpha=-1.0"),
        (["--extra-length", -1], "extra_length=-1"),
        (["--n-best", 9], "num_translations=9, beam_size=4"),
        (["--n-best", 0], "num_translations=0, beam_size=4"),
        (
            ["--sample", "--num-samples", 2, "--n-best", 3],
            "num_translations=3, num_samples=2",
        ),
    ],
)
def test_translate_refuses_an_invalid_search(run_cli, trained, flags, received):
    result = run_cli("translate", trained.run, *flags)
    check_refused(result, f"Received: {received}")


def test_translate_refuses_a_folder_that_is_not_a_run(run_cli, tmp_path):
    result = run_cli("translate", tmp_path)
    check_refused(result, "config.json", f"Received: {tmp_path}")


# === score ===


def test_score_prints_score_and_perplexity(run_cli, monkeypatch, trained):
    set_stdin(monkeypatch, Chunks([b"the cat\tdie Katze\n\t\n"]))
    code, out, err = run_cli("score", trained.run, "--alpha", 1)
    assert (code, err) == (0, "")
    translator = Translator.open(trained.run, search=BeamSearch(alpha=1.0))
    scores = translator.score(["the cat", ""], ["die Katze", ""])
    expected = [f"{s.score:.4f}\t{s.perplexity:.4f}" for s in scores]
    assert out.splitlines() == expected
    assert expected[1] == "0.0000\t1.0000"


@pytest.mark.parametrize(("line", "tabs"), [("a", 0), ("a\tb\tc", 2)])
def test_score_needs_two_columns(run_cli, monkeypatch, trained, line, tabs):
    set_stdin(monkeypatch, Chunks([f"a\tb\n{line}\n".encode()]))
    result = run_cli("score", trained.run)
    check_refused(result, "a tab and its translation", f"line 2 with {tabs}")


# === serve ===


def test_serve_passes_its_flags_on(run_cli, fake_translators, monkeypatch):
    served = []
    monkeypatch.setattr(web, "serve", lambda *given: served.append(given))
    flags = ("--port", 0, "--n-best", 2, "--max-characters", 7)
    code, _, _ = run_cli("serve", "runs/en de", *flags, "--beam-size", 3)
    assert code == 0
    (translator,) = fake_translators
    assert translator.num_translations == 2
    assert translator.search.beam_size == 3
    ((given, name, listening, max_characters, _),) = served
    assert (given, name, max_characters) == (translator, "en-de", 7)
    assert listening.fileno() == -1  # closed


@pytest.mark.parametrize(("beam_size", "shown"), [(2, 2), (4, 4), (8, 4)])
def test_serve_shows_four_outputs_or_as_many_as_there_are(
    run_cli, fake_translators, monkeypatch, beam_size, shown
):
    monkeypatch.setattr(web, "serve", lambda *given: None)
    flags = ("--port", 0, "--beam-size", beam_size)
    assert run_cli("serve", "runs/x", *flags).code == 0
    assert fake_translators[0].num_translations == shown


def test_serve_listens_to_this_computer_only(
    run_cli, fake_translators, monkeypatch
):
    hosts = []
    monkeypatch.setattr(web, "serve", lambda *given: None)
    monkeypatch.setattr(
        web, "listen", lambda *given: hosts.append(given) or socket.socket()
    )
    assert run_cli("serve", "runs/mine").code == 0
    assert hosts == [("127.0.0.1", 8000)]


def test_serve_refuses_a_port_before_it_opens_the_run(run_cli):
    code, _, err = run_cli("serve", "runs/missing", "--port", 70_000)
    assert code == 2 and "A port is a number" in err
