"""Fresh attempts that lean on torch's own calls, written when the laws were finished."""

RIGHT = {
    "cross_entropy": """
def cross_entropy(logits, targets):
    shifted = logits - torch.max(logits, dim=1, keepdim=True)[0]
    log_probs = shifted - torch.log(torch.sum(torch.exp(shifted), dim=1, keepdim=True))
    return -torch.mean(torch.take_along_dim(log_probs, targets[:, None], dim=1))
""",
    "attend": """
def attend(query, key, value, visible=None):
    B, H, T, E = query.shape
    bias = torch.zeros(1, 1, 1, 1, dtype=query.dtype)
    if visible is not None:
        bias = torch.zeros(visible.shape, dtype=query.dtype).masked_fill(visible.logical_not(), float("-inf"))
    weights = functional.softmax(torch.matmul(query, key.transpose(2, 3)) / E ** 0.5 + bias, dim=-1)
    if visible is not None:
        weights = weights.masked_fill((~visible).all(-1, keepdim=True), 0.0)
    return torch.matmul(weights, value)
""",
    "heads": """
def split_heads(x, num_heads):
    return torch.stack(torch.tensor_split(x, num_heads, dim=-1), dim=1)
def merge_heads(x):
    return torch.cat([x[:, h] for h in range(x.size(1))], dim=-1)
def multi_head(x, memory, weights, num_heads, visible=None):
    d = x.size(-1)
    layers = []
    for name in "qkvo":
        w, b = getattr(weights, "w" + name), getattr(weights, "b" + name)
        layer = torch.nn.utils.skip_init(torch.nn.Linear, d, d)
        layer.weight, layer.bias = torch.nn.Parameter(w), torch.nn.Parameter(b)
        layers.append(layer)
    q, k, v = (split_heads(layer(of), num_heads) for layer, of in zip(layers, (x, memory, memory)))
    out = attend(q, k, v, visible.unsqueeze(1) if visible is not None else None)
    return layers[3](merge_heads(out))
""",
    "shift": """
def shift_matrix(width, distance):
    i = torch.arange(0, width, 2, dtype=torch.float64)
    angle = distance * torch.pow(10000.0, -i / width)
    blocks = [torch.tensor([[c, s], [-s, c]]) for c, s in zip(torch.cos(angle).tolist(), torch.sin(angle).tolist())]
    return torch.block_diag(*blocks).to(torch.float32)
""",
    "layer_norm": """
def layer_norm(x, gain, bias, epsilon=1e-5):
    var, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return torch.addcmul(bias.expand_as(x), (x - mean) / (var + epsilon).sqrt(), gain.expand_as(x))
""",
    "residual": """
def residual(x, sublayer, norm, placement):
    if placement == "pre":
        out = sublayer(norm(x))
        return torch.add(x, out)
    elif placement == "post":
        return norm(torch.add(x, sublayer(x)))
    raise ValueError(placement)
""",
    "dropout": """
def dropout(x, rate, training):
    if not training or rate == 0:
        return x
    mask = torch.distributions.Bernoulli(probs=1 - rate).sample(x.shape)
    return x * mask / (1 - rate)
""",
    "encoder_block": """
def encoder_block(x, mask, parts, placement):
    visible = mask[:, None, :]
    n1, n2 = parts.norms
    if placement == "pre":
        h = n1(x)
        x = x + parts.self_attention(h, h, visible)
        x = x + parts.feed_forward(n2(x))
    else:
        x = n1(x + parts.self_attention(x, x, visible))
        x = n2(x + parts.feed_forward(x))
    return x
""",
    "decoder_block": """
def decoder_block(x, memory, visible, memory_mask, parts, placement):
    n1, n2, n3 = parts.norms
    m = memory_mask[:, None, :]
    if placement == "pre":
        h = n1(x)
        x = x + parts.self_attention(h, h, visible)
        x = x + parts.cross_attention(n2(x), memory, m)
        return x + parts.feed_forward(n3(x))
    x = n1(x + parts.self_attention(x, x, visible))
    x = n2(x + parts.cross_attention(x, memory, m))
    return n3(x + parts.feed_forward(x))
""",
    "shift_right": """
def shift_right(target, begin):
    first = target.new_full((target.size(0), 1), begin)
    return torch.hstack([first, target])[:, :target.size(1)]
""",
    "mix_inputs": """
def mix_inputs(previous, predicted, uniform, rate, begin):
    shifted = torch.roll(predicted, shifts=1, dims=1).index_fill(1, torch.tensor([0]), begin)
    return torch.where(torch.lt(uniform, rate), shifted, previous)
""",
    "greedy": """
def greedy(step, state, begin, end, limit):
    last, symbols, scores = torch.tensor([begin]), [], []
    while len(scores) < limit and last.item() != end or not scores:
        log_p, state = step(state, last)
        score, last = torch.max(log_p, dim=1)
        symbols.append(last.item())
        scores.append(score.item())
    return [s for s in symbols if s != end], math.fsum(scores)
""",
    "beam": """
def beam_search(step, select, state, begin, end, beam, limit, alpha):
    penalty = lambda n: ((5 + n) / 6) ** alpha
    last, totals, written, finished = torch.tensor([begin]), torch.zeros(1), [[]], []
    for n in range(1, limit + 1):
        log_p, state = step(state, last)
        V = log_p.size(1)
        scores = totals.unsqueeze(1) + log_p
        for row in range(len(written)):
            if torch.isfinite(scores[row, end]):
                finished.append((written[row], scores[row, end].item() / penalty(n)))
        scores = scores.index_fill(1, torch.tensor([end]), float("-inf")).view(-1)
        values, index = torch.topk(scores, min(beam, scores.numel()))
        index, values = index[torch.isfinite(values)], values[torch.isfinite(values)]
        if index.numel() == 0:
            break
        rows, last, totals = torch.div(index, V, rounding_mode="floor"), index % V, values
        written = [written[r] + [s] for r, s in zip(rows.tolist(), last.tolist())]
        state = select(state, rows)
    if not finished:
        finished = [(w, t / penalty(limit)) for w, t in zip(written, totals.tolist())]
    return sorted(finished, key=lambda pair: pair[1], reverse=True)
""",
    "cut": """
def cut_at_end(symbols, end):
    out = []
    for is_end, group in itertools.groupby(symbols, key=lambda s: s == end):
        if is_end:
            break
        out = out + list(group)
    return out
""",
    "collapse": """
def collapse(path, blank):
    if len(path) == 0:
        return []
    merged = torch.unique_consecutive(torch.tensor(path))
    return [int(s) for s in merged if int(s) != blank]
""",
    "hide": """
def hide(confidence, mask, iteration, iterations):
    counts = torch.div(mask.sum(dim=1) * (iterations - iteration), iterations, rounding_mode="trunc")
    filled = torch.where(mask, confidence, torch.tensor(2.0))
    order = torch.argsort(filled, dim=1)
    ranks = torch.empty_like(order).scatter_(1, order, torch.arange(mask.size(1)).expand_as(order).contiguous())
    return ranks < counts[:, None]
""",
    "log_mel": """
def log_mel(samples, filters, window=400, hop=160, fft=512):
    pad = torch.nn.ReflectionPad1d(fft // 2)
    frames = pad(samples.view(1, 1, -1)).view(-1).unfold(0, fft, hop)
    w = torch.signal.windows.hann(window, sym=False)
    side = (fft - window) // 2
    w = torch.cat([torch.zeros(side), w, torch.zeros(fft - window - side)])
    power = torch.view_as_real(torch.fft.rfft(frames * w, dim=1)).pow(2).sum(-1)
    return torch.log(torch.mm(power, filters) + 1e-6)
""",
    "fine_tuning": """
def fine_tuning_loss(target, language, weight):
    l2 = torch.div(target[0], target[1])
    l1 = torch.div(language[0], language[1])
    return torch.add(l2, l1, alpha=weight)
""",
    "interval": """
def mean_interval(values):
    t = torch.tensor(values, dtype=torch.float64)
    q = {1: 12.7062, 2: 4.3027, 3: 3.1824, 4: 2.7764}[t.numel() - 1]
    half = q * torch.std(t, correction=1) / math.sqrt(t.numel())
    return (t.mean() - half).item(), (t.mean() + half).item()
""",
}

