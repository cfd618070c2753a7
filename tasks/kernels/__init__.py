"""Algorithms on arrays: no I/O, no Dask, no logging; randomness only through an explicit Generator."""
