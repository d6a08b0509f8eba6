"""Random Marian models in Hugging Face's files. Needs PyTorch, transformers.

`write_marian` makes each of `CONFIGURATIONS` on the spot: the same weights,
pieces and ids on every call. They are no models of anything, but every
weight is drawn, biases and gammas of LayerNorm included, and so widely that
sentences get different logits and translations of different lengths.
"""

import json
import zlib
from pathlib import Path

import torch
from marian_npz import (
    DEVIATION,
    END,
    UNKNOWN,
    pieces_model,
    pieces_of,
)
from transformers import (
    GenerationConfig,
    MarianConfig,
    MarianMTModel,
    MarianTokenizer,
)

PAD = "<pad>"
# What a configuration has where it says nothing else.
DEFAULTS = {
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "activation_function": "swish",
    "scale_embedding": True,
    "max_position_embeddings": 512,
}
WORDS = {"end": 0, "languages": [], "added": [], "longer": False}
# Where a configuration names no `container`, it is model.safetensors; `zip`
# and `legacy` are the two layouts of pytorch_model.bin. `end` is the id of
# </s>. `languages` are in the vocabulary, `added` after the pad token, and
# in a `longer` target vocabulary pieces too.
# `search` is in generation_config.json, `hub` in config.json, where the files
# of 2020 have fields that transformers does not know any more.
CONFIGURATIONS = {
    "classic": {
        "container": "legacy",
        "search": {"num_beams": 6},
        "hub": {
            "add_bias_logits": False,
            "add_final_layer_norm": False,
            "classif_dropout": 0.0,
            "extra_pos_embeddings": 0,
            "normalize_before": False,
            "normalize_embedding": False,
            "static_position_embeddings": True,
        },
    },
    "tc-big": {
        "container": "zip",
        "dtype": "float16",
        "activation_function": "relu",
        "end": 311,
        "max_position_embeddings": 1024,
    },
    "separate": {
        "longer": True,
        "share_encoder_decoder_embeddings": False,
        "search": {"length_penalty": 0.6},
    },
    "separate-zip": {
        "container": "zip",
        "share_encoder_decoder_embeddings": False,
        "activation_function": "gelu",
        "scale_embedding": False,
        "dtype": "float16",
        "end": 5,
    },
    "unequal": {
        "encoder_layers": 3,
        "decoder_layers": 1,
        "encoder_attention_heads": 8,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 96,
        "decoder_ffn_dim": 160,
        "activation_function": "relu",
    },
    "gelu": {
        "container": "zip",
        "activation_function": "gelu",
        "scale_embedding": False,
        "encoder_layers": 1,
    },
    "languages": {
        "languages": ["fra", "deu"],
        "activation_function": "relu",
        "dtype": "float16",
    },
    # As a fine-tuned model: a language after the pad token, whose row and
    # bias training has changed.
    "added-language": {
        "container": "legacy",
        "dtype": "float16",
        "languages": ["deu"],
        "added": ["dyu"],
        "end": 4,
        "search": {"renormalize_logits": False, "length_penalty": 1.3},
    },
}


def write_marian(folder, name):
    """Writes a random model into a new folder.

    Args:
        folder: a new folder.
        name: one of `CONFIGURATIONS`.

    Returns:
        The folder. Read it with `read_marian`: `from_pretrained` would
        compute in float16 where the weights are stored in it.
    """
    folder = Path(folder)
    folder.mkdir(parents=True)
    changes = dict(CONFIGURATIONS[name])
    container = changes.pop("container", "safetensors")
    dtype = getattr(torch, changes.pop("dtype", "float32"))
    search, hub = changes.pop("search", {}), changes.pop("hub", {})
    words = {
        part: changes.pop(part, default) for part, default in WORDS.items()
    }
    separate = not changes.get("share_encoder_decoder_embeddings", True)
    tokenizer = _write_tokenizer(folder, separate, **words)
    pad, end = tokenizer.pad_token_id, tokenizer.eos_token_id
    config = MarianConfig(
        **DEFAULTS | changes,
        vocab_size=len(tokenizer.encoder),
        decoder_vocab_size=len(tokenizer.decoder),
        pad_token_id=pad,
        eos_token_id=end,
        bos_token_id=end,
        forced_eos_token_id=end,
        decoder_start_token_id=pad,
    )
    model = MarianMTModel(config)
    model.eval()
    seed = zlib.crc32(name.encode())
    _randomise(model, seed)
    if not words["added"]:
        _clear_pad(model)
    _enliven(model, seed)
    model.to(dtype)
    model.generation_config = GenerationConfig(
        **{"num_beams": 4, "renormalize_logits": True, "max_length": 32}
        | search,
        bad_words_ids=[[pad]],
        pad_token_id=pad,
        eos_token_id=end,
        bos_token_id=end,
        forced_eos_token_id=end,
        decoder_start_token_id=pad,
    )
    model.save_pretrained(folder)
    if container != "safetensors":
        (folder / "model.safetensors").unlink()
        torch.save(
            opus_state(model),
            folder / "pytorch_model.bin",
            _use_new_zipfile_serialization=container == "zip",
        )
    path = folder / "config.json"
    fields = json.loads(path.read_text("utf-8")) | hub
    path.write_text(json.dumps(fields, indent=2), "utf-8")
    return folder


