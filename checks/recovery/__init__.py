"""Hold the machinery of attacks that recover real ratings from published cells: fits, outliers, baselines.

May import evidence and the spine's result and stats; nothing of the other rooms.
"""
