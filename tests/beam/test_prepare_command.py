"""`python -m keras_transformer.beam prepare`, in this process."""

import collections
import dataclasses
import gzip
import json

import pytest
import sentencepiece
from commands import Result, check_refused
from corpora import write_lines, write_sides
from ids import rows

from keras_transformer.beam import corpus_chunks
from keras_transformer.beam.__main__ import main
from keras_transformer.text import Tokenizer
from keras_transformer.train.data import encoding
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.data.filters import PairFilters
from keras_transformer.train.preparation import prepare
from keras_transformer.train.recipe import Recipe

SIZES = Recipe(vocab_size=300, max_length=24)

LONG = "dog " * 30
PAIRS = [
    (f"{i} {'dog ' * (i % 9)}".strip(), f"{i} {'Hund ' * (i * 5 % 9)}".strip())
    for i in range(100, 400)
]
PAIRS[100:100] = [("", "a"), (LONG, "b"), ("", LONG)]
PAIRS += [
    ("Über\0\u2028alles:\u00a0„s\u00ado“ 🦩 ", "ﬁ\u00a0½"),
    ("", "c"),
    PAIRS[1],
    PAIRS[2],
]
VALID = [("12 dog", "12 Hund"), ("", "leer")]


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Runs the command, in small chunks, batches and shards."""
    monkeypatch.setattr(corpus_chunks, "CHUNK", 70)
    monkeypatch.setattr(encoding, "BATCH", 50)
    monkeypatch.setattr(encoding, "SHARD_IDS", 1_000)

    def run(*inputs, **changed):
        options = dict(output=tmp_path / "out", max_length=24)
        options |= dict(direct_running_mode="in_memory", direct_num_workers=1)
        options |= changed
        flags = []
        for name, value in options.items():
            kept = name.startswith("direct")
            flag = f"--{name if kept else name.replace('_', '-')}"
            if value is not None:
                flags.append(flag if value is True else f"{flag}={value}")
        code = main(["prepare", "--input", *map(str, inputs), *flags])
        return Result(code, *capsys.readouterr())

    return run


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    write_sides(folder, "train", PAIRS, end="\r\n")
    write_sides(folder, "valid", VALID)
    return folder


def files(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_the_files_are_those_of_prepare(run, texts, tmp_path):
    corpus = open_corpus(str(texts), "en", "de")
    expected = files(prepare(corpus, tmp_path / "expected", SIZES).path)
    assert len([name for name in expected if name.endswith("ids.npy")]) > 2
    code, out, _ = run(texts, source="en", target="de", vocab_size=300)
    assert code == 0
    assert "tokenizing: 307 pairs in 5 chunks, 0 of them done earlier\n" in out
    assert files(tmp_path / "out") == expected
    # Nothing else is left.
    assert {x.name for x in tmp_path.iterdir()} == {"texts", "expected", "out"}


def test_patterns_are_prepared_like_one_file(run, texts, tmp_path):
    corpus = open_corpus(str(texts), "en", "de")
    expected = prepare(corpus, tmp_path / "expected", SIZES)
    for name, part in (("web-1", PAIRS[:123]), ("web-2", PAIRS[123:])):
        for path in write_sides(tmp_path, name, part):
            content = open(path, "rb").read()
            open(f"{path}.gz", "wb").write(gzip.compress(content))
    inputs = [tmp_path / "web-*.en.gz", tmp_path / "web-*.de.gz"]
    result = run(*inputs, tokenizer=expected.path)
    assert result.code == 0, result.err
    written = files(tmp_path / "out")
    wanted = files(expected.path)
    del wanted["valid.tfrecord"]
    description = json.loads(wanted.pop("prepared.json"))
    description |= dict(data=" ".join(map(str, inputs)), text_splits=[])
    description |= dict(source=None, target=None)
    assert json.loads(written.pop("prepared.json")) == description
    assert written == wanted


FILTERS = PairFilters(
    max_ratio=1.5,
    deduplicate=True,
    drop_identical=True,
    min_letters=0.5,
    language_columns=True,
)


def reason_to_drop(pair, languages, seen, ids):
    """Written again, pair by pair."""
    shorter, longer = sorted(len(x) + 1 for x in ids)
    texts = [text.replace(" ", "") for text in pair]
    if languages != ("en", "de"):
        return "language"
    if pair[0] == pair[1]:
        return "identical"
    if any(2 * sum(map(str.isalpha, x)) < len(x) for x in texts):
        return "letters"
    if pair in seen:
        return "duplicate"
    if shorter == 1:
        return "empty"
    if longer > 24:
        return "long"
    return "ratio" if longer > 1.5 * shorter else ""


def test_filters(run, tmp_path):
    """Compared with the same, pair by pair, and with `prepare`."""
    codes = [("en", "de"), ("en", "fr"), ("de", "de")]
    table = [(*PAIRS[i * 3 % 300], *codes[i % 31 % 3]) for i in range(400)]
    table += [(LONG, "b", "en", "de")] * 2
    table += [("a dog", "a dog", "en", "de"), ("dog", "??? 7", "en", "de")] * 2
    path = write_lines(tmp_path / "a.tsv", ["\t".join(row) for row in table])
    options = dict(source="en", target="de", vocab_size=300)
    options |= dict(language_columns=True, deduplicate=True, max_ratio=1.5)
    options |= dict(drop_identical=True, min_letters=0.5)
    code, out, err = run(path, **options)
    assert code == 0, err

    prepared = open_corpus(str(tmp_path / "out")).prepared
    model = prepared.tokenizer.model
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    expected, seen, dropped = [], set(), []
    for *pair, source, target in table:
        ids = [library.encode(text) for text in pair]
        reason = reason_to_drop(tuple(pair), (source, target), seen, ids)
        if reason:
            dropped.append((reason, *pair))
        else:
            expected += ids
        if reason in ("", "empty", "long", "ratio"):
            seen.add(tuple(pair))
    counts = collections.Counter(reason for reason, *_ in dropped)
    assert len(counts) == 7
    assert rows(prepared.shards) == expected
    assert prepared.statistics.dropped == counts
    assert prepared.statistics.pairs == len(expected) / 2
    assert f", {counts['language']} in other languages, 2 with identic" in out

    # The tokenizer is trained on what texts do not rule out.
    texts = [
        text
        for *pair, source, target in table
        if not reason_to_drop(tuple(pair), (source, target), (), ["abc"] * 2)
        for text in pair
    ]
    assert model == Tokenizer.train(texts, 300).model

    file = tmp_path / "dropped.tsv"
    values = None, FILTERS, file
    corpus = open_corpus(path, "en", "de")
    plain = prepare(corpus, tmp_path / "plain", SIZES, *values)
    written, wanted = files(tmp_path / "out"), files(plain.path)
    assert written == wanted
    description = json.loads(written["prepared.json"])
    assert description["filters"] == dataclasses.asdict(FILTERS)
    assert file.read_text("utf-8").splitlines() == [
        "\t".join(x) for x in dropped
    ]


def test_chunks_are_kept_when_it_is_started_again(
    run, texts, tmp_path, monkeypatch
):
    options = dict(source="en", target="de", vocab_size=300)
    assert run(texts, **options, output=tmp_path / "expected").code == 0

    encode, calls = Tokenizer.encode, []

    def stop(*arguments):
        calls.append(arguments)
        if len(calls) % 5 == 0:  # a side of the third chunk
            raise OSError("disk on fire")
        return encode(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Tokenizer, "encode", stop)
        # What another job has left is removed.
        assert "5 chunks, 0 of" in run(texts, **options, max_ratio=2).out
        result = run(texts, **options)
    assert "5 chunks, 0 of" in result.out
    assert "training with 300 tokens" in result.out
    check_refused(result, "disk on fire", "Start the same command again")
    assert not (tmp_path / "out").exists()
    (work,) = (tmp_path / ".partial-out").glob("work-*")
    assert len(list(work.glob("chunk-*"))) == 2
    (work / "half").touch()
    (tmp_path / ".partial-out" / "out" / "train-00007.ids.npy").touch()
    calls.clear()
    with monkeypatch.context() as patch:
        patch.setattr(
            Tokenizer,
            "encode",
            lambda *arguments: calls.append(arguments) or encode(*arguments),
        )
        code, out, _ = run(texts, **options)
    assert code == 0 and "5 chunks, 2 of them done earlier" in out
    assert "training with" not in out
    assert len(calls) == 2 * 3  # both sides of the other chunks
    assert files(tmp_path / "out") == files(tmp_path / "expected")
    assert not (tmp_path / ".partial-out").exists()


def test_a_fault_in_the_texts_is_reported(run, texts):
    lines = (texts / "train.de").read_bytes().split(b"\n")
    lines[201] = b"m\xfcde"
    (texts / "train.de").write_bytes(b"\n".join(lines))
    result = run(texts, source="en", target="de", tokenizer=None)
    check_refused(result, "UTF-8", "train.de, line 202: ", "iconv")
    assert "Start the same command again" not in result.err


def test_filters_that_keep_nothing_are_named(run, tmp_path):
    lines = [f"{source}\t{target}\teng\tde" for source, target in PAIRS]
    path = write_lines(tmp_path / "a.tsv", lines)
    options = dict(source="en", target="de", vocab_size=300)
    result = run(path, **options, language_columns=True)
    check_refused(result, "must be trained on lines of text", "filters if any")
    # With a tokenizer that is given.
    Tokenizer.train(["a b c"], 265).save(tmp_path / "a.model")
    options = dict(source="en", target="de", tokenizer=tmp_path / "a.model")
    result = run(path, **options, language_columns=True)
    check_refused(result, "No pair is left", " and 307 in other languages;")


def test_lengths_that_rule_out_all_pairs_are_named(run, texts):
    options = dict(source="en", target="de", vocab_size=300, max_length=2)
    result = run(texts, **options)
    check_refused(result, "No pair is left", "dropped 304 longer than 2 tokens")


def test_what_is_wrong_is_found_before_the_pipeline_starts(
    run, texts, tmp_path
):
    model = tmp_path / "a.model"
    Tokenizer.train(["a b c"], 265).save(model)
    for changed, *messages in (
        (dict(tokenizer=model, vocab_size=300), "Leave out one of them"),
        (dict(tokenizer=tmp_path), "tokenizer.model"),
        (dict(max_ratio=0.5), "max_ratio=0.5"),
        (dict(max_length=1), "max_length=1"),
        (dict(preset="tall"), "tall"),
        (dict(min_letters=1), "min_letters must be a number in [0, 1)"),
        (dict(language_columns=True), "--language-columns is for .tsv files"),
        (dict(output=texts), "already contains other files"),
        (dict(output="gs://a/b"), "disk that all workers share", "gs://a/b"),
        (dict(runner="MyRunner"), "valid options", "--runner=MyRunner"),
    ):
        check_refused(
            run(texts, **{"source": "en", "target": "de"} | changed), *messages
        )
    empty = write_lines(tmp_path / "a.tsv", [])
    check_refused(run(empty), f"{empty}, which is empty")
    check_refused(run(empty, language_columns=True), "--source None")
    sides = write_sides(tmp_path, pairs=PAIRS)
    write_lines(tmp_path / "train.de", ["a"])
    check_refused(run(*sides), "train.en with 307 lines", "with 1 line")
    assert not (tmp_path / "out").exists()


def test_help_all_shows_rare_flags(capsys):
    assert main(["prepare", "--help-all"]) == 0
    assert "--min-letters" in capsys.readouterr().out


@pytest.mark.parametrize("flags", [["--config"], ["--config", "--quiet"]])
def test_a_file_of_flags_that_is_missing(flags, capsys):
    assert main(["prepare", *flags]) == 2
    error = capsys.readouterr().err
    assert error == "keras-transformer: --config: expected one argument.\n"


def test_flags_are_read_from_a_file(tmp_path, capsys):
    file = tmp_path / "flags.yaml"
    file.write_text(f"input: [missing]\noutput: {tmp_path / 'new'}\n")
    assert main(["prepare", "--config", str(file), "--max-ratio", "0.5"]) != 0
    assert "max_ratio must be" in capsys.readouterr().err
