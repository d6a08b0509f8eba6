"""Models that Marian wrote, imported, against Marian; needs pymarian."""

import dataclasses

import numpy as np
import pytest
import sentencepiece
from marian_folder import DECODER, write_vocabulary, write_yaml
from padded_search import search_padded
from pieces import demo_lines, pieces_model, pieces_of

from keras_transformer import convert
from keras_transformer.losses import token_log_probs

pymarian = pytest.importorskip("pymarian")

# Options of the trainer.
OPTIONS = {
    "type": "transformer",
    "dim-emb": 32,
    "enc-depth": 2,
    "dec-depth": 2,
    "transformer-heads": 4,
    "transformer-dim-ffn": 64,
    "after": "1u",
    "mini-batch": 2,
    "cpu-threads": 1,
    "workspace": 64,
    "seed": 1,
    "quiet": "",
}
# Together they have every option that the import supports.
CASES = {
    "opus": {"tied-embeddings-all": ""},
    "unequal": {
        "tied-embeddings": "",
        "enc-depth": 3,
        "dec-depth": 1,
        "transformer-heads": 2,
        "transformer-decoder-dim-ffn": 96,
        "transformer-ffn-activation": "relu",
    },
    "separate": {"transformer-ffn-activation": "gelu"},
}
BEAM = 4


def split(folder, texts):
    """Splits texts as OPUS-MT does before it calls Marian."""
    model = str(folder / "source.spm")
    processor = sentencepiece.SentencePieceProcessor(model_file=model)
    return [" ".join(x) for x in processor.encode(texts, out_type=str)]


def write_model(folder, options):
    """Lets Marian write a model, and draws its weights from a wide range."""
    folder.mkdir()
    models = [pieces_model("en"), pieces_model("de")]
    for side, model in zip(("source", "target"), models, strict=True):
        (folder / f"{side}.spm").write_bytes(model)
    words = ["</s>", "<unk>", *pieces_of(models[0]), *pieces_of(models[1])]
    vocabulary = folder / "vocab.yml"
    write_vocabulary(vocabulary, dict.fromkeys(words))
    files = {"models": ["model.npz"], "vocabs": ["vocab.yml"] * 2}
    values = DECODER | files | {"relative-paths": True}
    write_yaml(folder / "decoder.yml", values)
    for side, language in dict(source="en", target="de").items():
        lines = split(folder, demo_lines(f"train.{language}", 20))
        (folder / side).write_text("\n".join(lines), "utf-8")
    path = folder / "model.npz"
    options = OPTIONS | options
    options["model"] = path
    options["train-sets"] = f"{folder / 'source'} {folder / 'target'}"
    options["vocabs"] = f"{vocabulary} {vocabulary}"
    arguments = (f"--{name} {value}" for name, value in options.items())
    pymarian.Trainer(" ".join(arguments)).train()
    for extra in folder.glob("model.npz.*"):
        extra.unlink()
    weights = dict(np.load(path))
    random = np.random.default_rng(1)
    for name in sorted(weights):
        if not name.startswith("special:"):
            drawn = random.normal(size=weights[name].shape)
            weights[name] = (0.3 * drawn).astype("float32")
            if "_ln_scale" in name:
                # Both signs: otherwise a token of a tied embedding is its own
                # most probable successor.
                weights[name] += np.sign(drawn)
    np.savez(path, **weights)
    # Without its mean over texts, the output depends on the text.
    case = Case(folder)
    target = random.integers(2, 150, [len(case.texts), 12])
    logits = case.logits(case.source, target).mean((0, 1))
    bias = weights["decoder_ff_logit_out_b"]
    bias -= np.delete(logits, case.vocabulary.pad_id)
    bias[:, case.vocabulary.eos_id] += 3
    np.savez(path, **weights)
    return Case(folder)


