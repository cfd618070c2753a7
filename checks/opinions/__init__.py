"""Hold what attacks on opinions share: the levels of item columns, raters' opinions, correlations and areas.

An opinion is a rating less the mean of that person's other ratings. May import checks.evidence and checks.stats.
"""
