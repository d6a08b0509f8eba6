import json
import random
import signal
import subprocess
import time

import digits
import numpy as np
import pytest
from forked import BACKEND, Forked, train_on_two_replicas
from helpers import TENSORFLOW_ONLY, free_ports
from states import read_state

from keras_transformer.cli import main
from keras_transformer.runs.run_folder import Run
from keras_transformer.train.callbacks import read_log
from keras_transformer.train.state import read_step

pytestmark = pytest.mark.slow

STEPS = 12
KILLS = 1
FLAGS = {
    **{"source": "en", "target": "de", "preset": "tiny", "vocab-size": 300},
    **{"num-layers": 1, "d-model": 16, "d-ff": 16, "num-heads": 2},
    **{"max-length": 24, "batch-tokens": 256, "steps-per-epoch": 4},
    "deterministic": True,
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data").mkdir()
    digits.write(tmp_path / "data")
    return tmp_path


def words_of(folder, run, *flags, **values):
    """Returns a command. Without values it must resume the run."""
    if values:
        file = folder / f"flags-{values.get('steps')}.yaml"
        values = {x.replace("_", "-"): y for x, y in values.items()}
        file.write_text(json.dumps({**FLAGS, **values}))
        flags = "--config", file, *flags
    return [str(word) for word in ("train", *flags, "--output", run)]


def test_kills_at_random_moments_change_nothing(folder):
    """Not a bit of weights, state, validation or data.

    Two corpora with weights, parts of batches, bfloat16, two replicas (of
    TensorFlow, or devices of JAX) and early stopping.
    """
    whole, killed = folder / "whole", folder / "killed"
    data = str(folder / "data")
    values = dict(
        corpora=[{"data": data, "weight": weight} for weight in (0.5, 2)],
        steps=400,
        scored_sentences=5,
        warmup_steps=20,
        learning_rate_scale=4.0,
        patience=1,
        gradient_accumulation_steps=2 if BACKEND == "tensorflow" else 1,
        dtype="mixed_bfloat16",
    )

    def start(run, **values):
        words = words_of(folder, run, **values)
        output = folder / "printed"
        return Forked(train_on_two_replicas, words, output=output)

    begin = time.monotonic()
    process = start(whole, **values)
    assert process.wait() == 0, process.printed()
    assert "early stopping" in process.printed()
    seconds, kills = time.monotonic() - begin, []
    while process.poll() != 0 or not kills:
        # A run that exists is resumed with its arguments or without.
        is_alone = killed.exists() and len(kills) % 2
        process = start(killed, **{} if is_alone else values)
        number = random.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        kills.append((random.uniform(0, seconds), number))
        try:
            process.wait(300 if len(kills) > KILLS else kills[-1][0])
        except subprocess.TimeoutExpired:
            process.send_signal(number)
            process.wait()
        else:
            assert process.poll() == 0, process.printed()
    expected = read_run(whole)
    np.testing.assert_equal(read_run(killed), expected, str(kills))
    assert expected["state"][0] < values["steps"]
    assert not list(folder.rglob(".partial*"))


def read_run(path):
    """Returns everything that an interruption of an epoch must not change."""
    run, log = Run.open(path), read_log(path / "log.csv")
    kept = "step", "learning_rate", "val_loss", "val_nll", "val_score"
    weights = [run.load_model(x).get_weights() for x in run.checkpoints()]
    weights.append(run.load_model(run.best_path).get_weights())
    return dict(
        state=read_state(run),
        log=[[row[name] for name in kept] for row in log],
        names=sorted(x.name for x in path.glob("checkpoints/*")),
        weights=weights,
        data=[file.read_bytes() for file in sorted(path.glob("data/*.npy"))],
    )


def wait_for_step(process, run, step):
    while not (run / "state.npz").exists() or read_step(Run.open(run)) < step:
        assert process.poll() is None
        time.sleep(0.01)


def wait_for_text(process, text):
    while text not in process.printed():
        assert process.poll() is None, process.printed()
        time.sleep(0.01)


def start_workers(folder, run, steps=(STEPS, STEPS), count=2):
    """Starts the first of a chief and a worker."""
    first, second = (f"localhost:{port}" for port in free_ports(2))
    cluster = {"chief": [first], "worker": [second]}
    processes = []
    for job, own in list(zip(cluster, steps, strict=True))[:count]:
        task = {"type": job, "index": 0}
        words = words_of(
            *(folder, run, "--strategy", "multiworker"),
            data=[str(folder / "data")],
            steps=own,
            scored_sentences=0,
        )
        processes.append(
            Forked(
                *(main, words),
                output=folder / f"printed-{job}",
                TF_CONFIG=json.dumps({"cluster": cluster, "task": task}),
                TF_CPP_MIN_LOG_LEVEL="3",
            )
        )
    return processes


@TENSORFLOW_ONLY
def test_two_workers_are_resumed_after_one_was_killed(folder):
    """The chief exits at once, with code 1, so that it can be restarted."""
    whole, killed = folder / "whole", folder / "killed"
    processes = start_workers(folder, whole)
    codes = [process.wait() for process in processes]
    printed = [process.printed() for process in processes]
    assert codes == [0, 0], printed
    assert "worker 0 of 2" in printed[0] and "worker 1 of 2" in printed[1]
    assert "The run is in" in printed[0] and "The run is in" not in printed[1]

    chief, other = start_workers(folder, killed)
    wait_for_step(chief, killed, 4)
    other.send_signal(signal.SIGKILL)
    other.wait()
    wait_for_text(chief, "Traceback")
    begin = time.monotonic()
    assert chief.wait(60) == 1
    assert time.monotonic() - begin < 5
    assert 4 <= read_step(Run.open(killed)) < STEPS
    for process in start_workers(folder, killed):
        assert process.wait() == 0, process.printed()
    states = [read_state(Run.open(path)) for path in (killed, whole)]
    np.testing.assert_equal(*states)
    assert states[0][0] == STEPS


@TENSORFLOW_ONLY
def test_ctrl_c_while_waiting_for_a_worker(folder):
    (chief,) = start_workers(folder, folder / "run", count=1)
    wait_for_text(chief, "waiting for localhost:")
    chief.send_signal(signal.SIGINT)
    assert chief.wait(60) == -signal.SIGINT
