"""The notebook is generated, stored with its outputs, and runs."""

import math
import re
import shutil

import jupytext
import nbclient
import pytest
from documents import ROOT

NOTEBOOK = ROOT / "colab" / "translate.ipynb"


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def printed(notebook):
    return "".join(
        output.get("text", "")
        for cell in code_cells(notebook)
        for output in cell.get("outputs", ())
    )


def values(name, text):
    """Returns the numbers that follow `name: ` in the output of `fit`."""
    return [float(v) for v in re.findall(rf" {name}: ([\d.e+-]+)", text)]


def test_notebook_is_generated_from_its_source():
    expected = jupytext.read(NOTEBOOK.with_suffix(".py"))
    notebook = jupytext.read(NOTEBOOK)
    assert [(c.cell_type, c.source) for c in notebook.cells] == [
        (c.cell_type, c.source) for c in expected.cells
    ], "run `make notebook`"


def test_notebook_is_stored_with_the_outputs_of_a_whole_run():
    notebook = jupytext.read(NOTEBOOK)
    cells = code_cells(notebook)
    counts = [cell.execution_count for cell in cells]
    assert counts == list(range(1, len(cells) + 1)), "run `make notebook`"
    text = printed(notebook)
    assert "Traceback" not in text and str(ROOT) not in text
    losses = values("val_loss", text)
    assert len(losses) == 5 and losses == sorted(losses, reverse=True)
    (bleu,) = re.findall(r"^BLEU +([\d.]+) ", text, re.M)
    assert 80.0 < float(bleu) <= 100.0
    assert "Ich bin Student" in text
    assert pictures(notebook)


def pictures(notebook):
    return [
        output.data["image/png"]
        for cell in code_cells(notebook)
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]


@pytest.mark.slow
def test_notebook_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("EPOCHS", "2")
    monkeypatch.setenv("STEPS_PER_EPOCH", "10")
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    source = tmp_path / "translate.py"
    shutil.copy(NOTEBOOK.with_suffix(".py"), source)
    notebook = jupytext.read(source)
    check = jupytext.reads(CHECKS, fmt="py:percent").cells
    notebook.cells += check
    nbclient.NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": tmp_path}},
    ).execute()
    text = printed(notebook)
    losses = values("val_loss", text)
    # A model that predicts every token alike has log(2,000) = 7.6.
    assert len(losses) == 2 and 3.0 < losses[1] < losses[0] < 9.0
    (bleu,) = re.findall(r"^BLEU +([\d.]+) ", text, re.M)
    assert 0.0 <= float(bleu) < 50.0
    assert math.isclose(losses[1], float(text.split("=")[-1]), abs_tol=1e-3)
    assert pictures(notebook)


# Run in the notebook after its last cell.
CHECKS = """
# %%
assert results["sentences"] == len(hypotheses) == 500
assert outputs["translations"][0, 0] == translation.texts[0].encode()
assert abs(outputs["scores"][0, 0] - translation.scores[0]) < 1e-3
print("val_loss =", history.history["val_loss"][-1])
"""
