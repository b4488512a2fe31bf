"""Planted bugs of attention."""

from seq2seq_suite.lab.assignment import Fault

FAULTS = [
    Fault("att-scale-d", "attend", " / math.sqrt(query.size(-1))", " / query.size(-1)", "attend.parity",
          "scores are divided by d, not by sqrt(d)", "分数除以了 d，应除以 sqrt(d)"),
    Fault("att-mask-zero", "attend", 'float("-inf")', "0.0", "attend.masked",
          "a score of 0 is not minus infinity: exp(0) = 1 still gets a share",
          "分数 0 不是负无穷：exp(0) = 1 仍会分到权重"),
]
