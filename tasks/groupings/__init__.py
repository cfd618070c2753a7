"""Who shares a profile with whom: one file per way to form groups, named by a method in tasks/methods.

A grouping has `Params`, `params(config)` and `group(job) -> labels`, groups numbered 0..n−1 in any order: the step
`clustering` shuffles the numbers.
"""
