"""Sends thousands of requests to a served model, and checks every answer.

python benchmarks/soak.py models/en-de/1

The model is served by model_server.py, the stand-in for TensorFlow Serving, on
one thread per operation. Several processes send batches of 1 to 8 sentences,
one after the other, each of which must have the translations that its sentences
have alone, in their order. The sentences are those of the bundled test set, or
the lines of --texts. Prints requests per second, latencies, and the server's
memory after every tenth of the requests, which shows whether it grows. Linux
only.
"""

import argparse
import contextlib
import multiprocessing
import os
import pathlib
import queue
import random
import statistics
import sys
import time
from typing import Any

ROOT = pathlib.Path(__file__).parents[1]
TEXTS = ROOT / "train" / "data" / "demo" / "test.en"
LARGEST_BATCH = 8
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import model_server


def send(
    number: int,
    address: str,
    options: argparse.Namespace,
    expected: dict[str, tuple[list[str], list[float]]],
    shared: Any,
) -> None:
    """Sends one client's requests, and puts a result into a queue.

    Args:
        number: Of the client.
        address: Of the server.
        options: Of the command line.
        expected: Translations and scores of each sentence.
        shared: The counter of all clients, the barrier before the first
            request, and the queue of results: latencies in seconds, and
            descriptions of wrong answers.
    """
    from keras_transformer.inference.served import connect

    counter, barrier, results = shared
    generator = random.Random(number)
    sentences = list(expected)
    latencies, wrong = [], []
    client = connect(f"grpc://{address}/{options.model.parent.name}")
    client.workers = 1
    barrier.wait()
    deadline = time.monotonic() + 60 * options.minutes
    for _ in range(options.requests // options.clients):
        if time.monotonic() > deadline:
            break
        count = generator.randint(1, LARGEST_BATCH)
        texts = generator.choices(sentences, k=count)
        started = time.perf_counter()
        answers = client.translate(texts)
        latencies.append(time.perf_counter() - started)
        if len(answers) != count:
            wrong.append(f"{count} texts, {len(answers)} answers")
        for text, answer in zip(texts, answers, strict=False):
            if not same(answer, expected[text]):
                wrong.append(f"{text!r}: {answer} != {expected[text]}")
        with counter.get_lock():
            counter.value += 1
    results.put((latencies, wrong))


def same(answer: Any, expected: tuple[list[str], list[float]]) -> bool:
    """Returns whether a translation is the expected one."""
    texts, scores = expected
    return answer.texts == texts and all(
        abs(score - other) <= 1e-3 * abs(other) + 1e-4
        for score, other in zip(answer.scores, scores, strict=True)
    )


def translate_alone(
    options: argparse.Namespace, address: str
) -> dict[str, tuple[list[str], list[float]]]:
    """Returns the translations and scores of each sentence in its request."""
    from keras_transformer.inference.served import connect

    lines = options.texts.read_text("utf-8").splitlines()
    sentences = list(dict.fromkeys(lines))[: options.sentences]
    client = connect(f"grpc://{address}/{options.model.parent.name}")
    client.max_batch_size = client.workers = 1
    return {
        sentence: (answer.texts, answer.scores)
        for sentence, answer in zip(
            sentences, client.translate(sentences), strict=True
        )
    }


def memory(process_id: int) -> float:
    """Returns the resident memory of a process in MiB."""
    status = pathlib.Path(f"/proc/{process_id}/status").read_text()
    (line,) = (x for x in status.splitlines() if x.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024


def watch(
    clients: list, shared: Any, process_id: int, step: int
) -> list[tuple[list[float], list[str]]]:
    """Prints the server's memory after every `step` requests.

    Args:
        clients: The processes that send them.
        shared: As in `send`.
        process_id: Of the server.
        step: Requests between two measurements.

    Returns:
        The clients' results.
    """
    counter, _, results_queue = shared
    results: list = []
    following = step
    while len(results) < len(clients):
        with contextlib.suppress(queue.Empty):
            results.append(results_queue.get(timeout=0.02))
        done = counter.value
        if done >= following:
            print(
                f"{done:6,} requests: {memory(process_id):,.1f} MiB", flush=True
            )
            following += step
        if any(client.exitcode for client in clients):
            sys.exit("A client failed.")
    return results


def main() -> None:
    """Runs the clients and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=pathlib.Path, help="NAME/VERSION")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=10, help="at most")
    parser.add_argument("--clients", type=int, default=4, help="processes")
    parser.add_argument("--texts", type=pathlib.Path, default=TEXTS)
    parser.add_argument("--sentences", type=int, default=200, help="of them")
    options = parser.parse_args()
    options.model = options.model.resolve()
    context = multiprocessing.get_context("spawn")
    with model_server.serve(
        options.model, TF_NUM_INTRAOP_THREADS="1", TF_ENABLE_ONEDNN_OPTS="1"
    ) as server:
        expected = translate_alone(options, server.address)
        barrier = context.Barrier(options.clients + 1, timeout=300)
        shared = (context.Value("q"), barrier, context.Queue())
        clients = [
            context.Process(
                target=send,
                args=(number, server.address, options, expected, shared),
            )
            for number in range(options.clients)
        ]
        for client in clients:
            client.start()
        barrier.wait()
        before = memory(server.process.pid)
        print(f"before the first request: {before:,.1f} MiB")
        started = time.perf_counter()
        step = max(options.requests // 10, 1)
        results = watch(clients, shared, server.process.pid, step)
        seconds = time.perf_counter() - started
    for client in clients:
        client.join()
    latencies = sorted(x for found, _ in results for x in found)
    wrong = [line for _, lines in results for line in lines]
    p99 = latencies[int(0.99 * (len(latencies) - 1))]
    print(
        f"{len(latencies):,} of {options.requests:,} requests with 1 to "
        f"{LARGEST_BATCH} sentences each, from {options.clients} processes in "
        f"{seconds:.1f} s: "
        f"{len(latencies) / seconds:.1f} requests/s; latency p50 "
        f"{1000 * statistics.median(latencies):.0f} ms, p99 "
        f"{1000 * p99:.0f} ms"
    )
    print(f"{len(wrong)} wrong answers among {len(expected)} sentences")
    print("\n".join(wrong[:10]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
