"""Undoing a disguise: the reconstruction attacks of Zhang, Ford and Makedon (paper 001) as functions on arrays.

kmeans.py      ratings from one person's disguised values (section 4)
detection.py   which entries were rated, where all entries are disguised (section 4.1), and how strong the noise is
svd_em.py      z-scores from everybody's disguised values together (section 5)
pca.py         the same by Huang et al., without EM (the comparison of figure 4)
measures.py    how near the reconstruction comes (section 6)
zscores.py     the undisguised z-scores (section 3), for controls and measures
"""
