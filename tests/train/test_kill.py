"""Training is killed for real, and goes on as if it had not been."""

import os
import signal
import subprocess
import sys

import numpy as np

from keras_transformer.train.state import load

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
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def test_killed_at_three_moments(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run([*COMMAND, whole], check=True)

    def some_file(*names):
        folders = (killed, killed / "checkpoints")
        files = [f for d in folders if d.exists() for f in os.listdir(d)]
        return any(f.startswith(names) for f in files)

    # Before the first update; in the midst of a first checkpoint; and when
    # there is one more than it began with.
    killed_when(killed, lambda: some_file("tokenizer"))
    killed_when(killed, lambda: some_file(".partial", "best"))
    before = len(os.listdir(killed / "checkpoints"))
    killed_when(
        killed, lambda: len(os.listdir(killed / "checkpoints")) > before + 1
    )
    subprocess.run([*COMMAND, killed], check=True)

    found, expected = load(killed / "state.npz"), load(whole / "state.npz")
    assert found.step == expected.step == 24
    np.testing.assert_array_equal(found.position, expected.position)
    for ours, theirs in zip(found.variables, expected.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    # What was half written has gone.
    assert not list(killed.rglob(".partial*"))
