import json
import subprocess
import sys

import numpy as np
import pytest

from keras_transformer import Tokenizer, Transformer, TransformerConfig
from keras_transformer.errors import InputError
from keras_transformer.files import atomic_write
from keras_transformer.run import step_of
from keras_transformer.train.averaging import average
from keras_transformer.train.run import (
    TrainingRun,
    check_is_free,
    write_json,
)


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(["the cat sleeps", "die Katze schläft"], 280)


@pytest.fixture
def model(tokenizer):
    config = TransformerConfig.from_preset(
        "tiny", vocab_size=tokenizer.vocab_size, d_model=16, d_ff=16
    )
    return Transformer(config)


@pytest.fixture
def run(tmp_path, model, tokenizer):
    return TrainingRun.create(
        tmp_path / "run", model.config, {"seed": 3}, tokenizer
    )


def test_open_reads_what_create_wrote(run):
    opened = TrainingRun.open(run.path)
    assert opened.config == run.config
    assert opened.recipe == {"seed": 3}
    assert opened.tokenizer.model == run.tokenizer.model
    assert opened.step == 0


def test_a_checkpoint_brings_the_weights_back(run, model):
    run.save_checkpoint(model, 12, keep=5)
    loaded = run.load_model()
    for ours, theirs in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert run.step == 12


def test_the_newest_checkpoints_are_kept(run, model):
    for step in (9, 10, 1_000, 100):
        run.save_checkpoint(model, step, keep=2)
    names = [path.name for path in run.checkpoints()]
    assert names == [f"step-{step:08d}.weights.h5" for step in (100, 1_000)]


def test_a_checkpoint_that_fails_leaves_the_old_ones(run, model, monkeypatch):
    run.save_checkpoint(model, 1, keep=1)

    def fill_the_disk(path, overwrite):
        path.write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(model, "save_weights", fill_the_disk)
    with pytest.raises(OSError, match="No space"):
        run.save_checkpoint(model, 2, keep=1)
    files = list((run.path / "checkpoints").iterdir())
    assert [f.name for f in files] == ["step-00000001.weights.h5"]


DISK_FULL = """
import resource, sys
from keras_transformer.train.run import TrainingRun

run = TrainingRun.open(sys.argv[1])
model = run.load_model()
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
try:
    run.save_checkpoint(model, 2, keep=1)
except OSError as error:
    print("caught", error.strerror)
"""


def test_a_disk_that_is_full_ends_nothing_but_the_checkpoint(run, model):
    """For real: HDF5 would end the process by a signal."""
    path = run.save_checkpoint(model, 1, keep=1)
    assert path.stat().st_size > 40_000
    done = subprocess.run(
        [sys.executable, "-c", DISK_FULL, run.path],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, "caught File too large\n")
    assert list((run.path / "checkpoints").iterdir()) == [path]
    assert run.load_model()


def test_files_appear_whole_or_not_at_all(tmp_path):
    path = tmp_path / "values.json"
    write_json(path, {"a": [1, "\u00e4"]})
    assert json.loads(path.read_text("utf-8")) == {"a": [1, "\u00e4"]}
    for error in (OSError("No space left on device"), KeyboardInterrupt()):
        with pytest.raises(type(error)), atomic_write(path) as partial:
            partial.write_text("half")
            raise error
    with pytest.raises(OSError, match=r"File too large: '.*values.json'"):
        with atomic_write(path):
            raise OSError(27, "File too large")  # as of a write
    assert [f.name for f in tmp_path.iterdir()] == ["values.json"]
    assert json.loads(path.read_text("utf-8")) == {"a": [1, "\u00e4"]}


