"""What runs and surrounds Keras' `fit` in the training program."""
