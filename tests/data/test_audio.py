"""Sound files of any kind, log-mel features against the definition, and features kept from run to run."""

import gc
import io
import time
from fractions import Fraction

import numpy as np
import pytest
import torch

soundfile = pytest.importorskip("soundfile", reason="comes with the extra `speech`")

from seq2seq_suite.common.errors import DataError, RunError  # noqa: E402
from seq2seq_suite.data import audio  # noqa: E402
from seq2seq_suite.data.audio import (  # noqa: E402
    FFT,
    HOP,
    RATE,
    RATES,
    WINDOW,
    Composed,
    Features,
    LogMel,
    Recording,
    Stored,
    leveled,
    resample,
    small_ratio,
)
from seq2seq_suite.data.sound_checks import Level  # noqa: E402
from seq2seq_suite.data.torchaudio_import import load_torchaudio  # noqa: E402


def tone(seconds: float = 0.5, *, rate: int = RATE, hertz: float = 440.0) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(int(seconds * rate)) / rate)).astype(np.float32)


def as_file(samples: np.ndarray, rate: int = RATE, **options) -> bytes:
    stream = io.BytesIO()
    soundfile.write(stream, samples, rate, **options)
    return stream.getvalue()


@pytest.mark.parametrize(
    "options",
    [
        {"format": "WAV"},
        {"format": "FLAC"},
        {"format": "OGG"},
        {"format": "MP3"},
        {"format": "NIST", "subtype": "PCM_16"},
    ],
)
def test_formats_are_read_and_channels_averaged(options):
    stereo = np.stack((tone(), np.zeros_like(tone())), axis=1)
    samples, rate = Recording("a", as_file(stereo, **options)).samples()
    assert rate == RATE and samples.ndim == 1
    middle = slice(2000, 6000)  # lossy formats need a moment
    assert np.abs(np.fft.rfft(samples[middle])).argmax() == np.abs(np.fft.rfft(tone()[middle])).argmax()
    assert np.abs(samples[middle]).max() == pytest.approx(0.25, abs=0.03)


def test_resampling_keeps_the_pitch_and_speed_raises_it():
    resampled = resample(tone(rate=8000), 8000)
    assert len(resampled) == 8000 and np.abs(np.fft.rfft(resampled)).argmax() == 220  # half-hertz bins of half a second
    fast = resample(tone(), RATE, speed=1.1)
    assert len(fast) == pytest.approx(8000 / 1.1, abs=1)
    assert np.abs(np.fft.rfft(fast)).argmax() / len(fast) * RATE == pytest.approx(484.0, abs=3.0)


@pytest.mark.parametrize("rate", [1_001, 7_919, 11_025, 15_999, 44_101, 96_001, 192_001, 383_999])
def test_a_sine_of_any_rate_keeps_its_frequency_and_loudness(rate):
    resampled = resample(tone(0.5, rate=rate, hertz=200.0), rate)
    assert len(resampled) == pytest.approx(RATE / 2, abs=8)
    middle = resampled[1000:-1000] * np.hanning(len(resampled) - 2000)
    found = np.abs(np.fft.rfft(middle, 2**18))
    assert found.argmax() * RATE / 2**18 == pytest.approx(200.0, rel=1e-3)
    assert found.max() / np.hanning(len(middle)).sum() * 2 == pytest.approx(0.5, rel=5e-3)


def test_every_rate_has_a_small_filter_and_those_in_use_are_met():
    exact = (
        6_000,
        8_000,
        11_025,
        12_000,
        22_050,
        24_000,
        32_000,
        37_800,
        44_100,
        48_000,
        88_200,
        96_000,
        176_400,
        192_000,
        352_800,
        384_000,
        7_200,
        8_800,
        14_400,
        17_600,
    )  # the last four: 8 and 16 kHz at other speeds
    assert all(small_ratio(rate) == Fraction(rate, RATE) for rate in exact)
    for rate in range(*RATES, 37):
        ratio = small_ratio(rate)
        assert ratio.numerator * ratio.denominator < 1.001 * 2**20
        assert float(ratio) * RATE == pytest.approx(rate, rel=5e-4)


@pytest.mark.parametrize("rate", [8_000, 44_100, 44_101, 96_001])
def test_rates_go_through_torchaudios_filter_and_long_recordings_in_pieces(rate, monkeypatch):
    samples, ratio = np.random.default_rng(0).standard_normal(rate + 7).astype(np.float32), small_ratio(rate)
    whole = load_torchaudio().functional.resample(torch.from_numpy(samples), ratio.numerator, ratio.denominator).numpy()
    assert np.array_equal(resample(samples, rate), whole)
    monkeypatch.setattr(audio, "_PIECE", 10_001)
    np.testing.assert_allclose(resample(samples, rate), whole, atol=1e-6)


