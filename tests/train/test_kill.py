"""Training in processes that are killed, and resumed."""

import json
import os
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
from keras_transformer.train.fitting.training_state import load_step

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


def assert_same_state(found, expected):
    states = [read_state(Run.open(path)) for path in (found, expected)]
    np.testing.assert_equal(*states)
    assert states[0]["step"] == STEPS
    return states[0]


def kill_when(folder, run, happens):
    """Starts training, and kills it when something is true of its run."""
    process = subprocess.Popen(
        [*command(folder), run], stdout=subprocess.DEVNULL
    )
    while not happens():
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


@pytest.mark.slow
def test_training_that_was_killed_is_resumed(folder):
    """During the first checkpoint, perhaps before it is renamed."""
    whole, killed = folder / "whole", folder / "killed"
    subprocess.run([*command(folder), whole], check=True)

    def has_checkpoint():
        files = killed.glob("checkpoints/*") if killed.exists() else ()
        names = [file.name for file in files]
        return any(name.startswith((".partial", "step")) for name in names)

    kill_when(folder, killed, has_checkpoint)
    subprocess.run([*command(folder), killed], check=True)
    assert_same_state(killed, whole)
    # Partial files are gone.
    assert not list(killed.rglob(".partial*"))


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
    step = load_step(run / "state.npz")
    assert step >= 8
    assert (
        f"training: stopped at step {step:,}; the same command resumes after "
        f"step {step:,}\n" in printed
    )


def start_two(folder, run, steps_of_other=STEPS, jobs=("worker", "worker")):
    """Starts two workers; returns them, the chief first."""
    cluster, tasks = {}, []
    for job, port in zip(jobs, free_ports(2), strict=True):
        tasks.append({"type": job, "index": len(cluster.get(job, ()))})
        cluster.setdefault(job, []).append(f"localhost:{port}")
    processes = []
    for task, steps in zip(tasks, (STEPS, steps_of_other), strict=True):
        config = json.dumps({"cluster": cluster, "task": task})
        processes.append(
            subprocess.Popen(
                [
                    *command(folder, "--strategy", "multiworker", steps=steps),
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
    while not state.exists() or load_step(state) < 4:
        assert processes[0].poll() is None, processes[0].communicate()[0]
        time.sleep(0.01)
    for process in processes:
        process.kill()
        process.communicate()
    assert 4 <= load_step(state) < STEPS
    for process in start_two(folder, killed, jobs=jobs):
        text = process.communicate(timeout=300)[0]
        assert process.returncode == 0, text
    state = assert_same_state(killed, whole)
    assert (state["position"].sum(axis=1) > 0).all()  # of both workers


@pytest.mark.slow
def test_the_chief_exits_when_a_worker_was_killed(folder):
    """At once, with a code of its own, so that it can be restarted."""
    run = folder / "run"
    chief, other = start_two(folder, run)
    while not (run / "state.npz").exists() or load_step(run / "state.npz") < 4:
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
    assert "Received: worker 1 with other settings\n" in text
    assert other.returncode == 2
    chief.communicate(timeout=300)
    assert chief.returncode not in (0, None)
