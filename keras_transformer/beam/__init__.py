"""Bulk translation on Apache Beam, which needs the extra `beam`."""
