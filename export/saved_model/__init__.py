"""A SavedModel, and its signatures."""
