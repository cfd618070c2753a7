"""Report to other programs how releases go: figures for monitoring, lineage events, log lines.

All of it is the owner's: figures of refused candidates and of people who wait are in it, never anything about one
person. Nothing here may change or stop a release: what cannot be reported is logged, with its kind alone.

May import config, errors, formats, series and store.
"""
