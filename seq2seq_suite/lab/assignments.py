"""The course: twelve assignments, in its order."""

from __future__ import annotations

from seq2seq_suite.lab.assignment import Assignment, Part

ATTENTION = Assignment(
    2, "attention", "Attention", "注意力",
    parts=(
        Part("attend", ("attend",), 25, forbidden=("torch.nn.functional.scaled_dot_product_attention",)),
        Part("masks", ("causal_mask", "padding_mask"), 10),
        Part("heads", ("split_heads", "merge_heads", "multi_head"), 30, forbidden=(
            "torch.nn.functional.scaled_dot_product_attention", "torch.nn.functional.multi_head_attention_forward",
            "torch.nn.MultiheadAttention")),
    ),
    experiment=20, questions=15, notes=("000", "001", "002", "003", "004"))

ASSIGNMENTS: tuple[Assignment, ...] = (ATTENTION,)
