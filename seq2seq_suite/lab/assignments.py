"""The course: twelve assignments, in its order."""

from __future__ import annotations

from seq2seq_suite.lab.assignment import Assignment, Part

_F, _NN = "torch.nn.functional", "torch.nn"
_ATTENTION = (f"{_F}.scaled_dot_product_attention", f"{_F}.multi_head_attention_forward", f"{_NN}.MultiheadAttention")
_CROSS_ENTROPY = (f"{_F}.cross_entropy", f"{_F}.nll_loss", f"{_NN}.CrossEntropyLoss", f"{_NN}.NLLLoss")

LOSSES = Assignment(
    1,
    "losses",
    "Losses",
    "损失函数",
    parts=(
        Part("perceptron", ("perceptron",), 15),
        Part(
            "cross_entropy",
            ("cross_entropy",),
            20,
            forbidden=(
                *_CROSS_ENTROPY,
                f"{_F}.log_softmax",
                "torch.log_softmax",
                "torch.Tensor.log_softmax",
                "torch.logsumexp",
                "torch.Tensor.logsumexp",
                f"{_NN}.LogSoftmax",
            ),
        ),
        Part(
            "gradient",
            ("cross_entropy_gradient",),
            15,
            forbidden=(
                *_CROSS_ENTROPY,
                "torch.autograd.grad",
                "torch.autograd.backward",
                "torch.Tensor.backward",
                "torch.func.grad",
            ),
        ),
        Part("squared_error", ("squared_error",), 10, forbidden=(f"{_F}.mse_loss", f"{_NN}.MSELoss")),
    ),
    experiment=25,
    questions=15,
    notes=("001",),
)

ATTENTION = Assignment(
    2,
    "attention",
    "Attention",
    "注意力",
    parts=(
        Part("attend", ("attend",), 25, forbidden=_ATTENTION),
        Part("masks", ("causal_mask", "padding_mask"), 10),
        Part("heads", ("split_heads", "merge_heads", "multi_head"), 30, forbidden=_ATTENTION),
    ),
    experiment=20,
    questions=15,
    notes=("000", "001", "002", "003", "004"),
)

POSITIONS = Assignment(
    3,
    "positions",
    "Positions",
    "位置编码",
    parts=(
        Part("sinusoids", ("sinusoids",), 30),
        Part("shift", ("shift_matrix",), 25),
        Part("rotate", ("rotate",), 10, bonus=True),
    ),
    experiment=25,
    questions=20,
    notes=("001", "002", "004"),
)

NORMS = Assignment(
    4,
    "norms",
    "Norms, residual connections, dropout",
    "归一化、残差连接与 dropout",
    parts=(
        Part(
            "layer_norm",
            ("layer_norm",),
            25,
            forbidden=(
                f"{_F}.layer_norm",
                "torch.layer_norm",
                "torch.native_layer_norm",
                f"{_NN}.LayerNorm",
                f"{_F}.group_norm",
                "torch.group_norm",
                f"{_F}.instance_norm",
            ),
        ),
        Part("residual", ("residual",), 20),
        Part(
            "dropout",
            ("dropout",),
            10,
            forbidden=(
                f"{_F}.dropout",
                "torch.dropout",
                "torch.native_dropout",
                f"{_NN}.Dropout",
                f"{_F}.alpha_dropout",
                f"{_F}.feature_alpha_dropout",
                f"{_F}.dropout1d",
                f"{_F}.dropout2d",
                f"{_F}.dropout3d",
            ),
        ),
        Part("power_norm", ("power_norm",), 15, bonus=True),
    ),
    experiment=25,
    questions=20,
    notes=("003", "004"),
)

BLOCKS = Assignment(
    5,
    "blocks",
    "Blocks",
    "Transformer 的 block",
    parts=(
        Part("feed_forward", ("feed_forward",), 10),
        Part("encoder_block", ("encoder_block",), 20, forbidden=(f"{_NN}.TransformerEncoderLayer",)),
        Part("decoder_block", ("decoder_block",), 30, forbidden=(f"{_NN}.TransformerDecoderLayer",)),
    ),
    experiment=25,
    questions=15,
    notes=("001", "002", "003", "004"),
)

FORCING = Assignment(
    6,
    "forcing",
    "Teacher forcing",
    "Teacher forcing",
    parts=(
        Part("shift_right", ("shift_right",), 15),
        Part("smoothing", ("smoothed_cross_entropy",), 25, forbidden=(*_CROSS_ENTROPY, f"{_F}.kl_div")),
        Part("mix_inputs", ("mix_inputs",), 15),
    ),
    experiment=25,
    questions=20,
    notes=("003", "004"),
)

SEARCH = Assignment(
    7,
    "search",
    "Search",
    "搜索",
    parts=(
        Part("greedy", ("greedy",), 15),
        Part("cache", ("cached_step", "decode_step"), 20, forbidden=_ATTENTION),
        Part("beam", ("beam_search",), 30),
    ),
    experiment=20,
    questions=15,
    notes=("003", "004"),
)

PARALLEL = Assignment(
    8,
    "parallel",
    "All symbols at once",
    "非自回归生成",
    parts=(
        Part("lengths", ("likeliest_lengths",), 10),
        Part("cut", ("cut_at_end",), 10),
        Part("collapse", ("collapse",), 15),
        Part("hide", ("hide",), 25),
    ),
    experiment=25,
    questions=15,
    notes=("003",),
)

STRUCTURES = Assignment(
    9,
    "structures",
    "Trees and sets of labels",
    "树与标签集合",
    parts=(
        Part("tree", ("linearise", "parse"), 20),
        Part("automaton", ("start", "allowed", "advance"), 20),
        Part("labels", ("allowed_labels", "set_loss", "micro_macro_f1"), 15),
        Part("task", ("own_examples", "write_answer", "read_answer", "score_answers"), 20),
    ),
    experiment=15,
    questions=10,
    notes=("003",),
)

SPEECH = Assignment(
    10,
    "speech",
    "Speech and CTC",
    "语音与 CTC",
    parts=(
        Part("log_mel", ("log_mel",), 20, forbidden=("torch.stft", "torch.Tensor.stft")),
        Part("spec_augment", ("spec_augment",), 10),
        Part("ctc", ("ctc_loss",), 30, forbidden=(f"{_F}.ctc_loss", "torch.ctc_loss", f"{_NN}.CTCLoss")),
    ),
    experiment=25,
    questions=15,
    notes=("003",),
    extra="speech",
)

GPT = Assignment(
    11,
    "gpt",
    "Pre-training a decoder",
    "预训练：GPT",
    parts=(
        Part("language_loss", ("language_loss",), 25, forbidden=_CROSS_ENTROPY),
        Part("layout", ("layout",), 20),
        Part("fine_tuning", ("fine_tuning_loss",), 10),
    ),
    experiment=25,
    questions=20,
    notes=("001",),
)

STUDY = Assignment(
    12,
    "study",
    "A study",
    "一项对照研究",
    parts=(
        Part("interval", ("mean_interval",), 15),
        Part("bootstrap", ("bootstrap",), 15),
        Part("paired", ("paired_p",), 15),
    ),
    experiment=30,
    questions=25,
    notes=("003",),
)

ASSIGNMENTS: tuple[Assignment, ...] = (
    LOSSES,
    ATTENTION,
    POSITIONS,
    NORMS,
    BLOCKS,
    FORCING,
    SEARCH,
    PARALLEL,
    STRUCTURES,
    SPEECH,
    GPT,
    STUDY,
)
