"""Finds the workers of a training, by the variables of their scheduler."""

import json
import os
import re
from collections.abc import Sequence

from keras_transformer.support.errors import InputError

_PORT = 2222
_TF_CONFIG = (
    '{"cluster": {"worker": ["a:2222", "b:2222"]}, '
    '"task": {"type": "worker", "index": 0}}'
)


def read_cluster(cluster: str) -> tuple[Sequence[str], int]:
    """Returns the addresses of all workers, and the index of this one.

    By `TF_CONFIG`, in which a `chief`, as of Vertex AI, becomes the first
    worker; or they are the tasks of this `srun`; or the pods of this indexed
    Job, by the variables that Kubernetes and Kubeflow's Trainer 2 set.
    """
    read = {"tf_config": _read_tf_config, "slurm": _read_slurm}
    read["kubernetes"] = _read_kubernetes
    if cluster not in read:
        raise InputError(
            f"cluster must be one of {', '.join(read)}. Received: "
            f"cluster={cluster!r}"
        )
    return read[cluster]()


def check_one_worker(command: str) -> None:
    """Refuses several workers for a command that only one may run."""
    if not os.environ.get("TF_CONFIG"):
        return
    workers, _ = _read_tf_config()
    if len(workers) > 1:
        raise InputError(
            f"`{command}` runs on one machine; only `train` uses several. "
            f"Received: TF_CONFIG with {len(workers)} workers. Start it on one "
            "of them, without TF_CONFIG."
        )


def _read_tf_config() -> tuple[Sequence[str], int]:
    values = _variables("tf_config", ["TF_CONFIG"], f"such as {_TF_CONFIG}")
    try:
        config = json.loads(values["TF_CONFIG"])
        jobs, task = config["cluster"], config["task"]
        chief, workers = jobs.get("chief", []), jobs.get("worker", [])
        own, index = jobs[task["type"]], int(task["index"])
        is_known = set(jobs) <= {"chief", "worker"} and isinstance(own, list)
        if is_known and len(chief) < 2 and index in range(len(own)):
            before = chief if task["type"] == "worker" else []
            return chief + workers, len(before) + index
    except (ValueError, TypeError, KeyError, AttributeError):
        pass
    raise InputError(
        f"TF_CONFIG must be like {_TF_CONFIG}: all machines in the list "
        "worker, the chief first or in a list chief, and the index of this "
        f"machine. Received: {values['TF_CONFIG']}"
    )


def _read_slurm() -> tuple[Sequence[str], int]:
    names = (
        "SLURM_JOB_ID",
        "SLURM_PROCID",
        "SLURM_LOCALID",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_STEP_NODELIST",
        "SLURM_STEP_TASKS_PER_NODE",
        "SLURMD_NODENAME",
    )
    values = _variables("slurm", names, "start the command with srun")
    import tensorflow as tf

    try:
        # Jobs that share a node get different ports.
        port = 10_000 + int(values["SLURM_JOB_ID"]) % 20_000
        local = int(values["SLURM_LOCALID"])
        resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
            port_base=port,
            # Slurm assigns GPUs; TensorFlow asks nvidia-smi, or fails.
            gpus_per_node=int(values["SLURM_STEP_NUM_TASKS"]),
            gpus_per_task=1,
            auto_set_gpu=False,
        )
        workers = resolver.cluster_spec().as_dict()["worker"]
        # By the address: TensorFlow sorts n10 before n9, unlike Slurm's ranks.
        own = f"{values['SLURMD_NODENAME']}:{port + local}"
        return workers, workers.index(own)
    except (ValueError, RuntimeError) as error:
        raise InputError(
            "The variables of Slurm must describe one step, as srun sets them. "
            f"Received: {values} ({error})"
        ) from error


def _read_kubernetes() -> tuple[Sequence[str], int]:
    # TensorFlow's resolver asks Kubernetes for pods, which needs its package
    # and rights, and does not know which of them is this one.
    names = ("JOB_COMPLETION_INDEX", "PET_NNODES", "PET_MASTER_ADDR")
    advice = (
        "Kubernetes sets the first in an Indexed Job. Kubeflow's Trainer 2 "
        "sets the others; elsewhere set them to the number of pods and to the "
        "host name of the first pod"
    )
    values = _variables("kubernetes", names, advice)
    index, count, first = (values[name] for name in names)
    port = os.environ.get("PET_MASTER_PORT", str(_PORT))
    host, dot, domain = first.partition(".")
    if (
        not (index.isdecimal() and count.isdecimal() and port.isdecimal())
        or int(index) >= int(count)
        or not host.endswith("-0")
    ):
        raise InputError(
            "JOB_COMPLETION_INDEX must be less than PET_NNODES, and "
            "PET_MASTER_ADDR a host name such as train-worker-0-0.train, in "
            "which -0 is the first pod, with a number in PET_MASTER_PORT. "
            f"Received: {values}, PET_MASTER_PORT={port}"
        )
    hosts = (re.sub("0$", str(i), host) for i in range(int(count)))
    return [f"{host}{dot}{domain}:{port}" for host in hosts], int(index)


def _variables(
    cluster: str, names: Sequence[str], advice: str
) -> dict[str, str]:
    """Returns variables of the environment, which must be set."""
    missing = [name for name in names if not os.environ.get(name)]
    if missing:
        raise InputError(
            f"The cluster {cluster} needs the environment variables "
            f"{', '.join(names)}: {advice}. Received: no {', '.join(missing)}"
        )
    return {name: os.environ[name] for name in names}
