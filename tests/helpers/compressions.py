"""The ways to compress a file, by suffix."""

import bz2
import gzip
import lzma

import zstandard

COMPRESS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}
