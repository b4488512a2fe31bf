"""Peak memory of `import`, of opening an imported run and of fine-tuning it, above Python and its modules at rest.

The model has the shape of OPUS-MT's (width 512, 6 + 6 layers, 58,101 symbols) and random weights; it is written once.
Each stage is measured by the operating system (ru_maxrss) in a process of its own.

    python -m benchmarks.import_memory --folder DIR
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
from pathlib import Path

SYMBOLS, WIDTH, LAYERS, INNER, HEADS = 58_101, 512, 6, 2048, 8
STAGES = (
    "write",
    "import",
    "import --dtype bfloat16",
    "open",
    "open bfloat16",
    "predict",
    "fine-tune with LoRA",
    "fine-tune",
)
TEXTS = ["the dog sees a small cat", "a cat sleeps", "the large bird sings", "small dogs and large cats run"]


def write(folder: Path) -> None:
    """A `MarianMTModel` with the files of its tokenizer."""
    import torch

    sys.modules.setdefault("torchaudio", None)  # pyright: ignore[reportArgumentType]  text needs none
    from transformers import MarianConfig, MarianMTModel

    from seq2seq_suite.data.subwords import SentencePieces

    folder.mkdir(parents=True)
    model = SentencePieces.train("unigram", TEXTS, size=40).model
    names = ["</s>", "<unk>", *(f"piece{number}" for number in range(SYMBOLS - 3)), "<pad>"]
    (folder / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(names)}))
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(model)
    kind = {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "de"}
    (folder / "tokenizer_config.json").write_text(json.dumps(kind))
    both = {
        f"{side}_{key}": value
        for side in ("encoder", "decoder")
        for key, value in (("layers", LAYERS), ("attention_heads", HEADS), ("ffn_dim", INNER))
    }
    pad = SYMBOLS - 1
    sizes = {"vocab_size": SYMBOLS, "d_model": WIDTH, "max_position_embeddings": 512, **both}
    symbols = {"pad_token_id": pad, "decoder_start_token_id": pad, "eos_token_id": 0, "forced_eos_token_id": 0}
    config = MarianConfig(activation_function="swish", scale_embedding=True, **sizes, **symbols)
    torch.manual_seed(1)
    MarianMTModel(config).save_pretrained(folder)


def measure(stage: str, folder: Path) -> None:
    """Print the bytes at rest and at the peak of a stage; a child's peak is never below that of its parent."""
    import torch

    from seq2seq_suite.imports.run import import_run
    from seq2seq_suite.prediction.load_run import open_run

    torch.randn(64, 64) @ torch.randn(64, 64)
    dtype = stage.rpartition(" ")[2] if "bfloat16" in stage else "float32"
    rest, run = _peak(), folder / ("run" if dtype == "float32" else "half")
    if stage == "write":
        write(folder / "opus")
    elif stage.startswith("import"):
        import_run(str(folder / "opus"), run, overwrite=True, dtype=dtype, command=["benchmark"])
    elif stage.startswith("fine-tune"):
        tune(run, folder, ["backbone.lora.rank=8"] if "LoRA" in stage else [])
    else:
        opened = open_run(run, ["device=cpu", "training.threads=1", "search.beam_size=1"])
        if stage == "predict":
            next(iter(opened.predict([opened.task.from_text(TEXTS[0])])))
    print(f"{rest} {_peak()}")


def tune(run: Path, folder: Path, overrides: list[str]) -> None:
    """Two updates of 1,024 padded pieces, validation and test included."""
    from seq2seq_suite import api

    for split in ("train", "validation", "test"):
        row = json.dumps({"en": " ".join(TEXTS * 2), "de": " ".join(TEXTS * 2)}) + "\n"
        (folder / f"{split}.jsonl").write_text(row * (100 if split == "train" else 4), encoding="utf-8")
    small = ["training.max_updates=2", "training.batch_tokens=1024", "training.threads=1", "device=cpu"]
    begun = [f"init_from={run}", "init_parts=[all]", f"data.path={folder}", "search.beam_size=1", *overrides]
    shutil.rmtree(folder / "tuned", ignore_errors=True)
    api.train(run / "config.yaml", output=folder / "tuned", settings=[*small, *begun])


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    """A row for each stage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--stage", choices=STAGES)
    given = parser.parse_args()
    if given.stage:
        measure(given.stage, given.folder)
        return
    print("| stage | at rest, MB | peak, MB | above, of the file |\n|---|---|---|---|")
    for stage in STAGES[1:] if (given.folder / "opus").is_dir() else STAGES:
        command = [sys.executable, "-m", "benchmarks.import_memory", "--folder", str(given.folder), "--stage", stage]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\n")[-2]
        rest, peak = map(int, said.split())
        size = (given.folder / "opus" / "model.safetensors").stat().st_size
        print(f"| {stage} | {rest / 1e6:.0f} | {peak / 1e6:.0f} | {(peak - rest) / size:.2f} |", flush=True)


if __name__ == "__main__":
    main()
