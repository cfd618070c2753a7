"""Reproduce [Zhang2006], Deriving Private Information from Randomly Perturbed Ratings (`murmur reproduce P1`).

May import what tasks/studies may; of checks, the machinery of reconstruction, which the paper is about.
"""
