"""`make demo` runs the real one; here the long steps are replaced."""

import itertools

import pytest

import keras_transformer as kt
from keras_transformer.cli import exporting, translating
from keras_transformer.inference.records import Translation
from keras_transformer.runs.run_folder import Run
from keras_transformer.train.data.corpus import open_corpus


@pytest.fixture
def calls(trained, monkeypatch):
    """Replaces the long steps; holds what they were called with."""
    calls = []

    def train(corpus, output, preset, recipe):
        calls.append(("train", corpus.name, str(output), preset, recipe))
        return Run.open(trained.run)

    def export(runs, *, output):
        calls.append(("export", runs, output))

    class Exported:
        def translate(self, texts):
            calls.append(("translate", texts))
            return [
                Translation([text.upper()], [0.0], False, False)
                for text in texts
            ]

    def open_translator(path):
        calls.append(("open", path))
        return Exported()

    monkeypatch.setattr(kt.train, "train", train)
    monkeypatch.setattr(
        translating, "evaluate", lambda *x: calls.append(("evaluate", *x))
    )
    monkeypatch.setattr(exporting, "export", export)
    monkeypatch.setattr(kt, "open_translator", open_translator)
    return calls


def test_the_steps_of_the_demo(calls, trained, run_cli):
    code, out, _ = run_cli("demo", "--output", "runs/mine")
    assert code == 0
    sentences = ["I am a student"]
    held_out = itertools.islice(open_corpus(["embedded"]).pairs("test"), 2)
    references = []
    for source, reference in held_out:
        sentences.append(source)
        references.append(reference)
    exported = trained.run / "exported" / "1"
    recipe = {"max_length": 32, "steps_per_epoch": 250}
    assert calls == [
        ("train", "embedded", "runs/mine", "tiny", recipe),
        ("evaluate", [trained.run]),
        ("export", [trained.run], exported),
        ("open", exported),
        ("translate", sentences),
    ]
    headings = [line for line in out.splitlines() if line.startswith("==")]
    assert [line[:6] for line in headings] == [f"== {i}/4" for i in range(1, 5)]
    for sentence in sentences:
        assert f"  {sentence}\n    -> {sentence.upper()}\n" in out
    for reference in references:
        assert f"\n    reference: {reference}\n" in out
    assert out.count("reference: ") == 2
    assert f"keras-transformer translate {trained.run}\n" in out
