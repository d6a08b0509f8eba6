"""The data of the training program: corpora, ids and batches."""
