"""Studies: reproducing papers, comparing methods, planning a release. They run the same steps as a release."""
