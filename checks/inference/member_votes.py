"""Infer from the other members of a shared record: an attacker who knows most of a group's members learns about the
rest.

No record is needed for it, only who is listed with whom. Groups of similar people are groups of alike people; and
groups that were balanced on purpose reveal the opposite of what the known members are, so the sign is learned as well
(`attack.combine`).
"""

import numpy as np

from checks.evidence.case import Case
from checks.inference.labelled_people import LabelledPeople

PRIOR = 2.0  # members that are added to every group, with the classes' overall shares


def vote_features(case: Case, who: LabelledPeople, question: int) -> np.ndarray:
    """Return per person tested the share of the class among the group's members the attacker knows (all labelled people
    of the other folds), as log-odds; how many they know; and the product of both."""
    group = case.truth.row_of_user[who.people]
    groups, folds = case.release.n_groups, int(who.folds.max()) + 1
    inside = who.labels == question
    all_known, of_class = (
        np.bincount(group * folds + who.folds, weights, groups * folds).reshape(groups, folds)
        for weights in (np.ones(len(group)), inside)
    )
    own, fold = group[who.tested], who.folds[who.tested]
    known, yes = (
        counts.sum(axis=1)[own] - counts[own, fold] for counts in (all_known, of_class)
    )  # people of the own fold are tested, too
    share = (yes + PRIOR * who.share(question)) / (known + PRIOR)
    odds = np.log(share) - np.log1p(-share)
    return np.column_stack([odds, np.log1p(known), odds * np.log1p(known)])
