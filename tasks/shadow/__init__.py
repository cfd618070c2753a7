"""Hold the shadow run: the same method on 90 % of the ratings, which measures utility and is never published.

The step `evaluate` puts these parts together. They get what they need as arguments and import no step.
"""
