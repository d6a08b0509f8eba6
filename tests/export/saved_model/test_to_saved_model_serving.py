"""The files for TensorFlow Serving in docs/serving agree with each other."""

import json
from pathlib import Path

import yaml
from serving_check import IMAGE

FOLDER = Path(__file__).parents[3] / "docs" / "serving"


def test_the_image_starts_as_compose_does():
    compose = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    service = compose["services"]["serving"]
    text = (FOLDER / "Dockerfile").read_text().replace("\\\n", "")
    lines = [line for line in text.splitlines() if line[:1] not in ("#", "")]
    steps = [line.split(maxsplit=1) for line in lines]
    assert steps[0] == ["FROM", service["image"]] == ["FROM", IMAGE]
    variables = [value.split("=") for step, value in steps if step == "ENV"]
    assert dict(variables) == service["environment"]
    assert json.loads(steps[-1][1]) == service["command"]
    # Both have the settings, and the model by its name.
    name = service["environment"]["MODEL_NAME"]
    folders = [volume.split(":")[1] for volume in service["volumes"]]
    assert folders == [f"/models/{name}", "/config"]
    copied = [value for step, value in steps if step == "COPY"]
    assert copied == [". /models/${MODEL_NAME}", "*.config /config/"]
    for argument in service["command"]:
        if argument.endswith(".config"):
            assert (FOLDER / argument.rpartition("/config/")[2]).exists()


def test_the_deployment():
    text = (FOLDER / "kubernetes.yaml").read_text()
    deployment, service = yaml.safe_load_all(text)
    pod = deployment["spec"]["template"]
    labels = deployment["spec"]["selector"]["matchLabels"]
    assert pod["metadata"]["labels"] == service["spec"]["selector"] == labels
    (container,) = pod["spec"]["containers"]
    ports = {x["name"]: x["containerPort"] for x in container["ports"]}
    for port in service["spec"]["ports"]:
        assert ports[port["targetPort"]] == port["port"]
    for name in ("startupProbe", "readinessProbe"):
        assert container[name]["httpGet"]["path"].endswith("/metadata")
