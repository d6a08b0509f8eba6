"""A small random Marian model in Hugging Face's files, without PyTorch."""

import json

import numpy as np
from marian_npz import pieces_model, pieces_of
from weight_files import write_safetensors

# Ours by theirs, in a layer.
PARTS = {
    "self_attn.q_proj": "self_attention/query",
    "self_attn.k_proj": "self_attention/key",
    "self_attn.v_proj": "self_attention/value",
    "self_attn.out_proj": "self_attention/output",
    "self_attn_layer_norm": "self_attention_norm/norm",
    "encoder_attn.q_proj": "cross_attention/query",
    "encoder_attn.k_proj": "cross_attention/key",
    "encoder_attn.v_proj": "cross_attention/value",
    "encoder_attn.out_proj": "cross_attention/output",
    "encoder_attn_layer_norm": "cross_attention_norm/norm",
    "fc1": "feed_forward/inner",
    "fc2": "feed_forward/outer",
    "final_layer_norm": "feed_forward_norm/norm",
}
WIDTH, D_FF, LAYERS = 8, 12, {"encoder": 2, "decoder": 1}
END, PAD = 3, 5
WORDS = ["<unk>", ">>deu<<", ">>fra<<", "</s>", "odd", "<pad>"]


def write_folder(folder):
    """Writes a model whose ids are not the usual ones.

    Returns:
        Its weights by our names, in float64.
    """
    folder.mkdir()
    pieces = list(WORDS)
    for side, language in (("source", "en"), ("target", "de")):
        model = pieces_model(language)
        (folder / f"{side}.spm").write_bytes(model)
        pieces += [x for x in pieces_of(model) if x not in pieces]
    write(folder, "vocab.json", {piece: i for i, piece in enumerate(pieces)})
    write(
        folder,
        "tokenizer_config.json",
        dict(
            source_lang="en",
            target_lang="mul",
            pad_token="<pad>",
            eos_token={"content": "</s>"},
        ),
    )
    write(
        folder,
        "config.json",
        dict(
            model_type="marian",
            architectures=["MarianMTModel"],
            activation_function="relu",
            d_model=WIDTH,
            decoder_attention_heads=4,
            decoder_ffn_dim=D_FF,
            decoder_layers=1,
            decoder_start_token_id=PAD,
            dropout=0.1,
            encoder_attention_heads=2,
            encoder_ffn_dim=D_FF,
            encoder_layers=2,
            eos_token_id=END,
            max_position_embeddings=32,
            normalize_before=False,
            num_beams=6,
            pad_token_id=PAD,
            scale_embedding=True,
            vocab_size=len(pieces),
        ),
    )
    write(
        folder,
        "generation_config.json",
        dict(
            bad_words_ids=[[PAD], [4], [1, 2]],
            early_stopping=True,
            length_penalty=0.8,
            max_length=20,
            num_beams=None,
        ),
    )
    tensors = random_tensors(len(pieces))
    write_tensors(folder, tensors)
    return our_weights(tensors)


def write(folder, name, values):
    (folder / name).write_text(json.dumps(values), "utf-8")


def change(folder, name, **changes):
    """Changes fields of a JSON file; `...` removes one."""
    path = folder / name
    values = json.loads(path.read_text("utf-8")) | changes
    write(folder, name, {k: v for k, v in values.items() if v is not ...})


def random_tensors(size):
    random = np.random.default_rng(3)
    shapes = {"model.shared.weight": (size, WIDTH)}
    shapes["final_logits_bias"] = (1, size)
    for side, count in LAYERS.items():
        for i in range(count):
            for part in PARTS:
                if side == "encoder" and "encoder_attn" in part:
                    continue
                name = f"model.{side}.layers.{i}.{part}"
                rows, columns = {
                    "fc1": (D_FF, WIDTH),
                    "fc2": (WIDTH, D_FF),
                }.get(part, (WIDTH, WIDTH))
                is_norm = part.endswith("norm")
                shapes[f"{name}.weight"] = (rows, columns)[: 2 - is_norm]
                shapes[f"{name}.bias"] = (rows,)
    return {
        name: random.normal(size=shape).astype("float32")
        for name, shape in shapes.items()
    }


def write_tensors(folder, tensors):
    header, data = {}, b""
    for name, value in tensors.items():
        kind = {"float32": "F32", "float16": "F16"}[value.dtype.name]
        end = len(data) + value.nbytes
        header[name] = dict(
            dtype=kind, shape=value.shape, data_offsets=[len(data), end]
        )
        data += value.tobytes()
    write_safetensors(folder / "model.safetensors", header, data)


def our_weights(tensors):
    weights = {
        "embedding/embeddings": tensors["model.shared.weight"],
        "embedding/bias": tensors["final_logits_bias"][0],
    }
    for name, value in tensors.items():
        if ".layers." in name:
            _, side, _, i, *part, leaf = name.split(".")
            part = PARTS[".".join(part)]
            names = {"weight": "kernel", "bias": "bias"}
            if part.endswith("norm"):
                names = {"weight": "gamma", "bias": "beta"}
            weights[f"{side}/layer_{i}/{part}/{names[leaf]}"] = value.T
    return {name: value.astype("float64") for name, value in weights.items()}
