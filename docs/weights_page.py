"""Prints docs/weights.md: `python docs/weights_page.py > docs/weights.md`."""

from keras_transformer.convert.weight_table import OTHERS, PARTS, STYLES

_TITLES = {
    "keras_transformer": "keras-transformer",
    "paper": "paper",
    "hugging_face": "Hugging Face",
    "marian": "Marian",
    "opennmt_tf": "OpenNMT-tf",
    "ctranslate2": "CTranslate2",
}
_PAGE = """# Names of weights

This page lists the names of the weights of a Transformer here
(`keras_transformer.weights`), in the paper, in Hugging Face's Marian models,
and in Marian, OpenNMT-tf and CTranslate2.
`docs/weights_page.py` makes this page from the table that all converters use,
`keras_transformer/convert/weight_table.py`.

## In a layer

A name begins with the layer. `{{stack}}` is encoder or decoder, `{{i}}` counts
layers from 0, `{{n}}` from 1. Only the decoder has cross-attention.

{layers}

Then comes the part. A suffix follows it, or replaces the `*` in it:

{parts}

{leaves}

In pre-norm models `{{pre}}` is `_pre` and `{{side}}` is `input`. In others
`{{pre}}` is empty and `{{side}}` is `output`.

Kernels are `[inputs, outputs]` here, in Marian and in OpenNMT-tf, and
`[outputs, inputs]` in Hugging Face and CTranslate2. In CTranslate2, parts with
the same name are one matrix, in the order of the table.

## Others

Embeddings are `[V, d_model]`. In Marian and in OpenNMT-tf, a separate output
matrix is `[d_model, V]`. Tied embeddings have the name of the first one here.
If all three are tied, Hugging Face calls the matrix `model.shared.weight` and
Marian `Wemb`. Only pre-norm models have final normalizations.

{others}
"""


def page() -> str:
    """Returns the page."""
    layers = {system: style["layer"] for system, style in STYLES.items()}
    leaves = [
        {"": leaf} | {system: style[leaf] for system, style in STYLES.items()}
        for leaf in ("kernel", "bias", "gamma", "beta")
    ]
    return _PAGE.format(
        layers=_table([layers]),
        parts=_table(PARTS),
        leaves=_table(leaves),
        others=_table(OTHERS),
    )


def _table(rows: list[dict[str, str]]) -> str:
    """Returns a table of names; formulas of the paper are not code."""
    lines = [[_TITLES.get(x, x) for x in rows[0]], ["---"] * len(rows[0])]
    for row in rows:
        lines.append(
            [
                x if column in ("", "paper") or x == "-" else f"`{x}`"
                for column, x in row.items()
            ]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    print(page(), end="")
