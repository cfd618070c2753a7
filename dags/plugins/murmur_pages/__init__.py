"""Hold the pages of Murmuration inside the Airflow UI, and the notes on its runs.

Every Airflow process loads the plugin, so modules that need FastAPI, NumPy or Airflow's database are imported when a
page is asked for or a run ends, not before.
"""
