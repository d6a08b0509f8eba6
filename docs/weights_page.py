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

Names of the weights of a Transformer here (`keras_transformer.weights`), in the
paper, in Marian models of Hugging Face, in Marian, OpenNMT-tf and CTranslate2.
`docs/weights_page.py` makes this page from the table that all converters use,
`keras_transformer/convert/weight_table.py`.

## In a layer

A name begins with the layer. `{{stack}}` is encoder or decoder, `{{i}}` counts
layers from 0, `{{n}}` from 1. Cross-attention is the decoder's.

{layers}

Then comes the part, and a suffix that follows it or replaces its `*`:

{parts}

{leaves}

`{{pre}}` is `_pre` with pre-norm, else nothing; `{{side}}` is `input` with
pre-norm, else `output`.

Kernels are `[inputs, outputs]` here, in Marian and in OpenNMT-tf, and
`[outputs, inputs]` in Hugging Face and CTranslate2. In CTranslate2 the parts
with one name are one matrix, in the order of the table.

## Others

Embeddings are `[V, d_model]`, but the output's own matrix is `[d_model, V]` in
Marian and in OpenNMT-tf. Tied embeddings have the name of the first here;
Hugging Face calls the matrix of all three `model.shared.weight`, Marian `Wemb`.
Only pre-norm has final normalizations.

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
