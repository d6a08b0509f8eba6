from keras_transformer.decoding.beam import beam_search as beam_search
from keras_transformer.decoding.loop import StepFunction as StepFunction
from keras_transformer.decoding.sampling import sample as sample
from keras_transformer.decoding.settings import SearchResult as SearchResult
from keras_transformer.decoding.step import DecoderCache as DecoderCache
from keras_transformer.decoding.step import StepDecoder as StepDecoder
from keras_transformer.losses import token_log_probs as token_log_probs
from keras_transformer.text.ids import SpecialIds as SpecialIds
