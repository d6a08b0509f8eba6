"""Training and preparing with a vocabulary that was not made for the corpus."""

import digits
import pytest
from digits import TINY
from generated_treebank import write_treebank
from tokenizer_texts import write_model

from keras_transformer.inference.run_folder import Run
from keras_transformer.support.errors import InputError
from keras_transformer.train.data.corpus import open_corpora, open_corpus
from keras_transformer.train.preparation import prepare
from keras_transformer.train.recipe import Recipe
from keras_transformer.train.resume import RunOpener
from keras_transformer.train.trainer import train
from keras_transformer.train.training_settings import choose_settings

SIZES = Recipe(vocab_size=300, max_length=24)

RECIPE = dict(batch_tokens=512, max_length=24, scored_sentences=0)
IDS = dict(pad_id=0, unk_id=1, bos_id=2, eos_id=3, hard_vocab_limit=False)


@pytest.fixture
def models(corpus, tmp_path):
    """Paths and processors of three models: source, target, and both."""
    sides = zip(*corpus.pairs("train"), strict=True)
    sides = [*sides, corpus.texts("train")]
    made = {}
    for number, (side, size) in enumerate(
        zip(sides, (15, 40, 50), strict=True)
    ):
        path = tmp_path / f"{number}.model"
        made[path] = write_model(path, size, "unigram", side, **IDS)
    return made


def open_and_close(corpus, output, tokenizer, steps=1, **values):
    architecture = {**TINY, **values.pop("architecture", {})}
    settings = choose_settings(
        *(corpus, output, "tiny", {**RECIPE, "steps": steps, **values}),
        *(architecture, None, tokenizer),
    )
    settings.check(corpus)
    with RunOpener(settings, corpus, output).open() as (run, _):
        return run


def test_two_models_are_trained_with(corpus, models, tmp_path):
    output, paths = tmp_path / "run", list(models)[:2]
    source, target = list(models.values())[:2]
    recipe = {**RECIPE, "steps": 1}
    train(
        *(corpus, output, "tiny", recipe),
        architecture=TINY,
        tokenizer=list(map(str, paths)),
    )
    run = Run.open(output)
    sizes = run.config.source_vocab_size, run.config.vocab_size
    assert sizes == (source.GetPieceSize(), target.GetPieceSize())
    assert sizes[0] != sizes[1]
    assert run.config.tied_embeddings == "target"
    assert run.recipe["tokenizer"] == list(map(str, paths))
    assert run.recipe["vocab_size"] == sizes[1]
    shapes = [
        tuple(weight.shape)
        for weight in run.load_model().weights
        if weight.path.endswith("embeddings")
    ]
    assert sorted(shapes) == sorted((size, 16) for size in sizes)
    pairs = list(corpus.pairs("train"))
    for read, library, side in (
        (run.tokenizer.encode_sources, source, 0),
        (run.tokenizer.encode_targets, target, 1),
    ):
        texts = [pair[side] for pair in pairs]
        assert read(texts) == library.encode(texts)


def test_a_run_needs_its_file_no_longer(corpus, models, tmp_path):
    path, other = list(models)[2], list(models)[1]
    run = open_and_close(corpus, tmp_path / "run", [path])
    for wrong in ([other], None):
        with pytest.raises(InputError, match="tokenizer=.* instead of .*2.mod"):
            open_and_close(corpus, run.path, wrong, 2)
    path.unlink()
    open_and_close(corpus, run.path, [path], 2)


def test_a_prepared_corpus_has_it(corpus, models, tmp_path):
    (source, target, path), pairs = list(models), list(corpus.pairs("train"))
    written = prepare(corpus, tmp_path / "p", SIZES, [source, target])
    prepared = open_corpus(str(written.path))
    run = open_and_close(prepared, tmp_path / "run", None)
    assert run.config.tied_embeddings == "target"
    assert run.tokenizer.encode_sources([pairs[0][0]]) == [
        models[source].encode(pairs[0][0])
    ]
    same = open_and_close(prepared, tmp_path / "same", [source, target])
    assert same.tokenizer.digest == run.tokenizer.digest
    with pytest.raises(
        InputError, match="a different tokenizer .* --tokenizer .*2.model"
    ):
        size = models[target].GetPieceSize()
        other = write_model(path, size, "bpe", corpus.texts("train"), **IDS)
        assert other.GetPieceSize() == size
        open_and_close(prepared, tmp_path / "other", [path])


def test_languages_of_validation_are_checked_first(tmp_path):
    """Not only where a tokenizer is given: one is trained, and prepared."""
    entries = []
    for name, tag in (("a", ">>de<<"), ("b", None)):
        folder = tmp_path / name
        folder.mkdir()
        digits.write(folder)
        entries.append({"data": str(folder), "tag": tag})
    file = folder / "valid.en"
    file.write_text(f">>nl<< {file.read_text()}")
    texts = open_corpora(entries, "en", "de")
    written = prepare(texts, tmp_path / "p", digits.recipe(vocab_size=310))
    for corpus in (texts, open_corpus(str(written.path))):
        with pytest.raises(InputError, match="Received: >>nl<< in text"):
            open_and_close(corpus, tmp_path / "run", None, vocab_size=310)
    assert not (tmp_path / "run").exists()


def test_what_contradicts_a_tokenizer_is_refused(corpus, models, run, tmp_path):
    path = list(models)[2]
    size = models[path].GetPieceSize()
    for message, change in (
        (f"this one has {size}.*vocab_size=300", dict(vocab_size=300)),
        (
            "Leave out one of them.*init_from=.*2.model",
            dict(init_from=run.path),
        ),
    ):
        with pytest.raises(InputError, match=message):
            settings = dict(init_from=None, **RECIPE) | change
            init_from = settings.pop("init_from")
            choose_settings(
                *(corpus, tmp_path / "new", "tiny", settings, TINY),
                *(init_from, [path]),
            )


def test_a_parser_needs_its_symbols(models, tmp_path):
    write_treebank(tmp_path, train=3)
    trees = open_corpus(str(tmp_path))
    source, target, both = models
    for paths in ([both], [source, target]):
        with pytest.raises(InputError, match="trees that need"):
            prepare(trees, tmp_path / "p", SIZES, paths)
