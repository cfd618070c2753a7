"""What is published of a group: one file per way to make profiles, named by a method in tasks/methods.

A profiler has `Params`, `params(config)` and `make(job) -> cells per part`: it writes parts (tasks/profiles) under the
names that `_parts.write_parts` gives out, which the step `homogenization` joins.
"""
