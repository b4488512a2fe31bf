"""Right in another way: speech."""

import math

import torch
from torch.nn import functional


def log_mel_by_stft(samples, filters, window=400, hop=160, fft=512):
    spectrum = torch.stft(samples, fft, hop, window, torch.hann_window(window), return_complex=True)
    return torch.log(torch.matmul(spectrum.abs().pow(2).T, filters) + 1e-6)


def log_mel_frame_by_frame(samples, filters, window=400, hop=160, fft=512):
    half, left = fft // 2, (fft - window) // 2
    whole = torch.cat((samples[1 : half + 1].flip(0), samples, samples[-half - 1 : -1].flip(0)))
    hann = 0.5 - 0.5 * torch.cos(2 * math.pi * torch.arange(window) / window)
    rows = []
    for start in range(0, len(whole) - fft + 1, hop):
        frame = whole[start : start + fft].clone()
        frame[:left], frame[left + window :] = 0.0, 0.0
        frame[left : left + window] *= hann
        spectrum = torch.fft.rfft(frame)
        rows.append(torch.log((spectrum.real**2 + spectrum.imag**2) @ filters + 1e-6))
    return torch.stack(rows)


def spec_augment_in_loops(x, lengths, starts, widths):
    found = x.clone()
    for row, length in enumerate(lengths.tolist()):
        for start, width in zip(starts[row].tolist(), widths[row].tolist(), strict=True):
            found[row, start : min(start + width, length)] = 0.0
    return found


def spec_augment_by_multiplying(x, lengths, starts, widths):
    frames = torch.arange(x.size(1))[None, None, :]
    inside = (frames >= starts[:, :, None]) & (frames - starts[:, :, None] < widths[:, :, None])
    hidden = inside.any(1) & (frames[0] < lengths[:, None])
    return x * (~hidden).unsqueeze(-1)


def ctc_loss_by_vectors(log_p, target, blank):
    spelled = [blank]
    for symbol in target:
        spelled += [symbol, blank]
    size, index = len(spelled), torch.tensor(spelled)
    never = torch.tensor(-1e30, dtype=log_p.dtype)
    alpha = torch.where(torch.arange(size) < 2, log_p[0, index], never)
    skip = torch.tensor(
        [place > 1 and spelled[place] != blank and spelled[place] != spelled[place - 2] for place in range(size)]
    )
    for frame in range(1, log_p.size(0)):
        one = torch.cat((never.view(1), alpha[:-1]))
        two = torch.where(skip, torch.cat((never.expand(min(2, size)), alpha[:-2]))[:size], never)
        alpha = torch.logsumexp(torch.stack((alpha, one, two)), 0) + log_p[frame, index]
    return -torch.logsumexp(alpha[-2:], 0)


def ctc_loss_from_the_end(log_p, target, blank):
    spelled = [blank]
    for symbol in target:
        spelled += [symbol, blank]
    size = len(spelled)
    beta = [log_p.new_tensor(-1e30)] * (size - 2) + [log_p.new_zeros(())] * min(2, size)
    for frame in range(log_p.size(0) - 1, 0, -1):
        before = []
        for place in range(size):
            ways = [beta[place] + log_p[frame, spelled[place]]]
            if place + 1 < size:
                ways.append(beta[place + 1] + log_p[frame, spelled[place + 1]])
            if place + 2 < size and spelled[place + 2] not in (blank, spelled[place]):
                ways.append(beta[place + 2] + log_p[frame, spelled[place + 2]])
            before.append(torch.stack(ways).logsumexp(0))
        beta = before
    return -torch.stack([beta[place] + log_p[0, spelled[place]] for place in range(min(2, size))]).logsumexp(0)


def ctc_loss_of_torch(log_p, target, blank):
    return functional.ctc_loss(
        log_p.unsqueeze(1),
        torch.tensor([target], dtype=torch.int64),
        (log_p.size(0),),
        (len(target),),
        blank=blank,
        reduction="sum",
    )
