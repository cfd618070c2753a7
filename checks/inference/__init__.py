"""What a release tells of people's attributes: an attacker who knows some people's gender learns to tell others'.

He is given everybody's record (of a group: everybody's group) and the attribute of most people, learns from these and
is asked about the rest (`attack.py`). Learning from *released* records is what gates: an inferrer that learnt from raw
data is fooled by additions a retrained one sees through (SCIENCE P4). What he achieves is balanced precision
(`measure.py`); how it is judged, and the controls, are in `judged.py`. Nothing here is shared with the obfuscation it
judges.
"""
