"""Marian's own files, written with NumPy as the Marian trainer writes them.

Names, shapes and options are those of a file that Marian 1.12 trained:
matrices `[in, out]`, vectors `[1, n]`, and the options as YAML in the int8
array `special:model.yml`, which zeros fill up to a multiple of 256 bytes.
"""

import functools
import io
import json
import re
from pathlib import Path

import numpy as np
import sentencepiece

DEMO = Path(__file__).parents[2] / "train" / "data" / "demo"
END, UNKNOWN = "</s>", "<unk>"
# Standard deviation of random weights: so large that sentences differ.
DEVIATION = 0.2
# What makes random models stop after a few or many tokens.
END_BIAS = 4.5

# What the trainer writes about a Transformer of the paper's form.
MODEL_OPTIONS = {
    "dec-depth": 2,
    "dim-emb": 64,
    "dim-vocabs": [0, 0],
    "enc-depth": 2,
    "enc-type": "bidirectional",
    "factors-combine": "sum",
    "factors-dim-emb": 0,
    "input-types": [],
    "layer-normalization": False,
    "lemma-dependency": "",
    "output-omit-bias": False,
    "right-left": False,
    "separator-symbol": "[eos]",
    "skip": False,
    "tied-embeddings": False,
    "tied-embeddings-all": True,
    "tied-embeddings-src": False,
    "transformer-aan-activation": "swish",
    "transformer-alibi-shift": False,
    "transformer-alibi-trainable": False,
    "transformer-attention-mask": "default",
    "transformer-decoder-autoreg": "self-attention",
    "transformer-decoder-dim-ffn": 0,
    "transformer-decoder-ffn-depth": 0,
    "transformer-dim-ffn": 128,
    "transformer-disable-position-embeddings": False,
    "transformer-ffn-activation": "swish",
    "transformer-ffn-depth": 2,
    "transformer-guided-alignment-layer": "last",
    "transformer-heads": 4,
    "transformer-no-affine": False,
    "transformer-no-bias": False,
    "transformer-no-projection": False,
    "transformer-pool": False,
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-postprocess-top": "",
    "transformer-preprocess": "",
    "transformer-rnn-projection": False,
    "transformer-tied-layers": [],
    "transformer-train-position-embeddings": False,
    "type": "transformer",
    "ulr": False,
    "version": "v1.12.42 b7be0e964 2025-05-24 22:34:42 -0700",
}
DECODER_OPTIONS = {
    "relative-paths": True,
    "models": ["model.npz"],
    "vocabs": ["vocab.yml", "vocab.yml"],
    "beam-size": 6,
    "normalize": 1,
    "word-penalty": 0,
    "mini-batch": 32,
    "maxi-batch": 100,
    "maxi-batch-sort": "src",
}


@functools.cache
def pieces_model(language, size=400, **options):
    """Returns a SentencePiece model of the demo corpus, as bytes.

    The same on every call. `options` are SentencePiece's.
    """
    lines = (DEMO / f"train.{language}").read_text("utf-8").splitlines()[:4000]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=size,
        character_coverage=1.0,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


def pieces_of(model):
    """Returns the pieces of a SentencePiece model that texts can become."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [
        processor.id_to_piece(i)
        for i in range(len(processor))
        if not processor.is_control(i) and not processor.is_unknown(i)
    ]


def random_weights(options, seed=0):
    """Returns random weights under Marian's names.

    Args:
        options: what differs from `MODEL_OPTIONS`; `dim-vocabs` is needed.
        seed: an integer.
    """
    options = MODEL_OPTIONS | options
    random = np.random.default_rng(seed)
    sizes = options["dim-vocabs"]
    width = options["dim-emb"]
    shapes = {"decoder_ff_logit_out_b": (1, sizes[-1])}
    if options["tied-embeddings-all"]:
        shapes["Wemb"] = (sizes[0], width)
    else:
        shapes["encoder_Wemb"] = (sizes[0], width)
        shapes["decoder_Wemb"] = (sizes[1], width)
        if not options["tied-embeddings"]:
            shapes["decoder_ff_logit_out_W"] = (width, sizes[1])
    for side, depth, inner in (
        ("encoder", "enc-depth", "transformer-dim-ffn"),
        ("decoder", "dec-depth", "transformer-decoder-dim-ffn"),
    ):
        inner = options[inner] or options["transformer-dim-ffn"]
        of_inner = {
            "W1": (width, inner),
            "W2": (inner, width),
            "b1": (1, inner),
        }
        for names in layer_names(side, options[depth]).values():
            suffix = names.rpartition("_")[-1]
            matrix = (width, width) if suffix[0] == "W" else (1, width)
            shapes[names] = of_inner.get(suffix, matrix)
    weights = {}
    for name, shape in shapes.items():
        drawn = random.normal(size=shape)
        weights[name] = (DEVIATION * drawn).astype("float32")
        if name.endswith("_ln_scale"):
            # Gammas of both signs, without which a tied embedding makes a
            # token its own most probable successor.
            weights[name] += np.sign(drawn)
    weights["decoder_ff_logit_out_b"][:, 0] += END_BIAS
    return weights


def layer_names(side, depth):
    """Returns Hugging Face's names of a side's weights, and Marian's."""
    blocks = {"self": "self_attn"}
    if side == "decoder":
        blocks["context"] = "encoder_attn"
    names = {}
    for n in range(depth):
        theirs, marian = f"model.{side}.layers.{n}", f"{side}_l{n + 1}"
        pairs = {
            "ffn_ffn_ln": "final_layer_norm",
            "ffn_1": "fc1",
            "ffn_2": "fc2",
        }
        for block, attention in blocks.items():
            pairs[f"{block}_Wo_ln"] = f"{attention}_layer_norm"
            for letter in "qkv":
                pairs[f"{block}_{letter}"] = f"{attention}.{letter}_proj"
            pairs[f"{block}_o"] = f"{attention}.out_proj"
        for ending, name in pairs.items():
            stem, _, last = ending.rpartition("_")
            weight, bias = f"{stem}_W{last}", f"{stem}_b{last}"
            if last == "ln":
                weight, bias = f"{ending}_scale", f"{ending}_bias"
            names[f"{theirs}.{name}.weight"] = f"{marian}_{weight}"
            names[f"{theirs}.{name}.bias"] = f"{marian}_{bias}"
    return names


