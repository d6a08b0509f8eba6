from keras_transformer.bulk.translate_transform import Failed as Failed
from keras_transformer.bulk.translate_transform import Translate as Translate
from keras_transformer.bulk.translate_transform import Translated as Translated
