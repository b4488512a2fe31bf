"""What runs on a device that is not the CPU: presets of `tasks/`, made smaller, and searches with what they trained."""

from seq2seq_suite.strategies import KINDS, targets_of
from seq2seq_suite.tasks import TASKS

_SHORT = ["search.beam_size=2", "search.max_length_factor=0.05"]  # outputs
_DAG = ["backbone.dropout=0.1", "strategy.glancing=[0.5,0.3]"]
# Name of a run -> preset and settings.
TRAINED = {
    "translation": (
        "translation",
        ["backbone.dropout=0.1", "strategy.scheduled_sampling=0.5", "training.schedule=constant"],
    ),
    **{
        kind: ("translation-nat", [f"strategy.kind={kind}", *(_DAG if kind == "dag" else ())])
        for kind in KINDS
        if "text" in targets_of(kind) and kind not in ("autoregressive", "blocks")
    },
    "blocks": ("translation", ["strategy.kind=blocks"]),
    "parsing": ("parsing", []),
    "spans": ("parsing", ["parsing.span_loss=0.5"]),
    "parsing-nat": ("parsing-nat", []),
    "qa": ("qa", []),
    "qa-gpt": ("qa-gpt", []),
    "multilabel": ("multilabel", []),
    "tagging": ("tagging", []),
    "summarisation": ("summarisation", []),
    "detection": ("detection", []),
    "detection-nat": ("detection-nat", []),
    "asr": ("asr", _SHORT),
    "asr-nat": ("asr-nat", []),
    "speech_translation": ("speech_translation", []),
    "language_model": ("language_model", []),
    "bfloat16": ("tagging", ["training.precision=bfloat16"]),
    "variants": (
        "translation",
        ["backbone.experts=3", "backbone.norm=power", "backbone.positions=rotary", "backbone.embedding_width=16"],
    ),
    "rotary": ("translation", ["backbone.positions=rotary", "backbone.norm=rms"]),
    "joint": (
        "multitask",
        [
            "tasks={parsing: {yaml: parsing.yaml, data: {size: 64, test_splits: []}}, "
            "multilabel: {yaml: multilabel.yaml, data: {size: 64, test_splits: []}}}",
            "training.accumulate=2",
        ],
    ),
}
TRAINED |= {task: (task, []) for task in TASKS if task not in {preset for preset, _ in TRAINED.values()}}
# Name of a search -> the runs that search together, and settings.
SEARCHED = {
    "greedy": (["translation"], []),
    "beam": (["translation"], ["search.beam_size=3", "search.num_hypotheses=2"]),
    "sampling": (["translation"], ["search.sampling=true", "search.top_k=1", "search.top_p=0.9"]),
    "free text": (
        ["translation"],
        ["search.min_length=3", "search.no_repeat_ngram=2", "search.repetition_penalty=1.2"],
    ),
    "ensemble": (["translation", "translation"], ["search.beam_size=2"]),
    "drafted": (["translation"], ["search.drafter=./ctc"]),
    "rescored": (["ctc"], ["search.rescorer=./translation", "search.beam_size=3"]),
    "dag's beam": (["dag"], ["search.beam_size=3"]),
    "mask-predict": (["mask_predict"], []),
    "a tree": (["parsing"], []),
    "a tree in parallel": (["parsing-nat"], []),
    "labels, beam": (["multilabel"], ["search.beam_size=3"]),
    "experts": (["variants"], ["search.beam_size=2"]),
    "CTC, greedy": (["asr"], ["search.beam_size=1"]),
    "CTC, beam": (["asr"], ["search.beam_size=3"]),
    "CTC and words": (["asr"], ["search.beam_size=3", "asr.word_weight=0.3"]),
    "CTC's drafts": (["asr"], ["search.beam_size=1", "search.drafter=ctc", "search.ctc_weight=0"]),
}
_GRAPH = ["search.compile=true", "search.batch_sentences=2"]  # two batches, the second in the first one's graph
CAPTURED = {
    "graph": (["translation"], _GRAPH),
    "graph of beams": (["translation"], [*_GRAPH, "search.beam_size=3", "search.num_hypotheses=2"]),
    "graph, one sentence": (["translation"], [*_GRAPH, "search.batch_sentences=1", "search.beam_size=2"]),
    "graph, rotary": (["rotary"], [*_GRAPH, "search.beam_size=2"]),
    "graph of a tree": (["parsing"], _GRAPH),
    "graph of trees": (["parsing"], [*_GRAPH, "search.beam_size=3"]),
    "graph of tags": (["tagging"], _GRAPH),
    "graph of answers": (["qa"], _GRAPH),
    "graph of speech": (["asr"], [*_GRAPH, "search.ctc_weight=0"]),
}
# What is captured on no device, and the reason that is given.
NOT_CAPTURED = {
    "sampled, no graph": (
        ["translation"],
        ["search.compile=true", "search.sampling=true", "search.top_k=1"],
        "sampled",
    ),
    "least length, no graph": (["translation"], ["search.compile=true", "search.min_length=3"], "symbols so far"),
    "CTC, no graph": (["asr"], ["search.compile=true", "search.beam_size=3"], "CTC"),
}
SEARCHED |= CAPTURED | {name: case[:2] for name, case in NOT_CAPTURED.items()}
# Whose updates wait once; no other waits at all. PyTorch's CTC reads the lengths, cross-entropy which positions were
# drawn to be written, matching of objects the costs.
WAIT_ONCE = {
    "ctc",
    "length_head",
    "mask_predict",
    "cut_at_end",
    "parsing-nat",
    "asr",
    "asr-nat",
    "blocks",
    "speech_translation",
    "detection-nat",
}
# Launches of an update and of a step of search, both with one layer, within a tenth: lower them with the code.
LAUNCHES = {
    "translation": (281, 29),
    "parsing": (299, 192),
    "asr": (476, 758),
    "ctc": (2_262, None),
    "dag": (1_369, None),
    "detection-nat": (491, None),
    "bfloat16": (343, 61),
    "variants": (728, None),
    "joint": (728, None),
}
