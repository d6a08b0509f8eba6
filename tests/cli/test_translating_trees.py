"""A parser from the command line: train, evaluate, parse."""

import json

import pytest
from commands import Chunks, set_stdin, write_run
from documents import blocks
from fake_translator import FakeBackend, FakeTranslator
from generated_treebank import write_treebank

from keras_transformer.cli import main
from keras_transformer.inference.records import Translation
from keras_transformer.tasks import ParsingTask
from keras_transformer.tasks.parsing import Tree, pretty, read_trees

SMALL = (
    "--preset tiny --vocab-size 350 --steps 1 --steps-per-epoch 1 "
    "--batch-tokens 256 --max-length 40 --num-layers 1 --d-model 8 --d-ff 8 "
    "--num-heads 2 --scored-sentences 1"
).split()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parser")
    (folder / "data").mkdir()
    write_treebank(folder / "data", train=60, valid=3)
    run = folder / "run"
    data = str(folder / "data")
    assert main(["train", data, "--output", str(run), *SMALL]) == 0
    return run, data


def test_evaluate_measures_brackets(run_cli, trained):
    run, data = trained
    header, row = (run / "log.csv").read_text().splitlines()
    logged = dict(zip(header.split(","), row.split(","), strict=True))
    assert 0 <= float(logged["val_score"]) <= 100
    code, out, _ = run_cli(
        *("evaluate", run, "--data", data, "--split", "valid"),
        *("--beam-size", 2, "--metric", "f1", "tag_accuracy"),
    )
    assert code == 0
    (results,) = json.loads((run / "results.json").read_text())
    assert f"F1              {results['f1']:6.2f}\n" in out
    assert "precision" not in results
    # The likelihood is that of the symbols, as in training.
    validation = float(logged["val_perplexity"])
    assert results["perplexity"] == pytest.approx(validation, rel=1e-4)
    # The defaults of section 6.3, but for what was given.
    assert (results["alpha"], results["extra_length"]) == (0.3, 300)
    assert results["beam_size"] == 2
    lines = (run / "trees-valid.txt").read_text().splitlines()
    words = [tree.words for tree in read_trees(f"{data}/valid.mrg")]
    assert [Tree.from_string(line).words for line in lines] == words
    # Hardly trained, it repeats itself.
    assert results["repaired"] > 0
    assert f"repaired        {results['repaired']:6,}  of the" in out


TREES = ["(TOP (NP (NN dog)))", "(TOP (NN dog))"]


class FakeParser(FakeBackend):
    """Says that every line is a dog."""

    def translate(self, pairs, workers):
        n = self.num_translations
        return [
            Translation(
                TREES[:n] if text else [""] * n,
                [-1.0, -2.5][:n],
                source_truncated=False,
                at_length_limit=text == "long",
                repaired=text in ("long", "odd"),
            )
            for text in [pair.text for pair in pairs]
        ]


@pytest.fixture
def parser(tmp_path, monkeypatch):
    """A run that parses, whose model is a fake, and the tasks it is given."""
    folder = write_run(tmp_path / "run", task="parsing")
    tasks = []

    def open_translator(paths, *, num_translations, task, **_):
        tasks.append(task)
        return FakeTranslator(
            num_translations, max_length=32, task=task or ParsingTask()
        )

    name = "keras_transformer.cli.flags.open_translator"
    monkeypatch.setattr(name, open_translator)
    monkeypatch.setattr(FakeTranslator, "backend_class", FakeParser)
    set_stdin(monkeypatch, Chunks([b"dog\n\nlong\nodd\n"]))
    return folder, tasks


def test_formats_of_trees(run_cli, parser, monkeypatch):
    folder, tasks = parser
    code, out, err = run_cli("translate", folder)
    tree = pretty(Tree.from_string(TREES[0]))
    assert (code, out) == (0, f"{tree}\n\n\n{tree}\n\n{tree}\n\n")
    assert "perhaps incomplete: 1" in err and "repaired: 2" in err
    set_stdin(monkeypatch, Chunks([b"dog\n\n"]))
    _, out, _ = run_cli("translate", folder, "--n-best", 2, "--tokenized")
    assert out.splitlines() == [
        f"1\t-1.0000\t{TREES[0]}",
        f"1\t-2.5000\t{TREES[1]}",
        "2\t-1.0000\t",
        "2\t-2.5000\t",
    ]
    set_stdin(monkeypatch, Chunks([b"dog\n\n"]))
    assert run_cli("translate", folder, "--one-line").out == f"{TREES[0]}\n\n"
    assert tasks[0] is None and not tasks[1].split_words


def test_the_program_of_the_document(trained, monkeypatch, tmp_path, capsys):
    run, _ = trained
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "parser").symlink_to(run)
    monkeypatch.chdir(tmp_path)
    (program,) = blocks("docs/parsing.md", "python")
    names = {}
    exec(program, names)
    assert names["tree"].words == "The dog barks .".split()
    assert capsys.readouterr().out.startswith(pretty(names["tree"]))
    with pytest.raises(ValueError, match="parser takes no prefixes"):
        names["parser"].translate("The dog barks.", prefixes="(TOP")