BUGS = [
    ("cross_entropy", "-torch.mean(", "-torch.sum(", "the sum"),
    ("cross_entropy", "dim=1, keepdim=True)[0]", "dim=0, keepdim=True)[0]", "the largest of a column"),
    ("attend", "+ bias, dim=-1)", "* torch.exp(bias), dim=-1)", "the mask multiplies scores by 0"),
    ("attend", "weights = weights.masked_fill((~visible).all(-1, keepdim=True), 0.0)", "pass", "NaN rows"),
    (
        "attend",
        "torch.matmul(query, key.transpose(2, 3)) / E ** 0.5",
        "torch.matmul(query / E, key.transpose(2, 3))",
        "divided by d",
    ),
    ("attend", 'float("-inf")', "-1e9", "-1e9 in float16"),
    ("heads", "(x, memory, memory)", "(memory, memory, memory)", "queries from the memory"),
    ("heads", "return layers[3](merge_heads(out))", "return merge_heads(out)", "no W^O"),
    ("heads", "visible.unsqueeze(1) if", "visible.unsqueeze(0) if", "the mask's rows as heads"),
    ("heads", "x[:, h] for h in range(x.size(1))", "x[:, h] for h in reversed(range(x.size(1)))", "heads backwards"),
    ("shift", "[[c, s], [-s, c]]", "[[c, -s], [s, c]]", "backwards"),
    ("shift", "-i / width", "-2 * i / width", "2i twice"),
    ("layer_norm", "correction=0", "correction=1", "D - 1"),
    ("layer_norm", "dim=-1, correction", "dim=(-2, -1), correction", "over positions, too"),
    ("residual", "out = sublayer(norm(x))", "out = norm(sublayer(x))", "norm behind the sub-layer"),
    ("residual", "return norm(torch.add(x, sublayer(x)))", "return torch.add(norm(x), sublayer(x))", "norm on x alone"),
    ("dropout", "* mask / (1 - rate)", "* mask", "no scale"),
    ("dropout", "probs=1 - rate", "probs=rate", "the rate is kept"),
    ("dropout", "sample(x.shape)", "sample(x.shape[:-1] + (1,))", "whole rows"),
    ("encoder_block", "x = n2(x + parts.feed_forward(x))", "x = n2(parts.feed_forward(x))", "no residual"),
    ("encoder_block", "mask[:, None, :]", "mask[:, :, None]", "padding does not look, but is seen"),
    (
        "decoder_block",
        "parts.cross_attention(x, memory, m)",
        "parts.cross_attention(x, x, visible)",
        "cross over itself",
    ),
    ("decoder_block", "n2(x), memory, m)\n", "x, memory, m)\n", "cross-attention without its norm"),
    (
        "decoder_block",
        "return n3(x + parts.feed_forward(x))",
        "return n2(x + parts.feed_forward(x))",
        "a norm used twice",
    ),
    ("shift_right", "[first, target])[:, :target.size(1)]", "[target, first])[:, 1:]", "to the left"),
    ("mix_inputs", ".index_fill(1, torch.tensor([0]), begin)", "", "BEGIN is lost"),
    ("mix_inputs", "shifted, previous)", "previous, shifted)", "exchanged"),
    ("greedy", "math.fsum(scores)", "math.fsum(scores) / len(scores)", "the mean"),
    ("greedy", "log_p, state = step(state, last)", "log_p, _ = step(state, last)", "the state is thrown away"),
    ("beam", "scores = totals.unsqueeze(1) + log_p", "scores = totals.unsqueeze(1) + log_p.exp()", "probabilities"),
    (
        "beam",
        "state = select(state, rows)",
        "state = select(state, torch.arange(len(rows)) % len(rows))",
        "not reordered",
    ),
    ("beam", "scores[row, end].item() / penalty(n)", "scores[row, end].item()", "no penalty"),
    ("beam", "if index.numel() == 0:", "if index.numel() == 0 or finished:", "stops at the first"),
    ("cut", "            break\n", "            continue\n", "drops every END and goes on"),
    (
        "collapse",
        "merged = torch.unique_consecutive(torch.tensor(path))",
        "merged = torch.unique(torch.tensor(path))",
        "sorted and unique",
    ),
    ("hide", "torch.tensor(2.0)", "torch.tensor(0.0)", "padding first"),
    ("hide", "return ranks < counts", "return order < counts", "order for ranks"),
    ("log_mel", "sym=False", "sym=True", "the symmetric window"),
    ("log_mel", ".pow(2).sum(-1)", ".pow(2).sum(-1).sqrt()", "amplitudes"),
    ("log_mel", "fft // 2)\n", "window // 2)\n", "padded by half a window"),
    ("fine_tuning", "torch.add(l2, l1, alpha=weight)", "torch.add(l1, l2, alpha=weight)", "lambda on L2"),
    ("interval", "correction=1", "correction=0", "n for n - 1"),
    ("interval", "t.numel() - 1]", "t.numel() - 1 if t.numel() > 2 else 2]", "two runs with the quantile of three"),
    ("interval", "/ math.sqrt(t.numel())", "", "spread of runs"),
]
