import json

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
    config = {"cluster": {"worker": ["localhost:1"]}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    assert worker(open_strategy("auto")) == (0, 1)


def test_unknown_strategy():
    with pytest.raises(InputError, match="auto, single.*Received.*'tpu'"):
        open_strategy("tpu")


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"cluster": 3}'])
def test_tf_config_that_is_none(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(InputError, match="TF_CONFIG must be JSON"):
        open_strategy("auto")


def test_a_chief_beside_the_workers(monkeypatch):
    cluster = {"chief": ["a:1"], "worker": ["b:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster}))
    with pytest.raises(InputError, match="Received: chief, worker"):
        open_strategy("auto")


def test_workers_without_tf_config(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(InputError, match="needs the environment variable"):
        open_strategy("multiworker")
