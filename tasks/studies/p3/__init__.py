"""Reproduce [Casino2015], k-anonymous collaborative filtering by microaggregation (`murmur reproduce P3`).

May import what tasks/studies may; nothing of checks.
"""
