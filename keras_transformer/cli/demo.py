"""`demo`: trains, evaluates, exports and translates on the bundled corpus."""

import itertools
from pathlib import Path

import keras_transformer as kt
from keras_transformer.cli import exporting, translating


def demo(*, output: Path | None = None) -> None:
    """Train, evaluate, export and translate in a few minutes.

    Args:
        output: Folder of the run (default: the first of runs/demo,
            runs/demo-2, ... that does not exist).
    """
    if output is None:
        output = Path("runs/demo")
        number = 2
        while output.exists():
            output = Path(f"runs/demo-{number}")
            number += 1
    corpus = kt.train.open_corpus(["embedded"])

    print("== 1/4 train on the bundled English-German corpus")
    recipe = {"max_length": 32, "steps_per_epoch": 250}
    run = kt.train.train(corpus, output, "tiny", recipe)

    print("\n== 2/4 translate 500 held-out sentences with beam search")
    translating.evaluate([run.path])

    exported = run.path / "exported" / "1"
    print("\n== 3/4 export a SavedModel and check it")
    exporting.export([run.path], output=exported)

    print("\n== 4/4 translate with the SavedModel")
    pairs = [("I am a student", ""), *itertools.islice(corpus.pairs("test"), 2)]
    sources = [source for source, _ in pairs]
    outputs = kt.open_translator(exported).translate(sources)
    for (source, reference), translation in zip(pairs, outputs, strict=True):
        print(f"  {source}\n    -> {translation.text}")
        if reference:
            print(f"    reference: {reference}")
    # `make demo` runs the command by its path, without activating .venv.
    print(f"""
The corpus has simple sentences and a small vocabulary: the model cannot
translate anything else. To go on, after `source .venv/bin/activate`:
  echo "The old teacher reads a book." | keras-transformer translate {run.path}
  keras-transformer serve {run.path}""")
