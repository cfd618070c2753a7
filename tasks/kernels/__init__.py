"""Hold algorithms on arrays: no I/O, no Dask, no logging; randomness only through an explicit Generator or given
draws.

May import numerical libraries and other kernels.
"""
