"""Exports to SavedModels, which take and return text."""
