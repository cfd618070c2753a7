"""Hold attacks that undo a disguise: the reconstruction attacks of [Zhang2006], first as functions on arrays.

    kmeans.py             ratings from one person's disguised values (section 4)
    detection.py          which entries were rated, where all entries are disguised (section 4.1); the noise's strength
    svd_em.py             z-scores from all people's disguised values together (section 5)
    pca.py                the same by [Huang2005], without EM (the comparison of figure 4)
    measures.py           how close the reconstruction comes (section 6)
    zscores.py            the undisguised z-scores (section 3), for controls and measures
    rating_scale.py       the ratings people can give
    original_ratings.py   the ratings behind the records, and guesses of them without the release
    estimated_ratings.py  which entries an attacker takes as rated, and the ratings they estimate
    model_mixtures.py     models of all values, mixed with the published value
    assessment.py         from reconstructed ratings to a finding, for the three checks

May import evidence, recovery and the spine's result and stats; never linkage, inference or a check.
"""
