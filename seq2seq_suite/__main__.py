"""`python -m seq2seq_suite`."""

import sys

from seq2seq_suite.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
