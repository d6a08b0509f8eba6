"""Fields of Hugging Face's JSON files that are wrong or contradict others."""

import marian_folder
import pytest
from marian_folder import change

from keras_transformer.convert import from_hugging_face
from keras_transformer.convert.hugging_face_settings import (
    CONFIG,
    GENERATION,
    TOKENIZER,
    Settings,
)
from keras_transformer.support.errors import InputError


@pytest.fixture
def folder(tmp_path):
    marian_folder.write_folder(tmp_path / "model")
    return tmp_path / "model"


def test_types(folder):
    change(folder, CONFIG, dropout=0, num_beams=None)
    settings = Settings(folder)
    assert settings.get("d_model", int) == marian_folder.WIDTH
    assert type(settings.get("dropout", float)) is float
    assert settings.get("num_beams", int, 1) == 1
    with pytest.raises(InputError, match="config.json must have 'num_beams'"):
        settings.get("num_beams", int)


@pytest.mark.parametrize(
    ("file", "fields"),
    [
        (GENERATION, {"bad_words_ids": 5}),
        (GENERATION, {"bad_words_ids": [5]}),
        (GENERATION, {"bad_words_ids": [["5"]]}),
        (GENERATION, {"bad_words_ids": [[-1]]}),
        (GENERATION, {"bad_words_ids": [[10**6]]}),
        (GENERATION, {"length_penalty": "x"}),
        (GENERATION, {"max_length": "20"}),
        (GENERATION, {"max_new_tokens": 2.5}),
        (GENERATION, {"num_beams": True}),
        (GENERATION, {"eos_token_id": [3]}),
        (GENERATION, {"decoder_start_token_id": 3}),
        (GENERATION, {"pad_token_id": 3}),
        (TOKENIZER, {"added_tokens_decoder": {"x": {"content": "a"}}}),
        (TOKENIZER, {"added_tokens_decoder": {"900": {"text": "a"}}}),
        (TOKENIZER, {"unk_token": ["<unk>"]}),
        (TOKENIZER, {"target_lang": 1}),
    ],
)
def test_malformed_fields_are_refused_by_name(folder, file, fields):
    change(folder, file, **fields)
    (name,) = fields
    with pytest.raises(InputError, match=f"{file} must have '{name}'"):
        from_hugging_face.read(folder, None)


def test_the_architecture_is_that_of_its_own_file(folder):
    change(folder, GENERATION, d_model=8)
    change(folder, CONFIG, d_model=...)
    with pytest.raises(InputError, match="d_model=None"):
        from_hugging_face.read(folder, None)


def test_links_to_nothing_are_refused(folder):
    (folder / GENERATION).unlink()
    (folder / GENERATION).symlink_to("nothing")
    with pytest.raises(InputError, match=f"must have the file {GENERATION}"):
        Settings(folder)


def test_what_no_search_here_does_is_noted(folder):
    noted = dict(
        suppress_tokens=[7],
        sequence_bias=[[[7], 1.0]],
        num_return_sequences=2,
        forced_eos_token_id=7,
        unheard_of="yes",
    )
    change(
        folder,
        GENERATION,
        early_stopping=False,
        bad_words_ids=None,
        forced_bos_token_id=None,
        temperature=1.0,
        top_k=50,
        use_cache=True,
        output_scores=True,
        return_dict_in_generate=True,
        transformers_version="5.0",
        _from_model_config=True,
        renormalize_logits=True,
        remove_invalid_values=False,
        **noted,
    )
    found = from_hugging_face.read(folder, None).notes
    assert found == [f"{name}={value}" for name, value in noted.items()]
    change(folder, GENERATION, forced_eos_token_id=marian_folder.END)
    assert len(from_hugging_face.read(folder, None).notes) == len(noted) - 1
