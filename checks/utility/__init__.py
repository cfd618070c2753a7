"""Hold measures of what a release is still useful for. One check per file; the file's name is its name.

A check here may import evidence and the spine.
"""
