"""The comparison of decoders measures real runs and draws them."""

import json

import pytest

pytest.importorskip("matplotlib", reason="comes with the extra `bench`")

from benchmarks import at_vs_nat
from seq2seq_suite.config.schema import Config
from seq2seq_suite.experiments import verbs


@pytest.mark.slow
def test_runs_of_one_task_stand_in_a_table_and_a_plot(tmp_path, capsys):
    for split in ("train", "validation", "test"):
        rows = [{"src": f"a b {word}", "tgt": f"{word} b"} for word in ("one", "two", "three", "four", "five", "six")]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for kind in ("autoregressive", "ctc"):
        config = Config.model_validate(
            {
                "task": "translation",
                "device": "cpu",
                "data": {"path": str(tmp_path)},
                "strategy": {"kind": kind},
                "translation": {"source_subwords": "characters", "target_subwords": "characters"},
                "backbone": {
                    "width": 16,
                    "feed_forward_width": 16,
                    "num_heads": 2,
                    "encoder_layers": 1,
                    "decoder_layers": 1,
                },
                "training": {"max_updates": 1, "validate_every": 1, "threads": 1},
            }
        )
        verbs.run(config, tmp_path / kind, resume=False, overwrite=False, command=["test"])
    capsys.readouterr()
    runs = [f"{tmp_path}/autoregressive:search.beam_size=2:search.max_length_factor=1.0", f"all at once={tmp_path}/ctc"]
    at_vs_nat.main([*runs, "--rounds", "1", "--sentences", "3", "--threads", "1", "--plot", str(tmp_path / "plot.png")])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert [line.split("|")[1].strip() for line in lines[2:]] == [
        "autoregressive beam_size=2 max_length_factor=1.0",
        "all at once",
    ]
    assert lines[2].split("|")[3:5] == [" 1 ", " 1 "]
    assert lines[2].split("|")[10].strip() == "1.0x" and lines[2].split("|")[-2].strip() == "1.00"
    assert 0.0 < float(lines[3].split("|")[-2]) <= 1.0
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SystemExit) as caught:
        at_vs_nat.main([str(tmp_path / "none")])
    assert caught.value.code == 2 and "not a run directory" in capsys.readouterr().err
