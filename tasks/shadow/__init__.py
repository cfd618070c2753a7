"""Hold the runs inside `evaluate`, none of which is ever published.

The shadow run is the same method on 90 % of the ratings and measures utility. The runs with sybils are the same method
on data with made-up accounts and measure what an attacker would learn from them. The step `evaluate` puts these parts
together. They get what they need as arguments and import no step.
"""
