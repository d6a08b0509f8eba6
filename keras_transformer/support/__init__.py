"""What all parts share: errors, described fields, files, imports."""
