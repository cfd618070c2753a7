"""Numerical kernels: pure functions on arrays (NumPy, SciPy, numba).

Here belongs arithmetic that a step runs block by block. Nothing here reads or writes files, logs, knows
Dask, or draws randomness other than from the Generator it is given; equal arguments give equal bytes.
"""
