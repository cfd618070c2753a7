"""Reproduce [Frankowski2006], You Are What You Say (`murmur reproduce P2`).

May import what tasks/studies may; of checks, evidence, linkage and attacks, which the paper is about.
"""
