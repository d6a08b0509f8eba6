"""Distribution metadata; tool settings are in pyproject.toml."""

from pathlib import Path

from setuptools import setup

HERE = Path(__file__).parent

# One TensorFlow, one Keras, one tensorflow-text: their ops are compiled
# against each other, and the trainer relies on tested behaviour of Keras.
PINNED = [
    "tensorflow==2.21.0",
    'keras==3.15.1; python_version >= "3.11"',
    'keras==3.12.4; python_version < "3.11"',  # the last one for 3.10
    "tensorflow-text==2.21.1",
]

PLOT = ["matplotlib>=3.8"]
# importlib_resources: TensorFlow Datasets 4.9.10 imports it undeclared.
TFDS = ["tensorflow-datasets>=4.9", "importlib_resources"]
TENSORBOARD = ["tensorboard"]
# ruff is pinned because its next version may format differently.
TEST = [
    *PLOT,
    *TFDS,
    *TENSORBOARD,
    "ipykernel",
    "jax",
    "jupytext>=1.16",
    "nbclient>=0.10",
    "pytest>=8",
    "ruff==0.17.5",
]

setup(
    name="keras-transformer-nmt",
    version="0.1.0",
    description='"Attention Is All You Need", whole and exact, in Keras 3',
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10,<3.14",
    packages=[
        "keras_transformer",
        "keras_transformer.cli",
        "keras_transformer.layers",
        "keras_transformer.decoding",
        "keras_transformer.text",
        "keras_transformer.train",
        "keras_transformer.train.data",
        "keras_transformer.export",
    ],
    # The programs live beside the library and are installed inside it, so
    # that their import names cannot clash with anybody else's.
    package_dir={
        "keras_transformer.train": "train",
        "keras_transformer.train.data": "train/data",
        "keras_transformer.export": "export",
    },
    package_data={"keras_transformer.train.data": ["demo/*"]},
    install_requires=[
        *PINNED,
        "numpy",
        "sacrebleu>=2.4",
        "sacremoses>=0.1",
        "sentencepiece>=0.2",
        "tqdm>=4.66",
    ],
    extras_require={
        "plot": PLOT,
        "tensorboard": TENSORBOARD,
        "tfds": TFDS,
        "test": TEST,
        "torch": ["torch==2.13.0"],
    },
    entry_points={
        "console_scripts": ["keras-transformer=keras_transformer.cli:main"],
    },
)
