"""Hold the machinery of attacks in which an attacker who knows a few ratings searches for a person's record.

    knowledge.py        kinds of attacker knowledge, and one set of known ratings per target
    drawn_knowledge.py  what is known about each target of a case; mentions.py: what people mention in forums
    postings.py         the records to search as posting lists: per item, the records that have it
    rules.py            how a record is scored against the knowledge; one Rule per published attack
    kernel.py           scores and ranks over posting lists; ranking.py: over blocks of targets, on the engine
    attack.py           from ranks to a check: release, control on the raw data, baseline from absent people
    nearest.py          the nearest record to a whole profile, by distance
    whitened_view.py    the directions of a whole release; whitened_signals.py: how well they explain a person's ratings

May import evidence, recovery and reconstruction, and the spine's registry, result and stats; never inference or a
check.
"""
