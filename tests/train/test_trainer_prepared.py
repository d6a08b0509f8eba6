"""Training on a prepared corpus."""

import digits
import numpy as np
import pytest
from digits import TINY

from keras_transformer.support.errors import InputError
from keras_transformer.train import trainer
from keras_transformer.train.callbacks import StepCounter
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.data.prepared_stream import PreparedStream
from keras_transformer.train.log import read_log
from keras_transformer.train.preparation import prepare
from keras_transformer.train.recipe import Recipe
from keras_transformer.train.resume import Job, open_run
from keras_transformer.train.state import State, load_state
from keras_transformer.train.strategy import open_strategy


@pytest.fixture(scope="module")
def prepared(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits") / "prepared"
    prepare(corpus, folder, vocab_size=300, max_length=24)
    return open_corpus(str(folder))


def train(corpus, path, **values):
    recipe = digits.recipe(**{"scored_sentences": 0, **values})
    return trainer.train(corpus, path, "tiny", recipe, architecture=TINY)


def open_and_close(corpus, output, init_from=None, workers=1, **values):
    recipe = digits.recipe(**values)
    job = Job(corpus, output, "tiny", recipe, TINY, init_from, workers)
    with open_run(job) as run:
        return run


def test_the_batches_of_training_and_their_position(prepared, tmp_path):
    job = Job(prepared, tmp_path, "tiny", digits.recipe(), TINY, None, 1)
    resumed = State(5, np.array([[1, 3]]), [], [])
    counter = StepCounter(5, 100)
    data = trainer._TrainingData(
        job,
        prepared.prepared.tokenizer,
        open_strategy("single"),
        counter,
        resumed,
    )
    stream = PreparedStream(
        prepared.prepared, batch_tokens=512, seed=1, start=(1, 3)
    )
    pairs = zip(data.batches().take(4), stream.dataset, strict=False)
    for (_, ours), (_, expected) in pairs:
        np.testing.assert_array_equal(ours, expected)
    counter.step = 8
    assert data.gather_positions().tolist() == [[1, 6]]


@pytest.mark.slow
def test_training_that_was_interrupted_ends_as_if_it_had_not_been(
    prepared, tmp_path, monkeypatch
):
    """In the middle of the second pass, whose batches are not read again."""
    starts = []

    class Stream(PreparedStream):
        def __init__(self, *arguments, start, **values):
            starts.append(start)
            super().__init__(*arguments, start=start, **values)

    monkeypatch.setattr(trainer, "PreparedStream", Stream)
    settings = dict(batch_tokens=2_048, steps_per_epoch=4)
    whole = train(prepared, tmp_path / "whole", steps=12, **settings)
    stopped = tmp_path / "stopped"
    assert train(prepared, stopped, steps=8, **settings).step == 8
    resumed = train(prepared, stopped, steps=12, **settings)
    assert resumed.step == 12
    *first, (number, batches) = starts
    assert first == [(0, 0), (0, 0)]
    assert number == 1 and batches > 0
    ours, theirs = (
        load_state(run.state_path, run.id) for run in (resumed, whole)
    )
    for mine, expected in zip(ours.variables, theirs.variables, strict=True):
        np.testing.assert_array_equal(mine, expected)
    assert ours.position.tolist() == theirs.position.tolist()
    rows = [read_log(run.log_path)[-1] for run in (resumed, whole)]
    assert rows[0]["val_loss"] == rows[1]["val_loss"]


def test_a_new_run_reports_its_data(prepared, corpus, tmp_path, capsys):
    run = open_and_close(prepared, tmp_path / "run", steps=2)
    lines = capsys.readouterr().out.splitlines()
    texts = open_and_close(corpus, tmp_path / "texts", steps=2)
    expected = capsys.readouterr().out.splitlines()
    assert lines[0] == f"train: 360 pairs in {prepared.name}"
    assert f"tokenizer: 300 tokens, from {prepared.name}" in lines
    assert lines[-3:] == expected[-3:]
    assert run.tokenizer.model == texts.tokenizer.model
    sums = [r.statistics.pop("checksums") for r in (run, texts)]
    assert run.statistics == texts.statistics
    # Valid is the same; the order of train is another.
    assert sums[0]["valid"] == sums[1]["valid"]
    assert sums[0]["train"] != sums[1]["train"]


def test_order_does_not_matter(prepared, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        type(prepared.prepared.statistics), "order_warning", lambda _: "sorted"
    )
    open_and_close(prepared, tmp_path / "run")
    assert "sorted" not in capsys.readouterr().out


def test_a_run_is_resumed_on_the_same_kind_of_data(
    prepared, corpus, tmp_path, capsys
):
    run = open_and_close(prepared, tmp_path / "run")
    moved = tmp_path / "moved"
    moved.symlink_to(prepared.name)
    assert open_and_close(open_corpus(str(moved)), run.path).id == run.id
    with pytest.raises(InputError, match="other data.*train="):
        open_and_close(corpus, run.path)


def test_init_from_needs_the_same_tokenizer(prepared, run, tmp_path):
    assert run.tokenizer.model == prepared.prepared.tokenizer.model
    open_and_close(prepared, tmp_path / "same", run.path)
    other = prepare_with_vocabulary(290, tmp_path)
    with pytest.raises(InputError, match="another tokenizer .* --init-from"):
        open_and_close(other, tmp_path / "other", run.path, vocab_size=290)


def prepare_with_vocabulary(size, folder):
    digits.write(folder)
    texts = open_corpus([str(folder)], "en", "de")
    return open_corpus(str(prepare(texts, folder / "p", size, 24).path))


def test_the_recipe_must_agree(prepared, tmp_path):
    with pytest.raises(InputError, match="vocab_size=300, max_length=23$"):
        train(prepared, tmp_path / "run", max_length=23)
    assert not (tmp_path / "run").exists()


def test_the_default_recipe_agrees(prepared, tmp_path, monkeypatch):
    jobs = []
    monkeypatch.setattr(trainer, "_check", jobs.append)
    monkeypatch.setattr(trainer, "open_run", lambda job: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        trainer.train(prepared, tmp_path / "run", "tiny")
    assert jobs[0].recipe == Recipe.from_preset(
        "tiny", vocab_size=300, max_length=24
    )


def test_several_workers_share_the_checksum(prepared, tmp_path):
    sums = [
        Job(
            prepared, tmp_path, "tiny", digits.recipe(), TINY, None, workers
        ).checksums()["train"]
        for workers in (1, 2)
    ]
    assert sums == [prepared.prepared.checksum] * 2
