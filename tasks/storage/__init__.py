"""Hold where the files of a store are: in a directory of this machine, or in an object store that machines share.

Everything else works on paths of this machine. `local.py` and `objects.py` answer the same questions about a store
(tests/contracts/storages.py): who may write now, what others have written, and how a release appears whole.
`exchange.py` takes the files that blocks read and write to workers that share no directory with us. docs/operations.md
explains it.

May import: errors. tasks/store.py and tasks/engine.py import this room; nothing else does.
"""
