import shutil

import numpy as np
import pytest
import yaml
from marian_npz import (
    DECODER_OPTIONS,
    write_model,
    write_random,
    write_vocabulary,
    write_yaml,
)

from keras_transformer import convert
from keras_transformer.convert.foreign_model import NEVER
from keras_transformer.convert.from_marian import _read_table
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.support.errors import InputError
from keras_transformer.weights import named_weights


@pytest.fixture(scope="module")
def opus(tmp_path_factory):
    return write_random(tmp_path_factory.mktemp("marian") / "opus")


@pytest.fixture(scope="module")
def spm(tmp_path_factory):
    return write_random(tmp_path_factory.mktemp("marian") / "spm", 0, "spm")


@pytest.fixture
def folder(opus, tmp_path):
    return shutil.copytree(opus, tmp_path / "model")


def arrays(folder):
    return dict(np.load(folder / "model.npz"))


def options(folder):
    content = arrays(folder)["special:model.yml"].tobytes()
    return yaml.safe_load(content.rstrip(b"\0"))


def rewrite(folder, weights=None, **changes):
    """Changes options, with _ for -, and weights."""
    old = arrays(folder)
    changes = {name.replace("_", "-"): x for name, x in changes.items()}
    values = options(folder) | changes
    del old["special:model.yml"]
    write_model(folder, old if weights is None else weights, values)


def problem(folder, *arguments):
    with pytest.raises(InputError) as caught:
        convert.read(folder, "marian", *arguments).load_model()
    assert str(folder) in str(caught.value)
    return str(caught.value)


def test_what_a_folder_says(opus):
    found = convert.read(opus, "marian")
    assert found.system == "Marian v1.12.42 b7be0e964"
    assert found.search == BeamSearch(6, 1.0, 0, 3.0, "power", "finished")
    assert found.differences() == dict(
        activation="swish",
        attention_bias=True,
        output_bias=True,
        position_layout="halves",
        position_endpoint=True,
    )
    config = found.config
    assert (config.num_layers, config.d_model, config.d_ff) == (2, 64, 128)
    assert (config.num_heads, config.layer_norm_epsilon) == (4, 1e-6)


def test_what_no_search_here_does_is_noted(folder):
    assert convert.read(folder, "marian").notes == []
    noted = {"max-length": 80, "max-length-crop": True, "no-spm-decode": True}
    values = DECODER_OPTIONS | {"skip-cost": False, "quiet": True} | noted
    (folder / "decoder.yml").write_text(yaml.safe_dump(values), "utf-8")
    expected = [f"{name}={value}" for name, value in noted.items()]
    assert convert.read(folder, "marian").notes == expected


def test_the_pad_row_follows_the_pieces(opus):
    found = convert.read(opus, "marian")
    table, stored = _read_table(opus / "vocab.yml"), arrays(opus)
    size = len(table)
    pieces = found.vocabulary.pieces(range(size + 1))
    assert pieces == [*sorted(table, key=table.get), "<pad>"]
    assert (found.config.pad_id, found.config.bos_id) == (size, size)
    assert found.config.eos_id == table["</s>"] == 0
    weights = {
        k: np.array(v) for k, v in named_weights(found.load_model()).items()
    }
    np.testing.assert_array_equal(
        weights["embedding/embeddings"],
        np.concatenate([stored["Wemb"], np.zeros([1, 64])]),
    )
    np.testing.assert_array_equal(
        weights["embedding/bias"],
        [*stored["decoder_ff_logit_out_b"][0], NEVER],
    )
    name = "decoder/layer_1/cross_attention"
    np.testing.assert_array_equal(
        weights[f"{name}/value/kernel"], stored["decoder_l2_context_Wv"]
    )
    np.testing.assert_array_equal(
        weights[f"{name}_norm/norm/gamma"],
        stored["decoder_l2_context_Wo_ln_scale"][0],
    )


def test_a_vocabulary_with_bytes_and_symbols(tmp_path):
    """As Mozilla's models have it."""
    pieces = dict(size=700, byte_fallback=True, split_digits=True)
    pieces["user_defined_symbols"] = "__source__,__done__"
    folder = write_random(tmp_path / "model", 0, "spm", pieces=pieces)
    translator = convert.load(folder)
    for side in (translator.tokenizer.source, translator.tokenizer):
        pieces = side.pieces(range(side.vocab_size))
        assert {"<0xF0>", "__done__"} <= set(pieces)
        texts = ["A 🦩, 猫 42 __done__ x"]
        assert list(map(side.decode, side.encode(texts))) == texts
    translations = translator(["A 🦩.", "The man is here.", "猫", "42"])
    # Random bytes are hardly ever UTF-8.
    assert "\ufffd" in "".join(translations)
    assert "<0x" not in "".join(translations)


def test_ids_are_those_of_sentencepiece(spm):
    found = convert.read(spm, "marian")
    source, target = found.vocabulary.source, found.vocabulary
    pad = min(source.vocab_size, target.vocab_size) - 1
    assert found.config.pad_id == source.id_of_piece("<pad>") == pad
    assert (source.eos_id, source.unk_id) == (0, 1)
    assert source.decode(source.encode(["The man is here."])[0]) == (
        "The man is here."
    )
    assert found.config.tied_embeddings == "target"


