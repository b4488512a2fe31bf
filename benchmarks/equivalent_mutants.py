"""Mutants that are equivalent to the original.

By name the change, so that an entry ends with the code it is about, and the reason.
"""

_NO_OFFSET = "nothing is added to the input, so its position does not matter"

EQUIVALENT: dict[str, tuple[str, str]] = {
    "seq2seq_suite/model/attention.py::attention::and-or::2": (
        "query_BHTE.dtype == torch.bfloat16 or dropout_rate -> query_BHTE.dtype == torch.bfloat16 and dropout_rate",
        "both paths compute the same; the other one is slower",
    ),
    "seq2seq_suite/data/pictures.py::zoom::call::8": (
        "np.array([left, top, left, top]) -> [left, top, left, top]",
        "NumPy takes a list from an array all the same",
    ),
    "seq2seq_suite/metrics/boxes.py::average_precision::constant+1::5": (
        "1 -> 2",
        "the numbers of annotations only have to differ",
    ),
    "seq2seq_suite/metrics/evalb.py::_compare::swap::2": (
        "zip(wanted.tags, found.tags, strict=True) -> zip(found.tags, wanted.tags, strict=True)",
        "equality does not ask which comes first",
    ),
    "seq2seq_suite/training/checkpoint.py::_restore_best::constant+1::1": (
        "0 -> 1",
        "the first validation comes after the first update",
    ),
    "seq2seq_suite/common/files.py::module::arithmetic::3": (
        "2 ** 22 -> 2 * 22",
        "how many bytes have a hash of their own: a matter of time and space",
    ),
    "seq2seq_suite/common/shapes.py::TargetShape::constant+1::1": ("0 -> 1", "without a guide nothing reads it"),
    "seq2seq_suite/common/shapes.py::SoundShape::constant-1::1": ("4 -> 3", "every task gives it"),
    "seq2seq_suite/strategies/parallel/cut_at_end.py::_with_ends::constant-1::3": (
        "-1 -> -2",
        "any number below zero stands for no symbol",
    ),
    "seq2seq_suite/strategies/parallel/base.py::Parallel.glance::call::3": (
        "torch.zeros_like(mask) -> mask",
        "where no symbols are given, it does not matter where they would be shown",
    ),
    "seq2seq_suite/common/trees.py::Tree.is_preterminal::constant-1::2": (
        "0 -> -1",
        "the only child is the last one, too",
    ),
    "seq2seq_suite/model/pointer.py::Pointer.__init__::truth::2": (
        "False -> True",
        "a bias of the keys adds the same to all scores of a query, and softmax takes it away",
    ),
    "seq2seq_suite/model/positions.py::NoPositions.forward::constant+1::1": ("0 -> 1", _NO_OFFSET),
    "seq2seq_suite/model/positions.py::NoPositions.forward::constant-1::1": ("0 -> -1", _NO_OFFSET),
    "seq2seq_suite/tasks/parsing/tetra_tags.py::_Node.hang::truth::1": (
        "False -> True",
        "`read` puts nodes on open ones only, so there is always an open place",
    ),
}
