"""Where people share a record: who knows most of a group's members learns about the rest.

No record is needed for it, only who is listed with whom. Groups of similar people are groups of alike people; and
groups that were balanced on purpose tell the opposite of what the known members are, so the sign is learnt as well
(`attack.mixed`).
"""

import numpy as np

from checks.case import Case
from checks.inference.people import Labelled

PRIOR = 2.0  # members that are added to every group, composed as everybody is


def votes(case: Case, who: Labelled, question: int) -> np.ndarray:
    """Per person asked: the share of the class among the group's members the attacker knows (all labelled people of the
    other folds), as log-odds; how many he knows; and both together."""
    group = case.truth.row_of_user[who.people]
    groups, folds = case.release.n_groups, int(who.folds.max()) + 1
    inside = who.labels == question
    everybody, of_class = (
        np.bincount(group * folds + who.folds, weights, groups * folds).reshape(groups, folds)
        for weights in (np.ones(len(group)), inside)
    )
    own, fold = group[who.asked], who.folds[who.asked]
    known, yes = (
        counts.sum(axis=1)[own] - counts[own, fold] for counts in (everybody, of_class)
    )  # those of the own fold are asked, too
    share = (yes + PRIOR * who.share(question)) / (known + PRIOR)
    odds = np.log(share) - np.log1p(-share)
    return np.column_stack([odds, np.log1p(known), odds * np.log1p(known)])
