"""Hold the production services: image, compose.yaml, and the program that really brings them up (`make containers`).

May import tasks (keys, the client of Airflow's API, files) and benchmarks.same_release; nothing imports it.
"""
