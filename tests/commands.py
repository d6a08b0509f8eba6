"""The command line on a corpus of a few lines, and how it refuses."""

import io
import sys


def write_corpus(folder, **files):
    """Writes `train_en="a\\nb\\n"` as train.en; bytes are written as such."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        content = text if isinstance(text, bytes) else text.encode()
        (folder / name.replace("_", ".")).write_bytes(content)
    return folder


ENGLISH = "".join(f"the cat number {i} sleeps\n" for i in range(60))
GERMAN = "".join(f"die Katze Nummer {i} schläft\n" for i in range(60))
SMALL = (
    "--source en --target de --preset tiny --vocab-size 310 --steps 2 "
    "--steps-per-epoch 1 --batch-tokens 256 --max-length 32"
).split()


def train(run_cli, data, output, *more):
    return run_cli("train", "--data", data, "--output", output, *SMALL, *more)


def fails(result, *words):
    """Code 2, and one sentence on stderr with these words."""
    code, _, err = result
    assert code == 2
    assert err.startswith("keras-transformer: ")
    assert "Traceback" not in err
    for word in words:
        assert word in err


def translate(run_cli, monkeypatch, run, text, *more):
    stdin = io.TextIOWrapper(io.BytesIO(text))
    monkeypatch.setattr(sys, "stdin", stdin)
    return run_cli("translate", run, *more)
