"""Fresh attempts in einsum and whole-tensor algebra, written when the laws were finished."""

RIGHT = {
    "squared_error": """
def squared_error(logits, targets):
    p = torch.exp(logits - logits.logsumexp(1, keepdim=True))
    y = torch.zeros_like(p).scatter(1, targets[:, None], 1.0)
    return torch.einsum("nv,nv->n", p - y, p - y).mean()
""",
    "gradient": """
def cross_entropy_gradient(logits, targets):
    e = torch.exp(logits - logits.amax(1, keepdim=True))
    p = e / torch.einsum("nv->n", e)[:, None]
    y = (targets[:, None] == torch.arange(logits.shape[1])).float()
    return (p - y) / len(logits)
""",
    "attend": """
def attend(query, key, value, visible=None):
    scores = torch.einsum("...te,...se->...ts", query, key) / math.sqrt(key.shape[-1])
    if visible is None:
        return torch.einsum("...ts,...sv->...tv", torch.softmax(scores, -1), value)
    scores = torch.where(visible, scores, torch.full_like(scores, -torch.inf))
    weights = torch.softmax(scores, -1)
    weights = torch.where(visible, weights, torch.zeros_like(weights))
    return torch.einsum("...ts,...sv->...tv", weights, value)
""",
    "heads": """
def split_heads(x, num_heads):
    return torch.einsum("bthe->bhte", x.unflatten(-1, (num_heads, -1)))
def merge_heads(x):
    return torch.einsum("bhte->bthe", x).flatten(-2)
def multi_head(x, memory, weights, num_heads, visible=None):
    d = x.shape[-1]
    e = d // num_heads
    wq, wk, wv = (w.reshape(num_heads, e, d) for w in (weights.wq, weights.wk, weights.wv))
    bq, bk, bv = (b.reshape(num_heads, 1, e) for b in (weights.bq, weights.bk, weights.bv))
    q = torch.einsum("btd,hed->bhte", x, wq) + bq
    k = torch.einsum("bsd,hed->bhse", memory, wk) + bk
    v = torch.einsum("bsd,hed->bhse", memory, wv) + bv
    scores = torch.einsum("bhte,bhse->bhts", q, k) * e ** -0.5
    if visible is not None:
        scores = scores.masked_fill(~visible[:, None], float("-inf"))
    mixed = torch.einsum("bhts,bhse->bhte", scores.softmax(3).nan_to_num(), v)
    return torch.einsum("bhte,dhe->btd", mixed, weights.wo.reshape(d, num_heads, e)) + weights.bo
""",
    "masks": """
def causal_mask(length, past=0):
    i = torch.arange(past, past + length)
    j = torch.arange(past + length)
    return torch.einsum("i,j->ij", i + 1, torch.ones_like(j)) > j
def padding_mask(lengths, width):
    return torch.arange(width)[None, None] < lengths[:, None, None]
""",
    "sinusoids": """
def sinusoids(length, width):
    rate = 10000.0 ** -(torch.arange(width // 2) * 2.0 / width)
    a = torch.einsum("p,i->pi", torch.arange(length).float(), rate)
    return torch.stack([torch.sin(a), torch.cos(a)], dim=2).reshape(length, width)
""",
    "rotate": """
def rotate(x, offset=0):
    e = x.shape[-1]
    rate = 10000.0 ** -(torch.arange(0, e, 2) / e)
    a = torch.einsum("p,i->pi", torch.arange(x.shape[-2]) + float(offset), rate)
    u, v = x[..., : e // 2], x[..., e // 2 :]
    c, s = torch.cos(a), torch.sin(a)
    return torch.cat([u * c - v * s, u * s + v * c], dim=-1)
""",
    "layer_norm": """
def layer_norm(x, gain, bias, epsilon=1e-5):
    d = x.shape[-1]
    mean = torch.einsum("...d->...", x)[..., None] / d
    c = x - mean
    var = torch.einsum("...d,...d->...", c, c)[..., None] / d
    return torch.einsum("...d,d->...d", c * (var + epsilon) ** -0.5, gain) + bias
""",
    "power_norm": """
def power_norm(x, gain, bias, running, momentum, training, epsilon=1e-5):
    flat = x.reshape(-1, x.shape[-1])
    now = torch.einsum("nd,nd->d", flat, flat) / len(flat)
    old = now if running is None else running
    y = x * (old + epsilon).rsqrt() * gain + bias
    if training and running is not None:
        return y, momentum * old + (1 - momentum) * now
    return y, old
""",
    "feed_forward": """
def feed_forward(x, w1, b1, w2, b2):
    h = torch.einsum("...d,fd->...f", x, w1) + b1
    h = torch.where(h > 0, h, torch.zeros_like(h))
    return torch.einsum("...f,df->...d", h, w2) + b2
""",
    "shift_right": """
def shift_right(target, begin):
    T = target.shape[1]
    move = torch.diag(torch.ones(T - 1, dtype=torch.int64), 1) if T > 1 else torch.zeros(1, 1, dtype=torch.int64)
    out = torch.einsum("bt,ts->bs", target, move)
    out[:, 0] = begin
    return out
""",
    "smoothing": """
def smoothed_cross_entropy(logits, target, mask, smoothing):
    x, y = logits[mask], target[mask]
    V = x.shape[-1]
    q = torch.nn.functional.one_hot(y, V) * (1 - smoothing) + smoothing / V
    return -torch.einsum("nv,nv->", q, x.log_softmax(-1)), mask.sum().item()
""",
    "cache": """
def cached_step(x, past, weights, num_heads):
    B, T, D = x.shape
    def heads(w, b):
        return (torch.einsum("btd,ed->bte", x, w) + b).reshape(B, T, num_heads, -1).permute(0, 2, 1, 3)
    q, k, v = heads(weights.wq, weights.bq), heads(weights.wk, weights.bk), heads(weights.wv, weights.bv)
    if past is not None:
        k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
    scores = torch.einsum("bhte,bhse->bhts", q, k) / math.sqrt(q.shape[-1])
    S = k.shape[2]
    ok = torch.arange(S)[None] <= torch.arange(S - T, S)[:, None]
    mixed = torch.einsum("bhts,bhse->bthe", scores.masked_fill(~ok, -math.inf).softmax(-1), v)
    return mixed.reshape(B, T, D) @ weights.wo.T + weights.bo, (k, v)
def decode_step(symbols, past, parts):
    place = past[0].shape[2] if past is not None else 0
    return cached_step(parts.embed(symbols, place), past, parts.weights, parts.num_heads)
""",
    "lengths": """
def likeliest_lengths(log_p, count):
    order = torch.sort(log_p[:, 1:], dim=1, descending=True)
    return order.indices[:, :count] + 1, order.values[:, :count]
""",
    "labels": """
def allowed_labels(used, end):
    end_column = torch.eye(used.shape[1], dtype=torch.bool)[end]
    return (~used & ~end_column) | (used.any(1)[:, None] & end_column)
def set_loss(log_p, remaining):
    return -torch.einsum("nv,nv->n", log_p.exp(), remaining.float()).log().sum()
def micro_macro_f1(gold, predicted, labels):
    g = torch.tensor([[l in s for l in labels] for s in gold]).double()
    p = torch.tensor([[l in s for l in labels] for s in predicted]).double()
    hits = torch.einsum("nl,nl->l", g, p)
    both = g.sum(0) + p.sum(0)
    micro = 2 * hits.sum() / both.sum().clamp(min=1)
    macro = (2 * hits / both.clamp(min=1)).mean()
    return float(micro), float(macro)
""",
    "spec_augment": """
def spec_augment(x, lengths, starts, widths):
    t = torch.arange(x.shape[1])
    bars = (t >= starts[..., None]) & (t < (starts + widths)[..., None])
    keep = ~(bars.any(dim=1) & (t < lengths[:, None]))
    return torch.einsum("btm,bt->btm", x, keep.to(x.dtype))
""",
    "bootstrap": """
def bootstrap(counts, formula, draws):
    weights = torch.nn.functional.one_hot(draws, len(counts)).sum(1).to(counts.dtype)
    sums = torch.einsum("rn,nc->rc", weights, counts)
    figures = torch.tensor([float(formula(s)) for s in sums])
    return figures.quantile(0.025).item(), figures.quantile(0.975).item()
""",
    "paired": """
def paired_p(first, second, flips):
    d = first - second
    means = torch.einsum("rn,n->r", flips, d) / len(d)
    return ((means.abs() >= d.mean().abs() - 1e-6).sum().item() + 1) / (flips.shape[0] + 1)
""",
}

