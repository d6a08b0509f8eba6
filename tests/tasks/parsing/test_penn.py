import pytest

from keras_transformer.support.errors import InputError
from keras_transformer.tasks.parsing import Tree, read_trees

DOG = "(TOP (S (NP (NN dog))))"


def read(tmp_path, text):
    path = tmp_path / "test.mrg"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return [str(tree) for tree in read_trees(path)]


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        (DOG, DOG),
        ("(S1 (S (NP (NN dog))))", DOG),
        ("(ROOT (S (NP (NN dog))))", DOG),
        ("( (S (NP (NN dog))))", DOG),
        ("(S (NP (NN dog)))", DOG),
        ("( (NN a) (. .) )", "(TOP (NN a) (. .))"),
        ("(ROOT (UH yes))", "(TOP (UH yes))"),
        ("(UH no)", "(TOP (UH no))"),
        (
            "(TOP (NP-SBJ (NP (NP (-NONE- *)) (NP-PRD (NN dog)))))",
            "(TOP (NP (NP (NP (NN dog)))))",
        ),
    ],
)
def test_roots_and_repeated_labels(tmp_path, text, tree):
    assert read(tmp_path, text) == [tree]


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


def test_labels(tmp_path):
    labels = (
        "NP-SBJ-1 NP-SBJ NP=2 NP-SBJ=12 WHNP-1 S-TPC-NOM-10 ADVP|PRT "
        "ADVP-TMP|PRT-CLR PRP$ -LRB- -RRB- -DFL- = | X # ## "
        # SPMRL: morphological features
        "NN##case=nom|number=sg## NP-SBJ##lem=x-y## PP##_##-OA $,##_##"
    ).split()
    plain = (
        "NP NP NP NP WHNP S ADVP ADVP PRP$ -LRB- -RRB- -DFL- = | X # ## "
        "NN NP PP $,"
    ).split()
    found = read(tmp_path, "".join(f"(({x} ({x} dog)))\n" for x in labels))
    assert found == [f"(TOP ({x} ({x} dog)))" for x in plain]


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (r"1\/2", "1/2"),
        (r"and\/or\/not", "and/or/not"),
        (r"\*", "*"),
        (r"\*\*", "**"),
        ("a/b*", "a/b*"),
        (r"C:\x\\", r"C:\x\\"),
        ("-LRB-", "-LRB-"),
    ],
)
def test_words_lose_the_backslashes_of_the_format(tmp_path, word, expected):
    found = read(tmp_path, f"(NP (CD {word}))")
    assert found == [f"(TOP (NP (CD {expected})))"]


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


def test_trees_are_read_lazily(tmp_path):
    assert read(tmp_path, "") == read(tmp_path, "\ufeff\n") == []
    path = tmp_path / "test.mrg"
    path.write_text(f"{DOG}\n{DOG})\n")
    trees = read_trees(path)
    assert next(trees) == next(trees) == Tree.from_string(DOG)
    with pytest.raises(InputError, match="test.mrg, line 2"):
        next(trees)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{DOG}\n(TOP (NN dog)", "test.mrg: .* line 2"),
        (f"{DOG}\ndog", "test.mrg, line 2"),
        (f"{DOG}\n\n(TOP\n(NP) {DOG[5:]}", "line 4: .* line 3"),
        (b"(TOP (NN dog))\n(NN \xff)", "test.mrg must be UTF-8.*line 2"),
    ],
)
def test_errors_name_the_line(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, text)
