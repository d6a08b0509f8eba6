"""Compares decoding with Marian's, with equal weights.

python benchmarks/marian.py tatoeba-en-de multi30k-en-de

The folders have train.{en,de} and valid.en. Marian (`pip install pymarian`)
writes a model of the size of `base` after a single update, whose import is
exported for LiteRT and CTranslate2. All translate real sentences of 24 tokens
in float32, greedily and with a beam of 4, into as many tokens; each system has
the faster of two modes: two threads, or two workers of half a batch. Marian
computes a batch with one thread.
"""

import argparse
import itertools
import os
import pathlib
from collections.abc import Callable

import numpy as np
import pymarian
import sentencepiece
import shortlists
import yaml

import keras_transformer as kt

BATCHES, BEAM_SIZES, LENGTH = (1, 8, 32), (1, 4), 24
SYSTEMS = ("LiteRT", "CTranslate2", "Marian")
BASE = {
    "type": "transformer",
    "tied-embeddings-all": "",
    "dim-emb": 512,
    "enc-depth": 6,
    "dec-depth": 6,
    "transformer-heads": 8,
    "transformer-dim-ffn": 2048,
    "transformer-ffn-activation": "relu",
    "after": "1u",
    "mini-batch": 2,
    "cpu-threads": 1,
    "workspace": 1024,
    "quiet": "",
}


def export(folder: pathlib.Path, data: list[str], vocab_size: int) -> None:
    """Writes a model of Marian and its exports into a new folder."""
    corpora = [kt.train.open_corpus([path], "en", "de") for path in data]
    pairs = [pair for corpus in corpora for pair in corpus.pairs("train")]
    model = kt.Tokenizer.train(itertools.chain(*pairs), vocab_size).target.model
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model)
    marian = folder / "marian"
    marian.mkdir(parents=True)
    sides = zip(*pairs[:8], strict=True)
    for side, texts in zip(("source", "target"), sides, strict=True):
        (marian / f"{side}.spm").write_bytes(model)
        lines = map(" ".join, pieces.encode(list(texts), out_type=str))
        (marian / side).write_text("\n".join(lines), "utf-8")
    words = ["</s>", "<unk>"]
    words += [
        pieces.id_to_piece(i)
        for i in range(len(pieces))
        if not (pieces.is_control(i) or pieces.is_unknown(i))
    ]
    ids = {word: i for i, word in enumerate(words)}
    _write_yaml(marian / "vocab.yml", ids)
    path, vocabulary = marian / "model.npz", marian / "vocab.yml"
    options = BASE | {
        "model": path,
        "train-sets": f"{marian / 'source'} {marian / 'target'}",
        "vocabs": f"{vocabulary} {vocabulary}",
    }
    arguments = (f"--{name} {value}" for name, value in options.items())
    pymarian.Trainer(" ".join(arguments)).train()
    weights = dict(np.load(path))
    # No translation ends before its maximum length.
    weights["decoder_ff_logit_out_b"][:, ids["</s>"]] = -100
    np.savez(path, **weights)
    values = {
        "models": ["model.npz"],
        "vocabs": ["vocab.yml"] * 2,
        "relative-paths": True,
    }
    _write_yaml(marian / "decoder.yml", values)
    run = kt.convert.read(marian, "marian").save_run(folder / "run")
    translator = kt.open_translator(run.path)
    kt.export.save_litert(translator, folder / "float32")
    kt.export.save_ctranslate2(translator, folder / "ctranslate2")


def open_marian(
    path: pathlib.Path, beam_size: int, mode: str, batch: int
) -> Callable:
    """Returns a function that translates a batch of ids."""
    parts = 2 if mode == "workers" else 1
    program = pymarian.Translator(
        f"--config {path / 'marian' / 'decoder.yml'} --quiet --no-spm-decode "
        f"--beam-size {beam_size} --skip-cost --max-length-factor 1 "
        f"--mini-batch {-(-batch // parts)} --maxi-batch 1 --workspace 1024 "
        f"--cpu-threads {parts}"
    )
    pieces = kt.Tokenizer.load(path / "run").pieces()

    def translate(sources: list[list[int]]) -> None:
        texts = [" ".join(pieces[i] for i in ids[:-1]) for ids in sources]
        lines = "\n".join(program.translate(texts)).splitlines()
        lengths = {len(line.split()) for line in lines}
        if lengths - {LENGTH - 1, LENGTH} or len(lines) != batch:
            raise ValueError(f"Marian returned {len(lines)} lines of {lengths}")

    return translate


def measure(
    path: pathlib.Path, sources: list[list[int]], rounds: int
) -> dict[tuple, float]:
    """Returns target tokens per second of each system, beam and batch."""
    medians: dict[tuple, float] = {}
    for beam_size, size, mode in itertools.product(
        BEAM_SIZES, BATCHES, shortlists.MODES
    ):
        common = beam_size, mode
        ctranslate2 = path / "ctranslate2", *common, "float32", False
        opened = {
            "LiteRT": shortlists.open_litert(path / "float32", *common),
            "CTranslate2": shortlists.open_ctranslate2(*ctranslate2),
            "Marian": open_marian(path, *common, size),
        }
        speeds = shortlists.median_speeds(
            opened, [sources[:size]], size * LENGTH, rounds
        )
        for name, speed in speeds.items():
            key = name, beam_size, size
            medians[key] = max(medians.get(key, 0), speed)
    return medians


def _write_yaml(path: pathlib.Path, values: dict) -> None:
    text = yaml.safe_dump(values, allow_unicode=True, sort_keys=False)
    path.write_text(text, "utf-8")


def main() -> None:
    """Exports, measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+", help="folders of corpora")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--vocab-size", type=int, default=37_000)
    parser.add_argument(
        "--models", type=pathlib.Path, default=pathlib.Path("runs/marian")
    )
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    folder = options.models.resolve()
    if not folder.exists():
        export(folder, options.data, options.vocab_size)
    tokenizer = kt.Tokenizer.load(folder / "run")
    texts: list[str] = []
    for path in options.data:
        texts += pathlib.Path(path, "valid.en").read_text("utf-8").splitlines()
    ids = [[*row, tokenizer.eos_id] for row in tokenizer.encode_sources(texts)]
    sources = [row for row in ids if len(row) == LENGTH]
    medians = measure(folder, sources[: max(BATCHES)], options.rounds)
    cases = [(beam, size) for beam in BEAM_SIZES for size in BATCHES]
    names = (f"beam {beam}, batch {size}" for beam, size in cases)
    print(f"| | {' | '.join(names)} |")
    print("|---" * (len(cases) + 1) + "|")
    for system in SYSTEMS:
        row = (f"{medians[(system, *case)]:,.0f}" for case in cases)
        print(f"| {system} | {' | '.join(row)} |")


if __name__ == "__main__":
    main()
