"""Results are kept: those of before, and those of two at once."""

import json
import threading

import pytest

from keras_transformer import Tokenizer, TransformerConfig
from keras_transformer.train.evaluation import record
from keras_transformer.train.run import TrainingRun


@pytest.fixture
def run(tmp_path):
    tokenizer = Tokenizer.train(["the cat sleeps", "die Katze schläft"], 280)
    config = TransformerConfig.from_preset(
        "tiny", vocab_size=tokenizer.vocab_size
    )
    return TrainingRun.create(tmp_path / "run", config, {}, tokenizer)


def add(run, bleu, split="test"):
    results = {"split": split, "bleu": bleu}
    path = run.path / "checkpoints" / "step-00000002.weights.h5"
    return record(run, path, 2, results, [f"a {bleu}", "two\nlines", ""])


def test_results_are_added_and_translations_replaced(run):
    add(run, 1.0)
    path = add(run, 2.0)
    add(run, 3.0, "valid")
    found = json.loads(path.read_text())
    assert [(r["split"], r["bleu"], r["step"]) for r in found] == [
        ("test", 1.0, 2),
        ("test", 2.0, 2),
        ("valid", 3.0, 2),
    ]
    text = (run.path / "translations-test.txt").read_text()
    assert text == "a 2.0\ntwo lines\n\n"


def test_a_damaged_file_is_put_aside(run, capsys):
    damaged = '[{"bleu": 1.0'
    (run.path / "results.json").write_text(damaged)
    path = add(run, 2.0)
    assert [r["bleu"] for r in json.loads(path.read_text())] == [2.0]
    aside = run.path / "results.json.damaged"
    assert aside.read_text() == damaged
    assert "results.json.damaged" in capsys.readouterr().err


def test_many_at_once_are_all_kept(run):
    threads = [
        threading.Thread(target=add, args=(run, float(i))) for i in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = json.loads((run.path / "results.json").read_text())
    assert sorted(r["bleu"] for r in found) == list(range(16))
