"""A dry run: what it says, and that it leaves nothing."""

import os
import re
import tempfile

import digits
import pytest

from keras_transformer.train.trainer import train


def test_it_reports_and_writes_nothing(corpus, tmp_path, capsys, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    recipe = digits.recipe(steps=50)
    arguments = corpus, tmp_path / "run", "tiny", recipe
    run = train(*arguments, architecture=digits.TINY, dry_run=True)
    assert run is None
    assert os.listdir(tmp_path) == ["temporary"]
    assert os.listdir(tmp_path / "temporary") == []
    out = capsys.readouterr().out
    for line in (
        "train: 360 pairs kept",
        "tokenizer: training with 300 tokens",
        "batches: from [32, 8] to [10, 24]",
    ):
        assert line in out
    rate = float(re.search(r"learning rate: highest (\S+), at step 20", out)[1])
    assert rate == pytest.approx((16 * 20) ** -0.5, rel=0.05)
    parameters = int(re.search(r"([\d,]+) parameters", out)[1].replace(",", ""))
    assert parameters > 300 * 16
    steps = int(re.search(r"steps: (\d+) per pass", out)[1])
    # 360 pairs of about 20 tokens, in batches of 512.
    assert 360 / 32 < steps < 360 / 10
    seconds = float(re.search(r"time: (\S+) s per step", out)[1])
    hours = float(re.search(r"time: (\S+) hours for 50 steps", out)[1])
    assert hours == pytest.approx(50 * seconds / 3600, rel=0.2)
    assert float(re.search(r"memory: (\S+) GB", out)[1]) > 0.1
