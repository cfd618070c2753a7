"""Sign releases with the owner's key and verify signatures offline.

A signature is an in-toto statement about the files of a release in a DSSE envelope ([InToto2023], [Dsse2021]), signed
with Ed25519. It shows who published the files; what the files disclose is the gate's concern.

May import store and errors.
"""
