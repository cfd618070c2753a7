"""Hold other views of the evidence: raw data, a sample of groups, z-scores shown as ratings, the shadow release.

A view is made from a case, kept in its cache (`Case.cached`) and implements `ReleaseView`. It imports evidence only.
"""
