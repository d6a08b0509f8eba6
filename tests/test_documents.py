"""What the README and the notebook show is run."""

import os
import re
from pathlib import Path

import jupytext
import nbclient
import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "colab").glob("*.py"))


def code_blocks(name):
    text = (ROOT / name).read_text("utf-8")
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def test_there_is_a_notebook():
    assert NOTEBOOKS


@pytest.mark.parametrize("source", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_generated_from_its_source(source):
    expected = jupytext.read(source)
    notebook = jupytext.read(source.with_suffix(".ipynb"))
    assert [(c.cell_type, c.source) for c in notebook.cells] == [
        (c.cell_type, c.source) for c in expected.cells
    ], "run `make notebook`"


@pytest.mark.parametrize("source", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(source, tmp_path, monkeypatch):
    monkeypatch.setenv("EPOCHS", "1")
    monkeypatch.setenv("STEPS_PER_EPOCH", "20")
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    notebook = jupytext.read(source)
    nbclient.NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": tmp_path}},
    ).execute()
    outputs = [
        output for cell in notebook.cells for output in cell.get("outputs", ())
    ]
    text = "".join(output.get("text", "") for output in outputs)
    assert "BLEU" in text and "nan" not in text
    assert any("image/png" in output.get("data", {}) for output in outputs)


def test_readme_code_runs(tmp_path, monkeypatch, capsys):
    program, layer = code_blocks("README.md")
    shorter = program.replace(
        "epochs=5, steps_per_epoch=200", "epochs=1, steps_per_epoch=2"
    )
    assert shorter != program
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(shorter, names)
    assert os.path.exists("exported/1/saved_model.pb")
    names["x"] = names["model"].embedding(np.arange(10)[None])
    exec(layer, names)
    assert names["y"].shape == (1, 10, 128)


def test_training_code_runs(tmp_path, monkeypatch):
    (program,) = code_blocks("docs/training.md")
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(program, names)
    assert names["run"].step == 20
    assert names["model"].config == names["run"].config


def test_guide_code_runs():
    _, layers = code_blocks("docs/guide.md")
    names = {}
    exec(layers, names)
    assert names["model"](np.array([[5, 6, 7]])).shape == (1, 256)
