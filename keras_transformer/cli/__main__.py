"""`python -m keras_transformer.cli` does what `keras-transformer` does."""

import sys

from keras_transformer.cli.commands import main

if __name__ == "__main__":
    sys.exit(main())
