"""The model against PyTorch's own `nn.Transformer` with the same weights."""

import numpy as np
import numpy_reference as reference
import pytest
from helpers import gradients, randomise, to_numpy

import keras_transformer as kt

torch = pytest.importorskip(
    "torch", reason='needs PyTorch: pip install ".[torch]"'
)

LAYERS, D, HEADS, D_FF, V = 2, 8, 2, 12, 11
SOURCE = np.array([[5, 9, 3, 0], [7, 4, 8, 3]], "int32")
TARGET = np.array([[2, 6, 5, 10, 4], [2, 8, 0, 0, 0]], "int32")
LABELS = np.array([[6, 5, 10, 4, 3], [8, 3, 0, 0, 0]], "int32")
SMOOTHING = 0.1


class TorchTransformer(torch.nn.Module):
    """The paper's model, built of PyTorch's layers."""

    def __init__(self):
        super().__init__()
        arguments = dict(
            dropout=0.0,
            activation="relu",
            layer_norm_eps=1e-6,
            batch_first=True,
            norm_first=False,
        )
        layer = torch.nn.TransformerEncoderLayer(D, HEADS, D_FF, **arguments)
        encoder = torch.nn.TransformerEncoder(
            layer, LAYERS, enable_nested_tensor=False
        )
        layer = torch.nn.TransformerDecoderLayer(D, HEADS, D_FF, **arguments)
        # Without a norm after the last layer, which the paper does not have.
        self.transformer = torch.nn.Transformer(
            D,
            HEADS,
            custom_encoder=encoder,
            custom_decoder=torch.nn.TransformerDecoder(layer, LAYERS),
            batch_first=True,
        )
        self.embedding = torch.nn.Embedding(V, D)
        # `in_proj_bias` and `out_proj.bias` of each attention
        for name, parameter in self.named_parameters():
            if "attn" in name and name.endswith("bias"):
                torch.nn.init.zeros_(parameter)

    def embed(self, ids):
        table = torch.tensor(reference.sinusoids(ids.shape[1], D)).float()
        return self.embedding(ids) * D**0.5 + table

    def forward(self, source, target):
        hidden = torch.nn.Transformer.generate_square_subsequent_mask(
            target.shape[1]
        )
        states = self.transformer(
            self.embed(source),
            self.embed(target),
            tgt_mask=hidden,
            src_key_padding_mask=source == 0,
            memory_key_padding_mask=source == 0,
        )
        return states @ self.embedding.weight.T


ATTENTIONS = {
    "self_attention": "self_attn",
    "cross_attention": "multihead_attn",
}
NORMS = {
    "encoder": ("self_attention", "feed_forward"),
    "decoder": ("self_attention", "cross_attention", "feed_forward"),
}


def counterpart(path, tensors):
    """Returns PyTorch's tensor for a weight, as a view in its layout.

    Args:
        path: The path of the weight below the model.
        tensors: PyTorch's parameters, or their gradients, by name.
    """
    if path == "embedding/embeddings":
        return tensors["embedding.weight"]
    stack, layer, sublayer, *inner, kind = path.split("/")
    prefix = f"transformer.{stack}.layers.{layer.removeprefix('layer_')}"
    if sublayer in ATTENTIONS:
        attention = f"{prefix}.{ATTENTIONS[sublayer]}"
        if inner == ["output"]:
            return tensors[f"{attention}.out_proj.weight"].T
        part = ("query", "key", "value").index(inner[0])
        stacked = tensors[f"{attention}.in_proj_weight"]
        return stacked[part * D : (part + 1) * D].T
    if sublayer == "feed_forward":
        linear = {"inner": "linear1", "outer": "linear2"}[inner[0]]
        if kind == "bias":
            return tensors[f"{prefix}.{linear}.bias"]
        return tensors[f"{prefix}.{linear}.weight"].T
    number = NORMS[stack].index(sublayer.removesuffix("_norm")) + 1
    kind = {"gamma": "weight", "beta": "bias"}[kind]
    return tensors[f"{prefix}.norm{number}.{kind}"]


def path_of(weight):
    return weight.path.split("/", 1)[1]


@pytest.fixture(scope="module")
def models():
    config = kt.TransformerConfig(
        vocab_size=V, num_layers=LAYERS, d_model=D, d_ff=D_FF, num_heads=HEADS
    )
    ours, theirs = kt.Transformer(config, dtype="float32"), TorchTransformer()
    randomise(ours)
    parameters = dict(theirs.named_parameters())
    with torch.no_grad():
        for weight in ours.weights:
            values = torch.tensor(to_numpy(weight)).float()
            counterpart(path_of(weight), parameters).copy_(values)
    # Only PyTorch has biases in attention: 4 vectors of width D.
    extra = sum(p.numel() for p in parameters.values()) - ours.count_params()
    assert extra == 3 * LAYERS * 4 * D
    return ours, theirs


def torch_logits(model):
    return model(torch.tensor(SOURCE).long(), torch.tensor(TARGET).long())


def test_logits(models):
    ours, theirs = models
    found = to_numpy(ours({"source": SOURCE, "target": TARGET}))
    expected = torch_logits(theirs).detach().numpy()
    assert expected.std() > 0.3
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_loss_and_gradients(models):
    ours, theirs = models
    # PyTorch spreads the smoothing over all V tokens, the right one included.
    expected = torch.nn.functional.cross_entropy(
        torch_logits(theirs).flatten(0, 1),
        torch.tensor(LABELS).long().flatten(),
        ignore_index=0,
        label_smoothing=SMOOTHING * V / (V - 1),
    )
    theirs.zero_grad()
    expected.backward()

    loss = kt.LabelSmoothedCrossEntropy(SMOOTHING)

    def our_loss():
        return loss(LABELS, ours({"source": SOURCE, "target": TARGET}))

    assert float(to_numpy(our_loss())) == pytest.approx(
        expected.item(), rel=1e-5
    )
    torch_gradients = {name: p.grad for name, p in theirs.named_parameters()}
    found = gradients(our_loss, ours.trainable_variables)
    for weight, gradient in zip(ours.trainable_variables, found, strict=True):
        path = path_of(weight)
        wanted = counterpart(path, torch_gradients).numpy()
        np.testing.assert_allclose(
            gradient,
            wanted,
            rtol=1e-3,
            atol=1e-5 * max(1.0, np.abs(wanted).max()),
            err_msg=path,
        )
