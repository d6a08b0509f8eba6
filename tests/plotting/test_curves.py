"""Curves of a training, learning rates, and positions."""

import numpy as np
import pytest

from keras_transformer.plotting.curves import (
    positions_figure,
    schedule_figure,
    training_figure,
)
from keras_transformer.schedules import WarmupInverseSquareRoot
from keras_transformer.support.errors import InputError

pytest.importorskip("matplotlib")


def test_training_curves():
    rows = [
        {"step": 10.0, "nll": 3.0, "val_nll": 4.0, "val_score": 1.0},
        {"step": 20.0, "nll": 2.0, "val_nll": 3.5, "val_score": 5.0},
    ]
    figure = training_figure(rows, "a run", "BLEU")
    losses, bleu = figure.axes
    drawn = [line.get_xydata().tolist() for line in losses.lines]
    assert drawn == [[[10, 3], [20, 2]], [[10, 4], [20, 3.5]]]
    (line,) = bleu.lines
    assert line.get_xydata().tolist() == [[10, 1], [20, 5]]
    assert bleu.get_ylabel() == "BLEU"


def test_curves_without_validation():
    (axes,) = training_figure([{"step": 10.0, "nll": 3.0}], "a run", "F1").axes
    assert [text.get_text() for text in axes.get_legend().texts] == ["training"]
    with pytest.raises(InputError, match="empty log"):
        training_figure([], "a run", "F1")


def test_learning_rates():
    schedules = {
        f"{width}": WarmupInverseSquareRoot(width, warmup_steps=40)
        for width in (64, 256)
    }
    (axes,) = schedule_figure(schedules, 1_000).axes
    for line, schedule in zip(axes.lines, schedules.values(), strict=True):
        steps, rates = line.get_data()
        assert (steps[0], steps[-1]) == (1, 1_000)
        np.testing.assert_allclose(
            rates, [float(schedule(step - 1)) for step in steps]
        )
        assert abs(steps[np.argmax(rates)] - 40) <= 2
    labels = [text.get_text() for text in axes.get_legend().texts]
    assert labels == ["64", "256"]
    # The peak is shown, however short the warm-up.
    (axes,) = schedule_figure(schedules, 10_000_000).axes
    for line, schedule in zip(axes.lines, schedules.values(), strict=True):
        assert max(line.get_ydata()) > 0.95 * float(schedule(39))
    for arguments in (({}, 9), (schedules, 1)):
        with pytest.raises(InputError, match="a schedule and at least 2"):
            schedule_figure(*arguments)


def test_positions():
    vectors = np.random.default_rng(0).normal(size=(5, 16))
    figure = positions_figure(vectors)
    of_vectors, of_dimensions, _ = figure.axes
    np.testing.assert_array_equal(of_vectors.images[0].get_array(), vectors)
    lines = {line.get_label(): line for line in of_dimensions.lines}
    names = [f"dimension {i}" for i in (0, 2, 4, 6)]
    assert list(lines) == names
    drawn = lines["dimension 4"].get_ydata()
    np.testing.assert_array_equal(drawn, vectors[:, 4])
    for wrong in (vectors[0], vectors[:0]):
        with pytest.raises(InputError, match=r"shape \[T, d_model\]"):
            positions_figure(wrong)
