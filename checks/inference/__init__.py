"""Hold attacks that infer people's attributes: an attacker who knows some people's gender learns to predict others'.

The attacker has every person's record (where groups are published: the group's) and the attribute of most people,
learns from these and is tested on the rest (`attack.py`). Inferrers that learn from *released* records gate: one that
learned from raw data is misled by additions that a retrained one sees through ([Weinsberg2012], [RFPP]). The measure is
balanced precision (`balanced_precision.py`); the finding and the controls are in `assessment.py` and `controls.py`.
Nothing here is shared with the obfuscation it judges.

May import evidence, reconstruction and the spine's result and stats; never linkage or a check. The pseudonym modules
serve the check of that name (checks/privacy/pseudonyms.py).
"""
