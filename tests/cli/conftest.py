import pytest
from commands import ENGLISH, GERMAN, SMALL, write_corpus

from keras_transformer import cli


@pytest.fixture
def run_cli(capsys):
    """Runs a command; returns its exit code, its output and its errors."""

    def run(*arguments):
        code = cli.main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of two steps, and the folder of its corpus."""
    folder = tmp_path_factory.mktemp("cli")
    data = write_corpus(
        folder / "data",
        # An empty line, a word, and a line far longer than max_length.
        train_en=ENGLISH + "\nyes\n" + "a" * 100_000 + "\n",
        train_de=GERMAN + "\nja\n" + "b" * 100_000 + "\n",
        valid_en=ENGLISH,
        valid_de=GERMAN,
        test_en="the cat sleeps\n\n" + "a" * 100_000 + "\n",
        test_de="die Katze schläft\n\nb\n",
    )
    arguments = ["train", "--data", data, "--output", folder / "run", *SMALL]
    assert cli.main([str(a) for a in arguments]) == 0
    return folder / "run", data