def test_a_run_that_cannot_be_created_can_be_later(
    tmp_path, model, tokenizer, monkeypatch
):
    def fail(*_):
        raise OSError("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("keras_transformer.train.run.write_json", fail)
        with pytest.raises(OSError, match="No space"):
            TrainingRun.create(tmp_path / "run", model.config, {}, tokenizer)
    with pytest.raises(InputError, match="config.json"):
        TrainingRun.open(tmp_path / "run")
    TrainingRun.create(tmp_path / "run", model.config, {"seed": 5}, tokenizer)
    assert TrainingRun.open(tmp_path / "run").recipe == {"seed": 5}


def test_the_folder_of_a_run_stays_the_same_one(
    tmp_path, model, tokenizer, monkeypatch
):
    """A shell that is in it stays there, and it may be a mount point."""
    before = tmp_path.stat().st_ino
    monkeypatch.chdir(tmp_path)
    TrainingRun.create(".", model.config, {}, tokenizer)
    assert tmp_path.stat().st_ino == before
    assert TrainingRun.open(".").config == model.config


def test_the_best_stays_without_a_log(run, model):
    for step, bleu in ((1, 2.0), (2, 3.0), (3, 2.5), (4, 3.0)):
        run.save_best(model, step, bleu)
    assert step_of(run.best_path) == 2


def test_checkpoints_by_name(run, model):
    run.save_checkpoint(model, 7, keep=5)
    run.save_checkpoint(model, 20, keep=5)
    names = {name: run.find_checkpoint(name).name for name in ("7", 20, None)}
    assert names == {
        "7": "step-00000007.weights.h5",
        20: "step-00000020.weights.h5",
        None: "step-00000020.weights.h5",
    }
    with pytest.raises(InputError, match="7, 20, last. Received: .*=best"):
        run.find_checkpoint("best")
    run.save_best(model, 7, 1.0)
    assert run.find_checkpoint("best") == run.best_path
    assert step_of(run.best_path) == 7
    assert run.find_checkpoint("last") == run.checkpoints()[-1]


def test_another_tokenizer_is_refused(run):
    other = Tokenizer.train(["ein anderer Text"], 270)
    other.save(run.path / "other.model")
    (run.path / "other.model").replace(run.path / "tokenizer.model")
    with pytest.raises(InputError, match="tokenizer that the run began with"):
        TrainingRun.open(run.path)


def test_no_checkpoint(run):
    with pytest.raises(InputError, match="no checkpoint"):
        run.load_model()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "must be JSON"),
        ("[]", "format=None"),
        ('{"format": 99}', "format=99"),
        ('{"format": 1}', "object model"),
    ],
)
def test_a_config_that_cannot_be_read(run, content, message):
    (run.path / "config.json").write_text(content)
    with pytest.raises(InputError, match=message):
        TrainingRun.open(run.path)


def test_an_unknown_setting_is_refused(run):
    path = run.path / "config.json"
    values = json.loads(path.read_text())
    values["model"]["depth"] = 3
    path.write_text(json.dumps(values))
    with pytest.raises(InputError, match="depth"):
        TrainingRun.open(run.path)


def test_what_is_free(tmp_path):
    check_is_free(tmp_path)  # an empty folder
    check_is_free(tmp_path / "new")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="holds something"):
        check_is_free(tmp_path)
    with pytest.raises(InputError, match="holds something"):
        check_is_free(tmp_path / "file")
    with pytest.raises(InputError, match="is a file, so"):
        check_is_free(tmp_path / "file" / "run")


@pytest.mark.parametrize("mine", ["tokenizer.model", "checkpoints/a", "a"])
def test_what_is_not_free(tmp_path, mine):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / mine).touch()
    if mine == "tokenizer.model":
        (tmp_path / "checkpoints").rmdir()
    with pytest.raises(InputError, match="holds something"):
        check_is_free(tmp_path)


def test_a_folder_that_is_read_only(tmp_path, monkeypatch):
    # Root may write anywhere, so the system's answer is replaced.
    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path)
    with pytest.raises(InputError, match=f"{tmp_path} is read-only"):
        check_is_free(tmp_path / "a" / "run")


