"""Preparing a corpus on Apache Beam, which needs the extra `beam`."""
