"""A second set of fresh attempts, over parts that the first covers least: loops, then einsum, then torch's calls."""

RIGHT = {
    # loops
    "automaton": """
from typing import NamedTuple
class State(NamedTuple):
    words: int
    children: tuple
    run: int
    done: bool
def start(words):
    return State(words, (), 0, False)
def allowed(state, most_in_a_row):
    out = {"open": False, "shift": False, "close": False, "end": False}
    if state.done:
        out["end"] = True
        return out
    if state.words > 0:
        if state.run < most_in_a_row:
            out["open"] = True
        if len(state.children) > 0:
            out["shift"] = True
    if len(state.children) > 0 and state.children[-1] > 0:
        if len(state.children) > 1 or state.words == 0:
            out["close"] = True
    return out
def advance(state, kind):
    stack = list(state.children)
    if kind == "open":
        if stack:
            stack[-1] += 1
        stack.append(0)
        return State(state.words, tuple(stack), state.run + 1, False)
    if kind == "shift":
        stack[-1] += 1
        return State(state.words - 1, tuple(stack), 0, False)
    if kind == "close":
        stack.pop()
        return State(state.words, tuple(stack), 0, len(stack) == 0)
    return state
""",
    "paired": """
def paired_p(first, second, flips):
    n = len(first)
    seen = abs(sum(float(first[i]) - float(second[i]) for i in range(n)))
    hits = 1
    for row in flips:
        total = 0.0
        for i in range(n):
            total += float(row[i]) * (float(first[i]) - float(second[i]))
        if abs(total) >= seen - 1e-6 * n:
            hits += 1
    return hits / (len(flips) + 1)
""",
    "power_norm": """
def power_norm(x, gain, bias, running, momentum, training, epsilon=1e-5):
    flat = x.reshape(-1, x.shape[-1])
    now = torch.zeros(x.shape[-1])
    for row in flat:
        now = now + row * row
    now = now / flat.shape[0]
    if running is None:
        divide, keep = now, now
    elif training:
        divide, keep = running, momentum * running + (1.0 - momentum) * now
    else:
        divide, keep = running, running
    rows = []
    for row in flat:
        rows.append(row / torch.sqrt(divide + epsilon) * gain + bias)
    return torch.stack(rows).reshape(x.shape), keep
""",
    # einsum and whole tensors
    "ctc": """
def ctc_loss(log_p, target, blank):
    T, V = log_p.shape
    spelled = torch.full((2 * len(target) + 1,), blank)
    spelled[1::2] = torch.tensor(target, dtype=torch.int64)
    S = len(spelled)
    reach = torch.eye(S, dtype=torch.bool) | torch.diag(torch.ones(S - 1, dtype=torch.bool), 1)
    if S > 2:
        leap = (spelled[2:] != spelled[:-2]) & (spelled[2:] != blank)
        reach = reach | torch.diag(leap, 2)
    cost = torch.where(reach, 0.0, -1e30)
    pick = functional.one_hot(spelled, V).to(log_p.dtype)
    emitted = torch.einsum("tv,sv->ts", log_p.clamp(min=-1e30), pick)
    done = torch.full((S,), -1e30)
    done = torch.cat([emitted[0, :2], done[2:]]) if S > 1 else emitted[0]
    for t in range(1, T):
        done = torch.logsumexp(done[:, None] + cost, 0) + emitted[t]
    return -torch.logsumexp(done[-2:], 0)
""",
    "language_loss": """
def language_loss(logits, tokens, mask):
    V = logits.shape[-1]
    guess = logits[:, :-1] - logits[:, :-1].logsumexp(2, keepdim=True)
    real = mask[:, 1:]
    right = functional.one_hot(tokens[:, 1:], V).bool()
    picked = guess.masked_fill(~right, 0.0).sum(-1).masked_fill(~real, 0.0)
    return -torch.einsum("bt->", picked), int(real.sum())
""",
    "perceptron": """
def perceptron(x, y, epochs):
    points = torch.cat([x, torch.ones(len(x), 1)], 1)
    line = torch.zeros(points.shape[1])
    for _ in range(epochs):
        for point, sign in zip(points, y):
            wrong = (sign * torch.einsum("d,d->", line, point) <= 0).float()
            line = line + wrong * sign * point
    return line[:-1], line[-1]
""",
    # torch's calls
    "log_mel": """
def log_mel(samples, filters, window=400, hop=160, fft=512):
    padded = functional.pad(samples[None, None], (fft // 2, fft // 2), mode="reflect")[0, 0]
    shape = torch.signal.windows.hann(window, sym=False, dtype=samples.dtype)
    left = (fft - window) // 2
    shape = functional.pad(shape, (left, fft - window - left))
    frames = torch.stack([padded[t * hop : t * hop + fft] for t in range(1 + len(samples) // hop)])
    spectrum = torch.fft.rfft(frames * shape, n=fft)
    power = torch.view_as_real(spectrum).square().sum(-1)
    return torch.log(torch.matmul(power, filters) + 1e-6)
""",
    "interval": """
def mean_interval(values):
    x = torch.tensor(values, dtype=torch.float64)
    quantile = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}[x.numel()]
    half = quantile * torch.std(x, correction=1) / math.sqrt(x.numel())
    return (x.mean() - half).item(), (x.mean() + half).item()
""",
    "fine_tuning": """
def fine_tuning_loss(target, language, weight):
    means = torch.stack([torch.div(torch.as_tensor(total), max(1, int(count))) for total, count in (target, language)])
    return torch.dot(means, torch.tensor([1.0, float(weight)]))
""",
    "labels": """
def allowed_labels(used, end):
    out = torch.logical_not(used)
    out[:, end] = torch.any(used, dim=1)
    return out
def set_loss(log_p, remaining):
    return torch.logsumexp(log_p.masked_fill(remaining.logical_not(), -torch.inf), dim=-1).neg().sum()
def micro_macro_f1(gold, predicted, labels):
    table = torch.zeros(3, len(labels), dtype=torch.float64)
    for right, said in zip(gold, predicted):
        for place, label in enumerate(labels):
            table[0, place] += label in right and label in said
            table[1, place] += label in said and label not in right
            table[2, place] += label in right and label not in said
    def f1(hits, false, missed):
        below = 2 * hits + false + missed
        return 0.0 if below == 0 else float(2 * hits / below)
    return f1(*table.sum(1)), sum(f1(*column) for column in table.T) / len(labels)
""",
}

