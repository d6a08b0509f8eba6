"""Workers as their schedulers describe them, and the files of docs/scale.md."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from commands import parse

from keras_transformer.support.errors import InputError
from keras_transformer.train.cluster import check_one_worker, read_cluster
from keras_transformer.train.strategy import open_strategy

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"


def slurm(
    index, job, hosts="localhost", tasks="2", node="localhost", local=None
):
    return {
        "SLURM_JOB_ID": str(job),
        "SLURM_PROCID": str(index),
        "SLURM_LOCALID": str(index if local is None else local),
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_NODELIST": hosts,
        "SLURM_STEP_TASKS_PER_NODE": tasks,
        "SLURMD_NODENAME": node,
    }


KUBERNETES = {
    "JOB_COMPLETION_INDEX": "1",
    "PET_NNODES": "3",
    "PET_MASTER_ADDR": "train-worker-0-0.train",
}
HOSTS = [f"train-worker-0-{index}.train" for index in range(3)]


def vertex(kind, index):
    cluster = {"chief": ["c:1"], "worker": ["a:1", "b:1"]}
    task = {"type": kind, "index": index}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


@pytest.fixture
def environment(monkeypatch):
    for name in ("TF_CONFIG", *slurm(0, 0), *KUBERNETES, "PET_MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)

    def update(values):
        for name, value in values.items():
            monkeypatch.setenv(name, value)

    return update


@pytest.mark.parametrize(
    ("cluster", "values", "workers", "index"),
    [
        ("tf_config", vertex("chief", 0), ["c:1", "a:1", "b:1"], 0),
        ("tf_config", vertex("worker", 1), ["c:1", "a:1", "b:1"], 2),
        ("slurm", slurm(1, 5), ["localhost:10005", "localhost:10006"], 1),
        # Rank 0 runs on n9, which TensorFlow sorts after n10.
        (
            "slurm",
            slurm(0, 20_003, "n[9-10]", "1(x2)", "n9", 0),
            ["n10:10003", "n9:10003"],
            1,
        ),
        ("kubernetes", KUBERNETES, [f"{host}:2222" for host in HOSTS], 1),
        (
            "kubernetes",
            {**KUBERNETES, "PET_MASTER_PORT": "29400"},
            [f"{host}:29400" for host in HOSTS],
            1,
        ),
    ],
)
def test_workers(environment, cluster, values, workers, index):
    environment(values)
    assert read_cluster(cluster) == (workers, index)


@pytest.mark.parametrize(
    ("cluster", "values", "message"),
    [
        ("pbs", {}, "tf_config, slurm, kubernetes. Received: cluster='pbs'"),
        ("tf_config", {}, "Received: no TF_CONFIG"),
        ("tf_config", {"TF_CONFIG": "{"}, "Received: {$"),
        ("tf_config", vertex("evaluator", 0), "Received: .*evaluator"),
        ("slurm", {}, "start the command with srun. Received: no SLURM_JOB"),
        ("slurm", slurm(0, 5, node="elsewhere"), "elsewhere:10005"),
        ("slurm", slurm(0, 5, tasks="many"), "Received: .*many"),
        ("kubernetes", {"PET_NNODES": "3"}, "no JOB_COMPLETION_INDEX, PET_M"),
        ("kubernetes", {**KUBERNETES, "PET_NNODES": "1"}, "less than PET_NN"),
        (
            "kubernetes",
            {**KUBERNETES, "PET_MASTER_ADDR": "first"},
            "such as train-worker-0-0.train, .*Received: .*first",
        ),
    ],
)
def test_what_is_refused(environment, cluster, values, message):
    environment(values)
    with pytest.raises(InputError, match=message):
        read_cluster(cluster)


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
        {"cluster": {**WORKERS, "chief": ["c:1", "d:1"]}, "task": TASK},
        {"cluster": {**WORKERS, "ps": ["c:1"]}, "task": TASK},
        {"cluster": WORKERS, "task": {"type": "chief", "index": 0}},
        {"cluster": WORKERS, "task": {"type": "worker", "index": 2}},
    ],
)
def test_an_invalid_tf_config_is_refused(environment, config):
    text = json.dumps(config)
    for invalid in (text, text[:-1]):
        environment({"TF_CONFIG": invalid})
        with pytest.raises(
            InputError, match=f"Received: {re.escape(invalid)}$"
        ):
            read_cluster("tf_config")


def test_a_command_for_one_worker(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    check_one_worker("average")
    config = {"cluster": WORKERS, "task": TASK}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    with pytest.raises(InputError, match="`average` .*TF_CONFIG with 2"):
        check_one_worker("average")
    config["cluster"] = {"worker": ["a:1"], "chief": ["c:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    with pytest.raises(InputError, match="`average` .*TF_CONFIG with 2"):
        check_one_worker("average")
    config["cluster"] = {"worker": ["a:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    check_one_worker("average")


def test_a_cluster_is_of_several_machines():
    with pytest.raises(InputError, match="auto or multiworker.*'mirrored'"):
        open_strategy("mirrored", "slurm")


def blocks(language):
    return re.findall(
        rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.M | re.S
    )


def test_the_sbatch_file():
    (script,) = blocks("bash")
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    (line,) = re.findall("srun .*", script.replace("\\\n", " "))
    words = shlex.split(line.partition("&&")[0])
    first = words.index("keras-transformer")
    _, arguments = parse(words[first + 1 :])
    assert arguments["cluster"] == "slurm"
    assert "--kill-on-bad-exit=1" in words[:first]


def containers(value):
    """Yields every container in a YAML file."""
    if isinstance(value, list):
        for item in value:
            yield from containers(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name == "containerSpec":
                yield item
            elif name == "containers":
                yield from item
            else:
                yield from containers(item)


def test_the_yaml_files():
    yaml = pytest.importorskip("yaml")
    jobset, vertex_job = (yaml.safe_load(text) for text in blocks("yaml"))
    found = {}
    for file in (jobset, vertex_job):
        for container in containers(file):
            program, *arguments = container["args"]
            assert program == "keras-transformer"
            _, arguments = parse(arguments)
            found.setdefault(arguments["cluster"], []).append(container)
    assert [len(found["kubernetes"]), len(found["tf_config"])] == [1, 2]
    (job,) = jobset["spec"]["replicatedJobs"]
    count = job["template"]["spec"]["completions"]
    assert job["template"]["spec"]["parallelism"] == count
    assert job["template"]["spec"]["completionMode"] == "Indexed"
    name = jobset["metadata"]["name"]
    env = {v["name"]: v["value"] for v in found["kubernetes"][0]["env"]}
    assert env == {
        "PET_NNODES": str(count),
        "PET_MASTER_ADDR": f"{name}-{job['name']}-0-0.{name}",
    }
    assert vertex_job["scheduling"]["restartJobOnWorkerRestart"] is True