def write_random(
    folder, seed=0, vocabulary="vocab.yml", search=None, pieces=None, **options
):
    """Writes a random model, with the tokenizer pair that its texts need.

    Args:
        folder: a new folder.
        seed: an integer.
        vocabulary: "vocab.yml" for a joint vocabulary outside SentencePiece,
            as OPUS-MT's models have it, or "spm" for Marian's own use of
            SentencePiece, whose ids are then the model's.
        search: what differs from `DECODER_OPTIONS`.
        pieces: arguments of `pieces_model` for "spm".
        **options: what differs from `MODEL_OPTIONS`, `_` for `-`.

    Returns:
        The folder.
    """
    folder = Path(folder)
    folder.mkdir(parents=True)
    options = {name.replace("_", "-"): value for name, value in options.items()}
    names = {"source.spm": "en", "target.spm": "de"}
    if vocabulary == "spm":
        # Marian's own training of SentencePiece asks for these ids.
        ids = dict(eos_id=0, unk_id=1, bos_id=-1, pad_id=-1)
        ids |= pieces or {}
        models = [pieces_model(name, **ids) for name in names.values()]
        vocabularies = list(names)
        sizes = [len(pieces_of(model)) + 2 for model in models]
        options |= {"tied-embeddings-all": False, "tied-embeddings": True}
    else:
        models = [pieces_model(language) for language in names.values()]
        words = [END, UNKNOWN, *pieces_of(models[0]), *pieces_of(models[1])]
        words = {word: i for i, word in enumerate(dict.fromkeys(words))}
        write_vocabulary(folder / vocabulary, words)
        vocabularies, sizes = [vocabulary] * 2, [len(words)] * 2
    for name, model in zip(names, models, strict=True):
        (folder / name).write_bytes(model)
    options["dim-vocabs"] = sizes
    write_model(folder, random_weights(options, seed), options)
    search = {"vocabs": vocabularies} | (search or {})
    write_yaml(folder / "decoder.yml", DECODER_OPTIONS | search)
    return folder


def write_model(folder, weights, options):
    """Writes `model.npz`, the options in it."""
    text = yaml(dict(sorted((MODEL_OPTIONS | options).items()))).encode()
    text += bytes(256 - len(text) % 256)
    weights = weights | {"special:model.yml": np.frombuffer(text, "int8")}
    # Marian refuses a transposed array, which NumPy stores by columns.
    weights = {
        name: np.ascontiguousarray(weights[name]) for name in sorted(weights)
    }
    np.savez(folder / "model.npz", **weights)


def write_vocabulary(path, words):
    """Writes words and their ids as Marian's YAML library does.

    It leaves words bare that other readers take for something else than a
    text, as `=`, `no`, `<<` and `1.5`.
    """
    lines = [
        f"{_yaml_key(word)}: {number}\n"
        for word, number in sorted(words.items(), key=lambda item: item[1])
    ]
    path.write_text("".join(lines), "utf-8")


def _yaml_key(word):
    bare = re.fullmatch(r"(?![]\[{}!*&#|>'\"%@,`]|[-?:~]$).*(?<!:)", word)
    if bare and word != "null":
        return word
    return json.dumps(word, ensure_ascii=False)


def write_yaml(path, options):
    """Writes options as Marian does."""
    path.write_text(yaml(options), "utf-8")


def yaml(options):
    """Returns options as Marian's YAML."""
    text = ""
    for name, value in options.items():
        if isinstance(value, list):
            lines = [f"  - {item}\n" for item in value] or ["  []\n"]
            text += f"{name}:\n" + "".join(lines)
        else:
            text += f"{name}: {_yaml_value(value)}\n"
    return text


def _yaml_value(value):
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if value == "" or str(value).startswith("[") else value