BUGS = [
    ("squared_error", ").mean()", ").sum()", "the sum over examples"),
    (
        "squared_error",
        "logits - logits.logsumexp(1, keepdim=True)",
        "logits - logits.logsumexp(0, keepdim=True)",
        "softmax over examples",
    ),
    ("gradient", "/ len(logits)", "/ logits.numel()", "divided by all elements"),
    ("attend", "/ math.sqrt(key.shape[-1])", "", "no scale"),
    ("attend", "math.sqrt(key.shape[-1])", "math.sqrt(key.shape[-2])", "scaled by the number of keys"),
    ("attend", "    weights = torch.where(visible, weights, torch.zeros_like(weights))\n", "", "NaN rows"),
    ("attend", "torch.full_like(scores, -torch.inf)", "torch.full_like(scores, -100.0)", "weak mask"),
    ("heads", "* e ** -0.5", "* d ** -0.5", "scaled by the whole width"),
    ("heads", 'hed->bhse", memory, wv) + bv', 'hed->bhse", memory, wk) + bv', "W^K for values"),
    (
        "heads",
        "weights.wo.reshape(d, num_heads, e)",
        "weights.wo.reshape(d, e, num_heads).mT",
        "W^O by interleaved heads",
    ),
    ("heads", "x.unflatten(-1, (num_heads, -1)))", "x.unflatten(-1, (-1, num_heads)).mT)", "interleaved heads"),
    ("masks", "> j", ">= j", "sees one ahead"),
    ("masks", "< lengths[:, None, None]", "<= lengths[:, None, None]", "one more"),
    ("sinusoids", "dim=2).reshape", "dim=1).reshape", "halves"),
    ("sinusoids", "[torch.sin(a), torch.cos(a)]", "[torch.cos(a), torch.sin(a)]", "cosine first"),
    ("rotate", "u * s + v * c", "u * s - v * c", "a reflection"),
    ("rotate", " + float(offset)", "", "no offset"),
    ("layer_norm", "c * (var + epsilon) ** -0.5", "c * (var + epsilon) ** -1", "no root"),
    ("layer_norm", '"...d->...", x)[..., None] / d', '"b...d->...d", x) / len(x)', "means over the batch"),
    (
        "power_norm",
        "momentum * old + (1 - momentum) * now",
        "(1 - momentum) * old + momentum * now",
        "momentum exchanged",
    ),
    ("power_norm", "if training and running is not None:", "if running is not None:", "updates in evaluation"),
    ("feed_forward", "h > 0, h, torch", "h > 0, h, 0.01 * h + torch", "leaky"),
    ("feed_forward", " + b2", "", "no b2"),
    ("shift_right", ", 1) if T", ", -1) if T", "to the left"),
    ("shift_right", "    out[:, 0] = begin\n", "    out[0] = begin\n", "BEGIN over the first row"),
    ("smoothing", "x.log_softmax(-1)", "x.softmax(-1)", "probabilities"),
    ("smoothing", "mask.sum().item()", "len(mask)", "counts rows"),
    (
        "cache",
        "[past[0], k], dim=2), torch.cat([past[1], v]",
        "[k, past[0]], dim=2), torch.cat([v, past[1]]",
        "newest first",
    ),
    ("cache", "torch.arange(S - T, S)", "torch.arange(T)", "the mask forgets the past"),
    ("cache", 'bthe", scores', 'bhte", scores', "positions and heads mixed"),
    ("lengths", "order.indices[:, :count] + 1", "order.indices[:, :count]", "off by one"),
    ("lengths", "log_p[:, 1:], dim=1, descending=True", "log_p[:, 1:], dim=1", "the least likely"),
    ("labels", "log_p.exp(), remaining.float()).log().sum()", "log_p, remaining.float()).sum()", "sum of logs"),
    ("labels", "used.any(1)[:, None] & end_column", "end_column", "END always"),
    ("labels", "both = g.sum(0) + p.sum(0)", "both = 2 * torch.maximum(g.sum(0), p.sum(0))", "the larger of the two"),
    ("spec_augment", "& (t < lengths[:, None])", "", "behind the end"),
    ("spec_augment", "(starts + widths)[..., None]", "(starts + widths)[..., None] + 1", "one wide"),
    ("bootstrap", "0.025", "0.05", "one-sided low end"),
    ("bootstrap", "one_hot(draws, len(counts)).sum(1)", "one_hot(draws, len(counts)).amax(1)", "no repeats"),
    ("paired", "means.abs() >= d.mean().abs()", "means >= d.mean()", "one-sided"),
]
