import pytest

from keras_transformer.plotting.training_curves import training_figure
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
