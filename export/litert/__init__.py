"""Exports to LiteRT, which runs models without TensorFlow."""
