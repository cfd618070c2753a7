"""Hold what an attacker would try with the published files. One attack per file; the file's name is the check's name.

A check may import every room of checks except report, and another check only for its rule or its measure.
"""
