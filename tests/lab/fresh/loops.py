"""Fresh attempts in loops, written when the laws were finished: right ones by part, and edits that break them."""

RIGHT = {
    "perceptron": """
def perceptron(x, y, epochs):
    d = x.shape[1]
    w = [0.0 for _ in range(d)]
    b = 0.0
    for epoch in range(epochs):
        for i in range(len(x)):
            s = b
            for j in range(d):
                s += w[j] * float(x[i, j])
            if float(y[i]) * s <= 0:
                for j in range(d):
                    w[j] += float(y[i]) * float(x[i, j])
                b += float(y[i])
    return torch.tensor(w), torch.tensor(b)
""",
    "cross_entropy": """
def cross_entropy(logits, targets):
    losses = []
    for i in range(logits.shape[0]):
        m = logits[i].max()
        z = 0
        for v in range(logits.shape[1]):
            z = z + torch.exp(logits[i, v] - m)
        losses.append(torch.log(z) + m - logits[i, targets[i]])
    return sum(losses) / len(losses)
""",
    "gradient": """
def cross_entropy_gradient(logits, targets):
    n, v = logits.shape
    out = torch.zeros(n, v)
    for i in range(n):
        p = torch.softmax(logits[i], dim=0)
        for j in range(v):
            y = 1.0 if j == targets[i] else 0.0
            out[i, j] = (p[j] - y) / n
    return out
""",
    "attend": """
def attend(query, key, value, visible=None):
    B, H, T, E = query.shape
    S = key.shape[2]
    out = torch.zeros(B, H, T, value.shape[3], dtype=value.dtype)
    rows = []
    for b in range(B):
        for h in range(H):
            q, k, v = query[b, h], key[b, h], value[b, h]
            s = q @ k.T / E ** 0.5
            if visible is not None:
                m = visible.expand(B, H, T, S)[b, h]
                s = s.masked_fill(m == False, -math.inf)
            w = torch.softmax(s, dim=1)
            w = torch.where(torch.isnan(w), torch.zeros_like(w), w)
            rows.append(w @ v)
    return torch.stack(rows).reshape(B, H, T, -1)
""",
    "masks": """
def causal_mask(length, past=0):
    m = torch.zeros(length, length + past, dtype=torch.bool)
    for i in range(length):
        for j in range(length + past):
            if j <= i + past:
                m[i, j] = True
    return m
def padding_mask(lengths, width):
    rows = []
    for n in lengths:
        rows.append([[j < int(n) for j in range(width)]])
    return torch.tensor(rows)
""",
    "sinusoids": """
def sinusoids(length, width):
    pe = torch.zeros(length, width)
    for pos in range(length):
        for i in range(width // 2):
            angle = pos / (10000 ** (2 * i / width))
            pe[pos, 2 * i] = math.sin(angle)
            pe[pos, 2 * i + 1] = math.cos(angle)
    return pe
""",
    "shift": """
def shift_matrix(width, distance):
    m = torch.zeros(width, width)
    for i in range(width // 2):
        w = 1 / 10000 ** (2 * i / width)
        a, b = 2 * i, 2 * i + 1
        m[a, a] = math.cos(w * distance)
        m[a, b] = math.sin(w * distance)
        m[b, a] = -math.sin(w * distance)
        m[b, b] = math.cos(w * distance)
    return m
""",
    "layer_norm": """
def layer_norm(x, gain, bias, epsilon=1e-5):
    flat = x.reshape(-1, x.shape[-1])
    out = []
    for row in flat:
        mu = row.sum() / row.numel()
        var = ((row - mu) * (row - mu)).sum() / row.numel()
        out.append((row - mu) / torch.sqrt(var + epsilon) * gain + bias)
    return torch.stack(out).reshape(x.shape)
""",
    "smoothing": """
def smoothed_cross_entropy(logits, target, mask, smoothing):
    total, count = 0.0, 0
    B, T, V = logits.shape
    for b in range(B):
        for t in range(T):
            if not mask[b, t]:
                continue
            lp = torch.log_softmax(logits[b, t], dim=-1)
            for v in range(V):
                q = smoothing / V
                if v == target[b, t]:
                    q += 1 - smoothing
                total = total - q * lp[v]
            count += 1
    return total, count
""",
    "mix_inputs": """
def mix_inputs(previous, predicted, uniform, rate, begin):
    out = previous.clone()
    for b in range(out.shape[0]):
        for t in range(1, out.shape[1]):
            if uniform[b, t] < rate:
                out[b, t] = predicted[b, t - 1]
        out[b, 0] = begin
    return out
""",
    "greedy": """
def greedy(step, state, begin, end, limit):
    out = []
    score = 0.0
    token = begin
    for i in range(limit):
        logp, state = step(state, torch.tensor([token]))
        best = 0
        for v in range(logp.shape[1]):
            if logp[0, v] > logp[0, best]:
                best = v
        score += logp[0, best].item()
        if best == end:
            return out, score
        out.append(best)
        token = best
    return out, score
""",
    "beam": """
def beam_search(step, select, state, begin, end, beam, limit, alpha):
    hyps = [([], 0.0)]
    done = []
    tokens = [begin]
    for t in range(limit):
        logp, state = step(state, torch.tensor(tokens))
        cands = []
        for r in range(len(hyps)):
            for v in range(logp.shape[1]):
                lp = logp[r, v].item()
                if lp == -math.inf:
                    continue
                cands.append((hyps[r][1] + lp, r, v))
        cands.sort(reverse=True)
        new = []
        for s, r, v in cands:
            if v == end:
                done.append((hyps[r][0], s / ((5 + t + 1) / 6) ** alpha))
            else:
                new.append((s, r, v))
        new = new[:beam]
        if len(new) == 0:
            break
        state = select(state, torch.tensor([r for s, r, v in new]))
        hyps = [(hyps[r][0] + [v], s) for s, r, v in new]
        tokens = [v for s, r, v in new]
    if len(done) == 0:
        for seq, s in hyps:
            done.append((seq, s / ((5 + limit) / 6) ** alpha))
    done.sort(key=lambda d: d[1], reverse=True)
    return done
""",
    "collapse": """
def collapse(path, blank):
    out = []
    last = None
    for p in path:
        if p != last:
            if p != blank:
                out.append(p)
        last = p
    return out
""",
    "hide": """
def hide(confidence, mask, iteration, iterations):
    out = torch.zeros_like(mask)
    for b in range(mask.shape[0]):
        n = int(mask[b].sum())
        k = n * (iterations - iteration) // iterations
        conf = [(float(confidence[b, t]), t) for t in range(mask.shape[1]) if mask[b, t]]
        conf.sort()
        for c, t in conf[:k]:
            out[b, t] = True
    return out
""",
    "tree": """
def linearise(tree):
    if type(tree) is str:
        return ["XX"]
    out = ["(" + tree[0]]
    for child in tree[1]:
        out.extend(linearise(child))
    out.append(")")
    return out
def parse(symbols, words):
    stack = []
    used = 0
    root = None
    for s in symbols:
        if root is not None:
            return None
        if s == ")":
            if not stack:
                return None
            label, kids = stack.pop()
            if not kids:
                return None
            if stack:
                stack[-1][1].append((label, kids))
            else:
                root = (label, kids)
        elif s == "XX":
            if not stack or used >= len(words):
                return None
            stack[-1][1].append(words[used])
            used += 1
        else:
            stack.append((s[1:], []))
    if root is None or used != len(words):
        return None
    return root
""",
    "ctc": """
def ctc_loss(log_p, target, blank):
    ext = [blank]
    for s in target:
        ext.append(s)
        ext.append(blank)
    T, L = log_p.shape[0], len(ext)
    NEG = torch.tensor(-1e30)
    a = [log_p[0, ext[i]] if i < 2 else NEG for i in range(L)]
    for t in range(1, T):
        n = []
        for i in range(L):
            terms = [a[i]]
            if i >= 1:
                terms.append(a[i - 1])
            if i >= 2 and ext[i] != blank and ext[i] != ext[i - 2]:
                terms.append(a[i - 2])
            n.append(torch.logsumexp(torch.stack(terms), dim=0) + log_p[t, ext[i]])
        a = n
    if L == 1:
        return -a[0]
    return -torch.logsumexp(torch.stack([a[-1], a[-2]]), dim=0)
""",
    "language_loss": """
def language_loss(logits, tokens, mask):
    total = torch.tensor(0.0)
    n = 0
    for b in range(tokens.shape[0]):
        for t in range(tokens.shape[1] - 1):
            if mask[b, t + 1]:
                total = total - torch.log_softmax(logits[b, t], dim=0)[tokens[b, t + 1]]
                n = n + 1
    return total, n
""",
    "layout": """
def layout(source, target, begin, end):
    tokens, l1, l2 = [], [], []
    for i, s in enumerate(source):
        tokens.append(s)
        l1.append(i > 0)
        l2.append(False)
    tokens.append(begin)
    l1.append(False)
    l2.append(False)
    for s in list(target) + [end]:
        tokens.append(s)
        l1.append(False)
        l2.append(True)
    return tokens, l1, l2
""",
}