def read_marian(folder):
    """Returns the model of a folder in float32, and its tokenizer."""
    model = MarianMTModel.from_pretrained(folder, dtype=torch.float32)
    return model.eval(), MarianTokenizer.from_pretrained(folder)


def opus_state(model):
    """Returns the tensors that a pytorch_model.bin of OPUS-MT holds.

    With both position tables and all aliases of the embedding but lm_head,
    and, as PyTorch leaves it, an attribute on the `OrderedDict`.
    """
    state = model.state_dict()
    del state["lm_head.weight"]
    for side in ("encoder", "decoder"):
        table = getattr(model.model, side).embed_positions.weight
        state[f"model.{side}.embed_positions.weight"] = table.detach()
    return state


def _write_tokenizer(folder, separate, end, languages, added, longer):
    sides = {}
    for name, language in (("source", "en"), ("target", "de")):
        model = pieces_model(language)
        (folder / f"{name}.spm").write_bytes(model)
        sides[name] = pieces_of(model)
    languages, added = (
        [f">>{code}<<" for code in codes] for codes in (languages, added)
    )
    pieces = [sides["source"], sides["target"]]
    if not separate:
        pieces = [list(dict.fromkeys(pieces[0] + pieces[1]))]
    files = [folder / "vocab.json", folder / "target_vocab.json"][: len(pieces)]
    # Both vocabularies of a pair have the same special tokens.
    pad = len(languages) + int(0.95 * min(map(len, pieces)))
    for file, words in zip(files, pieces, strict=True):
        # Ids that have nothing to do with SentencePiece's; some pieces have
        # none and are unknown.
        words.sort(key=lambda word: zlib.crc32(word.encode()))
        words = [UNKNOWN, *languages, *words]
        words.insert(end, END)
        rest = words[pad:] if longer and file == files[1] else []
        words = [*words[:pad], PAD, *added, *rest]
        ids = {word: i for i, word in enumerate(words)}
        file.write_text(json.dumps(ids, ensure_ascii=False, indent=1), "utf-8")
    tokenizer = MarianTokenizer(
        source_spm=str(folder / "source.spm"),
        target_spm=str(folder / "target.spm"),
        vocab=str(files[0]),
        target_vocab_file=str(files[1]) if separate else None,
        separate_vocabs=separate,
        source_lang="en",
        target_lang="de",
    )
    tokenizer.save_pretrained(folder)
    return tokenizer


def _randomise(model, seed):
    random = torch.Generator().manual_seed(seed)
    weights = dict(model.named_parameters())
    weights["final_logits_bias"] = model.final_logits_bias
    for name, weight in sorted(weights.items()):
        if "embed_positions" not in name:
            drawn = torch.randn(weight.shape, generator=random)
            weight.data = DEVIATION * drawn
            if "norm.weight" in name:
                # Gammas of both signs, without which a tied embedding makes
                # a token its own most probable successor.
                weight.data += drawn.sign()


@torch.no_grad()
def _enliven(model, seed):
    """Makes the logits vary with the texts, and the texts end.

    The outputs of a random decoder have a mean far from zero, which would
    have one token win everywhere.
    """
    random = torch.Generator().manual_seed(seed)
    config = model.config
    source, target = (
        torch.randint(6, size - 6, (32, 12), generator=random)
        for size in (config.vocab_size, config.decoder_vocab_size)
    )
    outputs = model.model(input_ids=source, decoder_input_ids=target)[0]
    norm = model.model.decoder.layers[-1].final_layer_norm
    norm.bias -= outputs.mean((0, 1))
    outputs -= outputs.mean((0, 1))
    logits = model.lm_head(outputs)
    # To a standard deviation of 2, and </s> the most probable in one place
    # of five.
    scale = 2.0 / logits.std()
    norm.weight *= scale
    norm.bias *= scale
    logits = logits * scale + model.final_logits_bias
    end = config.eos_token_id
    gaps = logits.max(-1).values - logits[..., end]
    model.final_logits_bias[:, end] += gaps.quantile(0.2)


def _clear_pad(model):
    """The pad row is zeros, which were added when Marian was converted."""
    pad = model.config.pad_token_id
    model.final_logits_bias[:, pad] = 0.0
    for side in (model.model.encoder, model.model.decoder):
        side.embed_tokens.weight.data[pad] = 0.0