BUGS = [
    ("automaton", "state.run < most_in_a_row", "state.run <= most_in_a_row", "one more in a row"),
    ("automaton", "if len(state.children) > 1 or state.words == 0:", "if True:", "the root closes before its words"),
    ("automaton", "and state.children[-1] > 0", "", "empty nodes may close"),
    (
        "automaton",
        "return State(state.words - 1, tuple(stack), 0, False)",
        "return State(state.words - 1, tuple(stack), state.run, False)",
        "a word does not end the row of brackets",
    ),
    (
        "automaton",
        "        if stack:\n            stack[-1] += 1\n        stack",
        "        stack",
        "a node is no child of its parent",
    ),
    ("paired", "    hits = 1\n", "    hits = 0\n", "the true order is not counted, the count of flips is"),
    ("paired", "float(row[i]) * (", "max(0.0, float(row[i])) * (", "signs drop sentences in place of turning them"),
    ("power_norm", "now = now / flat.shape[0]", "now = now / x.shape[0]", "divided by the batch alone"),
    (
        "power_norm",
        "divide, keep = running, momentum",
        "divide, keep = now, momentum",
        "training divides by this batch's, not by the running square",
    ),
    ("ctc", "torch.logsumexp(done[-2:], 0)", "done[-2:].amax(0)", "the better of both ends"),
    (
        "ctc",
        "torch.cat([emitted[0, :2], done[2:]])",
        "torch.cat([emitted[0, :1], done[1:]])",
        "must begin with a blank",
    ),
    ("language_loss", "real = mask[:, 1:]", "real = mask[:, :-1]", "the mask of the reader, not of the symbol read"),
    ("language_loss", ".masked_fill(~real, 0.0)", "", "the sum takes padding"),
    (
        "perceptron",
        "for point, sign in zip(points, y):",
        "for point, sign in zip(points.flip(0), y.flip(0)):",
        "visits the points from the last",
    ),
    ("log_mel", "square().sum(-1)", "square().sum(-1).sqrt()", "magnitudes"),
    (
        "log_mel",
        "functional.pad(shape, (left, fft - window - left))",
        "functional.pad(shape, (0, fft - window))",
        "the window stands at the left",
    ),
    ("interval", "math.sqrt(x.numel())", "math.sqrt(x.numel() - 1)", "divided by the root of n - 1"),
    (
        "fine_tuning",
        "torch.tensor([1.0, float(weight)])",
        "torch.tensor([1.0 - float(weight), float(weight)])",
        "a weighted mean of both",
    ),
    ("labels", "return 0.0 if below == 0", "return 1.0 if below == 0", "a label that nobody has counts as right"),
    ("labels", "torch.any(used, dim=1)", "torch.all(used, dim=1)", "END only when all labels are used"),
    ("labels", "dim=-1).neg().sum()", "dim=-1).neg().mean()", "the mean over steps"),
]