BUGS = [
    ("perceptron", "if float(y[i]) * s <= 0:", "if (s > 0) != (float(y[i]) > 0) and s != 0:", "zero counts as right"),
    ("perceptron", "b += float(y[i])", "b -= float(y[i])", "the bias moves the wrong way"),
    ("cross_entropy", "/ len(losses)", "", "the sum"),
    ("cross_entropy", "torch.log(z) + m -", "torch.log(z) -", "the largest is not added again"),
    ("cross_entropy", "- m)", ")", "nothing is subtracted in exp, but added behind"),
    ("gradient", "/ n", "", "no mean"),
    ("gradient", "(p[j] - y)", "(y - p[j])", "the sign"),
    ("attend", "/ E ** 0.5", "/ E", "divided by d"),
    ("attend", "m == False", "m == True", "inverted"),
    ("attend", "w = torch.where(torch.isnan(w), torch.zeros_like(w), w)", "pass", "NaN rows"),
    ("attend", "dim=1)", "dim=0)", "softmax over queries"),
    ("masks", "if j <= i + past", "if j < i + past", "strict"),
    ("masks", "if j <= i + past", "if j <= i", "no past"),
    ("masks", "j < int(n)", "j <= int(n)", "one more"),
    ("sinusoids", "2 * i / width)", "i / width)", "i for 2i"),
    ("sinusoids", "pos / (10000", "(pos + 1) / (10000", "from one"),
    ("shift", "m[b, a] = -math", "m[b, a] = math", "both signs alike"),
    (
        "shift",
        "m[a, b] = math.sin(w * distance)\n        m[b, a] = -math",
        "m[a, b] = -math.sin(w * distance)\n        m[b, a] = math",
        "backwards",
    ),
    ("layer_norm", "(row - mu)).sum() / row.numel()", "(row - mu)).sum() / (row.numel() - 1)", "D - 1"),
    ("layer_norm", "torch.sqrt(var + epsilon)", "(torch.sqrt(var) + epsilon)", "epsilon outside"),
    ("smoothing", "q = smoothing / V", "q = smoothing / (V - 1)", "V - 1 and the right one as well"),
    ("smoothing", "count += 1", "count = count + V", "counts symbols of the vocabulary"),
    ("smoothing", "if not mask[b, t]:\n                continue", "pass", "padding"),
    ("mix_inputs", "predicted[b, t - 1]", "predicted[b, t]", "unshifted"),
    ("mix_inputs", "uniform[b, t] < rate", "uniform[b, t] > rate", "above the rate"),
    ("greedy", "token = best", "token = begin", "feeds BEGIN"),
    (
        "greedy",
        "score += logp[0, best].item()\n        if best == end:\n            return out, score",
        "if best == end:\n            return out, score\n        score += logp[0, best].item()",
        "END is free",
    ),
    (
        "greedy",
        "if best == end:\n            return out, score\n        out.append(best)",
        "out.append(best)\n        if best == end:\n            return out, score",
        "END kept",
    ),
    ("beam", "[r for s, r, v in new]", "[i for i in range(len(new))]", "state not reordered"),
    ("beam", "(5 + t + 1)", "(5 + t)", "length without END"),
    ("beam", "new = new[:beam]", "pass", "keeps all"),
    ("beam", "cands.sort(reverse=True)", "cands.sort()", "the least likely go on"),
    ("collapse", "        last = p", "        last = p if p != blank else last", "a blank does not separate"),
    ("hide", "conf.sort()", "conf.sort(reverse=True)", "hides the most confident"),
    ("hide", "* (iterations - iteration) // iterations", "* iteration // iterations", "more each pass"),
    ("tree", "if not kids:\n                return None\n", "if not kids:\n                pass\n", "empty nodes"),
    (
        "tree",
        "if root is not None:\n            return None\n",
        "if root is not None:\n            break\n",
        "what follows the tree",
    ),
    ("tree", "or used != len(words)", "", "words left over"),
    ("ctc", " and ext[i] != ext[i - 2]", "", "skips between equal symbols"),
    ("ctc", "if i < 2 else", "if i < 1 else", "must begin with a blank"),
    ("ctc", "torch.logsumexp(torch.stack(terms), dim=0)", "torch.stack(terms).max()", "Viterbi"),
    ("language_loss", "if mask[b, t + 1]", "if mask[b, t]", "the mask of the input"),
    ("language_loss", "[tokens[b, t + 1]]", "[tokens[b, t]]", "unshifted"),
    (
        "layout",
        "tokens.append(begin)\n    l1.append(False)\n    l2.append(False)",
        "tokens.append(begin)\n    l1.append(False)\n    l2.append(True)",
        "BEGIN is asked for",
    ),
    ("layout", "l1.append(i > 0)", "l1.append(True)", "the first symbol is predicted"),
]
