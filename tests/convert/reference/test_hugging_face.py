"""Random models, imported, against transformers; needs PyTorch too."""

import marian_folder
import numpy as np
import pytest
from marian_folder import END, PAD, change
from pieces import demo_lines
from random_models import imported
from tokenizer_texts import odd_texts

import keras_transformer as kt
from keras_transformer.convert.foreign_model import NEVER

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

ENGLISH = demo_lines("test.en", 200)
GERMAN = demo_lines("test.de", 64)
# transformers also finds these inside a text.
SPECIAL = ("<s>", "</s>", "<unk>", "<pad>", ">>", "<<")
# With a file of each kind, and all activations.
CASES = {
    "safetensors": dict(activation="relu"),
    "zip": dict(separate=True, activation="swish", embedding_scale=1.0),
    "legacy": dict(activation="gelu"),
    "different matrices": dict(tied_embeddings="none"),  # config.json ties them
}


class Case:
    """A model of transformers, and its import."""

    def __init__(self, folder, container, **fields):
        marian_folder.write_folder(folder, max_length=128, **fields)
        search = dict(num_beams=4, length_penalty=0.4, max_length=32)
        search["bad_words_ids"] = [[PAD]]
        ids = dict(pad_token_id=PAD, decoder_start_token_id=PAD)
        ids |= dict(eos_token_id=END, forced_eos_token_id=END)
        change(folder, "generation_config.json", **search, **ids)
        balance(folder)
        if container != "safetensors":
            tensors = marian_folder.read_tensors(folder)
            (folder / "model.safetensors").unlink()
            torch.save(
                {name: torch.tensor(x).half() for name, x in tensors.items()},
                folder / "pytorch_model.bin",
                _use_new_zipfile_serialization=container == "zip",
            )
        self.translator = imported(folder, "huggingface")
        self.model = transformers.MarianMTModel.from_pretrained(
            folder, dtype=torch.float32
        ).eval()
        self.tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
        # The import removes padding before the softmax, `generate` after it.
        self.model.final_logits_bias[:, PAD] = NEVER

    def sources(self, texts):
        return self.tokenizer(texts, return_tensors="pt", padding=True)


def balance(folder):
    """Makes outputs depend on the source, and end."""
    tensors = marian_folder.read_tensors(folder)
    # Otherwise a token of a tied embedding is its own likeliest successor.
    tensors["model.decoder.layers.0.final_layer_norm.weight"][::2] *= -1
    marian_folder.write_tensors(folder, tensors)
    model = imported(folder, "huggingface").model
    ids = np.random.default_rng(0).integers(6, 150, [2, 32, 9])
    logits = model({"source": ids[0], "target": ids[1]}).numpy()
    mean = logits.mean((0, 1))
    mean[PAD] = 0
    logits -= mean
    gaps = logits.max(-1) - logits[..., END]
    mean[END] -= np.quantile(gaps, 0.06)
    tensors["final_logits_bias"] = tensors["final_logits_bias"] - mean
    marian_folder.write_tensors(folder, tensors)


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("marian") / "model"
    return Case(folder, request.param, **CASES[request.param])


def has_unknown_run(processor, text):
    """Whether several unknown characters become a single id in transformers."""
    return any(
        len(piece) > 1 and processor.is_unknown(processor.piece_to_id(piece))
        for piece in processor.encode(text, out_type=str)
    )


def test_source_ids(case):
    texts = [x for x in odd_texts(200) if not any(y in x for y in SPECIAL)]
    processor = case.tokenizer.spm_source
    texts = [
        text for text in ENGLISH + texts if not has_unknown_run(processor, text)
    ]
    texts += [f">>fra<< {text}" for text in ENGLISH[:50]]
    assert len(texts) > 250
    expected = case.tokenizer(texts)["input_ids"]
    found = case.translator.tokenizer.encode_sources(texts)
    assert [[*ids, END] for ids in found] == expected


def test_logits(case):
    inputs = case.sources(ENGLISH[:64])
    ids = case.tokenizer(text_target=GERMAN, padding=True)["input_ids"]
    ids = np.roll(np.array(ids, "int32"), 1, axis=1)
    ids[:, 0] = PAD
    with torch.no_grad():
        expected = case.model(
            **inputs, decoder_input_ids=torch.tensor(ids)
        ).logits.numpy()
    source = inputs["input_ids"].numpy().astype("int32")
    found = case.translator.model({"source": source, "target": ids}).numpy()
    assert expected.std() > 0.5
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize(
    ("early_stopping", "stop"),
    [(False, "heuristic"), (True, "finished"), ("never", "exact")],
)
def test_search(case, early_stopping, stop):
    texts = [f">>fra<< {text}" for text in ENGLISH[:80]]
    with torch.no_grad():
        found = case.model.generate(
            **case.sources(texts),
            num_beams=4,
            early_stopping=early_stopping,
            bad_words_ids=[[0]],  # <unk>, which we never write
            return_dict_in_generate=True,
            output_scores=True,
        )
    expected = case.tokenizer.batch_decode(
        found.sequences, skip_special_tokens=True
    )
    scores = found.sequences_scores.numpy()
    # At the maximum length transformers forces the end token, at no cost.
    ended = [i for i, row in enumerate(found.sequences) if END in row[:31]]
    assert len(ended) > 20
    search = kt.BeamSearch(**vars(case.translator.search) | dict(stop=stop))
    model, tokenizer = case.translator.model, case.translator.tokenizer
    ours = kt.Translator(model, tokenizer, search).translate(texts)
    np.testing.assert_allclose(
        [ours[i].scores[0] for i in ended], scores[ended], atol=1e-4
    )
    same = [ours[i].texts[0] == expected[i] for i in ended]  # except ties
    assert np.mean(same) > 0.9
