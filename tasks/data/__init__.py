"""Hold what steps hand to each other: ratings, profiles, the fitted model, the candidate release.

No module here imports a step. A step opens its inputs through this package and never through another step.
"""