@pytest.mark.parametrize("rate", [999, 384_001])
def test_rates_that_nobody_records_at_are_refused(rate):
    with pytest.raises(DataError, match=f"{rate:,} samples a second") as caught:
        Recording("a", as_file(tone(0.1), rate, format="WAV")).samples()
    assert caught.value.expected == "from 1,000 to 384,000"


def test_recordings_beyond_the_bound_are_refused_by_their_header(monkeypatch):
    monkeypatch.setattr(audio, "LONGEST", 999)
    with pytest.raises(DataError, match="1,000 samples"):
        Recording("a", as_file(np.zeros((500, 2)), format="WAV")).samples()


def test_samples_that_are_no_numbers_are_refused(tmp_path):
    for value in (np.nan, np.inf, 3e38):
        content = as_file(np.full(800, value, dtype=np.float32), format="WAV", subtype="FLOAT")
        error = Features(8, folder=str(tmp_path)).of([Recording("a.wav", content)])[0]
        assert isinstance(error, DataError) and "not finite" in error.got
    assert not list(tmp_path.rglob("*.safetensors"))


def test_damaged_features_are_computed_again(tmp_path):
    sound, features = Recording("a.wav", as_file(tone(), format="WAV")), Features(8, folder=str(tmp_path))
    whole = np.asarray(features.of([sound])[0])
    (file,) = tmp_path.rglob("*.safetensors")
    for content in (b"", b"x" * 200, file.read_bytes()[:-9]):
        file.write_bytes(content)
        assert np.array_equal(np.asarray(features.of([sound])[0]), whole)
    stored = features.of([sound])[0]
    file.unlink()
    with pytest.raises(RunError, match="can no longer be read"):
        np.asarray(stored)


def test_many_threads_read_kept_features_while_python_collects_garbage(tmp_path):
    sounds = [Recording("a.wav", as_file(tone(), format="WAV"))] * 300
    features = Features(8, folder=str(tmp_path))
    features.of(sounds[:1])

    def pause(phase: str, _: dict) -> None:
        if phase == "start":
            time.sleep(1e-5)  # another thread goes on, wherever this one is

    before = gc.get_threshold()
    gc.callbacks.append(pause)
    gc.set_threshold(7)
    try:
        assert all(isinstance(item, Stored) for _ in range(3) for item in features.of(sounds))
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(pause)


