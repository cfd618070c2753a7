"""Hold studies: compare methods on the owner's data, and reproduce the tables of papers.

May import all of tasks but steps, cli and stack, and, where attacks are the subject, checks. One study does not import
another; what several need is here.
"""