def test_json_that_cannot_be_written_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, [1])
    with pytest.raises(TypeError):
        write_json(path, [object()])
    assert json.loads(path.read_text()) == [1]
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_average_is_the_mean_of_the_last_checkpoints(run, model, tmp_path):
    start = [weight.numpy() for weight in model.weights]
    for step, factor in ((1, 100.0), (2, 1.0), (3, 4.0)):
        model.set_weights([factor * weight for weight in start])
        run.save_checkpoint(model, step, keep=5)
    averaged = average(run, tmp_path / "averaged", last=2)
    assert averaged.step == 3
    assert averaged.recipe["averaged"] == [
        f"step-{step:08d}.weights.h5" for step in (2, 3)
    ]
    reopened = TrainingRun.open(tmp_path / "averaged").load_model()
    for ours, theirs in zip(reopened.weights, start, strict=True):
        np.testing.assert_allclose(ours, 2.5 * theirs, rtol=1e-6)


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (0, "at least 1. Received: last=0"),
        (-1, "at least 1. Received: last=-1"),
        (3, "2 checkpoints. Received: last=3"),
    ],
)
def test_average_of_more_checkpoints_than_there_are(
    run, model, tmp_path, last, message
):
    for step in (1, 2):
        run.save_checkpoint(model, step, keep=5)
    with pytest.raises(InputError, match=message):
        average(run, tmp_path / "averaged", last)
    assert not (tmp_path / "averaged").exists()


# A run of an old version does not say how many it kept.
@pytest.mark.parametrize(("recipe", "kept"), [({"keep": 3}, 3), ({}, 5)])
def test_average_of_as_many_as_were_kept(
    model, tmp_path, tokenizer, recipe, kept
):
    run = TrainingRun.create(tmp_path / "run", model.config, recipe, tokenizer)
    for step in range(7):
        run.save_checkpoint(model, step, keep=7)
    names = average(run, tmp_path / "averaged").recipe["averaged"]
    assert names == [p.name for p in run.checkpoints()[-kept:]]


def test_average_that_fails_can_be_repeated(run, model, tmp_path, monkeypatch):
    run.save_checkpoint(model, 1, keep=5)

    def fill_the_disk(*_, **__):
        raise OSError("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Transformer, "save_weights", fill_the_disk)
        with pytest.raises(OSError, match="No space"):
            average(run, tmp_path / "averaged", last=1)
    assert average(run, tmp_path / "averaged", last=1).step == 1


def test_average_that_was_killed_can_be_repeated(run, model, tmp_path):
    path = run.save_checkpoint(model, 1, keep=5)
    left = tmp_path / "averaged" / "checkpoints"
    left.mkdir(parents=True)
    run.tokenizer.save(left.parent / "tokenizer.model")
    (left / f".partial-{path.name}").write_text("half")
    assert average(run, left.parent, last=1).load_model()


@pytest.mark.parametrize("name", ["tokenizer.model", "checkpoints/a.h5"])
def test_what_is_no_remainder_of_ours_is_not_overwritten(
    run, model, tmp_path, name
):
    run.save_checkpoint(model, 1, keep=5)
    file = tmp_path / "averaged" / name
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    with pytest.raises(InputError, match="already holds something"):
        average(run, tmp_path / "averaged", last=1)
    assert file.read_text() == "mine"


def test_average_of_a_mixture_is_refused(run, model, tmp_path, tokenizer):
    other = TrainingRun.create(tmp_path / "other", model.config, {}, tokenizer)
    run.save_checkpoint(model, 1, keep=5)
    other.save_checkpoint(model, 2, keep=5).rename(
        run.path / "checkpoints" / "step-00000002.weights.h5"
    )
    with pytest.raises(InputError, match=f"run {run.id[:8]}, .*{other.id[:8]}"):
        average(run, tmp_path / "averaged", last=2)
    assert not (tmp_path / "averaged").exists()


def test_average_overwrites_nothing(run, model):
    run.save_checkpoint(model, 1, keep=5)
    with pytest.raises(InputError, match="already holds a run"):
        average(run, run.path, last=1)
