"""Sparse MLA decode in numpy doubles, written from docs/contract.md alone, and problems to try it
on. Independent of the library: it shares no table and no code with it."""

import dataclasses
from typing import Optional

import numpy as np

ROW_BYTES = {"v4": 584, "v32": 656}
QK_DIMS = {"v4": 512, "v32": 576}


def _e4m3_values():
    values = np.empty(256)
    for code in range(256):
        sign = -1.0 if code & 0x80 else 1.0
        exponent, mantissa = (code >> 3) & 15, code & 7
        if exponent == 15 and mantissa == 7:
            values[code] = np.nan
        elif exponent == 0:
            values[code] = sign * mantissa * 2.0 ** -9
        else:
            values[code] = sign * (1 + mantissa / 8) * 2.0 ** (exponent - 7)
    return values


E4M3 = _e4m3_values()


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def to_bf16(values):
    """Round to nearest even; finite values only."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def dequantised(cache, fmt):
    """[pages, page_size, 1, row_bytes] bytes to K, double [pages * page_size, d_qk]."""
    pages, page_size = cache.shape[:2]
    dense = np.ascontiguousarray(cache).reshape(pages, page_size * ROW_BYTES[fmt])
    if fmt == "v4":
        data = dense[:, :page_size * 576].reshape(-1, 576)
        scales = dense[:, page_size * 576:].reshape(-1, 8)[:, :7]
        factor = np.repeat(2.0 ** (scales.astype(np.float64) - 127), 64, axis=1)
        nope = E4M3[data[:, :448]] * factor
        rope = from_bf16(np.ascontiguousarray(data[:, 448:]).view(np.uint16))
        return np.concatenate([nope, rope], axis=1)
    rows = dense.reshape(-1, 656)
    scales = np.ascontiguousarray(rows[:, 512:528]).view(np.float32).astype(np.float64)
    nope = from_bf16(to_bf16(E4M3[rows[:, :512]] * np.repeat(scales, 128, axis=1)))
    rope = from_bf16(np.ascontiguousarray(rows[:, 528:]).view(np.uint16))
    return np.concatenate([nope, rope], axis=1)


def _used(indices, length, slots):
    """The valid entries of one row's list, in order."""
    if length is not None:
        indices = indices[:max(0, min(int(length), len(indices)))]
    return indices[(indices >= 0) & (indices < slots)]


def attend(q, caches, lists, scale, sink=None):
    """q double [rows, heads, d_qk]; caches K arrays, lists (indices [rows, width], lengths or None)
    of the same number. Returns out [rows, heads, 512] and lse [rows, heads] in doubles."""
    rows, heads, _ = q.shape
    out = np.zeros((rows, heads, 512))
    lse = np.full((rows, heads), np.inf)
    for row in range(rows):
        keys = np.concatenate([
            k[_used(indices[row], None if lengths is None else lengths[row], len(k))]
            for k, (indices, lengths) in zip(caches, lists)])
        if len(keys) == 0:
            continue
        scores = scale * (q[row] @ keys.T)
        top = scores.max(axis=1, keepdims=True)
        weights = np.exp(scores - top)
        total = weights.sum(axis=1, keepdims=True)
        lse[row] = (top + np.log(total))[:, 0]
        out[row] = weights @ keys[:, :512] / total
        if sink is not None:
            with np.errstate(over="ignore"):
                out[row] /= (1 + np.exp(sink.astype(np.float64) - lse[row]))[:, None]
    return out, lse


@dataclasses.dataclass
class Problem:
    """Arguments of flash_mla_with_kvcache as numpy arrays."""
    fmt: str
    q: np.ndarray
    cache: np.ndarray
    indices: np.ndarray
    lengths: Optional[np.ndarray]
    extra_cache: Optional[np.ndarray]
    extra_indices: Optional[np.ndarray]
    extra_lengths: Optional[np.ndarray]
    sink: Optional[np.ndarray]
    scale: float

    def expected(self):
        b, s_q, h, d = self.q.shape
        each = lambda v: None if v is None else np.repeat(v, s_q)  # noqa: E731
        caches = [dequantised(self.cache, self.fmt)]
        lists = [(self.indices.reshape(b * s_q, -1), each(self.lengths))]
        if self.extra_cache is not None:
            caches.append(dequantised(self.extra_cache, self.fmt))
            lists.append((self.extra_indices.reshape(b * s_q, -1), each(self.extra_lengths)))
        q = from_bf16(np.ascontiguousarray(self.q)).reshape(b * s_q, h, d)
        out, lse = attend(q, caches, lists, self.scale, self.sink)
        return out.reshape(b, s_q, h, 512), lse.reshape(b, s_q, h).transpose(0, 2, 1)


