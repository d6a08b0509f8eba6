"""The notebooks are generated, stored with their outputs, and some are run."""

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

import jupytext
import pytest
from documents import ROOT
from programs import (  # noqa: F401
    notebook_program,
    run_script,
    search_path,
    smaller,
)

import keras_transformer as kt  # noqa: F401

SOURCES = sorted((ROOT / "colab").glob("*.py"))
NAMES = [source.stem for source in SOURCES]


class ShortRun(NamedTuple):
    """How a test runs a notebook."""

    settings: dict[str, str]  # variables of the environment
    changes: dict[str, str]  # of its text, each of which occurs once
    check: str  # statements that check the results


SHORT_RUNS = {
    "serving": ShortRun(
        {"STEPS": "8"},
        {},
        """
        # Untrained, many hypotheses have nearly equal scores.
        assert 32 < same <= len(sources) == 64
        assert len(model.signatures) == 5
        saved_model, litert = sizes.values()
        assert litert < saved_model / 3
        """,
    ),
    "translate": ShortRun(
        {"EPOCHS": "2", "STEPS_PER_EPOCH": "8"},
        {"batch_tokens=4_096": "batch_tokens=512"},
        """
        assert included("Where is the station?") == "Wo ist der Bahnhof?"
        assert results["sentences"] == len(hypotheses) == 64
        assert outputs["translations"][0, 0] == translation.texts[0].encode()
        assert abs(outputs["scores"][0, 0] - translation.scores[0]) < 1e-3
        assert answer["text"] == translator("I am a student.")
        # A model that predicts every token alike has log(2,000) = 7.6.
        losses = history.history["val_loss"]
        assert len(losses) == 2 and 3.0 < losses[1] < losses[0] < 9.0
        """,
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_stored_with_the_source_and_the_outputs_of_a_whole_run(name):
    source = ROOT / "colab" / f"{name}.py"
    stored = jupytext.read(source.with_suffix(".ipynb"))
    expected = jupytext.read(source)
    assert [(c.cell_type, c.source) for c in stored.cells] == [
        (c.cell_type, c.source) for c in expected.cells
    ], "run `make notebook`"
    cells = [cell for cell in stored.cells if cell.cell_type == "code"]
    counts = [cell.execution_count for cell in cells]
    assert counts == list(range(1, len(cells) + 1)), "run `make notebook`"
    text = "".join(x.get("text", "") for c in cells for x in c.outputs)
    for part in ("Traceback", "absl", "cuda", str(ROOT), str(Path.home())):
        assert part not in text


@pytest.mark.parametrize("source", SOURCES, ids=NAMES)
def test_names_exist(source):
    """`make notebook` executes the notebooks that `test_runs` does not."""
    names = set(re.findall(r"\bkt\.[\w.]*\w", source.read_text("utf-8")))
    assert names and all(map(eval, names))


@pytest.mark.slow
@pytest.mark.usefixtures("smaller")
@pytest.mark.parametrize("name", SHORT_RUNS)
def test_runs(name, tmp_path, monkeypatch):
    """As one program, with a smaller model and corpus."""
    short_run = SHORT_RUNS[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("PATH", search_path())
    for variable, value in short_run.settings.items():
        monkeypatch.setenv(variable, value)
    text = (ROOT / "colab" / f"{name}.py").read_text("utf-8")
    for old, new in short_run.changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    program = notebook_program(text) + textwrap.dedent(short_run.check)
    exec(program, {"run_script": run_script})
    import matplotlib.pyplot

    matplotlib.pyplot.close("all")
