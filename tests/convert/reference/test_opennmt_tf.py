"""What OpenNMT-tf itself computes with checkpoints that it wrote.

In an environment with OpenNMT-tf, which needs Python <= 3.11, first run
`python tests/helpers/opennmt_models.py FOLDER`; then these tests with the
environment variable OPENNMT_MODELS=FOLDER.
"""

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest
from marian_npz import DEMO
from padded_search import search_padded

from keras_transformer import convert

FOLDER = os.environ.get("OPENNMT_MODELS")
if not FOLDER:
    pytest.skip("needs OPENNMT_MODELS", allow_module_level=True)

END, LENGTH = 2, 30


class Case:
    """A model here, and what OpenNMT-tf computed with it."""

    def __init__(self, folder):
        self.expected = dict(np.load(folder / "expected.npz"))
        found = convert.read(folder, "opennmt-tf")
        self.vocabulary = found.vocabulary
        # OpenNMT-tf's maximum does not count the end token.
        self.search = dataclasses.replace(found.search, extra_length=LENGTH + 1)
        self.model = found.load_model()
        self.source = self.expected["source_ids"].astype("int32")

    def hypotheses(self, name):
        """The best of OpenNMT-tf's `greedy` or `beam` search, with its end."""
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
    texts = (DEMO / "test.en").read_text("utf-8").splitlines()
    vocabulary = case.vocabulary.source
    rows = vocabulary.encode(texts[: len(case.source)])
    if vocabulary.source_eos_id == END:
        rows = [[*row, END] for row in rows]
    lengths = case.expected["source_lengths"]
    assert [
        row[:length].tolist()
        for row, length in zip(case.source, lengths, strict=True)
    ] == rows
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
    """The searches here find the same, or what scores better.

    That of OpenNMT-tf keeps finished hypotheses among the K, changes their
    penalty in the steps that follow, and mixes up their log P when they change
    places. Random models, whose outputs are all unlikely, show it often.
    """
    settings = case.search
    if name == "greedy":
        settings = dataclasses.replace(settings, beam_size=1)
    found = search_padded(case.model, case.vocabulary, case.source, settings)
    scores = found.scores[:, 0]
    ours = [
        row[:length].tolist()
        for row, length in zip(
            found.ids[:, 0], found.lengths[:, 0], strict=True
        )
    ]
    theirs = case.hypotheses(name)
    lengths = np.array([len(row) for row in theirs])
    # Their log P, by logits of OpenNMT-tf.
    log_probs = case.expected[f"{name}_log_probs"]
    expected = log_probs / settings.penalty(lengths.astype("float32"))
    same = np.array([a == b for a, b in zip(ours, theirs, strict=True)])
    assert same.mean() >= (1.0 if name == "greedy" else 0.25)
    np.testing.assert_allclose(scores[same], expected[same], atol=2e-4)
    assert (scores >= expected - 1e-4).all()


def test_the_search_of_opennmt_tf(case):
    """Its algorithm, with the probabilities here, finds exactly the same."""
    found = opennmt_search(case, case.search.beam_size, case.search.alpha)
    assert found == case.hypotheses("beam")


def opennmt_search(case, size, alpha):
    """The beam search of OpenNMT-tf 2.32, its faults included."""
    batch = len(case.source)
    rows = np.arange(batch)[:, None]
    ids = np.full((batch, size, 1), case.vocabulary.bos_id)
    log_probs = np.full((batch, size), -np.inf, "float32")
    log_probs[:, 0] = 0
    finished = np.zeros((batch, size), bool)
    lengths = np.zeros((batch, size), int)
    results = [None] * batch
    for step in range(LENGTH):
        found = next_log_probs(case, ids)
        found[finished] = -np.inf
        found[finished, END] = 0
        total = log_probs[:, :, None] + found
        # Finished hypotheses are longer by one than when they were finished.
        penalty = ((5 + lengths + 1.0) / 6) ** alpha
        flat = (total / penalty[:, :, None]).reshape(batch, -1)
        best = np.argsort(-flat, axis=1, kind="stable")[:, :size]
        parents, tokens = np.divmod(best, found.shape[-1])
        lengths = (lengths + ~finished)[rows, parents]
        finished = finished[rows, parents]
        # The value of a finished hypothesis stays in the slot that it leaves.
        log_probs = np.where(
            finished, log_probs, total.reshape(batch, -1)[rows, best]
        )
        finished |= tokens == END
        ids = np.concatenate([ids[rows, parents], tokens[:, :, None]], axis=2)
        for i in range(batch):
            last = finished[i].all() or step == LENGTH - 1
            if last and results[i] is None:
                first = [token for token in ids[i, 0, 1:] if token != END]
                results[i] = [*map(int, first), END]
    return results


def next_log_probs(case, ids):
    batch, size, length = ids.shape
    logits = case.model(
        {
            "source": np.repeat(case.source, size, axis=0),
            "target": ids.reshape(-1, length).astype("int32"),
        }
    ).numpy()[:, -1]
    logits -= logits.max(axis=-1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    return logits.reshape(batch, size, -1)
