"""Uses a trained model: opens run folders, translates."""
