from keras_transformer.train.data.batching import (
    evaluation_batches as evaluation_batches,
)
from keras_transformer.train.data.batching import (
    training_batches as training_batches,
)
from keras_transformer.train.data.corpus import open_corpora as open_corpora
from keras_transformer.train.data.corpus import open_corpus as open_corpus
from keras_transformer.train.data.reading import Corpus as Corpus
from keras_transformer.train.recipe import Recipe as Recipe
from keras_transformer.train.strategy import open_strategy as open_strategy
from keras_transformer.train.trainer import train as train
