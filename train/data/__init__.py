"""The data of the training program: corpora, batches, statistics."""
