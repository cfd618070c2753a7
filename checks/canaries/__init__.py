"""Hold what the audit of differential privacy computes: lower bounds on epsilon from trials of the mechanism.

A room beside checks/attacks: imports the spine of checks (`stats`) and tasks.store, and nothing else of tasks.
"""
