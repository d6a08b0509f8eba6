import pytest
from compressions import COMPRESS
from corpora import read

from keras_transformer.support.errors import InputError
from keras_transformer.train.data.corpus import open_corpus

TREES = {
    "train": """( (S (NP-SBJ-1 (DT The) (NN dog))
    (VP (VBZ barks) (NP (-NONE- *-1))) (. .)) )
(S1 (INTJ (UH Yes)))
(TOP (NP (NNS dogs) (-LRB- -LRB-) (CD 2) (-RRB- -RRB-)))
""",
    "valid": "(TOP (UH No))\n",
}
PAIRS = [
    (
        "The dog barks .",
        "(TOP (S (NP (DT The) (NN dog)) (VP (VBZ barks)) (. .)))",
    ),
    ("Yes", "(TOP (INTJ (UH Yes)))"),
    (
        "dogs -LRB- 2 -RRB-",
        "(TOP (NP (NNS dogs) (-LRB- -LRB-) (CD 2) (-RRB- -RRB-)))",
    ),
]


@pytest.fixture
def folder(tmp_path):
    for split, text in TREES.items():
        (tmp_path / f"{split}.mrg").write_text(text)
    (tmp_path / "README").write_text("other files are ignored")
    return tmp_path


def test_pairs_are_sentences_and_trees(folder):
    corpus = open_corpus([str(folder)])
    assert corpus.splits == ("train", "valid")
    assert corpus.task.name == "parsing" and not corpus.task.split_words
    assert read(corpus, "train") == PAIRS
    assert read(corpus, "valid") == [("No", "(TOP (UH No))")]


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed_trees(folder, suffix):
    content = COMPRESS[suffix]((folder / "train.mrg").read_bytes())
    (folder / "train.mrg").unlink()
    (folder / f"train.mrg{suffix}").write_bytes(content)
    corpus = open_corpus([str(folder)])
    assert corpus.splits == ("train", "valid")
    assert read(corpus, "train") == PAIRS


def test_only_a_folder_of_trees_is_a_treebank(folder):
    with pytest.raises(InputError, match=r"train\.mrg"):
        open_corpus([str(folder / "train.mrg")])
    with pytest.raises(InputError, match=r"source='en'.*: mrg$"):
        open_corpus([str(folder)], "en", "de")
    for language in ("en", "de"):
        (folder / f"train.{language}").write_text("a\n")
    corpus = open_corpus([str(folder)], "en", "de")
    assert read(corpus) == [("a", "a")]


def test_a_damaged_file(folder):
    (folder / "train.mrg").write_text("(TOP (NN a))\n(TOP (NN b)\n")
    with pytest.raises(InputError, match=r"train\.mrg: .* line 2"):
        read(open_corpus([str(folder)]))
    (folder / "train.mrg").unlink()
    (folder / "train.mrg").mkdir()
    assert open_corpus([str(folder)]).splits == ("valid",)
