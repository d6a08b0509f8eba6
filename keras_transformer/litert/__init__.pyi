from keras_transformer.litert.lite_engine import LiteEngine as LiteEngine