def test_the_longer_vocabulary_has_the_pad_row_inside(spm, tmp_path):
    folder = shutil.copytree(spm, tmp_path / "model")
    stored, sizes = arrays(folder), options(folder)["dim-vocabs"]
    write_vocabulary(
        folder / "vocab.yml",
        {f"{x}": i for i, x in enumerate(["</s>", "<unk>", "a", "b"])},
    )
    vocabs = ["vocab.yml", "target.spm"]
    write_yaml(folder / "decoder.yml", DECODER_OPTIONS | {"vocabs": vocabs})
    del stored["special:model.yml"]
    stored["encoder_Wemb"] = stored["encoder_Wemb"][:4]
    rewrite(folder, stored, dim_vocabs=[4, sizes[1]])
    found = convert.read(folder, "marian")
    pieces = found.vocabulary.pieces(range(sizes[1] + 1))
    assert pieces[4] == "<pad>" and pieces[5] not in ("<pad>", pieces[3])
    weights = named_weights(found.load_model())
    target = np.array(weights["target_embedding/embeddings"])
    expected = np.insert(stored["decoder_Wemb"], 4, 0, axis=0)
    np.testing.assert_array_equal(target, expected)
    assert np.array(weights["target_embedding/bias"])[4] == NEVER


@pytest.mark.parametrize("name", ["_W", "_Wt"])
def test_an_output_layer_of_its_own(spm, tmp_path, name):
    folder = shutil.copytree(spm, tmp_path / "model")
    stored = arrays(folder)
    del stored["special:model.yml"]
    output = stored["decoder_Wemb"][:, ::-1]
    stored[f"decoder_ff_logit_out{name}"] = output.T if name == "_W" else output
    rewrite(folder, stored, tied_embeddings=False)
    found = convert.read(folder, "marian")
    weight = named_weights(found.load_model())["output_embedding/embeddings"]
    expected = np.insert(output, found.config.pad_id, 0, axis=0)
    np.testing.assert_array_equal(np.array(weight), expected)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"type": "s2s"}, "type='s2s'"),
        ({"transformer_decoder_autoreg": "rnn"}, "autoreg='rnn'"),
        ({"transformer_ffn_activation": "tanh"}, "activation='tanh'"),
        ({"transformer_postprocess": "dahn"}, "postprocess='dahn'"),
        ({"transformer_postprocess_emb": "nd"}, "emb='nd'"),
        ({"transformer_preprocess": "n"}, "preprocess='n'"),
        ({"transformer_disable_position_embeddings": True}, "embeddings=True"),
        ({"right_left": True}, "right-left=True"),
        ({"enc_depth": "six"}, "enc-depth='six'"),
        ({"transformer_heads": 5}, "num_heads=5"),
    ],
)
def test_other_models(folder, changes, field):
    rewrite(folder, **changes)
    assert field in problem(folder)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"models": ["a.npz", "b.npz"]}, "models="),
        ({"models": None}, "models=None"),
        ({"vocabs": ["vocab.yml"]}, "vocabs=['vocab.yml']"),
        ({"vocabs": ["v.fsv", "v.fsv"]}, "must have the file v.fsv"),
        ({"vocabs": ["model.npz", "model.npz"]}, "files .yml or .spm"),
        ({"word-penalty": 0.5}, "word-penalty=0.5"),
        ({"shortlist": ["lex.s2t.gz"]}, "shortlist="),
        ({"beam-size": 0}, "beam_size=0"),
        ({"normalize": "much"}, "normalize='much'"),
    ],
)
def test_other_searches(folder, changes, field):
    write_yaml(folder / "decoder.yml", DECODER_OPTIONS)
    values = DECODER_OPTIONS | changes
    (folder / "decoder.yml").write_text(yaml.safe_dump(values), "utf-8")
    assert field in problem(folder)


def test_other_files(folder):
    assert "fra" in problem(folder, "fra")
    content = (folder / "model.npz").read_bytes()
    (folder / "model.npz").write_bytes(content[:5000])
    assert "model.npz must be a complete file of tensors" in problem(folder)
    np.savez(folder / "model.npz", a=np.array([{}], object))
    assert "special:model.yml" in problem(folder)
    name = "special:model.yml"
    np.savez(folder / "model.npz", **{name: np.array([{}], object)})
    assert "allow_pickle" in problem(folder)
    np.savez(folder / "model.npz", **{name: np.frombuffer(b"[a", "int8")})
    assert "must be YAML" in problem(folder)
    (folder / "model.npz").unlink()
    assert "must have the file model.npz" in problem(folder)
    (folder / "target.spm").unlink()
    assert "model.npz" in problem(folder)
    (folder / "decoder.yml").rename(folder / "best.decoder.yml")
    assert "model.npz" in problem(folder)
    shutil.copy(folder / "best.decoder.yml", folder / "last.decoder.yml")
    assert "best.decoder.yml, last.decoder.yml" in problem(folder)
