import json
import re

import pytest
import tensorflow as tf

from keras_transformer.errors import InputError
from keras_transformer.train.strategy import open_strategy, worker


def test_one_device_is_the_default(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    for name in ("auto", "single"):
        strategy = open_strategy(name)
        assert strategy.num_replicas_in_sync == 1
        assert not isinstance(strategy, tf.distribute.MirroredStrategy)
        assert worker(strategy) == (0, 1)


def test_a_single_worker_is_no_cluster(monkeypatch):
    config = {
        "cluster": {"worker": ["localhost:1"]},
        "task": {"type": "worker", "index": 0},
    }
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    assert worker(open_strategy("auto")) == (0, 1)


def test_unknown_strategy():
    with pytest.raises(InputError, match="auto, single.*Received.*'tpu'"):
        open_strategy("tpu")


TASK = {"type": "worker", "index": 0}
WORKERS = {"worker": ["a:1", "b:1"]}


@pytest.mark.parametrize(
    "config",
    [
        [],
        {},
        {"cluster": 3, "task": TASK},
        {"cluster": WORKERS},
        {"cluster": {"worker": "a:1"}, "task": TASK},
        {"cluster": {**WORKERS, "chief": ["c:1"]}, "task": TASK},
        {"cluster": WORKERS, "task": {"type": "chief", "index": 0}},
        {"cluster": WORKERS, "task": {"type": "worker", "index": 2}},
    ],
)
@pytest.mark.parametrize("name", ["auto", "multiworker"])
def test_tf_config_that_is_none(monkeypatch, name, config):
    text = json.dumps(config)
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(InputError, match=f"Received: {re.escape(text)}$"):
        open_strategy(name)
    monkeypatch.setenv("TF_CONFIG", text[:-1])
    with pytest.raises(InputError, match="TF_CONFIG must be like"):
        open_strategy(name)


def test_workers_without_tf_config(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(InputError, match="needs the environment variable"):
        open_strategy("multiworker")
