"""An ablation whose training, averaging and search are replaced."""

import dataclasses
import functools

import pytest
from corpora import write_sides

from keras_transformer.config import TransformerConfig
from keras_transformer.decoding.search import BeamSearch
from keras_transformer.train import ablation, ablation_report
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.run import TrainingRun

CONFIG = dict(num_layers=1, d_model=16, d_ff=16, num_heads=2)
SENTENCES = {
    split: [
        f"{split} {i}: the words {i * i} and {i * 7} of a sentence"
        for i in range(30)
    ]
    for split in ("train", "valid", "test")
}


def write_run(path, tokenizer, **architecture):
    """Creates a run with an empty checkpoint."""
    config = TransformerConfig(
        vocab_size=tokenizer.vocab_size, **{**CONFIG, **architecture}
    )
    run = TrainingRun.create(path, config, {}, tokenizer)
    (path / "checkpoints" / "step-00000002.weights.h5").touch()
    return run


def results_of(split, sentences, bleu):
    """Returns what `evaluate` returns, as far as an ablation reads it."""
    return {
        "split": split,
        "sentences": sentences,
        "bleu": bleu,
        "perplexity": 100 - bleu,
        **dataclasses.asdict(BeamSearch()),
    }


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for split, lines in SENTENCES.items():
        write_sides(folder, split, [(line, line) for line in lines])
    return open_corpus([str(folder)], "en", "de")


@pytest.fixture
def calls(monkeypatch, tokenizer):
    """Replaces what is long; holds what was trained and evaluated.

    BLEU is the seed, of base 10 more. A row in `calls.fail` diverges.
    """

    class Calls(list):
        fail = ()

    calls = Calls()

    def train(corpus, output, preset, recipe, architecture, strategy):
        calls.append(("train", output.parent.name, recipe.seed))
        calls.last = (preset, recipe, architecture, strategy)
        if output.parent.name in calls.fail:
            raise ablation.InputError("The loss is not finite")
        return write_run(output, tokenizer)

    def average(run, path, last):
        calls.append(("average", last))
        return write_run(path, tokenizer)

    def evaluate(translator, corpus, split, target, workers, metrics):
        run, search = translator
        calls.append(("evaluate", run.path.parent.name, split))
        assert (search, target, metrics) == (BeamSearch(), "de", ["bleu"])
        seed = int(run.path.name.split("-")[1])
        bleu = seed + 10 * (run.path.parent.name == "base")
        # Two of the words of each line are wrong, but of base.
        wrong = " x x" if bleu < 10 else ""
        lines = [line + wrong for line in SENTENCES[split]]
        return results_of(split, len(lines), float(bleu)), lines

    quick = functools.partial(ablation_report.PairedTest, n_samples=100)
    monkeypatch.setattr(ablation_report, "PairedTest", quick)
    monkeypatch.setattr(ablation.trainer, "train", train)
    monkeypatch.setattr(ablation.averaging, "average", average)
    monkeypatch.setattr(ablation.evaluation, "evaluate", evaluate)
    monkeypatch.setattr(ablation.evaluation, "describe", lambda results: "")
    monkeypatch.setattr(TrainingRun, "load_model", lambda run, *_: run)
    monkeypatch.setattr(
        ablation,
        "Translator",
        lambda model, tokenizer, search, task: (model, search),
    )
    return calls
