"""One file per box in the Airflow UI: its parameters, and its wiring over blocks."""
