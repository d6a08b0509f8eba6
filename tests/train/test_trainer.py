import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf
from digits import TINY, recipe

from keras_transformer.distributed_fit import Training
from keras_transformer.errors import InputError
from keras_transformer.run import step_of
from keras_transformer.train import callbacks, state
from keras_transformer.train.callbacks import Steps, read_log
from keras_transformer.train.data import pipeline
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.run import TrainingRun, write_json
from keras_transformer.train.state import load
from keras_transformer.train.strategy import open_strategy
from keras_transformer.train.trainer import train


def weights(run):
    return load(run.state_path).variables


def test_training_learns_and_the_seed_decides(corpus, tmp_path):
    runs = [
        train(
            corpus,
            tmp_path / name,
            "tiny",
            recipe(steps=40, steps_per_epoch=20, seed=seed),
        )
        for name, seed in (("a", 1), ("b", 1), ("c", 2))
    ]
    logs = [read_log(run.path / "log.csv") for run in runs]
    assert [row["step"] for row in logs[0]] == [20, 40]
    assert logs[0][1]["val_nll"] < logs[0][0]["val_nll"] < 5
    assert logs[0][1]["val_perplexity"] == pytest.approx(
        np.exp(logs[0][1]["val_nll"]), rel=1e-3
    )
    a, b, c = (log[1]["nll"] for log in logs)
    assert a == pytest.approx(b, rel=1e-3)  # threads add in any order
    assert a != pytest.approx(c, rel=1e-3)


def test_steps_need_not_fill_the_last_epoch(corpus, tmp_path):
    run = train(
        corpus,
        tmp_path / "run",
        "tiny",
        recipe(steps=5, steps_per_epoch=3),
        architecture=TINY,
    )
    assert run.step == 5
    assert run.config.d_model == 16


class Stop(Exception):
    """What happens to a training at some moment."""


