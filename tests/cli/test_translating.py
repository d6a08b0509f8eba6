import json
import os

import pytest
from commands import Chunks, check_error, set_stdin, write_run
from fake_translator import FakeTranslator

import keras_transformer as kt
from keras_transformer.decoding.settings import BeamSearch

# === translate ===


@pytest.mark.parametrize(("before", "after"), [(None, "1"), ("3", "3")])
def test_batches_are_translated_by_one_thread_each(
    run_cli, opened, folder, monkeypatch, before, after
):
    name = "TF_NUM_INTRAOP_THREADS"
    # TensorFlow has read it already, so that the change has no effect here.
    monkeypatch.setenv(name, before or "")
    if before is None:
        monkeypatch.delenv(name)
    set_stdin(monkeypatch, Chunks([b"a\n"]))
    assert run_cli("translate", folder).code == 0
    assert os.environ[name] == after
    fake = opened[0].translator
    assert fake.workers == fake.recommended_workers == 2


@pytest.mark.parametrize("command", ["translate", "score"])
def test_workers(run_cli, opened, folder, monkeypatch, command):
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", False)
    for count in (1, 9):
        set_stdin(monkeypatch, Chunks([b"a\tb\n"]))
        assert "TF_NUM_INTRAOP_THREADS" not in os.environ
        assert run_cli(command, folder, "--workers", count).code == 0
        assert opened[-1].translator.workers == count


def test_translate_prints_a_line_per_line(run_cli, monkeypatch, opened, folder):
    long = "limit " * 32
    lines = f"a cat\n\n{long}\nlimit\n Ab. Cd!\nE differ. F\ndiffer 1.\n"
    lines += "differ\n"
    monkeypatch.setattr(
        kt.tasks.TranslationTask,
        "numbers_differ",
        lambda task, source, output: "differ" in source,
    )
    set_stdin(monkeypatch, Chunks([lines.encode()]))
    code, out, err = run_cli("translate", folder)
    assert (code, out) == (0, lines.upper())
    problems = err.splitlines()
    assert [x.rpartition(": ")[2] for x in problems] == [*"1232"]
    assert "truncated" in problems[0] and "--extra-length" in problems[1]
    assert "digits" in problems[2] and "--split-sentences" in problems[3]


def test_lines_are_printed_before_more_is_read(
    run_cli, opened, folder, monkeypatch, capsys
):
    printed = []
    stream = Chunks(
        [b"a\n", b"b\nc\n"], lambda: printed.append(capsys.readouterr().out)
    )
    set_stdin(monkeypatch, stream)
    assert run_cli("translate", folder).code == 0
    assert printed == ["", "A\n", "B\nC\n"]


@pytest.fixture
def files(tmp_path):
    """Two files, the first without a line end."""
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a").write_text("a\nschläft", "utf-8")
    (folder / "b").write_text("limit\n", "utf-8")
    return folder / "a", folder / "b"


def test_translate_files(run_cli, opened, folder, files, tmp_path):
    output = tmp_path / "new" / "out.txt"
    flags = ("--input", *files, "--output", output)
    code, out, err = run_cli("translate", folder, *flags)
    assert (code, out) == (0, "") and "incomplete: 1" in err
    assert output.read_text("utf-8") == "A\nSCHLÄFT\nLIMIT\n"
    result = run_cli("translate", folder, *flags)
    check_error(result, str(output), "--output")
    assert len(opened) == 1


def test_nothing_is_translated_of_files_with_an_invalid_line(
    run_cli, opened, folder, files, tmp_path
):
    files[1].write_bytes(b"b\n\xff\n")
    output = tmp_path / "new"
    flags = ("--input", *files, "--output", output)
    result = run_cli("translate", folder, *flags)
    check_error(result, f"{files[1]} must be UTF-8", "line 2")
    assert not output.exists()


