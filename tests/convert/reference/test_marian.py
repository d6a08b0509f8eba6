"""What Marian itself computes with models that it wrote; needs pymarian."""

import dataclasses

import numpy as np
import pytest
import sentencepiece
from marian_npz import (
    DECODER_OPTIONS,
    DEMO,
    DEVIATION,
    pieces_model,
    pieces_of,
    write_vocabulary,
    write_yaml,
)
from padded_search import search_padded

from keras_transformer import convert
from keras_transformer.decoding.scoring import token_log_probs

pymarian = pytest.importorskip("pymarian")

# Options of the trainer.
OPTIONS = {
    "type": "transformer",
    "dim-emb": 64,
    "enc-depth": 2,
    "dec-depth": 2,
    "transformer-heads": 4,
    "transformer-dim-ffn": 128,
    "after": "1u",
    "mini-batch": 2,
    "cpu-threads": 1,
    "workspace": 64,
    "seed": 1,
    "quiet": "",
}
# What differs from them, and the vocabularies.
CASES = {
    "opus": ({"tied-embeddings-all": ""}, "yml"),
    "unequal": (
        {
            "tied-embeddings": "",
            "enc-depth": 3,
            "dec-depth": 1,
            "transformer-heads": 2,
            "transformer-decoder-dim-ffn": 96,
            "transformer-ffn-activation": "relu",
        },
        "yml",
    ),
    "tied-sources": ({"tied-embeddings-src": ""}, "yml"),
    "separate": ({"transformer-ffn-activation": "gelu"}, "yml"),
}
BEAM = 4


def write_vocabularies(folder, kind):
    """Writes the tokenizer pair, and returns the names for Marian."""
    names = dict(source="en", target="de")
    ids = dict(eos_id=0, unk_id=1, bos_id=-1, pad_id=-1)
    models = [
        pieces_model(language, 400 - 50 * i, **(ids if kind == "spm" else {}))
        for i, language in enumerate(names.values())
    ]
    for side, model in zip(names, models, strict=True):
        (folder / f"{side}.spm").write_bytes(model)
    if kind == "spm":
        return [f"{side}.spm" for side in names]
    words = ["</s>", "<unk>", *pieces_of(models[0]), *pieces_of(models[1])]
    words = {word: i for i, word in enumerate(dict.fromkeys(words))}
    write_vocabulary(folder / "vocab.yml", words)
    return ["vocab.yml", "vocab.yml"]


def split(folder, texts):
    """Cuts texts as OPUS-MT does before Marian."""
    model = str(folder / "source.spm")
    processor = sentencepiece.SentencePieceProcessor(model_file=model)
    return [" ".join(x) for x in processor.encode(texts, out_type=str)]


def write_model(folder, options, kind):
    """Has Marian write a model, whose weights are then drawn widely."""
    folder.mkdir()
    vocabularies = write_vocabularies(folder, kind)
    write_yaml(
        folder / "decoder.yml", DECODER_OPTIONS | {"vocabs": vocabularies}
    )
    for side, language in dict(source="en", target="de").items():
        lines = (DEMO / f"train.{language}").read_text("utf-8").splitlines()
        text = "\n".join(split(folder, lines[:20]) if kind == "yml" else lines)
        (folder / side).write_text(text, "utf-8")
    path = folder / "model.npz"
    options = OPTIONS | options
    options["model"] = path
    options["train-sets"] = f"{folder / 'source'} {folder / 'target'}"
    options["vocabs"] = " ".join(str(folder / x) for x in vocabularies)
    arguments = (f"--{name} {value}" for name, value in options.items())
    pymarian.Trainer(" ".join(arguments)).train()
    for extra in folder.glob("model.npz.*"):
        extra.unlink()
    weights = dict(np.load(path))
    random = np.random.default_rng(1)
    for name in sorted(weights):
        if not name.startswith("special:"):
            drawn = random.normal(size=weights[name].shape)
            weights[name] = (DEVIATION * drawn).astype("float32")
            if "_ln_scale" in name:
                weights[name] += np.sign(drawn)
    np.savez(path, **weights)
    # Without its mean over texts, the output depends on the text.
    case = Case(folder, kind)
    target = random.integers(2, 300, [len(case.texts), 12])
    logits = case.logits(case.source, target).mean((0, 1))
    bias = weights["decoder_ff_logit_out_b"]
    bias -= np.delete(logits, case.vocabulary.pad_id)
    bias[:, case.vocabulary.eos_id] += 3
    np.savez(path, **weights)
    return Case(folder, kind)


