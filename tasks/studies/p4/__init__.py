"""Reproduce [RFPP], the obfuscation of user attributes (`murmur reproduce P4`).

May import what tasks/studies may; nothing of checks.
"""
