"""Hold the steps, one file per box in the Airflow UI: parameters, inputs, work over blocks. None imports another.

May import the spine of tasks and every room but cli, stack and studies. Of checks, only `validate`, `ingest` and
`suppression` import something: they judge a release, data, or what an attack would find.
"""
