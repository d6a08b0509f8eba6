"""The commands that answer line by line."""

import os

import pytest
from commands import Chunks, check_refused, set_stdin

from keras_transformer.decoding.settings import BeamSearch, Sampling
from keras_transformer.inference.translator import Translator
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
    assert "; line 3: truncated at 31 tokens" in err
    assert err.count("keras-transformer: ") == 1


def test_translate_prints_a_line_per_line(
    run_cli, monkeypatch, fake_translators
):
    set_stdin(monkeypatch, Chunks([b"a cat\n\nlong\nlimit\n"]))
    code, out, err = run_cli("translate", "runs/x", "--extra-length", 7)
    assert (code, out) == (0, "A CAT 0\n 0\nLONG 0\nLIMIT 0\n")
    assert err == (
        "keras-transformer: line 3: truncated at 31 tokens, which is all that "
        "the model reads; lines 3, 4: perhaps incomplete, with as many tokens "
        "as there may be, 32 or fewer (--extra-length, --length-factor)\n"
    )


def test_translate_lists_ten_lines_that_were_cut(
    run_cli, monkeypatch, fake_translators
):
    set_stdin(monkeypatch, Chunks([b"a\n", b"limit\n" * 1_012]))
    _, _, err = run_cli("translate", "runs/x")
    assert ": lines 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 1,002 more: " in err
    assert err.count("\n") == 1


@pytest.fixture
def files(tmp_path):
    """Two files, the first without a line end."""
    (tmp_path / "a").write_text("a\nschläft", "utf-8")
    (tmp_path / "b").write_text("limit\n", "utf-8")
    return tmp_path / "a", tmp_path / "b"


def test_translate_files(run_cli, fake_translators, files, tmp_path):
    output = tmp_path / "new" / "out.txt"
    flags = ("--input", *files, "--output", output)
    code, out, err = run_cli("translate", "runs/x", *flags)
    assert (code, out) == (0, "") and ": line 3: perhaps" in err
    assert output.read_text("utf-8") == "A 0\nSCHLÄFT 0\nLIMIT 0\n"
    result = run_cli("translate", "runs/x", *flags)
    check_refused(result, f"{output} already exists")
    assert len(fake_translators) == 1


def test_what_precedes_an_invalid_line_is_written(
    run_cli, fake_translators, files, tmp_path
):
    output = tmp_path / "new"
    files[1].write_bytes(b"b\n\xff\n")
    flags = ("--input", *files, "--output", output)
    result = run_cli("translate", "runs/x", *flags)
    message = f"; what precedes it is done, and in {output}\n"
    check_refused(result, f"{files[1]} must be UTF-8", "line 2", message)
    assert output.read_text("utf-8") == "A 0\nSCHLÄFT 0\nB 0\n"
    output.unlink()
    files[0].write_bytes(b"\xff\n")
    result = run_cli("translate", "runs/x", *flags)
    check_refused(result, f"{files[0]} must be UTF-8", "line 1")
    assert sorted(tmp_path.iterdir()) == sorted(files)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--input", "nowhere"], ["--input must be a file", "nothing there"]),
        (["--input", "."], ["--input must be a file", ".", "a folder"]),
        (["--output", "/dev/null/x"], ["cannot be created", "is a file"]),
        (["--output", "a" * 300], ["at most 255 bytes"]),
        (["--output", "."], [". already exists"]),
    ],
)
def test_streams_that_cannot_be_used(run_cli, fake_translators, flags, words):
    check_refused(run_cli("translate", "runs/x", *flags), *words)
    assert not fake_translators


# === Documents ===


def test_translate_sentences(run_cli, monkeypatch, fake_translators):
    set_stdin(monkeypatch, Chunks([b"ab. Cd.\n\nlong\n", b"- c\n1.\n"]))
    result = run_cli("translate", "runs/x", "--split-sentences")
    assert (result.code, result.out) == (
        0,
        "AB. 0 CD. 0\n\nLONG 0\n- C 0\n1.\n",
    )
    assert 'keras-transformer: sentence "long": truncated' in result.err
    flags = ("--split-sentences", "--prefix", "Die")
    check_refused(run_cli("translate", "runs/x", *flags), "--prefix is for")


def test_flags_of_trees_need_a_run_that_parses(run_cli, fake_translators):
    result = run_cli("translate", "runs/x", "--one-line")
    check_refused(result, "--one-line is for a run that parses")


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
            "--temperature 0.0",
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
        (["--beam-size", 0], "--beam-size 0"),
        (["--alpha", -1], "--alpha -1.0"),
        (["--extra-length", -1], "--extra-length -1"),
        (["--n-best", 9], "--n-best 9, --beam-size 4"),
        (
            ["--sample", "--num-samples", 2, "--n-best", 3],
            "--n-best 3, --num-samples 2",
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
    check_refused(result, "a tab and its translation", f"{tabs} tabs in line 2")
    assert result.out.count("\n") == 1


def test_score_names_the_line_and_the_side(run_cli, tmp_path, trained):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a\tb\nc\td\na\t" + "ab" * 100 + "\ne\tf\n")
    result = run_cli("score", trained.run, "--input", pairs)
    check_refused(result, "at most 31 tokens", "target of 2", "in line 3")
    assert result.out.count("\n") == 2
    output = tmp_path / "scores"
    flags = ("--input", pairs, "--output", output)
    refused = run_cli("score", trained.run, *flags)
    check_refused(refused, "in line 3; what precedes it is done", str(output))
    assert output.read_text("utf-8") == result.out
    output.unlink()
    pairs.write_text("a\tb\nc\td\n")
    assert run_cli("score", trained.run, *flags) == (0, "", "")
    assert output.read_text("utf-8") == result.out
