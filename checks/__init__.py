"""What judges data: every check, attack and measure that stands between a candidate and its publication."""
