"""Training is killed for real, and goes on as if it had not been."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
from helpers import free_ports

from keras_transformer.train.state import load, load_step

COMMAND = [
    *(sys.executable, "-m", "keras_transformer.cli", "train"),
    *("--data", "embedded", "--preset", "tiny", "--vocab-size", "600"),
    *("--num-layers", "1", "--d-model", "16", "--d-ff", "16"),
    *("--num-heads", "2", "--max-length", "24", "--batch-tokens", "256"),
    *("--steps", "24", "--steps-per-epoch", "4", "--bleu-sentences", "2"),
    *("--deterministic", "--output"),
]


def killed_when(folder, happens):
    """Starts training and kills it once something is true of its folder."""
    process = subprocess.Popen([*COMMAND, folder], stdout=subprocess.DEVNULL)
    while not happens():
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def test_killed_at_three_moments(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run([*COMMAND, whole], check=True)

    def in_checkpoints(*names):
        folder = killed / "checkpoints"
        files = os.listdir(folder) if folder.exists() else []
        return any(file.startswith(names) for file in files)

    # Before the first update; at the first checkpoint, perhaps in its midst;
    # and when there is a file more than it began with.
    killed_when(killed, lambda: (killed / "tokenizer.model").exists())
    killed_when(killed, lambda: in_checkpoints(".partial", "step"))
    before = len(os.listdir(killed / "checkpoints"))
    killed_when(
        killed, lambda: len(os.listdir(killed / "checkpoints")) > before
    )
    subprocess.run([*COMMAND, killed], check=True)

    found, expected = load(killed / "state.npz"), load(whole / "state.npz")
    assert found.step == expected.step == 24
    np.testing.assert_array_equal(found.position, expected.position)
    for ours, theirs in zip(found.variables, expected.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    # What was half written has gone.
    assert not list(killed.rglob(".partial*"))


def start_two(folder, *flags_of_other):
    """Starts two workers; returns them, the chief first."""
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(2)]}
    return [
        subprocess.Popen(
            [
                *COMMAND,
                folder,
                *("--strategy", "multiworker"),
                *(flags_of_other if index else ()),
            ],
            env={
                **os.environ,
                "TF_CPP_MIN_LOG_LEVEL": "3",
                "TF_CONFIG": json.dumps(
                    {
                        "cluster": cluster,
                        "task": {"type": "worker", "index": index},
                    }
                ),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for index in range(2)
    ]


def test_two_workers_are_killed_and_go_on(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    chief, other = start_two(whole)
    printed = (
        chief.communicate(timeout=900)[0],
        other.communicate(timeout=900)[0],
    )
    assert (chief.returncode, other.returncode) == (0, 0), printed
    assert "worker 0 of 2" in printed[0] and "worker 1 of 2" in printed[1]
    assert "The run is in" in printed[0] and "The run is in" not in printed[1]

    processes = start_two(killed)
    state = killed / "state.npz"
    while not state.exists() or load_step(state) < 4:
        assert processes[0].poll() is None, processes[0].communicate()[0]
        time.sleep(0.01)
    for process in processes:
        process.kill()
        process.communicate()
    assert 4 <= load_step(state) < 24
    for process in start_two(killed):
        text = process.communicate(timeout=900)[0]
        assert process.returncode == 0, text

    found, expected = load(killed / "state.npz"), load(whole / "state.npz")
    assert found.step == expected.step == 24
    np.testing.assert_array_equal(found.position, expected.position)
    assert (found.position.sum(axis=1) > 0).all()  # of both workers
    for ours, theirs in zip(found.variables, expected.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_ctrl_c_while_it_waits_for_a_worker(tmp_path):
    (chief, other) = start_two(tmp_path / "run")
    other.kill()
    other.communicate()
    assert "waiting for localhost:" in chief.stdout.readline()
    chief.send_signal(signal.SIGINT)
    assert chief.wait(timeout=60) == -signal.SIGINT
    chief.communicate()


def test_the_others_end_when_the_chief_refuses(tmp_path):
    (tmp_path / "file").write_text("not a run")
    chief, other = start_two(tmp_path)
    assert "already holds something" in chief.communicate(timeout=900)[0]
    other.communicate(timeout=900)
    assert chief.returncode == 2
    assert other.returncode not in (0, None)


def test_workers_with_different_settings(tmp_path):
    chief, other = start_two(tmp_path / "run", "--steps", "20")
    text = other.communicate(timeout=900)[0]
    assert "Received: worker 1 with other settings\n" in text
    assert other.returncode == 2
    chief.communicate(timeout=900)
    assert chief.returncode not in (0, None)
