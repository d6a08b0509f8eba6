"""Distribution metadata; tool settings are in pyproject.toml."""

import os
import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(
    r'^__version__ = "(.+)"$',
    (HERE / "keras_transformer/__init__.py").read_text("utf-8"),
    re.MULTILINE,
)[1]
# Where the sources are published, for links in what PyPI shows; whoever
# releases knows: `make release REPOSITORY_URL=https://...`.
REPOSITORY = os.environ.get("REPOSITORY_URL", "").rstrip("/")
URLS = {"Paper": "https://arxiv.org/abs/1706.03762"}
if REPOSITORY:
    URLS["Source"] = REPOSITORY
    URLS["Changelog"] = f"{REPOSITORY}/blob/v{VERSION}/CHANGELOG.md"
    URLS["Issues"] = f"{REPOSITORY}/issues"

# The ends of these ranges are what `make matrix` tests.
KERAS = "keras>=3.10,<3.16"
TENSORFLOW_VERSIONS = ">=2.19,<2.22"

# What the command line needs, and the library does not. PyYAML reads
# `--config`, and the settings of models that are imported.
COMMAND_LINE = ["cyclopts>=5,<6", "pyyaml>=6", "tqdm>=4.66"]
TEXT = ["sentencepiece>=0.2", "protobuf>=4"]
TRAINING = [
    *COMMAND_LINE,
    *TEXT,
    "filelock>=3.24",
    "langcodes>=3.4",
    "sacrebleu>=2.4",
    "sacremoses>=0.1",
    "safetensors>=0.6",
]
TENSORFLOW = [f"tensorflow{TENSORFLOW_VERSIONS}", *TRAINING]
# The tokenizer in a SavedModel. It requires a TensorFlow of its own version.
TENSORFLOW_TEXT = (
    f"tensorflow-text{TENSORFLOW_VERSIONS}; sys_platform != 'win32'"
)
SAVEDMODEL = [*TENSORFLOW, TENSORFLOW_TEXT]
GPU = [
    f"tensorflow[and-cuda]{TENSORFLOW_VERSIONS}",
    *TRAINING,
    TENSORFLOW_TEXT,
]
# Bulk work.
BEAM = ["apache-beam>=2.77,<3", *COMMAND_LINE]
PLOT = ["matplotlib>=3.8"]
TENSORBOARD = ["tensorboard"]
# importlib_resources: TensorFlow Datasets 4.9.10 imports it undeclared.
TFDS = ["tensorflow-datasets>=4.9", "importlib_resources"]
# Protocol buffers of TensorFlow Serving, for warm-up requests and clients.
SERVING = [*SAVEDMODEL, "tensorflow-serving-api>=2.19,<2.22"]
LITERT = [*COMMAND_LINE, "ai-edge-litert>=2.3,<3", "sentencepiece>=0.2"]
WEB = ["fastapi>=0.110", "pydantic>=2", "uvicorn>=0.29"]
CTRANSLATE2 = ["ctranslate2>=4.8,<5"]
# Downloads models that are imported by name, and finds the user's cache.
CONVERT = ["huggingface_hub>=1.31,<3", "platformdirs>=4.3"]
# Files of text that are compressed by Zstandard.
ZSTD = ["backports.zstd>=1"]
# The systems that models are imported from and exported for, for tests.
CONVERTERS = [
    "argos-translate-lt>=1.12",
    "transformers>=5,<6",
    "pymarian>=1.12; sys_platform == 'linux' and platform_machine == 'x86_64'",
]
RELEASE = ["build>=1.2", "twine>=6.1"]
DOCS = ["mkdocs-material>=9.5", "mkdocstrings[python]>=0.29", "nbconvert>=7"]
TEST = [
    *PLOT,
    *TENSORBOARD,
    *TFDS,
    *SERVING,
    *LITERT,
    *WEB,
    *CTRANSLATE2,
    *CONVERT,
    *ZSTD,
    *BEAM,
    "ipykernel",
    "jax",
    "jupytext>=1.16",
    "nbclient>=0.10",
    "playwright>=1.50",
    "pytest>=8",
    "pytest-xdist>=3.7",
    "ruff==0.17.5",  # another version may format differently
]


def long_description() -> str:
    """Returns the README with links that work outside of the repository.

    Links to its files lead to the repository. Where that is not known, their
    text stays, and pictures of the repository are left out.
    """
    text = (HERE / "README.md").read_text(encoding="utf-8")
    target = r"\]\((?!https?:|#)([^)]+)\)"  # a path
    if REPOSITORY:
        return re.sub(
            target,
            lambda found: "]({}/{}/v{}/{})".format(
                REPOSITORY,
                "raw" if found[1].endswith(".png") else "blob",
                VERSION,
                found[1],
            ),
            text,
        )
    picture_and_caption = r"!\[[^]]*" + target + r"(\n+\*[^*]+\*\n)?"
    text = re.sub(picture_and_caption, "", text)
    return re.sub(r"\[([^][]*)" + target, r"\1", text)


setup(
    name="keras-transformer-nmt",
    version=VERSION,
    description='The Transformer of "Attention Is All You Need" in Keras 3',
    long_description=long_description(),
    long_description_content_type="text/markdown",
    license_expression="Apache-2.0",
    author="keras-transformer contributors",
    keywords="transformer attention translation keras tensorflow",
    project_urls=URLS,
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Intended Audience :: Developers",
        "Intended Audience :: Education",
        "Intended Audience :: Science/Research",
        "Operating System :: MacOS",
        "Operating System :: Microsoft :: Windows",
        "Operating System :: POSIX :: Linux",
        *(f"Programming Language :: Python :: 3.{v}" for v in range(11, 14)),
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
    python_requires=">=3.11,<3.14",
    # keras_transformer/train and export are links to the folders beside it.
    packages=find_packages(include=["keras_transformer*"]),
    package_data={
        "": ["*.pyi"],
        "keras_transformer": [
            "py.typed",
            "models/*/*",
            "models/*/run/*",
            "models/*/run/checkpoints/*",
        ],
        "keras_transformer.plotting": ["templates/*"],
        "keras_transformer.web": ["templates/*"],
        "keras_transformer.train.data": ["demo/*"],
    },
    install_requires=[KERAS, "numpy>=1.26"],
    extras_require={
        "text": TEXT,
        "tensorflow": TENSORFLOW,
        "jax": ["jax", *TRAINING],
        "torch": ["torch>=2.6,<2.14", *TRAINING],
        "savedmodel": SAVEDMODEL,
        "gpu": GPU,
        "beam": BEAM,
        "plot": PLOT,
        "tensorboard": TENSORBOARD,
        "tfds": TFDS,
        "serving": SERVING,
        "litert": LITERT,
        "web": WEB,
        "ctranslate2": CTRANSLATE2,
        "convert": CONVERT,
        "zstd": ZSTD,
        "docs": DOCS,
        "converters": CONVERTERS,
        "release": RELEASE,
        "test": TEST,
    },
    entry_points={
        "console_scripts": ["keras-transformer=keras_transformer.cli:main"],
    },
)
