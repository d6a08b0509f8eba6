"""The web page of a model, and TensorFlow Serving's REST API."""
