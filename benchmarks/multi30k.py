"""Multi30k as published: lower-cased Moses tokens, and their BLEU-4.

python benchmarks/multi30k.py prepare FOLDER runs/multi30k-tok
python benchmarks/multi30k.py score RUN/translations-test.txt FOLDER/tok/test.de

FOLDER contains train|valid|test.en|de as plain text and, in tok/, the released
test, lower-cased and tokenized. `prepare` lower-cases each line, normalizes its
punctuation and tokenizes it with Moses, and reports how many lines of the test
differ from the released ones. `score` expects tokenized translations; with
`--text` it tokenizes them first.
"""

import argparse
import pathlib

from sacrebleu.metrics import BLEU
from sacremoses import MosesPunctNormalizer, MosesTokenizer


def tokenized(lines: list[str], language: str) -> list[str]:
    """Returns lines lower-cased and tokenized as Multi30k's are."""
    normalizer = MosesPunctNormalizer(language)
    tokenizer = MosesTokenizer(language)
    return [
        tokenizer.tokenize(normalizer.normalize(line.lower()), return_str=True)
        for line in lines
    ]


def read(path: pathlib.Path) -> list[str]:
    """Returns the lines of a file."""
    return path.read_text("utf-8").splitlines()


def prepare(folder: pathlib.Path, output: pathlib.Path) -> None:
    """Writes all splits, lower-cased and tokenized."""
    output.mkdir(parents=True)
    for split in ("train", "valid", "test"):
        for language in ("en", "de"):
            name = f"{split}.{language}"
            lines = tokenized(read(folder / name), language)
            if split == "test":
                pairs = zip(lines, read(folder / "tok" / name), strict=True)
                differ = sum(ours != theirs for ours, theirs in pairs)
                print(f"{name}: {differ} of {len(lines)} lines differ")
            text = "".join(f"{line}\n" for line in lines)
            (output / name).write_text(text, "utf-8")


def score(
    translations: pathlib.Path, references: pathlib.Path, text: bool
) -> None:
    """Prints BLEU-4."""
    hypotheses = read(translations)
    if text:
        language = references.suffix.removeprefix(".")
        hypotheses = tokenized(hypotheses, language)
    # `force` silences the advice against scoring tokenized text.
    bleu = BLEU(tokenize="none", smooth_method="none", force=True)
    print(bleu.corpus_score(hypotheses, [read(references)]))
    print(bleu.get_signature())


def main() -> None:
    """Runs `prepare` or `score`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    preparing = commands.add_parser("prepare")
    preparing.add_argument("folder", type=pathlib.Path)
    preparing.add_argument("output", type=pathlib.Path, help="new folder")
    scoring = commands.add_parser("score")
    scoring.add_argument("translations", type=pathlib.Path, help="one per line")
    scoring.add_argument("references", type=pathlib.Path, help="tok/test.de")
    scoring.add_argument(
        "--text", action="store_true", help="not tokenized yet"
    )
    options = parser.parse_args()
    if options.command == "prepare":
        prepare(options.folder, options.output)
    else:
        score(options.translations, options.references, options.text)


if __name__ == "__main__":
    main()
