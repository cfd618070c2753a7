"""Run `murmur` as `python -m tasks.cli`."""

import sys

from tasks.cli._main import main

if __name__ == "__main__":
    sys.exit(main())
