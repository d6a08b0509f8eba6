"""The names of weights in this library, the paper and other systems.

In the table a row is a dense layer (kernel and bias) or a normalization (gamma
and beta), and a column a system. docs/weights.md is generated from it.
"""

from collections.abc import Iterator, Mapping

from keras_transformer.config import TransformerConfig


def rows(table: str) -> list[dict[str, str]]:
    """Returns the rows of a table as values by column."""
    header, *lines = (line.split() for line in table.strip().splitlines())
    return [dict(zip(header, line, strict=True)) for line in lines]


# Parts of a layer; only decoders have cross_attention. In Marian's names *
# stands for W or b, scale or bias; {pre} and {side} depend on `norm_first`.
# CTranslate2 fuses parts with equal names.
PARTS = rows("""
keras_transformer          paper      hugging_face             marian                 opennmt_tf                           ctranslate2
self_attention/query       W^Q        self_attn.q_proj         self_*q                self_attention/layer/linear_queries  self_attention/linear_0
self_attention/key         W^K        self_attn.k_proj         self_*k                self_attention/layer/linear_keys     self_attention/linear_0
self_attention/value       W^V        self_attn.v_proj         self_*v                self_attention/layer/linear_values   self_attention/linear_0
self_attention/output      W^O        self_attn.out_proj       self_*o                self_attention/layer/linear_output   self_attention/linear_1
self_attention_norm/norm   LayerNorm  self_attn_layer_norm     self_Wo_ln_*{pre}      self_attention/{side}_layer_norm     self_attention/layer_norm
cross_attention/query      W^Q        encoder_attn.q_proj      context_*q             attention/0/layer/linear_queries     attention/linear_0
cross_attention/key        W^K        encoder_attn.k_proj      context_*k             attention/0/layer/linear_keys        attention/linear_1
cross_attention/value      W^V        encoder_attn.v_proj      context_*v             attention/0/layer/linear_values      attention/linear_1
cross_attention/output     W^O        encoder_attn.out_proj    context_*o             attention/0/layer/linear_output      attention/linear_2
cross_attention_norm/norm  LayerNorm  encoder_attn_layer_norm  context_Wo_ln_*{pre}   attention/0/{side}_layer_norm        attention/layer_norm
feed_forward/inner         W_1,b_1    fc1                      ffn_*1                 ffn/layer/inner                      ffn/linear_0
feed_forward/outer         W_2,b_2    fc2                      ffn_*2                 ffn/layer/outer                      ffn/linear_1
feed_forward_norm/norm     LayerNorm  final_layer_norm         ffn_ffn_ln_*{pre}      ffn/{side}_layer_norm                ffn/layer_norm
""")  # noqa: E501

# Weights outside layers, with their full names. Tied weights share a name.
OTHERS = rows("""
keras_transformer            paper      hugging_face                       marian                  opennmt_tf                                           ctranslate2
embedding/embeddings         E          model.encoder.embed_tokens.weight  encoder_Wemb            model/examples_inputter/features_inputter/embedding  encoder/embeddings_0/weight
target_embedding/embeddings  E          model.decoder.embed_tokens.weight  decoder_Wemb            model/examples_inputter/labels_inputter/embedding    decoder/embeddings/weight
output_embedding/embeddings  E          lm_head.weight                     decoder_ff_logit_out_W  model/decoder/output_layer/kernel                    decoder/projection/weight
output_embedding/bias        -          final_logits_bias                  decoder_ff_logit_out_b  model/decoder/output_layer/bias                      decoder/projection/bias
encoder/final_norm/gamma     LayerNorm  -                                  encoder_top_ln_scale    model/encoder/layer_norm/gamma                       encoder/layer_norm/gamma
encoder/final_norm/beta      LayerNorm  -                                  encoder_top_ln_bias     model/encoder/layer_norm/beta                        encoder/layer_norm/beta
decoder/final_norm/gamma     LayerNorm  -                                  decoder_top_ln_scale    model/decoder/layer_norm/gamma                       decoder/layer_norm/gamma
decoder/final_norm/beta      LayerNorm  -                                  decoder_top_ln_bias     model/decoder/layer_norm/beta                        decoder/layer_norm/beta
""")  # noqa: E501

# A name in a layer is `layer`, the part, and the leaf, which replaces the
# part's *. {i} counts from 0, {n} from 1.
_STYLES = rows("""
system             layer                      kernel   bias   gamma    beta
keras_transformer  {stack}/layer_{i}/         /kernel  /bias  /gamma   /beta
hugging_face       model.{stack}.layers.{i}.  .weight  .bias  .weight  .bias
marian             {stack}_l{n}_              W        b      scale    bias
opennmt_tf         model/{stack}/layers/{i}/  /kernel  /bias  /gamma   /beta
ctranslate2        {stack}/layer_{i}/         /weight  /bias  /gamma   /beta
""")
STYLES = {row["system"]: row for row in _STYLES}

# The source embedding, target embedding and output matrix by `tied_embeddings`.
MATRICES = {
    "all": ("embedding", "embedding", "embedding"),
    "inputs": ("embedding", "embedding", "output_embedding"),
    "target": ("embedding", "target_embedding", "target_embedding"),
    "none": ("embedding", "target_embedding", "output_embedding"),
}
# `tied_embeddings` by whether source and target embeddings are the same matrix,
# and whether target embedding and output are.
TIED_EMBEDDINGS = {
    (True, True): "all",
    (True, False): "inputs",
    (False, True): "target",
    (False, False): "none",
}


def weight_names(config: TransformerConfig, system: str) -> dict[str, str]:
    """Returns a system's names by those of `named_weights`, in table order."""
    ours = _layer_names(config, "keras_transformer")
    names = zip(ours, _layer_names(config, system), strict=True)
    return dict(names) | _other_names(config, system)


def _layer_names(config: TransformerConfig, system: str) -> Iterator[str]:
    """Yields the names of the weights in layers."""
    style = STYLES[system]
    pre = "_pre" if config.norm_first else ""
    side = "input" if config.norm_first else "output"
    for stack in ("encoder", "decoder"):
        for i in range(getattr(config, stack).num_layers):
            for row, leaf in _leaves(config, stack):
                part, leaf = row[system], style[leaf]
                name = part.replace("*", leaf) if "*" in part else part + leaf
                values = dict(stack=stack, i=i, n=i + 1, pre=pre, side=side)
                yield (style["layer"] + name).format(**values)


def _leaves(
    config: TransformerConfig, stack: str
) -> Iterator[tuple[Mapping[str, str], str]]:
    """Yields the row and leaf of each weight in a layer."""
    for part in PARTS:
        name = part["keras_transformer"]
        if stack == "encoder" and name.startswith("cross"):
            continue
        if name.endswith("norm"):
            yield from ((part, "gamma"), (part, "beta"))
        else:
            yield part, "kernel"
            if config.attention_bias or name.startswith("feed_forward"):
                yield part, "bias"


def _other_names(config: TransformerConfig, system: str) -> dict[str, str]:
    matrices = MATRICES[config.tied_embeddings]
    names = {}
    for row in OTHERS:
        name = row["keras_transformer"]
        layer, _, leaf = name.rpartition("/")
        if leaf == "bias" and config.output_bias:
            names[f"{matrices[-1]}/bias"] = row[system]
        elif layer in matrices and leaf == "embeddings":
            names[name] = row[system]
        elif layer.endswith("final_norm") and config.norm_first:
            names[name] = row[system]
    return names
