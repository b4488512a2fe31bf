"""Sound files of any kind, log-mel features against the definition, and features kept from run to run."""

import io

import numpy as np
import pytest

soundfile = pytest.importorskip("soundfile", reason="comes with the extra `speech`")

from seq2seq_suite.data.audio import FFT, HOP, RATE, WINDOW, Composed, Features, LogMel, Recording, Stored, resample  # noqa: E402
from seq2seq_suite.types import DataError  # noqa: E402


def tone(seconds: float = 0.5, *, rate: int = RATE, hertz: float = 440.0) -> np.ndarray:
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(int(seconds * rate)) / rate)).astype(np.float32)


def as_file(samples: np.ndarray, rate: int = RATE, **options) -> bytes:
    stream = io.BytesIO()
    soundfile.write(stream, samples, rate, **options)
    return stream.getvalue()


@pytest.mark.parametrize("options", [{"format": "WAV"}, {"format": "FLAC"}, {"format": "OGG"}, {"format": "MP3"},
                                     {"format": "NIST", "subtype": "PCM_16"}])
def test_formats_are_read_and_channels_averaged(options):
    stereo = np.stack((tone(), np.zeros_like(tone())), axis=1)
    samples, rate = Recording("a", as_file(stereo, **options)).samples()
    assert rate == RATE and samples.ndim == 1
    middle = slice(2000, 6000)  # lossy formats need a moment
    assert np.abs(np.fft.rfft(samples[middle])).argmax() == np.abs(np.fft.rfft(tone()[middle])).argmax()
    assert np.abs(samples[middle]).max() == pytest.approx(0.25, abs=0.03)


def test_resampling_keeps_the_pitch_and_speed_raises_it():
    heard = resample(tone(rate=8000), 8000)
    assert len(heard) == 8000 and np.abs(np.fft.rfft(heard)).argmax() == 220  # half-hertz bins of half a second
    fast = resample(tone(), RATE, speed=1.1)
    assert len(fast) == pytest.approx(8000 / 1.1, abs=1)
    assert np.abs(np.fft.rfft(fast)).argmax() / len(fast) * RATE == pytest.approx(484.0, abs=3.0)


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
    files = sorted(tmp_path.rglob("*.npy"))
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


@pytest.mark.parametrize(("content", "got"), [(b"no sound at all", "no sound"), (b"RIFF", "no sound")])
def test_a_broken_file_is_named(content, got, tmp_path):
    (tmp_path / "bad.wav").write_bytes(content)
    error = Features(8, folder=str(tmp_path / "cache")).of([Recording(str(tmp_path / "bad.wav"))])[0]
    assert isinstance(error, DataError) and got in error.got and "bad.wav" in str(error) and error.remedy


def test_missing_and_empty_files_are_named(tmp_path):
    (tmp_path / "empty.wav").write_bytes(as_file(np.zeros(0, dtype=np.float32), format="WAV"))
    missing, empty = Features(8, folder=str(tmp_path / "cache")).of(
        [Recording(str(tmp_path / "none.wav")), Recording(str(tmp_path / "empty.wav"))])
    assert "cannot be read" in str(missing) and "empty" in empty.got
