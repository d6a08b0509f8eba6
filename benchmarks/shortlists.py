"""Compares decoding of real sentences with and without a shortlist.

python benchmarks/shortlists.py tatoeba-en-de multi30k-en-de

The folders have train.{en,de} and valid.en. The model is `base` with random
weights and a vocabulary of 37,000 tokens of the corpora; each translation is
forced to have as many tokens as the longest source of its batch. LiteRT and
CTranslate2 have the same weights and shortlist, and the faster of two modes:
two threads, or two workers of half a batch.
"""

import argparse
import concurrent.futures
import itertools
import os
import pathlib
import statistics
import time
from collections.abc import Callable

import ctranslate2
import numpy as np

import keras_transformer as kt

SYSTEMS = ("LiteRT", "LiteRT, shortlist", "CTranslate2", "CTranslate2, map")
BATCHES = (1, 8, 32)
MODES = ("threads", "workers")
Batch = list[list[int]]


def export(folder: pathlib.Path, data: list[str], vocab_size: int) -> None:
    """Writes the model for each system into a folder."""
    corpora = [kt.train.open_corpus([path], "en", "de") for path in data]
    pairs = [pair for corpus in corpora for pair in corpus.pairs("train")]
    np.random.default_rng(0).shuffle(pairs)
    texts = itertools.chain.from_iterable(pairs)
    tokenizer = kt.Tokenizer.train(texts, vocab_size)
    folder.mkdir(parents=True)
    config = kt.TransformerConfig.from_preset("base", vocab_size=vocab_size)
    model = kt.Transformer(config)
    translator = kt.Translator(model, tokenizer)
    shortlist = kt.export.make_shortlist(tokenizer, pairs)
    ctranslate2_folder = folder / "ctranslate2"
    kt.export.save_ctranslate2(
        translator, ctranslate2_folder, shortlist=shortlist
    )
    for dtype in ("float32", "int8"):
        path = folder / dtype
        kt.export.save_litert(translator, path, dtype)
        path = folder / f"{dtype}-shortlist"
        kt.export.save_litert(translator, path, dtype, shortlist)


def open_litert(path: pathlib.Path, beam_size: int, mode: str) -> Callable:
    """Returns a function that translates a batch of ids."""
    search = kt.BeamSearch(beam_size)
    translator = kt.open_translator(path, search=search)
    engine, pool = translator.engine, concurrent.futures.ThreadPoolExecutor()

    def decode(batch: Batch, length: int, workers: int) -> None:
        limits = np.full(len(batch), length, np.int32)
        prefixes = [[] for _ in batch]
        engine.search(batch, prefixes, limits, search, 1, workers)

    def translate(batch: Batch) -> None:
        workers = 2 if mode == "workers" and len(batch) > 1 else 1
        half = -(-len(batch) // workers)
        parts = [batch[i : i + half] for i in range(0, len(batch), half)]
        length = max(map(len, batch))
        futures = [pool.submit(decode, x, length, workers) for x in parts]
        [future.result() for future in futures]

    return translate


def open_ctranslate2(
    path: pathlib.Path, beam_size: int, mode: str, dtype: str, use_vmap: bool
) -> Callable:
    """Returns a function that translates a batch of ids."""
    workers, threads = (1, 2) if mode == "threads" else (2, 1)
    translator = ctranslate2.Translator(
        str(path),
        compute_type=dtype,
        inter_threads=workers,
        intra_threads=threads,
    )
    pieces = kt.Tokenizer.load(path).pieces()

    def translate(batch: Batch) -> None:
        length = max(map(len, batch))
        translator.translate_batch(
            [[pieces[i] for i in ids[:-1]] for ids in batch],
            max_batch_size=-(-len(batch) // workers) if workers > 1 else 0,
            beam_size=beam_size,
            min_decoding_length=length,
            max_decoding_length=length,
            use_vmap=use_vmap,
        )

    return translate


def median_speeds(
    systems: dict[str, Callable], parts: list[Batch], tokens: int, rounds: int
) -> dict[str, float]:
    """Returns target tokens per second of each system, which take turns.

    Args:
        systems: Functions that translate a batch.
        parts: The batches.
        tokens: Target tokens of all batches.
        rounds: Measured rounds, after one to warm up.
    """
    speeds: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(rounds + 1):
        for name, translate in systems.items():
            start = time.perf_counter()
            for part in parts:
                translate(part)
            speeds[name].append(tokens / (time.perf_counter() - start))
    return {name: statistics.median(x[1:]) for name, x in speeds.items()}


def measure(
    folder: pathlib.Path, batches: dict[int, list[Batch]], rounds: int
) -> None:
    """Prints target tokens per second, medians of the faster mode."""
    print(f"| dtype, beam | | {' | '.join(f'batch {x}' for x in BATCHES)} |")
    print("|---" * (len(BATCHES) + 2) + "|")
    for dtype, beam_size in itertools.product(("float32", "int8"), (4, 1)):
        medians: dict[tuple, float] = {}
        for mode in MODES:
            path, common = folder / dtype, (beam_size, mode)
            listed = path.with_name(f"{dtype}-shortlist")
            other = folder / "ctranslate2"
            opened = dict(
                zip(
                    SYSTEMS,
                    [
                        open_litert(path, *common),
                        open_litert(listed, *common),
                        open_ctranslate2(other, *common, dtype, False),
                        open_ctranslate2(other, *common, dtype, True),
                    ],
                    strict=True,
                )
            )
            for size, parts in batches.items():
                count = sum(len(x) * max(map(len, x)) for x in parts)
                speeds = median_speeds(opened, parts, count, rounds)
                for name, speed in speeds.items():
                    key = name, size
                    medians[key] = max(medians.get(key, 0), speed)
        for name in SYSTEMS:
            row = [f"{medians[name, size]:,.0f}" for size in BATCHES]
            cells = [f"{dtype}, {beam_size}", name, *row]
            print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Exports, measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="+", help="folders of corpora")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--vocab-size", type=int, default=37_000)
    parser.add_argument(
        "--models", type=pathlib.Path, default=pathlib.Path("runs/shortlists")
    )
    options = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    folder = options.models
    if not folder.exists():
        export(folder, options.data, options.vocab_size)
    tokenizer = kt.Tokenizer.load(folder / "int8")
    texts: list[str] = []
    for path in options.data:
        file = pathlib.Path(path, "valid.en")
        texts += file.read_text("utf-8").splitlines()[:300]
    ids = [[*row, tokenizer.eos_id] for row in tokenizer.encode(texts)]
    ids = sorted((x for x in ids if 6 < len(x) < 40), key=len)
    shortlist = np.load(folder / "int8-shortlist" / "shortlist.npz")
    print(f"{len(shortlist['targets']):,} pairs of tokens in the shortlist")
    # Batches of sentences of about the median length.
    batches = {}
    for size in BATCHES:
        count = 4 if size == 1 else 1
        first = (len(ids) - count * size) // 2
        starts = range(first, first + count * size, size)
        batches[size] = [ids[i : i + size] for i in starts]
    measure(folder, batches, options.rounds)


if __name__ == "__main__":
    main()
