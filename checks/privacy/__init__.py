"""Hold the promises of a release, recomputed from the published files. One check per file; the file's name is its name.

A check may import every room of checks except report, and another check only for its rule or its measure.
"""
