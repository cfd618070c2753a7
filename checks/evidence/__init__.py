"""Hold what a check may read: the release, the source ratings, the membership and the groups.

A module here reads and arranges data; it judges nothing. It may import tasks.config, store, engine, errors and formats,
and checks.stats, but no check and no machinery of attacks.
"""
