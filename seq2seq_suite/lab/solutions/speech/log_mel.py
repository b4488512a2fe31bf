"""From sound to features: energies of bands of frequencies, on a logarithmic scale."""

import torch
from torch import Tensor
from torch.nn import functional


def log_mel(samples: Tensor, filters: Tensor, window: int = 400, hop: int = 160, fft: int = 512) -> Tensor:
    """log(|spectrum|^2 filters + 1e-6) for a frame every `hop` samples.

    The samples are reflected at both ends by fft / 2, so that frame t is centred at sample t hop. Each frame of `fft`
    samples is multiplied by a periodic Hann window of length `window` that stands in its middle, zeros around it.

    Args:
        samples: (N,) float, from -1 to 1, at 16,000 a second; N > fft / 2.
        filters: (fft / 2 + 1, M) float, the bands as columns.
        window, hop, fft: in samples; 400 are 25 ms, 160 are 10 ms.

    Returns:
        (1 + N // hop, M) float.

    Example: silence is the floor, log 1e-6 = -13.8, and not minus infinity.
        >>> [round(value, 2) for value in log_mel(torch.zeros(320), torch.ones(257, 1)).flatten().tolist()]
        [-13.82, -13.82, -13.82]

    Source: Davis & Mermelstein 1980 for the bands; `torch.stft`; "輸入聲音訊號" in note 003.
    """
    # BEGIN SOLUTION
    padded = functional.pad(samples[None, None], (fft // 2, fft // 2), mode="reflect")[0, 0]
    frames = padded.unfold(0, fft, hop)
    left = (fft - window) // 2
    hann = functional.pad(torch.hann_window(window), (left, fft - window - left))
    power = torch.fft.rfft(frames * hann).abs().square()
    return (power @ filters + 1e-6).log()
    # END SOLUTION
