from keras_transformer.export.litert.to_litert import save_litert as save_litert
from keras_transformer.export.saved_model.to_saved_model import save as save
from keras_transformer.export.shortlist import make_shortlist as make_shortlist
from keras_transformer.export.shortlist import read_lexicon as read_lexicon
from keras_transformer.export.to_argos import save_argos as save_argos
from keras_transformer.export.to_ctranslate2 import (
    save_ctranslate2 as save_ctranslate2,
)
from keras_transformer.export.to_hugging_face import (
    save_huggingface as save_huggingface,
)
