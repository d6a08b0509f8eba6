"""Keras' `fit`: its loss, and on TensorFlow exact on any number of replicas."""
