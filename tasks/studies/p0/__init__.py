"""Reproduce [Chang2009], Predictive Anonymization (`murmur reproduce P0`).

May import what tasks/studies may; nothing of checks.
"""
