"""Read every release that a store ever published, and arrange who was in which group with which profile.

What the checks of a series share: places in the store, the order of publication, past releases, classes of persons,
pools of survivors, and the attacker who looks for a person behind a vector. A module here may import tasks.config,
store and errors, checks.evidence and checks.stats; nothing of tasks/series, whose work is judged with it.
"""
