"""The notebooks are generated, stored with their outputs, and run."""

import itertools
import os
import re
import sys
import textwrap
from pathlib import Path

import jupytext
import pytest
from documents import ROOT
from notebooks import execute

SOURCES = sorted((ROOT / "colab").glob("*.py"))
NAMES = [source.stem for source in SOURCES]

# An untrained parser writes as much as it may, for each validation tree.
FEWER_TREES = {
    "range(20_000)": "range(2_000)",
    "trees[:200]": "trees[:20]",
    "trees[200:]": "trees[20:]",
}
# Settings that make a run short, and a cell that checks what it has computed.
SHORT_RUNS = {
    "import": (
        {"STEPS": "20"},
        """
        assert found.differences()["position_layout"] == "halves"
        assert difference < 1e-2
        assert exported == kt.Translator.open("runs/fine-tuned")(texts)
        """,
    ),
    "paper": (
        {"STEPS": "16"},
        """
        assert list(models)[0] == "the paper's" and len(models) == 5
        assert all(1 < p[-1] < 2_500 for _, p in models.values())
        # Without positions, the order of the source has no influence.
        ids = np.array([[5, 6, 7, 3]]), np.array([[7, 6, 5, 3]])
        for name, same in (("no positions", True), ("one head", False)):
            encoded = [models[name][0].encode(x).states[0, -1] for x in ids]
            assert np.allclose(*encoded, atol=1e-4) == same
        """,
    ),
    "parsing": (
        {"STEPS": "20"},
        """
        text = outputs["trees"][0, 0].numpy().decode()
        tree = kt.parsing.Tree.from_string(text)
        assert tree.words == "he hears a small cat .".split()
        assert had_to and repaired.words == ["the", "dog", "knows", "."]
        """,
    ),
    "reuse": (
        {"EPOCHS": "1"},
        """
        assert keras.backend.backend() == "jax" and len(accuracy) == 4
        assert accuracy["the paper's layer"] > 0.9
        assert accuracy["no positions"] < 0.6 and without < 0.6
        assert with_attention > 0.8
        """,
    ),
    "serving": (
        {"STEPS": "20"},
        """
        assert same == len(sources) == 64
        assert len(model.signatures) == 10
        saved_model, litert = sizes.values()
        assert litert < saved_model / 3
        """,
    ),
    "translate": (
        {"EPOCHS": "2", "STEPS_PER_EPOCH": "10"},
        """
        assert results["sentences"] == len(hypotheses) == 500
        assert outputs["translations"][0, 0] == translation.texts[0].encode()
        assert abs(outputs["scores"][0, 0] - translation.scores[0]) < 1e-3
        assert answer["predictions"][0]["translations"] == translation.texts
        # A model that predicts every token alike has log(2,000) = 7.6.
        losses = history.history["val_loss"]
        assert len(losses) == 2 and 3.0 < losses[1] < losses[0] < 9.0
        """,
    ),
}


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def printed(notebook):
    return "".join(
        output.get("text", "")
        for cell in code_cells(notebook)
        for output in cell.get("outputs", ())
    )


def count(notebook, kind):
    """Returns how many outputs of a MIME type there are."""
    return sum(
        kind in output.get("data", {})
        for cell in code_cells(notebook)
        for output in cell.outputs
    )


@pytest.fixture(scope="module")
def stored():
    return {
        source.stem: jupytext.read(source.with_suffix(".ipynb"))
        for source in SOURCES
    }


@pytest.mark.parametrize("name", NAMES)
def test_generated_from_its_source(stored, name):
    expected = jupytext.read(ROOT / "colab" / f"{name}.py")
    assert [(c.cell_type, c.source) for c in stored[name].cells] == [
        (c.cell_type, c.source) for c in expected.cells
    ], "run `make notebook`"


@pytest.mark.parametrize("name", NAMES)
def test_stored_with_the_outputs_of_a_whole_run(stored, name):
    cells = code_cells(stored[name])
    counts = [cell.execution_count for cell in cells]
    assert counts == list(range(1, len(cells) + 1)), "run `make notebook`"
    text = printed(stored[name])
    assert "Traceback" not in text
    assert "absl" not in text and "cuda" not in text, "noise of TensorFlow"
    assert str(ROOT) not in text and str(Path.home()) not in text


@pytest.mark.parametrize("name", NAMES)
def test_stored_with_whole_lines(stored, name):
    """A cell in bash prints parts of 100 bytes, which may end in a line."""
    for cell in code_cells(stored[name]):
        streams = [output.get("name") for output in cell.outputs]
        for one, next_one in itertools.pairwise(streams):
            assert one is None or one != next_one, "run `make notebook`"


def test_stored_import(stored):
    text = printed(stored["import"])
    imported, fine_tuned = re.findall(r"^BLEU +([\d.]+) ", text, re.M)
    assert 70.0 < float(imported) < float(fine_tuned)
    (difference,) = re.findall(r"^(0\.\d{4})$", text, re.M)
    assert float(difference) < 2e-3
    assert count(stored["import"], "image/png") == 1


def test_stored_paper(stored):
    text = printed(stored["paper"])
    table = dict(re.findall(r"^(\S.*\S) +[\d.]+ +([\d.]+)$", text, re.M))
    bleu = {name: float(value) for name, value in table.items()}
    assert bleu["the paper's"] > 80.0
    assert bleu["no positions"] < bleu["the paper's"]
    assert bleu["no warm-up"] < 10.0
    assert set(bleu) >= {"one head", "no label smoothing"}
    assert count(stored["paper"], "image/png") == 7
    assert count(stored["paper"], "text/html") == 1


def test_stored_parsing(stored):
    (f1,) = re.findall(r"^F1 +([\d.]+)$", printed(stored["parsing"]), re.M)
    assert float(f1) > 90.0


def test_stored_reuse(stored):
    text = printed(stored["reuse"])
    (accuracy,) = re.findall(r"the paper's layer +([\d.]+)%", text)
    assert float(accuracy) > 95.0
    assert count(stored["reuse"], "image/png") == 2


def test_stored_serving(stored):
    text = printed(stored["serving"])
    assert "64 of 64 translations are those of `evaluate`" in text
    float32, int8 = re.findall(r"^BLEU +([\d.]+) ", text, re.M)
    assert abs(float(int8) - float(float32)) < 1.0
    assert text.endswith("TensorFlow: False\nKeras: False\n")


def test_stored_translate(stored):
    text = printed(stored["translate"])
    losses = [float(x) for x in re.findall(r" val_loss: ([\d.e+-]+)", text)]
    assert len(losses) == 5 and losses == sorted(losses, reverse=True)
    (bleu,) = re.findall(r"^BLEU +([\d.]+) ", text, re.M)
    assert 80.0 < float(bleu) <= 100.0
    assert "Ich bin Student" in text
    assert count(stored["translate"], "image/png") == 1
    assert count(stored["translate"], "text/html") == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_runs(name, tmp_path, monkeypatch):
    settings, check = SHORT_RUNS[name]
    for variable, value in {"KERAS_BACKEND": "tensorflow", **settings}.items():
        monkeypatch.setenv(variable, value)
    programs = os.path.dirname(sys.executable)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    text = (ROOT / "colab" / f"{name}.py").read_text("utf-8")
    if name == "parsing":
        for many, few in FEWER_TREES.items():
            assert text.count(many) == 1
            text = text.replace(many, few)
    notebook = jupytext.reads(text, fmt="py:percent")
    cell = f"# %%{textwrap.dedent(check)}"
    notebook.cells += jupytext.reads(cell, fmt="py:percent").cells
    execute(notebook, tmp_path, timeout=300)
