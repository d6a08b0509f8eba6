import json
import os
import re
import subprocess
import types
from pathlib import Path

import numpy as np
import pytest
import replicas
import tensorflow as tf
from forked import Forked
from helpers import free_ports
from replicas import STEPS, compiled_model, dataset

from keras_transformer.support.errors import InputError
from keras_transformer.train import strategy as strategies
from keras_transformer.train.strategy import open_strategy, this_worker


def test_one_device_is_the_default(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    for name in ("auto", "single"):
        strategy = open_strategy(name)
        assert strategy.num_replicas_in_sync == 1
        assert not isinstance(strategy, tf.distribute.MirroredStrategy)
        assert this_worker(strategy.cluster_resolver) == (0, 1)


@pytest.mark.parametrize("count", [1, 2])
def test_several_gpus_are_used(monkeypatch, count):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.setattr(strategies, "_mirrored", lambda names: names)
    names = tuple(f"GPU:{number}" for number in range(count))
    gpus = [types.SimpleNamespace(name=name) for name in names]
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda _: gpus)
    assert open_strategy("mirrored") == names
    assert (open_strategy("auto") == names) == (count > 1)


def test_a_process_has_one_mirrored_strategy():
    """TensorFlow confuses the collective operations of several."""
    assert open_strategy("mirrored") is open_strategy("mirrored")


def test_a_cluster_of_one_worker(monkeypatch):
    config = {
        "cluster": {"worker": ["localhost:1"]},
        "task": {"type": "worker", "index": 0},
    }
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    assert this_worker(open_strategy("auto").cluster_resolver) == (0, 1)


def test_unknown_strategy():
    with pytest.raises(InputError, match="'tpu'"):
        open_strategy("tpu")


WITHOUT_TASK = '{"cluster": {"worker": ["a:1", "b:1"]}}'
OUTSIDE = WITHOUT_TASK[:-1] + ', "task": {"type": "worker", "index": 2}}'


@pytest.mark.parametrize(
    "config", [None, "{", '{"cluster": {}}', WITHOUT_TASK, OUTSIDE]
)
def test_workers_without_a_cluster(monkeypatch, config):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if config:
        monkeypatch.setenv("TF_CONFIG", config)
    with pytest.raises(InputError, match="Received: TF_CONFIG="):
        open_strategy("multiworker")


@pytest.mark.parametrize(
    ("job", "index", "expected"),
    [("chief", 0, (0, 3)), ("worker", 0, (1, 3)), ("worker", 1, (2, 3))],
)
def test_a_chief_is_the_first_worker(monkeypatch, job, index, expected):
    cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}
    config = {"cluster": cluster, "task": {"type": job, "index": index}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    assert this_worker(resolver) == expected


@pytest.mark.parametrize(
    ("scheduler", "workers"),
    [
        ("Slurm", ["n9:10007", "n10:10007"]),
        ("Kubernetes", [f"train-worker-0-{i}.train:2222" for i in range(3)]),
    ],
)
def test_tf_config_of_a_scheduler(scheduler, workers, tmp_path):
    """As the lines of shell in docs/scale.md set it."""
    page = Path(__file__).parents[2] / "docs" / "scale.md"
    section = page.read_text("utf-8").partition(f"## {scheduler}\n")[2]
    script = re.search(r"```bash\n(port=.*?|workers=.*?)```", section, re.S)[1]
    for name, output in (
        ("scontrol", r"printf 'n9\nn10\n'"),
        ("keras-transformer", 'echo "$TF_CONFIG"'),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{output}\n")
        (tmp_path / name).chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "SLURM_JOB_ID": "20007",
        "SLURM_NODEID": "1",
        "SLURM_STEP_NODELIST": "n[9-10]",
        "JOB_COMPLETION_INDEX": "1",
    }
    printed = subprocess.check_output(["bash", "-c", script], env=environment)
    expected = {"type": "worker", "index": 1}
    assert json.loads(printed) == {
        "cluster": {"worker": workers},
        "task": expected,
    }


def run_two_workers(output):
    """Each has different batches; together they are the global ones."""
    cluster = {"worker": [f"localhost:{port}" for port in free_ports(2)]}
    tasks = [{"type": "worker", "index": index} for index in range(2)]
    configs = [json.dumps({"cluster": cluster, "task": task}) for task in tasks]
    return [
        Forked(
            *(replicas.main, output),
            output=output.with_name(f"printed-{number}"),
            TF_CPP_MIN_LOG_LEVEL="3",
            TF_CONFIG=config,
        )
        for number, config in enumerate(configs)
    ]


@pytest.mark.slow
def test_two_workers_train_as_one_replica(tmp_path):
    output = tmp_path / "result.npz"
    processes = run_two_workers(output)
    expected = (
        compiled_model(open_strategy("single"))
        .fit(
            dataset(),
            validation_data=dataset(),
            steps_per_epoch=STEPS,
            verbose=0,
            shuffle=False,
        )
        .history
    )
    for process in processes:
        assert process.wait() == 0, process.printed()
    found = np.load(output)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-4)