def test_a_folder_that_cannot_be_written_ends_in_one_line(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(audio, "save", full)
    with pytest.raises(RunError, match="No space left"):
        Features(8, folder=str(tmp_path)).of([Recording("a.wav", as_file(tone(), format="WAV"))])
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_log_mel_is_its_definition():
    samples, bins = np.random.default_rng(0).standard_normal(1000).astype(np.float32), 20
    padded = np.pad(samples, FFT // 2, mode="reflect")
    window = np.zeros(FFT)
    window[(FFT - WINDOW) // 2 : (FFT + WINDOW) // 2] = np.hanning(WINDOW + 1)[:-1]
    frames = np.stack([padded[start : start + FFT] * window for start in range(0, len(samples) + 1, HOP)])
    power = np.abs(np.fft.rfft(frames)) ** 2
    # Triangles between points of equal distance on the mel scale, 2595 log10(1 + f / 700).
    points = 700.0 * (10.0 ** (np.linspace(0.0, 2595.0 * np.log10(1 + RATE / 2 / 700.0), bins + 2) / 2595.0) - 1.0)
    hertz = np.linspace(0, RATE // 2, FFT // 2 + 1)
    low, centre, high = points[:-2, None], points[1:-1, None], points[2:, None]
    filters = np.maximum(0.0, np.minimum((hertz - low) / (centre - low), (high - hertz) / (high - centre)))
    expected = np.log(power @ filters.T + 1e-6)
    found = LogMel(bins)(samples)
    assert found.shape == (1 + 1000 // HOP, bins) and found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_features_are_kept_and_read_again(tmp_path):
    sound, features = Recording("a.wav", as_file(tone(), format="WAV")), Features(8, folder=str(tmp_path))
    first = features.of([sound, sound], speeds=[1.0, 0.9])
    assert [len(item) for item in first] == [51, 56]
    files = sorted(tmp_path.rglob("*.safetensors"))
    assert len(files) == 2
    times = [file.stat().st_mtime_ns for file in files]
    again = Features(8, folder=str(tmp_path)).of([sound])[0]
    assert isinstance(again, Stored) and np.array_equal(np.asarray(again), np.asarray(first[0]))
    assert [file.stat().st_mtime_ns for file in files] == times and (again.ndim, again.shape) == (2, (51, 8))


def test_short_sounds_are_padded_and_parts_joined(tmp_path):
    sound = Recording("a", as_file(tone(0.1, rate=8000), 8000, format="WAV"))
    assert len(Features(8, pad=0.6, folder=str(tmp_path)).of([sound])[0]) == 61
    samples, rate = Composed((sound, sound, sound), 0.1).samples()
    assert rate == RATE and len(samples) == 5 * RATE // 10
    assert len(LogMel(8)(np.zeros(10, dtype=np.float32))) == 2


@pytest.mark.parametrize("loudness", [1e-4, 0.1, 1.0])
def test_a_leveled_sound_has_26_decibels_below_full_scale_however_loud_it_was_and_long_its_pauses(loudness):
    pause = np.zeros(RATE, dtype=np.float32)
    found = leveled(np.concatenate((pause, loudness * tone(), 0.01 * loudness * tone(), pause)))
    assert found.dtype == np.float32 and len(found) == 3 * RATE
    resampled = found[RATE : RATE + RATE // 2]
    assert 20 * np.log10(np.sqrt(np.square(resampled).mean())) == pytest.approx(-26.02, abs=0.01)
    np.testing.assert_allclose(resampled, resampled.max() * tone() / tone().max(), atol=1e-6)


@pytest.mark.parametrize("samples", [[], [0.0] * 900, [np.nan] * 900, [1.0, np.inf]])
def test_what_has_no_level_is_left_as_it_is(samples):
    given = np.array(samples, dtype=np.float32)
    np.testing.assert_array_equal(leveled(given), given)


def test_leveled_features_do_not_know_how_loud_a_sound_was_and_are_kept_apart(tmp_path):
    loud, quiet = (
        Recording(name, as_file(share * tone(), format="WAV", subtype="FLOAT"))
        for name, share in (("loud", 1.0), ("quiet", 0.01))
    )
    as_is, level = (Features(8, level=level, folder=str(tmp_path)) for level in (False, True))
    first, second = map(np.asarray, as_is.of([loud, quiet]))
    assert np.abs(first - second).max() > 5.0
    first, second = map(np.asarray, level.of([loud, quiet]))
    np.testing.assert_allclose(first, second, atol=1e-3)


@pytest.mark.parametrize("content", [b"no sound at all", b"RIFF"])
def test_a_broken_file_is_named(content, tmp_path):
    (tmp_path / "bad.wav").write_bytes(content)
    error = Features(8, folder=str(tmp_path / "cache")).of([Recording(str(tmp_path / "bad.wav"))])[0]
    assert isinstance(error, DataError) and "cannot be read" in error.got and "bad.wav" in str(error) and error.remedy


def test_missing_and_empty_files_are_named(tmp_path):
    (tmp_path / "empty.wav").write_bytes(as_file(np.zeros(0, dtype=np.float32), format="WAV"))
    missing, empty = Features(8, folder=str(tmp_path / "cache")).of(
        [Recording(str(tmp_path / "none.wav")), Recording(str(tmp_path / "empty.wav"))]
    )
    assert "no such file" in str(missing) and "empty" in empty.got
    assert "cannot be read" in Features(8, folder=str(tmp_path / "cache")).of([Recording("a\0b.wav")])[0].got


# -- whether a sound is whole and can be heard ------------------------------------------------------------------------


def level_of(content: bytes, folder):
    (found,) = Features(8, folder=str(folder)).of([Recording("a", content)])
    return found if isinstance(found, DataError) else found.level


@pytest.mark.parametrize(
    "options",
    [
        {"format": "WAV"},
        {"format": "WAV", "subtype": "FLOAT"},
        {"format": "WAV", "subtype": "IMA_ADPCM"},
        {"format": "WAVEX", "subtype": "PCM_24"},
        {"format": "RF64"},
        {"format": "W64"},
        {"format": "AIFF"},
        {"format": "AU"},
        {"format": "CAF"},
        {"format": "NIST", "subtype": "PCM_16"},
        {"format": "MP3"},
        {"format": "OGG"},
        {"format": "FLAC"},
    ],
    ids=lambda one: "-".join(one.values()),
)
def test_cut_recordings_are_refused_and_whole_ones_read(options):
    content = as_file(tone(1.0), **options)
    assert len(Recording("a", content).samples()[0]) >= RATE
    with pytest.raises(DataError, match=r"the recording is cut: 0\.\d\d of|cannot be read"):
        Recording("a", content[: len(content) // 2]).samples()


def test_the_end_of_a_block_may_be_missing():
    assert len(Recording("a", as_file(tone(1.0), format="WAV")[:-700]).samples()[0]) == RATE - 350


@pytest.mark.parametrize("size", [0, 0x7FFF_F000, 0x7FFF_FFFF, 0xFFFF_FFFF])
def test_headers_that_were_written_before_the_sound_give_all_of_it(size):
    wav, au, long = (bytearray(as_file(tone(), format=kind)) for kind in ("WAV", "AU", "RF64"))
    wav[4:8] = wav[40:44] = size.to_bytes(4, "little")
    au[8:12] = (size if size == 0 else 2**32 - 1).to_bytes(4, "big")
    long[20:44] = bytes(24)
    for content in (wav, au, long):
        assert len(Recording("a", bytes(content)).samples()[0]) == RATE // 2
    nothing = as_file(tone()[:0], format="WAV")
    for after in (b"", b"LIST\4\0\0\0INFO"):
        with pytest.raises(DataError, match="the recording is empty"):
            Recording("a", nothing + after).samples()


def test_sound_behind_the_length_that_a_header_names_is_remarked_on(tmp_path):
    content = bytearray(as_file(tone(1.0), format="WAV"))
    content[40:44] = (RATE // 2).to_bytes(4, "little")  # a quarter of it
    assert level_of(bytes(content), tmp_path).remarks == ["more bytes than the header names"]
    assert not level_of(as_file(tone(1.0), format="WAV") + b"LIST\4\0\0\0INFO", tmp_path).remarks


@pytest.mark.parametrize("subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW"])
def test_samples_of_any_depth_have_one_scale(subtype):
    found = Recording("a", as_file(tone(), format="WAV", subtype=subtype)).samples()[0]
    np.testing.assert_allclose(found, tone(), atol=0.02 if "LAW" in subtype else 2 / 256)


@pytest.mark.parametrize(
    ("samples", "got"),
    [
        (0 * tone(), "the recording is silent"),
        (np.arange(8000) % 2 / 2**15, "the recording is silent"),
        (0 * tone() + 0.25, "all samples are 0.25"),
        (tone() * 2**15, "too large: up to 1.638e+04"),
        (np.where(np.arange(8000) == 9, np.nan, tone()), "not finite"),
        (np.stack([tone(), np.where(np.arange(8000) == 9, -np.inf, tone())], 1), "not finite"),
    ],
)
def test_a_sound_that_teaches_nothing_is_refused_at_any_rate(samples, got, tmp_path, recwarn):
    for rate in (RATE, 8_000, 44_100):  # a filter makes edges of a constant
        error = level_of(as_file(samples, rate, format="WAV", subtype="FLOAT"), tmp_path)
        assert isinstance(error, DataError) and got in error.got and error.remedy and not recwarn.list


@pytest.mark.parametrize("other", [-1.0, -0.9, -1.1])
def test_of_channels_that_cancel_each_other_the_loudest_is_read(other, tmp_path):
    content = as_file(np.stack([tone(), other * tone()], 1), format="WAV", subtype="FLOAT")
    np.testing.assert_array_equal(
        Recording("a", content).samples()[0], tone() if other > -1.05 else np.float32(other) * tone()
    )
    assert level_of(content, tmp_path).remarks == ["channels that cancel each other, of which the loudest is read,"]


def test_unlike_channels_are_averaged():
    for count in (2, 6, 24):
        noise = np.random.default_rng(count).uniform(-1, 1, (4000, count)).astype(np.float32)
        content = as_file(noise, format="WAV", subtype="FLOAT")
        np.testing.assert_allclose(Recording("a", content).samples()[0], noise.mean(1), atol=1e-6)


@pytest.mark.parametrize(
    ("samples", "remark"),
    [
        (tone(), ""),
        (np.clip(9 * tone(), -1, 1), "clipping"),
        (3 * tone(), "samples beyond -1 to 1"),
        (1e-3 * tone(), "a level below -60 dB"),
        (tone() / 9 + 0.1, "a DC offset"),
        (tone() * (np.arange(8000) < 200), "hardly any sound, but silence,"),
        (np.stack([tone(), 0 * tone()], 1), "a silent channel"),
    ],
)
def test_what_stands_out_in_a_sound_is_remarked_on_and_kept_with_its_features(samples, remark, tmp_path):
    content = as_file(samples, format="WAV", subtype="FLOAT")
    for _ in range(2):
        remarks = level_of(content, tmp_path).remarks
        assert remark in remarks if remark else not remarks
    assert len(list(tmp_path.rglob("*.safetensors"))) == 1


def test_levels_are_their_definitions(tmp_path):
    samples = np.concatenate([tone(0.25), np.zeros(RATE // 4, dtype=np.float32)]) + np.float32(0.01)
    found = level_of(as_file(samples, format="WAV", subtype="FLOAT"), tmp_path)
    assert found.level == pytest.approx(10 * np.log10(0.5**2 / 2 / 2), abs=0.01)
    assert (found.peak, found.offset, found.clipped) == pytest.approx((0.51, 0.01, 0.0), abs=1e-4)
    assert Level.of(tone() * np.float32(4), RATE, "a").clipped == pytest.approx(2 / 3, abs=0.01)  # |sin| > 1/2
    assert Level.of(np.concatenate([tone(0.25), np.zeros(4000, dtype=np.float32)]), RATE, "a").silence == 0.5
