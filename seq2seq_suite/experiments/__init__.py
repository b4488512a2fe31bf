"""The verbs behind the command line: preparing, running, checking, distilling."""
