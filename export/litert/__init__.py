"""A model for LiteRT, which needs no TensorFlow to run."""
