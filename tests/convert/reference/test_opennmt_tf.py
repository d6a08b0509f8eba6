"""Checkpoints that OpenNMT-tf wrote, imported, against OpenNMT-tf.

`make test-opennmt` first runs opennmt_models.py in an environment with
OpenNMT-tf, and names its folder in OPENNMT_MODELS.
"""

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest
from padded_search import search_padded
from pieces import demo_lines

from keras_transformer import convert

FOLDER = os.environ.get("OPENNMT_MODELS")
if not FOLDER:
    pytest.skip("needs OPENNMT_MODELS", allow_module_level=True)

END, LENGTH = 2, 16


class Case:
    """A model of OpenNMT-tf with its results, and its import."""

    def __init__(self, folder):
        self.expected = dict(np.load(folder / "expected.npz"))
        found = convert.read(folder, "opennmt-tf")
        self.vocabulary = found.tokenizer
        # OpenNMT-tf's maximum does not count the end token.
        self.search = dataclasses.replace(found.search, extra_length=LENGTH + 1)
        self.model = found.load_model()
        self.source = self.expected["source_ids"].astype("int32")

    def hypotheses(self, name):
        """Returns the best of a search, `greedy` or `beam`, with the end."""
        rows = self.expected[f"{name}_ids"]
        lengths = self.expected[f"{name}_lengths"]
        return [
            [*map(int, row[:length]), END]
            for row, length in zip(rows, lengths, strict=True)
        ]


@pytest.fixture(scope="module", params=sorted(Path(FOLDER).iterdir()), ids=str)
def case(request):
    return Case(request.param)


def test_ids_of_sources(case):
    vocabulary = case.vocabulary.source
    rows = vocabulary.encode(demo_lines("test.en", len(case.source)))
    if vocabulary.eos_id == END:
        rows = [[*row, END] for row in rows]
    lengths = case.expected["source_lengths"]
    pairs = zip(case.source, lengths, strict=True)
    assert [row[:length].tolist() for row, length in pairs] == rows
    assert any(vocabulary.unk_id in row for row in rows)


def test_logits(case):
    target = case.expected["target_inputs"].astype("int32")
    logits = case.model({"source": case.source, "target": target})
    used = np.arange(target.shape[1]) < case.expected["target_lengths"][:, None]
    expected = case.expected["logits"][used]
    assert expected.std() > 1
    np.testing.assert_allclose(logits.numpy()[used], expected, atol=1e-4)


@pytest.mark.parametrize("name", ["greedy", "beam"])
def test_searches(case, name):
    """Our searches find the same, or translations with a higher score.

    OpenNMT-tf's beam search keeps finished hypotheses in the beam, changes
    their penalty in later steps, and confuses their log P when they move.
    Random models, where all outputs are unlikely, show it often.
    """
    settings = case.search
    if name == "greedy":
        settings = dataclasses.replace(settings, beam_size=1)
    found = search_padded(case.model, case.vocabulary, case.source, settings)
    scores = found.scores[:, 0]
    rows = zip(found.ids[:, 0], found.lengths[:, 0], strict=True)
    ours = [row[:length].tolist() for row, length in rows]
    theirs = case.hypotheses(name)
    lengths = np.array([len(row) for row in theirs], "float32")
    expected = case.expected[f"{name}_log_probs"] / settings.penalty(lengths)
    same = np.array([a == b for a, b in zip(ours, theirs, strict=True)])
    assert same.mean() >= (1.0 if name == "greedy" else 0.25)
    np.testing.assert_allclose(scores[same], expected[same], atol=2e-4)
    assert (scores >= expected - 1e-4).all()
