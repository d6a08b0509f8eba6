"""What `train` refuses before it imports TensorFlow; see also fitting/."""

import digits
import pytest
from corpora import write_lines, write_sides

from keras_transformer.support.errors import InputError
from keras_transformer.train import trainer
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.trainer import train


@pytest.fixture(autouse=True)
def no_tensorflow(monkeypatch):
    """TensorFlow is imported after the checks."""

    def fail():
        raise AssertionError("TensorFlow is imported")

    monkeypatch.setattr(trainer, "import_tensorflow_quietly", fail)


def refuse(message, corpus, output, init_from=None, **values):
    recipe = digits.recipe(**{"scored_sentences": 0, "steps": 2, **values})
    with pytest.raises(InputError, match=message):
        train(
            corpus,
            output,
            "tiny",
            recipe,
            architecture=digits.TINY,
            init_from=init_from,
        )


def test_settings(corpus, run, tmp_path):
    refuse("batch_tokens=47", corpus, tmp_path / "new", batch_tokens=47)
    assert not (tmp_path / "new").exists()
    refuse("seed=2 instead of 1$", corpus, run.path, seed=2)
    run.state_path.unlink()
    refuse("without its state.npz", corpus, run.path)


def test_a_folder_with_other_files(corpus, tmp_path):
    (tmp_path / "file").touch()
    refuse("already contains other files", corpus, tmp_path)


def test_a_run_to_start_from(corpus, run, tmp_path):
    refuse("has a config.json", corpus, tmp_path / "new", tmp_path)
    run.find_checkpoint().unlink()
    refuse("no checkpoint yet", corpus, tmp_path / "new", run.path)


def test_texts(tmp_path, corpus, run):
    write_sides(tmp_path, "train")
    write_sides(tmp_path, "valid")
    (tmp_path / "valid.de").write_bytes(b"m\xfcde\n")
    texts = open_corpus([str(tmp_path)], "en", "de")
    refuse(r"valid\.de, line 1", texts, tmp_path / "new")
    write_lines(tmp_path / "train.de", ["one"])
    refuse("the same number of lines", texts, tmp_path / "new")
    tsv = open_corpus(write_lines(tmp_path / "a.tsv", ["no tab"]))
    refuse("line 1, without a tab", tsv, tmp_path / "new")


def test_a_run_that_is_done_needs_no_texts(corpus, run, tmp_path):
    write_lines(tmp_path / "train.en", ["a"])
    write_lines(tmp_path / "train.de", ["a", "b"])
    texts = open_corpus([str(tmp_path)], "en", "de")
    with pytest.raises(AssertionError, match="TensorFlow is imported"):
        train(
            texts,
            run.path,
            "tiny",
            digits.recipe(scored_sentences=0, steps=1),
            architecture=digits.TINY,
        )
