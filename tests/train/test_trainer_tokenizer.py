"""Training and preparing with a vocabulary that was not made for the corpus."""

import pytest
from generated_treebank import write_treebank
from tokenizer_texts import write_model

from keras_transformer.support.errors import InputError
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.preparation import prepare
from keras_transformer.train.recipe import Recipe

SIZES = Recipe(vocab_size=300, max_length=24)
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


def test_two_models(corpus, models, open_run, tmp_path):
    paths = list(models)[:2]
    source, target = list(models.values())[:2]
    size = dict(vocab_size=target.GetPieceSize())
    run, *_ = open_run(corpus, tmp_path / "run", tokenizer=paths, **size)
    sizes = run.config.source_vocab_size, run.config.vocab_size
    assert sizes == (source.GetPieceSize(), target.GetPieceSize())
    assert sizes[0] != sizes[1]
    assert run.config.tied_embeddings == "target"
    assert run.request["tokenizer"] == list(map(str, paths))
    assert run.request["vocab_size"] == sizes[1]
    sources, targets = zip(*corpus.pairs("train"), strict=True)
    tokenizer = run.tokenizer
    assert tokenizer.encode_sources(sources) == source.encode(list(sources))
    assert tokenizer.encode_targets(targets) == target.encode(list(targets))


def test_a_run_needs_its_file_no_longer(corpus, models, open_run, tmp_path):
    _, other, path = models
    options = dict(vocab_size=models[path].GetPieceSize(), tokenizer=[path])
    run, *_ = open_run(corpus, tmp_path / "run", **options)
    with pytest.raises(InputError, match="tokenizer=.*1.model.*2.model"):
        open_run(corpus, run.path, **{**options, "tokenizer": [other]})
    path.unlink()
    assert open_run(corpus, run.path, **options)[0] == run


def test_a_parser_needs_its_symbols(models, tmp_path):
    write_treebank(tmp_path, train=3)
    trees = open_corpus(str(tmp_path))
    source, target, both = models
    for paths in ([both], [source, target]):
        with pytest.raises(InputError, match="trees that need"):
            prepare(trees, tmp_path / "p", SIZES, paths)
