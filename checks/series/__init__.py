"""Hold the checks of a release together with all earlier ones about the same people. One check per file.

A check may import every room of checks except report; none imports tasks/series. A release that is the first about its
people leaves them nothing to compare, and they say so.
"""
