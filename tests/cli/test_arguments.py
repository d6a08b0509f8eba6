"""The words of the command line in messages, and what is checked first."""

import pytest
from commands import Chunks, check_refused, set_stdin

from keras_transformer.cli.arguments import with_flags
from keras_transformer.cli.commands import argument_parser


@pytest.mark.parametrize(
    ("words", "message", "expected"),
    [
        (
            "translate x",
            "Received: num_translations=9, beam_size=4. Use less.",
            "Received: --n-best 9, --beam-size 4. Use less.",
        ),
        (
            "average x --output y --last 9",
            "last must be 1. Received: last=9",
            "--last must be 1. Received: --last 9",
        ),
        (
            "evaluate x --split tset",
            "Received: split='tset'; source=None",
            "Received: --split 'tset'; no --source",
        ),
        (
            "translate x",
            "from 1 to beam_size, runs/beam_size, beam_size.txt",
            "from 1 to --beam-size, runs/beam_size, beam_size.txt",
        ),
        (
            "train x --output runs/d_model=512",
            "Received: runs/d_model=512, not beam_size=3",
            "Received: runs/d_model=512, not beam_size=3",
        ),
        # Neither a flag of the command nor its value.
        ("average x --output y", "alpha=2 format=1", "alpha=2 format=1"),
        (
            "export x --output y",
            "Received: format=None",
            "Received: format=None",
        ),
        ("train x --output y", "The steps must be", "The steps must be"),
    ],
)
def test_messages_have_the_names_of_flags(words, message, expected):
    options = argument_parser().parse_args(words.split())
    assert with_flags(message, options) == expected


def test_a_saved_model_translates(run_cli, saved, monkeypatch):
    def translated(*flags):
        set_stdin(monkeypatch, Chunks([b"a\nlimit\n"]))
        return run_cli("translate", saved, *flags)

    result = translated()
    assert (result.code, result.out) == (0, "A 0\nLIMIT 0\n")
    assert "line 2: perhaps incomplete" in result.err
    assert translated("--n-best", 1).out.startswith("1\t-0.0000\tA 0\n2\t")
    assert len(translated("--n-best", 3).out.splitlines()) == 6
    for flags in (["--beam-size", 2], ["--sample"]):
        check_refused(translated(*flags), "exported", *map(str, flags[:1]))
    check_refused(translated(saved), "is used alone")


def test_a_saved_model_is_evaluated(run_cli, saved):
    code, out, _ = run_cli("evaluate", saved, "--metric", "chrf")
    assert code == 0
    assert "test: 500 sentences, the search of the export, " in out
    assert out.endswith("not recorded: the results of an export\n")
    assert "chrF" in out and "perplexity        2.72  per token" in out


@pytest.mark.parametrize(
    "words",
    [
        "export EXPORT --output y",
        "plot curve EXPORT --output y.png",
        "plot trace EXPORT text",
        "average EXPORT --output y",
        "train embedded --init-from EXPORT --output y",
    ],
)
@pytest.mark.parametrize(
    "file", ["1/saved_model.pb", "saved_model.pb", "keras_transformer.json"]
)
def test_an_export_is_not_a_run(run_cli, tmp_path, words, file):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    result = run_cli(*words.replace("EXPORT", str(tmp_path)).split())
    check_refused(result, "needs a run", f"{tmp_path}, an export, which")