class Case:
    """A model of Marian, and its import."""

    def __init__(self, folder, **changes):
        found = convert.read(folder, "marian")
        config = dataclasses.replace(found.config, **changes)
        self.folder, self.vocabulary = folder, found.tokenizer
        self.config = config
        self.model = dataclasses.replace(found, config=config).load_model()
        self.search = dataclasses.replace(found.search, beam_size=BEAM)
        self.texts = demo_lines("valid.en", 40)
        self.source = self.padded(
            [
                [*row, self.vocabulary.eos_id]
                for row in self.vocabulary.source.encode(self.texts)
            ]
        )

    def padded(self, rows):
        shape = [len(rows), max(map(len, rows))]
        ids = np.full(shape, self.config.pad_id)
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
        return ids

    def logits(self, source, target):
        """Returns logits after the start token and all tokens but the last."""
        start = np.full([len(target), 1], self.config.bos_id)
        inputs = np.concatenate([start, target[:, :-1]], 1)
        return self.model({"source": source, "target": inputs}).numpy()

    def marian(self, size=BEAM, normalize=1):
        """Returns Marian's hypotheses: ids, log-probabilities and score."""
        program = pymarian.Translator(
            f"--config {self.folder / 'decoder.yml'} --cpu-threads 1 "
            f"--workspace 200 --quiet --n-best --word-scores --no-spm-decode "
            f"--mini-batch 1 --beam-size {size} --normalize {normalize}"
        )
        found = [[] for _ in self.texts]
        lines = program.translate(split(self.folder, self.texts))
        for line in "\n".join(lines).splitlines():
            number, words, log_probs, _, score = line.split(" ||| ")
            ids = list(map(self.vocabulary.target.piece_to_id, words.split()))
            log_probs = [float(x) for x in log_probs.split()[1:]]
            if len(log_probs) > len(ids):  # not at the maximum length
                ids.append(self.vocabulary.eos_id)
            found[int(number)].append((ids, log_probs, float(score)))
        return found

    def differences(self, hypotheses):
        """Yields the differences of log P of the tokens in the best."""
        best = [found[0] for found in hypotheses]
        target = self.padded([ids for ids, _, _ in best])
        logits = self.logits(self.source, target)
        found = token_log_probs(target, logits, self.config.pad_id).numpy()
        for row, (ids, log_probs, _) in zip(found, best, strict=True):
            yield np.abs(row[: len(ids)] - log_probs).max()


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("marian") / "model"
    return write_model(folder, CASES[request.param])


@pytest.fixture(scope="module")
def hypotheses(case):
    return case.marian()


def test_probabilities_of_tokens(case, hypotheses):
    assert len({tuple(found[0][0]) for found in hypotheses}) > 5
    assert max(case.differences(hypotheses)) < 1e-4
    # The positions of Hugging Face and CTranslate2 are different.
    other = Case(case.folder, position_endpoint=False)
    assert max(other.differences(hypotheses)) > 0.01


def test_epsilon(tmp_path):
    """It matters where variances are small."""
    case = write_model(tmp_path / "model", CASES["opus"])
    path = tmp_path / "model" / "model.npz"
    weights = dict(np.load(path))
    for name in weights:
        last = name.startswith("decoder_l2_ffn_ffn_ln")
        if name.endswith(("ln_scale", "ln_bias", "_bo", "_b2")) and not last:
            weights[name] *= 1e-3
    np.savez(path, **weights)
    hypotheses = case.marian()
    exact, other = (
        max(Case(case.folder, layer_norm_epsilon=x).differences(hypotheses))
        for x in (1e-6, 1e-5)
    )
    assert exact < 0.5 * other, (exact, other)


def test_length_penalty(case):
    search = dataclasses.replace(case.search, alpha=0.6)
    for found in case.marian(normalize=0.6):
        for ids, log_probs, score in found:
            expected = sum(log_probs) / search.penalty(len(ids))
            assert score == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("size", [1, BEAM])
def test_searches(case, hypotheses, size):
    """Greedy searches agree, and beam searches mostly find equal scores.

    Both stop when K hypotheses have ended. For each of these, Marian's search
    keeps one unfinished hypothesis less, which matters for random models.
    """
    search = dataclasses.replace(case.search, beam_size=size)
    found = search_padded(case.model, case.vocabulary, case.source, search)
    scores = found.scores[:, 0]
    rows = zip(found.ids[:, 0], found.lengths[:, 0], strict=True)
    ours = [row[:length].tolist() for row, length in rows]
    hypotheses = hypotheses if size == BEAM else case.marian(size)
    best = [rows[0] for rows in hypotheses]
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
