"""The search that Hugging Face's files ask for, and what is noted of it."""

import functools

import marian_folder
import pytest
from marian_folder import change

import keras_transformer as kt
from keras_transformer.convert.foreign_model import NEVER
from keras_transformer.convert.from_hugging_face import GENERATION
from keras_transformer.support.errors import InputError

read = functools.partial(kt.convert.read, format="huggingface")


@pytest.fixture
def folder(tmp_path):
    marian_folder.write_folder(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"num_beams": 2, "length_penalty": 1}, (2, 1.0, 31)),
        ({"max_new_tokens": 9, "max_length": 20}, (1, 1.0, 9)),
        ({"max_length": 12}, (1, 1.0, 11)),
    ],
)
def test_search_of_older_files(folder, fields, expected):
    (folder / "generation_config.json").unlink()
    change(folder, "config.json", num_beams=None, **{})
    change(folder, "config.json", **fields)
    search = read(folder).search
    assert (search.beam_size, search.alpha, search.extra_length) == expected


def test_the_end_token_is_never_banned(folder):
    change(folder, GENERATION, bad_words_ids=[[marian_folder.END], [4]])
    foreign = read(folder)
    assert not foreign.notes
    bias = foreign.load_model().embedding.bias.numpy()
    assert [i for i, x in enumerate(bias) if x == NEVER] == [
        4,
        marian_folder.PAD,
    ]


@pytest.mark.parametrize(
    ("value", "stop"),
    [
        *(("never", "exact"), (True, "finished"), (False, "heuristic")),
        (None, "heuristic"),
    ],
)
def test_early_stopping(folder, value, stop):
    change(folder, GENERATION, early_stopping=value, bad_words_ids=None)
    foreign = read(folder)
    assert foreign.search.stop == stop
    assert not foreign.notes


def test_ngrams_that_are_not_repeated(folder):
    change(folder, GENERATION, bad_words_ids=None)
    assert read(folder).search.no_repeat_ngram == 0
    change(folder, GENERATION, no_repeat_ngram_size=3)
    foreign = read(folder)
    assert foreign.search.no_repeat_ngram == 3
    assert not foreign.notes
    change(folder, GENERATION, no_repeat_ngram_size=-1)
    with pytest.raises(InputError, match="no_repeat_ngram=-1"):
        read(folder)


@pytest.mark.parametrize("value", ["sometimes", ["never"], 2])
def test_unknown_early_stopping_is_refused(folder, value):
    change(folder, GENERATION, early_stopping=value)
    with pytest.raises(InputError, match="early_stopping"):
        read(folder)


def test_what_no_search_here_does_is_noted(folder):
    noted = dict(
        suppress_tokens=[7],
        sequence_bias=[[[7], 1.0]],
        repetition_penalty=1.2,
        do_sample=True,
    )
    change(
        folder,
        GENERATION,
        early_stopping=False,
        bad_words_ids=None,
        forced_bos_token_id=None,
        num_beam_groups=1,
        use_cache=True,
        **noted,
    )
    found = read(folder).notes
    assert found == [f"{name}={value}" for name, value in noted.items()]
