"""How an attacker who knows a few ratings finds a person: one ranking, many rules.

knowledge.py   what is known about whom (and mentions.py: what people say in forums)
postings.py    the records to search, turned round: per item, who has it
rules.py       what makes a record look like the person; one Rule per published attack
kernel.py      scores and ranks, over posting lists
ranking.py     the same over blocks of targets, on Dask
attack.py      from ranks to a check: release, raw control, absent people
"""
