"""Compare several methods on the same ratings: risk against utility (`murmur compare`).

May import what tasks/studies may; of checks, the gate, the registry, the measure of utility and the raw data as a case.
"""
