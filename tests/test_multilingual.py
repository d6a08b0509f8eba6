"""English to German and French from two corpora: trained, exported, served."""

import json

import pytest
import yaml
from commands import write_corpus
from translation_fixtures import made_once

import keras_transformer as kt
from keras_transformer import cli, convert
from keras_transformer.support.errors import InputError

# It trains, prepares, exports and serves.
pytestmark = pytest.mark.slow

ENGLISH = "zero one two three four".split()
WORDS = {
    "de": dict(zip(ENGLISH, "null eins zwei drei vier".split(), strict=True)),
    "fr": dict(zip(ENGLISH, "rien un deux trois quatre".split(), strict=True)),
}
TEXTS = [*ENGLISH, *(f"{x} {y}" for x in ENGLISH for y in ENGLISH)]
SIZES = {
    **{"preset": "tiny", "vocab-size": 310, "max-length": 12, "d-model": 32},
    **{"num-layers": 1, "num-heads": 2, "d-ff": 64, "dropout": 0.0},
    **{"steps": 150, "steps-per-epoch": 150, "batch-tokens": 1024},
    **{"warmup-steps": 40, "learning-rate-scale": 0.5},
    **{"scored-sentences": 0},
}


def in_language(language, texts=TEXTS):
    words = WORDS[language]
    return [" ".join(words[word] for word in text.split()) for text in texts]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The one training of this file. To be read only."""

    def train(folder):
        folder.mkdir()
        corpora = []
        for language, tag in (("de", ">>deu<<"), ("fr", ">>fra<< <bt>")):
            sides = {"en": TEXTS, language: in_language(language)}
            texts = {
                f"{split}_{code}": "".join(f"{text}\n" for text in lines)
                for code, lines in sides.items()
                for split in ("train", "valid", "test")
            }
            write_corpus(folder / language, **texts)
            entry = {"data": str(folder / language), "target": language}
            corpora.append({**entry, "tag": tag})
        corpora[1]["weight"] = 2
        values = {"corpora": corpora, "source": "en", **SIZES}
        (folder / "flags.yaml").write_text(yaml.safe_dump(values))
        assert run_cli(folder, "train", "--output", folder / "run") == 0

    return made_once(tmp_path_factory, "multilingual", train)


def run_cli(folder, command, *arguments, config="flags.yaml"):
    arguments = command, "--config", folder / config, *arguments
    return cli.main([str(x) for x in arguments])


@pytest.fixture(scope="module")
def translators(folder):
    return {
        code: kt.open_translator(
            folder / "run", target_language=language, tag=tag
        )
        for code, language, tag in (("de", "deu", None), ("fr", "fra", "bt"))
    }


def check(translator, language, texts=TEXTS):
    """Nearly all translations are right: the corpora are learned by heart."""
    outputs = [x.texts[0] for x in translator.translate(texts)]
    expected = in_language(language)
    right = sum(x == y for x, y in zip(outputs, expected, strict=True))
    assert right >= 0.9 * len(expected), outputs
    return outputs


def test_it_translates_to_the_language_that_is_asked_for(folder, translators):
    for code, first in (("de", ">>deu<<"), ("fr", ">>fra<< <bt>")):
        own = check(translators[code], code)
        # The tags may stand in the text as well, whatever was chosen.
        tagged = [f" {first}  {text}" for text in TEXTS]
        for translator in translators.values():
            assert check(translator, code, tagged) == own
    plain = kt.open_translator(folder / "run")
    assert plain.target_languages == ["deu", "fra"]
    with pytest.raises(InputError, match="text 1"):
        plain.translate("one")
    with pytest.raises(InputError, match=">>nld<<"):
        plain.translate(">>nld<< one")


def test_evaluate_scores_each_corpus(folder, capsys):
    assert cli.main(["evaluate", str(folder / "run")]) == 0
    (results,) = json.loads((folder / "run" / "results.json").read_text())
    # Texts of two words have no BLEU.
    assert results["sentences"] == 60 and results["chrf"] > 80
    names = [f"{folder / 'de'} >>deu<<", f"{folder / 'fr'} >>fra<< <bt>"]
    assert [(x["data"], x["sentences"]) for x in results["parts"]] == [
        (name, 30) for name in names
    ]
    out = capsys.readouterr().out
    for part in results["parts"]:
        assert part["chrf"] > 80
        assert f"{part['chrf']:.2f}  {part['data']}\n" in out
    # Each part is scored on its own sentences.
    chrf = [part["chrf"] for part in results["parts"]]
    assert min(chrf) <= results["chrf"] <= max(chrf)


def test_litert_translates(translators, tmp_path):
    path = kt.export.save_litert(translators["fr"], tmp_path / "model")
    loaded = kt.open_translator(path)
    assert check(loaded, "fr") == check(translators["fr"], "fr")
    check(loaded, "de", [f">>deu<< {text}" for text in TEXTS])


def test_hugging_face_translates(translators, tmp_path):
    path = kt.export.save_huggingface(translators["fr"], tmp_path / "model")
    table = json.loads((path / "vocab.json").read_text())
    tokenizer = translators["fr"].tokenizer
    for piece, name in ((">>fra<<",) * 2, (">>deu<<",) * 2, ("<bt>", "▁<bt>")):
        assert table[name] == tokenizer.target.piece_to_id(f"▁{piece}")
    run = convert.read(path).save_run(tmp_path / "run")
    loaded = kt.open_translator(run)
    check(loaded, "fr", [f">>fra<< <bt> {text}" for text in TEXTS])
    check(loaded, "de", [f">>deu<< {text}" for text in TEXTS])
