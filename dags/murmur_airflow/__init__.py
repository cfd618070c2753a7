"""Hold what the DAG files share: how the graph is drawn, how a task ends, what people are asked and shown.

Airflow puts the folder of the DAG files on the import path, so a DAG file imports this package by its own name. Light
on purpose: the modules are imported while Airflow parses the DAG files.
"""
