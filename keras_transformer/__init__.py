"""The Transformer of "Attention Is All You Need" in Keras 3.

    import keras_transformer as kt

Names are imported when they are first used: the layers, the model, losses,
metrics and schedules work without TensorFlow, on the JAX and PyTorch backends
of Keras. The first of them also registers all others with Keras, so
that `from keras_transformer import Transformer` is enough before
`keras.models.load_model`.
"""

from typing import TYPE_CHECKING

from keras_transformer.support.lazy import lazy_names
from keras_transformer.support.logs import print_log_messages

if TYPE_CHECKING:
    from keras_transformer import beam as beam
    from keras_transformer import convert as convert
    from keras_transformer import decoding as decoding
    from keras_transformer import export as export
    from keras_transformer import layers as layers
    from keras_transformer import litert as litert
    from keras_transformer import losses as losses
    from keras_transformer import masks as masks
    from keras_transformer import metrics as metrics
    from keras_transformer import optimizers as optimizers
    from keras_transformer import plotting as plotting
    from keras_transformer import presets as presets
    from keras_transformer import schedules as schedules
    from keras_transformer import serving as serving
    from keras_transformer import tasks as tasks
    from keras_transformer import text as text
    from keras_transformer import train as train
    from keras_transformer.config import TransformerConfig as TransformerConfig
    from keras_transformer.decoding.settings import BeamSearch as BeamSearch
    from keras_transformer.decoding.settings import Sampling as Sampling
    from keras_transformer.inference.opening import (
        open_translator as open_translator,
    )
    from keras_transformer.inference.run_folder import Run as Run
    from keras_transformer.inference.translator import Translator as Translator
    from keras_transformer.losses import (
        LabelSmoothedCrossEntropy as LabelSmoothedCrossEntropy,
    )
    from keras_transformer.metrics import Perplexity as Perplexity
    from keras_transformer.metrics import TokenAccuracy as TokenAccuracy
    from keras_transformer.metrics import TokenNLL as TokenNLL
    from keras_transformer.model import Transformer as Transformer
    from keras_transformer.plotting.tracing import trace as trace
    from keras_transformer.schedules import (
        WarmupInverseSquareRoot as WarmupInverseSquareRoot,
    )
    from keras_transformer.support.errors import InputError as InputError
    from keras_transformer.tasks import parsing as parsing
    from keras_transformer.text import Tokenizer as Tokenizer

__version__ = "0.1.0"

_NAMES = {
    "config": "TransformerConfig",
    "decoding.settings": "BeamSearch Sampling",
    "inference.opening": "open_translator",
    "inference.run_folder": "Run",
    "inference.translator": "Translator",
    "losses": "LabelSmoothedCrossEntropy",
    "metrics": "Perplexity TokenAccuracy TokenNLL",
    "model": "Transformer",
    "plotting.tracing": "trace",
    "schedules": "WarmupInverseSquareRoot",
    "support.errors": "InputError",
    "text": "Tokenizer",
}
_MODULES = (
    "beam convert decoding export layers litert losses masks metrics "
    "optimizers plotting presets schedules serving tasks tasks.parsing text "
    "train"
)

# Modules with classes that `keras.models.load_model` may need.
_REGISTERED = ("model", "losses", "metrics", "optimizers", "schedules")
# An export for LiteRT is opened where Keras has no backend.
_WITHOUT_KERAS = ("open_translator", "InputError")

__all__, __getattr__, __dir__ = lazy_names(
    __name__, _NAMES, _MODULES, _REGISTERED, _WITHOUT_KERAS
)

print_log_messages()
