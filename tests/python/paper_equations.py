"""What layers of the encoders mix, from the equations of the papers, step by step: mix(encoder, parts, layer, X)."""

import torch


def lstm(weights, X):
    """States of an LSTM from its equations, step by step: weights of the input and of the state, and both biases; gates in
    PyTorch's order."""
    W_x, W_h, *biases = weights
    h = c = X.new_zeros(X.shape[0], W_h.shape[1])
    states = []
    for x in X.unbind(1):
        i, f, g, o = (x @ W_x.T + h @ W_h.T + sum(biases)).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        states.append(h)
    return torch.stack(states, 1)


def both_ways(weights, X, read):
    """read(weights, X), or where there are twice as many weights, that beside the same from the end."""
    half = len(weights) // 2
    return torch.cat([read(weights[:half], X), read(weights[half:], X.flip(1)).flip(1)], 2)


def embedded(encoder, parts, layer, X):
    """Lin et al. 2017, equations 2 to 7, and the embedding given back to every step."""
    cell, part, combine = (parts[f"{kind}{layer}"] for kind in ("cell", "attention", "combine"))
    weights = list(cell.parameters())
    H = lstm(weights, X) if encoder.causal else both_ways(weights, X, lstm)
    scores = part.W_s2.weight @ (part.W_s1.weight @ H.mT).tanh()

    def embedding(steps):
        return (scores[:, :, :steps].softmax(2) @ H[:, :steps]).unbind(1)

    def given(steps):
        return torch.cat([M @ W.T for M, W in zip(embedding(steps), combine.weight.chunk(encoder.heads))], 1)

    Y = torch.stack([given(i + 1 if encoder.causal else X.shape[1]) for i in range(X.shape[1])], 1)
    return H + Y + combine.bias


def remembered(weights, X):
    """Cheng et al. 2016, equations 4 to 9, step by step."""
    W_h, W_x, W_g, v, W, bias = weights
    states = []
    for row in X:
        tape, cells = [], []
        g = m = X.new_zeros(len(v))
        for x in row:
            if tape:
                s = torch.stack([v @ (W_h @ h + W_x @ x + W_g @ g).tanh() for h in tape]).softmax(0)
                g, m = (sum(s_i * kept for s_i, kept in zip(s, past)) for past in (tape, cells))
            i, f, z, o = (W @ torch.cat([g, x]) + bias).chunk(4)
            cells.append(f.sigmoid() * m + i.sigmoid() * z.tanh())
            tape.append(o.sigmoid() * cells[-1].tanh())
        states.append(torch.stack(tape))
    return torch.stack(states)


def looked_back(weights, X):
    """Paulus et al. 2018, equations 6 to 8, and the state joined with what it attends to."""
    *cell, W, U, bias = weights
    h = lstm(cell, X)
    d = [torch.zeros_like(h[:, 0])]
    for t in range(1, X.shape[1]):
        e = torch.stack([(h[:, t] * (h[:, j] @ W.T)).sum(1) for j in range(t)], 1)
        d.append((e.softmax(1)[:, :, None] * h[:, :t]).sum(1))
    return torch.cat([h, torch.stack(d, 1)], 2) @ U.T + bias


def reader(read):
    def mix(encoder, parts, layer, X):
        weights = list(parts[f"reader{layer}"].parameters())
        if encoder.causal:
            return read(weights, X)
        return both_ways([*weights, *parts[f"reader{layer}_reverse"].parameters()], X, read)

    return mix


def root_mean_square(y, weight):
    return y / (y.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight


def turned(x, step):
    """Pairs of halves of a head's columns, turned by step times 10000^(-2c/D)."""
    first, second = x.chunk(2, -1)
    angle = step * 10000.0 ** (-2 * torch.arange(first.shape[-1], dtype=x.dtype) / x.shape[-1])
    return torch.cat([first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()], -1)


def in_linear_time(part, X):
    """The equations of heed.nn.LinearMixer step by step, with a state [batch, heads, key, value]; heads of an even width."""
    kind, heads, hidden = part.kind, part.heads, part.hidden_size
    mamba = kind == "mamba2"
    value = 2 * hidden if mamba else hidden
    keys = 2 * hidden // heads if mamba else hidden
    gates = 0 if kind == "linear" else value
    z, vkq, numbers = part.in_proj(X).tensor_split([gates, gates + value + 2 * keys], 2)
    if part.conv_weight is not None:
        back = [torch.nn.functional.pad(vkq, (0, 0, shift, 0))[:, : X.shape[1]] for shift in (3, 2, 1, 0)]
        vkq = torch.nn.functional.silu((torch.stack(back, 3) * part.conv_weight).sum(3) + part.conv_bias)
    S = X.new_zeros(len(X), heads, keys if mamba else keys // heads, value // heads)
    key_sum, outputs = 0, []
    for step in range(X.shape[1]):
        v, k, q = vkq[:, step].split([value, keys, keys], 1)
        v = v.unflatten(1, (heads, -1))
        k, q = (x.unflatten(1, (1 if mamba else heads, -1)) for x in (k, q))
        scale, decay, added = k.shape[2] ** -0.5, 1.0, v
        if kind == "linear":
            k, q = (torch.where(x > 0, x + 1, x.exp()) for x in (k, q))
        elif kind == "retention":
            k, q = turned(k, step) * scale, turned(q, step)
            decay = (1 - 2.0 ** (-5 - torch.arange(heads, dtype=X.dtype)))[:, None, None]
        else:
            dt = (1 + (numbers[:, step, :heads] + part.dt_bias).exp()).log()
            decay = (-part.A_log.exp() * dt).exp()[..., None, None]
            added = v * dt[..., None]
        S = decay * S
        if kind == "gated-delta":
            k, q = (x / (x.square().sum(2, keepdim=True) + 1e-6).sqrt() for x in (k, q))
            q, beta = q * scale, numbers[:, step, heads:].sigmoid()
            added = beta[..., None] * (v - torch.einsum("bhkv,bhk->bhv", S, k))
        S = S + k[..., None] * added[:, :, None]
        y = torch.einsum("bhkv,bhk->bhv", S, q.expand(-1, heads, -1))
        if kind == "linear":
            key_sum = key_sum + k
            y = y / (q * key_sum).sum(2, keepdim=True)
        gate = z[:, step] * z[:, step].sigmoid()
        if mamba:
            y = root_mean_square((y + part.D[:, None] * v).flatten(1) * gate, part.norm_weight)
        elif kind != "linear":
            y = root_mean_square(y, part.norm_weight).flatten(1) * gate
        outputs.append(part.out_proj(y.flatten(1)))
    return torch.stack(outputs, 1)


def linear_reader(encoder, parts, layer, X):
    Y = in_linear_time(parts[f"reader{layer}"], X)
    return Y if encoder.causal else torch.cat([Y, in_linear_time(parts[f"reader{layer}_reverse"], X.flip(1)).flip(1)], 2)
