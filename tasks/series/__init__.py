"""Hold what joins the releases of one population: the ledger, cohorts, carried-over groups, withdrawal, erasure.

A series publishes each group once and carries it over with unchanged bytes; only newcomers form new groups. The rules
and their reasons are in docs/series.md. May import config, data, kernels, store, keys and errors; steps and the
command line import this room.
"""
