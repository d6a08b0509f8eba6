"""Translates with trained models: runs, exports and served models."""
