"""The course: twelve assignments, in its order."""

from __future__ import annotations

from seq2seq_suite.lab.assignment import Assignment, Part

_F, _NN = "torch.nn.functional", "torch.nn"
_ATTENTION = (f"{_F}.scaled_dot_product_attention", f"{_F}.multi_head_attention_forward", f"{_NN}.MultiheadAttention")
_CROSS_ENTROPY = (f"{_F}.cross_entropy", f"{_F}.nll_loss", f"{_NN}.CrossEntropyLoss", f"{_NN}.NLLLoss")

ATTENTION = Assignment(
    2, "attention", "Attention", "注意力",
    parts=(
        Part("attend", ("attend",), 25, forbidden=_ATTENTION),
        Part("masks", ("causal_mask", "padding_mask"), 10),
        Part("heads", ("split_heads", "merge_heads", "multi_head"), 30, forbidden=_ATTENTION),
    ),
    experiment=20, questions=15, notes=("000", "001", "002", "003", "004"))

NORMS = Assignment(
    4, "norms", "Norms, residual connections, dropout", "归一化、残差连接与 dropout",
    parts=(
        Part("layer_norm", ("layer_norm",), 25, forbidden=(
            f"{_F}.layer_norm", "torch.layer_norm", "torch.native_layer_norm", f"{_NN}.LayerNorm",
            f"{_F}.group_norm", "torch.group_norm", f"{_F}.instance_norm")),
        Part("residual", ("residual",), 20),
        Part("dropout", ("dropout",), 10, forbidden=(
            f"{_F}.dropout", "torch.dropout", "torch.native_dropout", f"{_NN}.Dropout", f"{_F}.alpha_dropout",
            f"{_F}.feature_alpha_dropout", f"{_F}.dropout1d", f"{_F}.dropout2d", f"{_F}.dropout3d")),
        Part("power_norm", ("power_norm",), 15, bonus=True),
    ),
    experiment=25, questions=20, notes=("003", "004"))

FORCING = Assignment(
    6, "forcing", "Teacher forcing", "Teacher forcing",
    parts=(
        Part("shift_right", ("shift_right",), 15),
        Part("smoothing", ("smoothed_cross_entropy",), 25, forbidden=(*_CROSS_ENTROPY, f"{_F}.kl_div")),
        Part("mix_inputs", ("mix_inputs",), 15),
    ),
    experiment=25, questions=20, notes=("003", "004"))

SEARCH = Assignment(
    7, "search", "Search", "搜索",
    parts=(
        Part("greedy", ("greedy",), 15),
        Part("cache", ("cached_step", "decode_step"), 20, forbidden=_ATTENTION),
        Part("beam", ("beam_search",), 30),
    ),
    experiment=20, questions=15, notes=("003", "004"))

ASSIGNMENTS: tuple[Assignment, ...] = (ATTENTION, NORMS, FORCING, SEARCH)