def random_cache(rng, fmt, pages, page_size):
    """Valid codes, |K| below about 0.4, pages with a gap behind them that holds poison."""
    codes = rng.integers(0, 256, (pages * page_size, 512), dtype=np.uint8)
    codes[(codes & 0x7f) == 0x7f] = 0
    rope = to_bf16(rng.standard_normal((pages * page_size, 64)) / 10).view(np.uint8)
    used = page_size * ROW_BYTES[fmt]
    pool = np.full((pages, used + 64), 0xff, np.uint8)
    if fmt == "v4":
        data = np.concatenate([codes[:, :448], rope], axis=1)
        scales = rng.integers(127 - 13, 127 - 10, (pages * page_size, 8), dtype=np.uint8)
        scales[:, 7] = 0xff  # the pad byte
        pool[:, :page_size * 576] = data.reshape(pages, -1)
        pool[:, page_size * 576:used] = scales.reshape(pages, -1)
    else:
        scales = rng.uniform(2.0 ** -13, 2.0 ** -10, (pages * page_size, 4)).astype(np.float32)
        row = np.concatenate([codes, scales.view(np.uint8), rope], axis=1)
        pool[:, :used] = row.reshape(pages, -1)
    return pool[:, :used].reshape(pages, page_size, 1, ROW_BYTES[fmt])


def random_indices(rng, shape, slots):
    """Scattered entries, about one in eight invalid: -1, another negative or beyond the pool."""
    indices = rng.integers(0, slots, shape, dtype=np.int32)
    invalid = rng.random(shape) < 0.125
    indices[invalid] = rng.choice(np.array([-1, -1, -7, slots, 2 ** 31 - 1], np.int32),
                                  int(invalid.sum()))
    return indices


def make_problem(fmt="v4", b=3, s_q=1, heads=8, topk=37, page_size=4, extra_topk=0,
                 extra_page_size=2, has_lengths=False, has_sink=False, seed=1):
    rng = np.random.default_rng(seed)
    d = QK_DIMS[fmt]
    q = to_bf16(np.clip(rng.standard_normal((b, s_q, heads, d)), -1, 1))
    pages = 3 + 4 * topk // page_size
    length = lambda width: (rng.integers(0, width + 1, b, dtype=np.int32)  # noqa: E731
                            if has_lengths else None)
    extra_pages = 3 + 2 * extra_topk // extra_page_size
    sink = None
    if has_sink:
        sink = rng.standard_normal(heads).astype(np.float32)
        sink[0::3] = -np.inf
        sink[1::5] = np.inf
    return Problem(
        fmt, q, random_cache(rng, fmt, pages, page_size),
        random_indices(rng, (b, s_q, topk), pages * page_size), length(topk),
        random_cache(rng, fmt, extra_pages, extra_page_size) if extra_topk else None,
        random_indices(rng, (b, s_q, extra_topk), extra_pages * extra_page_size)
        if extra_topk else None,
        length(extra_topk) if extra_topk else None, sink, d ** -0.55)


def assert_close(out, lse, problem):
    """out doubles [b, s_q, h, 512], lse [b, h, s_q], by the tolerances of docs/contract.md."""
    expected_out, expected_lse = problem.expected()
    np.testing.assert_array_equal(np.isinf(lse), np.isinf(expected_lse))
    finite = ~np.isinf(expected_lse)
    tolerance = 2e-5 if problem.fmt == "v4" else 2e-3
    error = np.abs(np.where(finite, lse, 0) - np.where(finite, expected_lse, 0))
    assert (error[finite] <= tolerance * np.maximum(1, np.abs(expected_lse[finite]))).all()
    difference = np.abs(out - expected_out)
    good = (difference <= 1e-3) | (difference <= 2 / 128 * np.abs(expected_out))
    assert good.all(), f"{np.argwhere(~good)[:3]}: {out[~good][:3]} for {expected_out[~good][:3]}"
    norm = np.linalg.norm(expected_out, axis=-1)
    judged = norm > 1e-30
    relative = np.linalg.norm(difference, axis=-1)[judged] / norm[judged]
    assert relative.size == 0 or relative.max() <= 4e-3, relative.max()
    # Without any key the result is 0 exactly.
    assert (out[~finite.transpose(0, 2, 1)] == 0).all()
