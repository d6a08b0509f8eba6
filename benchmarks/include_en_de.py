"""Writes the folder of the included translator.

python benchmarks/include_en_de.py RUN OUTPUT

RUN is the averaged run of docs/en-de.md. OUTPUT is a model for LiteRT in int8,
and contains the run with weights in float16, `run`. Its README is written by
hand.
"""

import argparse
import shutil
from pathlib import Path

import keras_transformer as kt
from keras_transformer.runs.run_folder import Run
from keras_transformer.runs.weight_files import step_of


def main() -> None:
    """Writes the folder."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    translator = kt.open_translator(options.run)
    kt.export.save_litert(translator, options.output, dtype="int8")
    copy = options.output / "run"
    shutil.copytree(options.run, copy)
    run = Run.open(copy)
    step = step_of(run.find_checkpoint())
    run.save_checkpoint(run.load_model(dtype="float16"), step, max_to_keep=1)


if __name__ == "__main__":
    main()
