"""Hold what attacks on synthetic rows share: people and rows of a release and of its shadows, and how near they are.

A room beside checks/attacks: imports checks/evidence, the spine of checks, tasks.config, tasks.store and tasks.errors.
"""
