"""Files of the Penn Treebank."""

import pytest

from keras_transformer.support.errors import InputError
from keras_transformer.tasks.parsing import Tree, read_trees

DOG = "(TOP (S (NP (NN dog))))"


def read(tmp_path, text, **options):
    path = tmp_path / "test.mrg"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return [str(tree) for tree in read_trees(path, **options)]


@pytest.mark.parametrize(
    "text",
    [
        DOG,
        "(S1 (S (NP (NN dog))))",
        "(ROOT (S (NP (NN dog))))",
        "( (S (NP (NN dog))))",
        "(S (NP (NN dog)))",
    ],
)
def test_roots(tmp_path, text):
    assert read(tmp_path, text) == [DOG]


def test_root_of_several_trees_and_of_one_word(tmp_path):
    text = "( (NN a) (. .) )\n(ROOT (UH yes))\n(UH no)"
    assert read(tmp_path, text) == [
        "(TOP (NN a) (. .))",
        "(TOP (UH yes))",
        "(TOP (UH no))",
    ]


def test_as_in_the_treebank(tmp_path):
    """The example of the treebank's documentation, shortened."""
    text = """
( (S
    (NP-SBJ-1
      (NP (NNP Pierre) (NNP Vinken) )
      (, ,) )
    (VP (MD will)
      (VP (VB join)
        (S (NP-SBJ (-NONE- *-1) )
          (VP (TO to) (VP (VB go))))
        (SBAR (-NONE- 0)
          (S (NP (-NONE- *T*)) (ADVP|PRT-CLR=2 (RB up) )))
        (PRN (-LRB- -LRB-) (PRP$ his) (-RRB- -RRB-))
        (PP-LOC-3=4 (-NONE- *ICH*-2) )))
    (. .) ))
"""
    assert read(tmp_path, text) == [
        "(TOP (S (NP (NP (NNP Pierre) (NNP Vinken)) (, ,)) (VP (MD will) (VP "
        "(VB join) (S (VP (TO to) (VP (VB go)))) (SBAR (S (ADVP (RB up)))) "
        "(PRN (-LRB- -LRB-) (PRP$ his) (-RRB- -RRB-)))) (. .)))"
    ]


@pytest.mark.parametrize(
    ("label", "plain"),
    [
        ("NP-SBJ-1", "NP"),
        ("NP-SBJ", "NP"),
        ("NP=2", "NP"),
        ("NP-SBJ=12", "NP"),
        ("WHNP-1", "WHNP"),
        ("S-TPC-NOM-10", "S"),
        ("ADVP|PRT", "ADVP"),
        ("ADVP-TMP|PRT-CLR", "ADVP"),
        ("PRP$", "PRP$"),
        ("-LRB-", "-LRB-"),
        ("-RRB-", "-RRB-"),
        ("-DFL-", "-DFL-"),
        ("=", "="),
        ("|", "|"),
        ("X", "X"),
    ],
)
def test_labels(tmp_path, label, plain):
    text = f"(TOP ({label} ({label} dog)))"
    assert read(tmp_path, text) == [f"(TOP ({plain} ({plain} dog)))"]


def test_same_label_twice_stays(tmp_path):
    text = "(TOP (NP-SBJ (NP (NP (-NONE- *)) (NP-PRD (NN dog)))))"
    assert read(tmp_path, text) == ["(TOP (NP (NP (NP (NN dog)))))"]


def test_trees_without_words_are_left_out_and_counted(tmp_path, caplog):
    text = "(TOP (S (NP (-NONE- *))))\n(TOP )\n(-NONE- 0)\n" + DOG
    assert read(tmp_path, text) == read(tmp_path, text) == [DOG]
    assert caplog.text.count("3 trees") == 1  # not once a reading


@pytest.mark.parametrize(
    "text",
    [
        f"\ufeff{DOG}\n\n{DOG}\n",
        f"{DOG}\r\n\r\n{DOG}\r\n",
        f"\n\n{DOG}\n  \n{DOG}",
        f"{DOG}\r{DOG}\r",
        f"{DOG[:12]}\r\n{DOG[12:]}{DOG}",
    ],
)
def test_line_ends(tmp_path, text):
    assert read(tmp_path, text) == [DOG, DOG]


def test_empty_file(tmp_path):
    assert read(tmp_path, "") == read(tmp_path, "\ufeff\n") == []


def test_streaming(tmp_path):
    path = tmp_path / "test.mrg"
    path.write_text(f"{DOG}\n{DOG})\n")
    trees = read_trees(path)
    assert next(trees) == Tree.from_string(DOG)
    assert next(trees) == Tree.from_string(DOG)
    with pytest.raises(InputError, match="test.mrg, line 2"):
        next(trees)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{DOG}\n(TOP (NN dog)", "test.mrg: .* line 2"),
        (f"{DOG}\ndog", "test.mrg, line 2"),
        (f"{DOG}\n\n(TOP\n(NP) {DOG[5:]}", "line 4: .* line 3"),
        (f"{DOG}\n(TOP ({DOG[5:]})", "line 2"),
        # A surplus bracket further on makes up for the one that is missing.
        (f"{DOG}\n{DOG[:-1]}\n{DOG}\n{DOG})", "line 2"),
        (b"(TOP (NN dog))\n(NN \xff)", r"test.mrg, line 2: .* b'\\xff'"),
    ],
)
def test_errors_name_the_line(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, text)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="test.mrg"):
        next(read_trees(tmp_path / "test.mrg"))


def test_deep_tree(tmp_path):
    text = f"(TOP {'(X ' * 5_000}(NN dog){')' * 5_001}"
    assert read(tmp_path, text) == [text]