class Case:
    """A model here, and Marian's."""

    def __init__(self, folder, kind, **changes):
        found = convert.read(folder, "marian")
        config = dataclasses.replace(found.config, **changes)
        self.found = dataclasses.replace(found, config=config)
        self.folder, self.kind = folder, kind
        self.vocabulary = found.vocabulary
        self.model = self.found.load_model()
        self.search = dataclasses.replace(found.search, beam_size=BEAM)
        texts = (DEMO / "valid.en").read_text("utf-8").splitlines()
        self.texts = texts[:40]
        self.source = self.padded(
            [[*x, self.vocabulary.eos_id] for x in self.rows(self.texts)]
        )

    def rows(self, texts):
        return self.vocabulary.source.encode(texts)

    def padded(self, rows):
        ids = np.full(
            [len(rows), max(map(len, rows))], self.found.config.pad_id
        )
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
        return ids

    def logits(self, source, target):
        """Logits after the decoder's start and all tokens but the last."""
        start = np.full([len(target), 1], self.found.config.bos_id)
        inputs = np.concatenate([start, target[:, :-1]], 1)
        return self.model({"source": source, "target": inputs}).numpy()

    def marian(self, size=BEAM, normalize=1):
        """Returns Marian's hypotheses: their ids, log-probabilities, score."""
        texts = self.texts
        if self.kind == "yml":
            texts = split(self.folder, texts)
        program = pymarian.Translator(
            f"--config {self.folder / 'decoder.yml'} --cpu-threads 1 "
            f"--workspace 200 --quiet --n-best --word-scores --no-spm-decode "
            f"--mini-batch 1 --beam-size {size} --normalize {normalize}"
        )
        found = [[] for _ in texts]
        for line in "\n".join(program.translate(texts)).splitlines():
            number, words, log_probs, _, score = line.split(" ||| ")
            ids = list(map(self.vocabulary.id_of_piece, words.split()))
            log_probs = [float(x) for x in log_probs.split()[1:]]
            if len(log_probs) > len(ids):  # else the longest, without an end
                ids.append(self.vocabulary.eos_id)
            found[int(number)].append((ids, log_probs, float(score)))
        return found


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("marian") / "model"
    return write_model(folder, *CASES[request.param])


@pytest.fixture(scope="module")
def hypotheses(case):
    return case.marian()


def differences(case, hypotheses):
    """Yields how the log-probabilities of Marian's best tokens differ."""
    best = [found[0] for found in hypotheses]
    target = case.padded([ids for ids, _, _ in best])
    logits = case.logits(case.source, target)
    found = token_log_probs(target, logits, case.found.config.pad_id).numpy()
    for row, (ids, log_probs, _) in zip(found, best, strict=True):
        yield np.abs(row[: len(ids)] - log_probs).max()


def test_probabilities_of_tokens(case, hypotheses):
    assert len({tuple(found[0][0]) for found in hypotheses}) > 5
    assert max(differences(case, hypotheses)) < 1e-4
    other = Case(case.folder, case.kind, position_endpoint=False)
    # As Hugging Face and CTranslate2 compute positions.
    assert max(differences(other, hypotheses)) > 0.01


def test_epsilon(tmp_path):
    """It matters where variances are small."""
    case = write_model(tmp_path / "model", *CASES["opus"])
    path = tmp_path / "model" / "model.npz"
    weights = dict(np.load(path))
    for name in weights:
        last = name.startswith("decoder_l2_ffn_ffn_ln")
        if name.endswith(("ln_scale", "ln_bias", "_bo", "_b2")) and not last:
            weights[name] *= 1e-3
    np.savez(path, **weights)
    hypotheses = case.marian()
    for epsilon, matches in {1e-6: True, 1e-5: False}.items():
        case = Case(case.folder, case.kind, layer_norm_epsilon=epsilon)
        found = max(differences(case, hypotheses))
        assert found < 1e-4 if matches else found > 1e-4


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_length_penalty(case, alpha):
    search = dataclasses.replace(case.search, alpha=alpha)
    for found in case.marian(normalize=alpha):
        for ids, log_probs, score in found:
            expected = sum(log_probs) / search.penalty(len(ids))
            assert score == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("size", [1, BEAM])
def test_searches(case, size):
    """The greedy search finds the same, beam search mostly what is as good.

    Both stop when K hypotheses have ended. That of Marian keeps one less for
    each that has, which random models, whose outputs are all unlikely, show
    often.
    """
    search = dataclasses.replace(case.search, beam_size=size)
    found = search_padded(case.model, case.vocabulary, case.source, search)
    scores = found.scores[:, 0]
    ours = [
        row[:length].tolist()
        for row, length in zip(
            found.ids[:, 0], found.lengths[:, 0], strict=True
        )
    ]
    best = [rows[0] for rows in case.marian(size)]
    theirs = np.array([score for _, _, score in best])
    same = np.array([a == b for a, (b, _, _) in zip(ours, best, strict=True)])
    # At the maximum length, Marian's have no end token.
    ended = np.array([ids[-1] == case.vocabulary.eos_id for ids, _, _ in best])
    assert ended.mean() > 0.2
    assert same[ended].all() or size > 1
    assert same.any()
    np.testing.assert_allclose(scores[same], theirs[same], atol=1e-4)
    assert (scores >= theirs - 1e-4)[ended].mean() > 0.85
    assert scores[ended].mean() >= theirs[ended].mean() - 0.02
