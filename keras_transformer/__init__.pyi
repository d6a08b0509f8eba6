from keras_transformer import bulk as bulk
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
from keras_transformer import tasks as tasks
from keras_transformer import text as text
from keras_transformer import train as train
from keras_transformer import web as web
from keras_transformer.config import TransformerConfig as TransformerConfig
from keras_transformer.decoding.settings import BeamSearch as BeamSearch
from keras_transformer.decoding.settings import Sampling as Sampling
from keras_transformer.inference.opening import (
    open_translator as open_translator,
)
from keras_transformer.inference.translator import Translator as Translator
from keras_transformer.losses import (
    LabelSmoothedCrossEntropy as LabelSmoothedCrossEntropy,
)
from keras_transformer.metrics import Perplexity as Perplexity
from keras_transformer.metrics import TokenAccuracy as TokenAccuracy
from keras_transformer.metrics import TokenNLL as TokenNLL
from keras_transformer.model import Transformer as Transformer
from keras_transformer.plotting.tracing import trace as trace
from keras_transformer.runs.run_folder import Run as Run
from keras_transformer.schedules import (
    WarmupInverseSquareRoot as WarmupInverseSquareRoot,
)
from keras_transformer.support.errors import InputError as InputError
from keras_transformer.tasks import parsing as parsing
from keras_transformer.text import Tokenizer as Tokenizer

__version__: str
