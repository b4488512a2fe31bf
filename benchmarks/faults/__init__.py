"""A campaign against the suite: kills, full disks, damaged files, broken data, generated configurations, odd inputs.

    python -m benchmarks.faults --minutes 40 --output benchmarks/results/faults.md
    python -m benchmarks.faults --minutes 2 --only data settings
    python -m benchmarks.faults --only data --seed 1 --case 17

The last form repeats one case and shows what was called and answered. A case is drawn from kind, seed and number
alone. What is held against a command is the contract of the command line: exit code 0, 1, 2 or 130 with a plain
message, never a stack trace, a hang or a flood of memory, and nothing lost.
"""
