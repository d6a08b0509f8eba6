"""Training in processes that are killed, and resumed."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import digits
import numpy as np
import pytest
from helpers import free_ports
from states import read_state

from keras_transformer.inference.run_folder import Run
from keras_transformer.train.training_log import read_log

STEPS = 12


def command(folder, *flags, steps=STEPS):
    arguments = (
        f"train {folder / 'data'} --source en --target de "
        "--preset tiny --vocab-size 300 --num-layers 1 --d-model 16 --d-ff 16 "
        "--num-heads 2 --max-length 24 --batch-tokens 256 "
        f"--steps {steps} --steps-per-epoch 4 --scored-sentences 0 "
        "--deterministic"
    )
    program = [sys.executable, "-m", "keras_transformer"]
    return [*program, *arguments.split(), *flags, "--output"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data").mkdir()
    digits.write(tmp_path / "data")
    return tmp_path


def load_step(run):
    return read_state(Run.open(run))["step"]


# Two replicas on one processor.
PROGRAM = """
import sys
import tensorflow as tf

replicas = [tf.config.LogicalDeviceConfiguration()] * 2
(cpu,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu, replicas)
from keras_transformer.cli import main

sys.exit(main())
"""
KILLS = 4
FLAGS = {
    "source": "en",
    "target": "de",
    "preset": "tiny",
    "vocab-size": 300,
    "num-layers": 1,
    "d-model": 16,
    "d-ff": 16,
    "num-heads": 2,
    "max-length": 24,
    "batch-tokens": 256,
    "steps": 400,
    "steps-per-epoch": 4,
    "scored-sentences": 5,
    "warmup-steps": 20,
    "learning-rate-scale": 4.0,
    "patience": 3,
    "gradient-accumulation-steps": 2,
    "dtype": "mixed_bfloat16",
    "deterministic": True,
}


def start_on_two_replicas(run, *flags):
    flags = ["--strategy", "mirrored", *flags, "--output", run]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "train", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # A test program in the background ignores SIGINT, as do its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.slow
def test_kills_at_random_moments_change_nothing(folder):
    """Not a bit of weights, state, validation or data.

    Two corpora with weights, parts of batches, bfloat16, two replicas and
    early stopping.
    """
    whole, killed = folder / "whole", folder / "killed"
    entries = [{"data": str(folder / "data"), "weight": w} for w in (0.5, 2)]
    file = folder / "flags.yaml"
    file.write_text(json.dumps({**FLAGS, "corpora": entries}))
    first = "--config", file
    begin = time.monotonic()
    process = start_on_two_replicas(whole, *first)
    printed, _ = process.communicate()
    assert process.returncode == 0, printed
    assert "early stopping" in printed
    seconds, kills = time.monotonic() - begin, []
    while process.returncode != 0 or not kills:
        # A run that exists is resumed with its flags or without.
        is_alone = killed.exists() and len(kills) % 2
        flags = [] if is_alone else first
        process = start_on_two_replicas(killed, *flags)
        number = random.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        kills.append((random.uniform(0, seconds), number))
        try:
            limit = None if len(kills) > KILLS else kills[-1][0]
            printed, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
            process.communicate()
        else:
            assert process.returncode == 0, printed
    expected = read_run(whole)
    np.testing.assert_equal(read_run(killed), expected, str(kills))
    assert expected["state"]["step"] < FLAGS["steps"]
    assert not list(folder.rglob(".partial*"))


def read_run(path):
    """Returns what does not depend on where an epoch was interrupted."""
    run, log = Run.open(path), read_log(path / "log.csv")
    kept = "step", "learning_rate", "val_loss", "val_nll", "val_score"
    log = [[row[name] for name in kept] for row in log]
    names = sorted(x.name for x in path.glob("checkpoints/*"))
    weights = [run.load_model(x).get_weights() for x in run.checkpoints()]
    weights.append(run.load_model(run.best_path).get_weights())
    data = [path.read_bytes() for path in sorted(run.path.glob("data/*.npy"))]
    state = read_state(run)
    return dict(state=state, log=log, names=names, weights=weights, data=data)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)]
)
def test_a_signal_saves_and_exits(folder, number, code):
    run = folder / "run"
    process = subprocess.Popen(
        [*command(folder, steps=100_000), run],
        stdout=subprocess.PIPE,
        text=True,
        # A test program in the background ignores SIGINT, as do its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not (run / "checkpoints" / "step-00000008.weights.h5").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == code
    step = load_step(run)
    assert step >= 8
    assert (
        f"training: stopped at step {step:,}; the same command resumes after "
        f"step {step:,}\n" in printed
    )


def start_two(
    folder, run, steps_of_other=STEPS, jobs=("worker", "worker"), steps=STEPS
):
    """Starts two workers; returns them, the chief first."""
    cluster, tasks = {}, []
    for job, port in zip(jobs, free_ports(2), strict=True):
        tasks.append({"type": job, "index": len(cluster.get(job, ()))})
        cluster.setdefault(job, []).append(f"localhost:{port}")
    processes = []
    for task, own in zip(tasks, (steps, steps_of_other), strict=True):
        config = json.dumps({"cluster": cluster, "task": task})
        processes.append(
            subprocess.Popen(
                [
                    *command(folder, "--strategy", "multiworker", steps=own),
                    run,
                ],
                env={
                    **os.environ,
                    "TF_CPP_MIN_LOG_LEVEL": "3",
                    "TF_CONFIG": config,
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    return processes


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [("worker", "worker"), ("chief", "worker")])
def test_two_workers_that_were_killed_are_resumed(folder, jobs):
    whole, killed = folder / "whole", folder / "killed"
    chief, other = start_two(folder, whole, jobs=jobs)
    printed = [
        process.communicate(timeout=300)[0] for process in (chief, other)
    ]
    assert (chief.returncode, other.returncode) == (0, 0), printed
    assert "worker 0 of 2" in printed[0] and "worker 1 of 2" in printed[1]
    assert "The run is in" in printed[0] and "The run is in" not in printed[1]

    processes = start_two(folder, killed, jobs=jobs)
    state = killed / "state.npz"
    while not state.exists() or load_step(killed) < 4:
        assert processes[0].poll() is None, processes[0].communicate()[0]
        time.sleep(0.01)
    for process in processes:
        process.kill()
        process.communicate()
    assert 4 <= load_step(killed) < STEPS
    for process in start_two(folder, killed, jobs=jobs):
        text = process.communicate(timeout=300)[0]
        assert process.returncode == 0, text
    states = [read_state(Run.open(path)) for path in (killed, whole)]
    np.testing.assert_equal(*states)
    assert states[0]["step"] == STEPS


@pytest.mark.slow
def test_the_chief_exits_when_a_worker_was_killed(folder):
    """At once, with a code of its own, so that it can be restarted."""
    run = folder / "run"
    chief, other = start_two(folder, run, 100_000, steps=100_000)
    while not (run / "state.npz").exists() or load_step(run) < 4:
        assert chief.poll() is None, chief.communicate()[0]
        time.sleep(0.01)
    other.kill()
    other.communicate()
    for line in chief.stdout:
        if line.startswith("Traceback"):
            break
    start = time.monotonic()
    chief.communicate(timeout=60)
    assert chief.returncode == 1
    assert time.monotonic() - start < 5


@pytest.mark.slow
def test_ctrl_c_while_waiting_for_a_worker(folder):
    chief, other = start_two(folder, folder / "run")
    other.kill()
    other.communicate()
    assert "waiting for localhost:" in chief.stdout.readline()
    chief.send_signal(signal.SIGINT)
    assert chief.wait(timeout=60) == -signal.SIGINT
    chief.communicate()


@pytest.mark.slow
def test_workers_end_when_the_chief_refuses(folder):
    (folder / "run").mkdir()
    (folder / "run" / "file").write_text("not a run")
    chief, other = start_two(folder, folder / "run")
    printed = chief.communicate(timeout=300)[0]
    assert "already contains other files" in printed
    other.communicate(timeout=300)
    assert chief.returncode == 2
    assert other.returncode not in (0, None)


@pytest.mark.slow
def test_workers_with_different_settings(folder):
    chief, other = start_two(folder, folder / "run", steps_of_other=20)
    text = other.communicate(timeout=300)[0]
    assert "Received: worker 1 with" in text
    assert other.returncode == 2
    chief.communicate(timeout=300)
    assert chief.returncode not in (0, None)