def test_translate_as_json(run_cli, opened, folder, monkeypatch):
    long = "limit " * 32
    set_stdin(monkeypatch, Chunks([f"schläft\n\n{long}\n".encode()]))
    code, out, err = run_cli("translate", folder, "--jsonl", "--n-best", 2)
    assert code == 0 and "truncated" in err
    assert out.startswith('{"text": "schläft", "translations": ["SCHLÄFT", ')
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row.pop("text") for row in rows] == ["schläft", "", long]
    names = "translations scores source_truncated at_length_limit".split()
    assert [[*row] for row in rows] == [[*names, "numbers_differ"]] * 3
    expected = (["SCHLÄFT"] * 2, [0.0, -1.0], False, False, False)
    assert tuple(rows[0].values()) == expected
    expected = ([long.upper()] * 2, [0.0, -1.0], True, True, False)
    assert tuple(rows[2].values()) == expected
    result = run_cli("translate", folder, "--jsonl", "--split-sentences")
    check_error(result, "--jsonl")


def test_translate_sentences(run_cli, monkeypatch, opened, folder):
    long = b"limit " * 31 + b"limit.\n"
    set_stdin(monkeypatch, Chunks([b"Ab. Cd\n\n1.\n", long, b"- d\n"]))
    code, out, err = run_cli("translate", folder, "--split-sentences")
    assert (code, out) == (
        0,
        "AB. CD\n\n1.\n" + long.decode().upper() + "- D\n",
    )
    assert "truncated" in err and "--split-sentences" not in err
    flags = ("--split-sentences", "--prefix", "Die")
    result = run_cli("translate", folder, *flags)
    check_error(result, "--prefix")


def test_a_line_without_a_language(run_cli, opened, folder, monkeypatch):
    """Each line is a text of its own, counted over all that were read."""

    def check(translator, texts, first=1):
        for number, text in enumerate(texts, first):
            if not text.startswith(">>"):
                raise kt.InputError(f"no target language in text {number}")

    monkeypatch.setattr(FakeTranslator, "check_languages", check)
    for flags in ((), ("--split-sentences",)):
        chunks = [b">>deu<< a\n", b">>deu<< Ab. Cd.\nef\n"]
        set_stdin(monkeypatch, Chunks(chunks))
        result = run_cli("translate", folder, *flags)
        check_error(result, "no target language in text 3")


def test_translate_passes_its_flags_on(run_cli, monkeypatch, opened, folder):
    set_stdin(monkeypatch, Chunks([b"a\n", b"b\n"]))
    other = write_run(folder.parent / "other")
    flags = "--checkpoint 1 --beam-size 3 --n-best 2 --dtype bfloat16"
    flags += " --target-language fra --prefix Die_"
    code, out, _ = run_cli("translate", folder, other, *flags.split())
    assert (code, out.splitlines()) == (
        0,
        [
            *("1\t-0.0000\tDie_A", "1\t-1.0000\tDie_A"),
            *("2\t-0.0000\tDie_B", "2\t-1.0000\tDie_B"),
        ],
    )
    ((paths, options, _),) = opened
    assert paths == [folder, other]
    assert options == dict(
        checkpoint="1",
        dtype="bfloat16",
        num_translations=2,
        search=BeamSearch(3),
        target_language="fra",
        tag=None,
        task=None,
        shortlist=True,
    )


# === score ===


def test_score_needs_two_columns(
    run_cli, monkeypatch, opened, folder, tmp_path
):
    text = b"a\tb\na\n"
    set_stdin(monkeypatch, Chunks([b"x\ty\n", text]))
    result = run_cli("score", folder)
    check_error(result, "line 3")
    assert result.out.count("\n") == 1
    (tmp_path / "pairs").write_bytes(text)
    result = run_cli("score", folder, "--input", tmp_path / "pairs")
    check_error(result, "line 2")
    assert result.out == ""


def test_a_server_scores(run_cli):
    check_error(run_cli("score", "grpc://a/b/c"), "A served model")


def test_pairs_without_a_score_have_empty_lines(run_cli, tmp_path, trained):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a\tb\na\t" + "ab" * 100 + "\n\t\na\tb\n")
    result = run_cli("score", trained.run, "--input", pairs)
    first, long, empty, last = result.out.splitlines()
    assert long == empty == "\t" and first[:6] == last[:6] < "0"
    assert result.code == 0 and ": 2\n" in result.err
