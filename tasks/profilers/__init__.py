"""What is published of a group: one file per way to make profiles, named by a method in tasks/methods.

A profiler has `Params`, `params(config)` and `make(job) -> cells`: it leaves groups.parquet (tasks/profiles) in
`job.out`, made in parts on the workers (`_parts.write_parts`) or at once.
"""
