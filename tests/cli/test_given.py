"""The words of the command line in messages, and what is checked first."""

import pytest
from commands import check_refused

from keras_transformer.cli.commands import argument_parser
from keras_transformer.cli.given import with_flags


@pytest.mark.parametrize(
    ("words", "message", "expected"),
    [
        (
            "translate x",
            "Received: num_translations=9, beam_size=4. Use less.",
            "Received: --n-best 9, --beam-size 4. Use less.",
        ),
        (
            "average x --output y --last 0",
            "last must be 1. Received: last=0",
            "--last must be 1. Received: --last 0",
        ),
        (
            "evaluate x --split tset",
            "Received: split='tset'; source=None",
            "Received: --split 'tset'; no --source",
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


def test_a_saved_model_is_not_a_run(run_cli, tmp_path):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").touch()
    for path in (tmp_path, tmp_path / "1"):
        result = run_cli("export", path, "--output", "y")
        check_refused(result, f"{path}, which is a SavedModel")
