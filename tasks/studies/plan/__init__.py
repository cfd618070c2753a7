"""Find the cheapest setting that passes the gate (`murmur plan CONFIG --snapshot D`).

May import what tasks/studies may; of checks, the registry and the figures of utility.
"""