@pytest.mark.parametrize(
    ("place", "step", "strategy", "how"),
    [
        ((Steps, "on_train_batch_end"), 1, "single", {}),
        ((Steps, "on_train_batch_end"), 13, "single", {}),
        ((TrainingRun, "save_checkpoint"), 10, "single", {}),
        ((state, "save"), 15, "single", {}),  # the first is of step 0
        (
            (Steps, "on_train_batch_end"),
            13,
            "mirrored",
            dict(accumulate=2, clip_norm=0.5),
        ),
        (
            (Steps, "on_train_batch_end"),
            13,
            "mirrored",
            dict(dtype="mixed_float16"),
        ),
        (
            (Steps, "on_train_batch_end"),
            13,
            "single",
            dict(dtype="mixed_bfloat16"),
        ),
    ],
)
def test_what_was_stopped_ends_as_if_it_had_not_been(
    corpus, tmp_path, monkeypatch, place, step, strategy, how
):
    """Before a checkpoint, between two, and before and after one's weights."""
    settings = recipe(steps=20, steps_per_epoch=5, deterministic=True, **how)

    def once(name):
        return train(
            corpus,
            tmp_path / name,
            "tiny",
            settings,
            architecture=TINY,
            strategy=opened,
        )

    opened = open_strategy(strategy)
    replicas = {"single": 1, "mirrored": 2}[strategy]
    assert opened.num_replicas_in_sync == replicas
    whole = once("whole")
    calls = 0
    happens = getattr(*place)

    def stop(*args, **kwargs):
        nonlocal calls
        calls += 1 if place[0] is Steps else settings.steps_per_epoch
        if calls == step:
            raise Stop
        return happens(*args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(*place, stop)
        with pytest.raises(Stop):
            once("stopped")
    resumed = once("stopped")
    assert resumed.step == 20
    runs = (whole, resumed)
    for found, expected in zip(weights(resumed), weights(whole), strict=True):
        np.testing.assert_array_equal(found, expected)
    best = [run.best_path.exists() and step_of(run.best_path) for run in runs]
    assert best[0] == best[1]
    kept = ("step", "loss", "val_nll", "val_bleu", "learning_rate")
    rows = [
        [[row[k] for k in kept] for row in read_log(run.path / "log.csv")]
        for run in runs
    ]
    assert rows[0] == rows[1]


def test_more_steps_go_on_from_the_last(corpus, tmp_path):
    settings = dict(steps_per_epoch=4, deterministic=True)
    long = train(
        corpus,
        tmp_path / "a",
        "tiny",
        recipe(steps=8, **settings),
        architecture=TINY,
    )
    for steps in (4, 8):
        short = train(
            corpus,
            tmp_path / "b",
            "tiny",
            recipe(steps=steps, **settings),
            architecture=TINY,
        )
    for found, expected in zip(weights(short), weights(long), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert TrainingRun.open(short.path).recipe["steps"] == 8


def test_two_models_one_after_the_other_on_two_replicas(corpus, tmp_path):
    for width in (16, 32):
        run = train(
            corpus,
            tmp_path / str(width),
            "tiny",
            recipe(steps=1, bleu_sentences=0),
            architecture={**TINY, "d_model": width},
            strategy=open_strategy("mirrored"),
        )
        assert run.step == 1


def test_the_state_does_not_stay_in_memory(corpus, tmp_path, monkeypatch):
    begun = []
    monkeypatch.setattr(
        "keras_transformer.train.trainer._fit",
        lambda *arguments: begun.append(arguments[-1]),
    )
    run = train(corpus, tmp_path / "run", "tiny", recipe(), architecture=TINY)
    assert load(run.state_path).variables
    assert (begun[0].step, begun[0].variables) == (0, [])


def test_a_run_of_several_workers_goes_on_with_as_many(corpus, tmp_path):
    def once(steps):
        return train(
            corpus,
            tmp_path / "run",
            "tiny",
            recipe(steps=steps, bleu_sentences=0),
            architecture=TINY,
        )

    run = once(1)
    write_json(
        run.path / "config.json",
        {
            **json.loads((run.path / "config.json").read_text()),
            "survey": {**run.survey, "workers": 2},
        },
    )
    with pytest.raises(InputError, match="begun with 2 workers.*Received: 1"):
        once(2)


def test_a_full_disk_leaves_the_last_state(
    corpus, tmp_path, monkeypatch, capsys
):
    settings = recipe(steps=6, steps_per_epoch=3)

    def fill(file, **arrays):
        if int(load_steps(arrays)) == 6:
            file.write(b"half")
            raise OSError(28, "No space left on device")
        return savez(file, **arrays)

    def load_steps(arrays):
        return json.loads(arrays["about"])["step"]

    savez = np.savez
    monkeypatch.setattr(np, "savez", fill)
    with pytest.raises(OSError, match="No space left"):
        train(corpus, tmp_path / "run", "tiny", settings, architecture=TINY)
    assert "stopped at step 6; the same command" in capsys.readouterr().out
    run = TrainingRun.open(tmp_path / "run")
    assert load(run.state_path).step == 3
    assert not list(run.path.glob(".partial*"))


def test_checkpoints_that_were_removed(corpus, tmp_path):
    arguments = (corpus, tmp_path / "run", "tiny")
    run = train(*arguments, recipe(steps=1), architecture=TINY)
    shutil.rmtree(run.path / "checkpoints")
    assert train(*arguments, recipe(steps=2), architecture=TINY).step == 2


def test_validation_takes_no_more_memory_than_a_part(
    corpus, tmp_path, monkeypatch
):
    sizes = []
    real = pipeline.evaluation_batches

    def spy(*args, **values):
        sizes.append(values["batch_tokens"])
        return real(*args, **values)

    monkeypatch.setattr(pipeline, "evaluation_batches", spy)
    for accumulate, name in ((4, "four"), (20, "twenty")):
        settings = recipe(steps=1, accumulate=accumulate, bleu_sentences=0)
        train(corpus, tmp_path / name, "tiny", settings, architecture=TINY)
    assert sizes == [128, 48]  # at least a pair of max_length, 24


def test_a_language_without_validation_needs_no_package(tmp_path):
    """sacreBLEU splits Japanese with a package of its own."""
    for code in ("en", "ja"):
        lines = [f"{code} number {i}\n" for i in range(60)]
        (tmp_path / f"train.{code}").write_text("".join(lines))
    corpus = open_corpus([str(tmp_path)], "en", "ja")
    assert train(
        corpus, tmp_path / "run", "tiny", recipe(steps=1), architecture=TINY
    )


def test_patience_ends_training(corpus, tmp_path, capsys):
    settings = recipe(
        steps=50, steps_per_epoch=2, patience=2, learning_rate_scale=1e-12
    )
    arguments = (corpus, tmp_path / "run", "tiny", settings)
    run = train(*arguments, architecture=TINY)
    # The loss does not move: the first epoch is the best.
    assert run.step == 6
    told = "training: no better loss for 2 epochs"
    assert told in capsys.readouterr().out
    # And it does not go on when it is started again.
    assert train(*arguments, architecture=TINY).step == 6
    assert told in capsys.readouterr().out


def test_the_best_checkpoint_is_that_of_the_best_bleu(
    corpus, tmp_path, monkeypatch
):
    scores = iter([1.0, 3.0, 2.0])
    monkeypatch.setattr(
        callbacks, "corpus_scores", lambda *_, **__: {"bleu": next(scores)}
    )
    run = train(
        corpus,
        tmp_path / "run",
        "tiny",
        recipe(steps=6, steps_per_epoch=2),
        architecture=TINY,
    )
    rows = read_log(run.path / "log.csv")
    assert [row["val_bleu"] for row in rows] == [1, 3, 2]
    assert step_of(run.best_path) == 4
    expected = run.load_model(run.find_checkpoint(4))
    found = run.load_model(run.find_checkpoint("best"))
    for ours, theirs in zip(found.weights, expected.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_tensorboard_shows_the_log(corpus, tmp_path):
    run = train(
        corpus,
        tmp_path / "run",
        "tiny",
        recipe(steps=2, steps_per_epoch=2, tensorboard=True),
        architecture=TINY,
    )
    from tensorboard.backend.event_processing import event_accumulator

    events = event_accumulator.EventAccumulator(str(run.path / "tensorboard"))
    events.Reload()
    (row,) = read_log(run.path / "log.csv")
    for name, value in row.items():
        if name != "step":
            (event,) = events.Tensors(name)
            assert event.step == 2
            found = tf.make_ndarray(event.tensor_proto)
            assert found == pytest.approx(value, rel=1e-5)
    (sample,) = events.Tensors("sample_1")
    source = next(corpus.pairs("valid").as_numpy_iterator())[0]
    assert source in sample.tensor_proto.string_val[0]


def test_a_loss_that_is_no_number(corpus, tmp_path):
    with pytest.raises(InputError, match="The loss became nan at step"):
        train(
            corpus,
            tmp_path / "run",
            "tiny",
            recipe(steps=9, warmup_steps=1, learning_rate_scale=1e30),
            architecture=TINY,
        )


def test_a_validation_loss_that_is_no_number(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(
        Training, "validate", lambda *_: {"val_loss": np.nan, "val_nll": 1.0}
    )
    with pytest.raises(InputError, match="validation loss became nan at step"):
        train(corpus, tmp_path / "run", "tiny", recipe(steps=2))
    assert not TrainingRun.open(tmp_path / "run").checkpoints()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (dict(patience=1), "patience=1, splits train$"),
        (dict(batch_tokens=47), "batch_tokens=47, max_length=24"),
    ],
)
def test_what_would_fail_late_fails_at_once(corpus, tmp_path, values, message):
    files = [str(tmp_path / f"train.{code}") for code in ("en", "de")]
    for name in files:
        pathlib.Path(name).write_text("a\n")
    alone = open_corpus(files, "en", "de")
    with pytest.raises(InputError, match=message):
        train(alone, tmp_path / "run", "tiny", recipe(**values))
    assert not (tmp_path / "run").exists()


def test_init_from_a_run_without_a_checkpoint(corpus, tmp_path):
    past = train(
        corpus, tmp_path / "a", "tiny", recipe(steps=1), architecture=TINY
    )
    past.find_checkpoint().unlink()
    with pytest.raises(InputError, match="a has no checkpoint"):
        train(
            corpus,
            tmp_path / "run",
            "tiny",
            recipe(steps=1),
            architecture=TINY,
            init_from=past.path,
        )
    assert not (tmp_path / "run").exists()


def test_init_from_still_needs_training_data(corpus, tmp_path):
    train(corpus, tmp_path / "a", "tiny", recipe(steps=1), architecture=TINY)
    for code in ("en", "de"):
        (tmp_path / f"valid.{code}").write_text("a\n")
    with pytest.raises(InputError, match="needs a split train.*valid$"):
        train(
            open_corpus([str(tmp_path)], "en", "de"),
            tmp_path / "run",
            "tiny",
            recipe(steps=1),
            architecture=TINY,
            init_from=tmp_path / "a",
        )
    assert not (tmp_path / "run").exists()
