"""A SavedModel, what TensorFlow Serving needs with it, and its verification."""
