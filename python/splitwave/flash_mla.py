"""FlashMLA's decode calls over splitwave: an engine changes ``from flash_mla import ...`` to
``from splitwave.flash_mla import ...``. Owns the same names, arguments and return values as
FlashMLA 9241ae3; what FlashMLA refuses (head counts other than 64 and 128, lengths and an extra
cache for V3.2, lists whose width is no multiple of 64, indices beyond the pool) works here. Sparse
decode only.

The scheduler metadata of FlashMLA has no counterpart: a FlashMLASchedMeta may be reused across any
shapes and lengths, and is safe in a captured graph.
"""

from __future__ import annotations

import collections
import dataclasses
import threading
from typing import Any, Optional, Tuple

from . import arrays
from .decoder import Decoder

k_rows_per_call_max = 4096  # larger calls are cut; a row's bits do not depend on its batch
k_rows_least = 64           # decoders are shared by all smaller batches
k_decoders_max = 256        # the least recently used goes; captured graphs hold nothing of it

# The arguments of this module by the decoder's names, for refusals.
_names = {"main_cache": "k_cache", "main_indices": "indices", "main_lengths": "topk_length",
          "extra_cache": "extra_k_cache", "extra_indices": "extra_indices_in_kvcache",
          "extra_lengths": "extra_topk_length", "sink": "attn_sink"}
_formats = {576: ("v32", 656), 512: ("v4", 584)}  # by d_qk: name, bytes of a token


@dataclasses.dataclass
class FlashMLASchedMeta:
    """FlashMLA's handle between calls. Filled for those who look; nothing here is read back."""

    @dataclasses.dataclass
    class Config:
        b: int
        s_q: int
        h_q: int
        page_block_size: int
        h_k: int
        causal: bool
        is_fp8_kvcache: bool
        topk: Optional[int]
        extra_page_block_size: Optional[int]
        extra_topk: Optional[int]

    have_initialized: bool = False
    config: Optional[Config] = None
    tile_scheduler_metadata: Optional[Any] = None
    num_splits: Optional[Any] = None


def get_mla_metadata(*args: Any, **kwargs: Any) -> Tuple[FlashMLASchedMeta, None]:
    """(an empty FlashMLASchedMeta, None), whatever the arguments, as FlashMLA's does."""
    return FlashMLASchedMeta(), None


def flash_mla_with_kvcache(
        q: Any, k_cache: Any, block_table: Optional[Any] = None,
        cache_seqlens: Optional[Any] = None, head_dim_v: int = 512,
        tile_scheduler_metadata: Optional[FlashMLASchedMeta] = None, num_splits: None = None,
        softmax_scale: Optional[float] = None, causal: bool = False, is_fp8_kvcache: bool = False,
        indices: Optional[Any] = None, attn_sink: Optional[Any] = None,
        extra_k_cache: Optional[Any] = None, extra_indices_in_kvcache: Optional[Any] = None,
        topk_length: Optional[Any] = None, extra_topk_length: Optional[Any] = None, *,
        out: Optional[Any] = None) -> Tuple[Any, Any]:
    """Sparse MLA decode: (out [b, s_q, h_q, 512] bf16, lse [b, h_q, s_q] float32).

    q: bf16 [b, s_q, h_q, d_qk], d_qk 576 (V3.2) or 512 (V4), h_q 1 to 128.
    k_cache, extra_k_cache: bytes (fp8, int8 or uint8) [blocks, block_size, 1, 656 or 584].
    indices, extra_indices_in_kvcache: int32 [b, s_q, topk], block * block_size + offset; an entry
        that is negative or beyond the pool is skipped. block_table and cache_seqlens are not read.
    topk_length, extra_topk_length: int32 [b], shared by the s_q tokens of a request.
    attn_sink: float32 [h_q]: out *= exp(lse) / (exp(lse) + exp(sink)); lse stays without it.
    softmax_scale: d_qk ** -0.5 if None.
    out: written instead of a new array (an extension; FlashMLA has no such argument).

    lse is the natural log, +inf for a row without a valid key, whose out is 0.
    """
    _check(q, k_cache, head_dim_v, tile_scheduler_metadata, num_splits, causal, is_fp8_kvcache,
           indices, extra_k_cache, extra_indices_in_kvcache, topk_length, extra_topk_length)
    b, s_q, h_q, d_qk = q.shape
    topk = indices.shape[-1]
    extra_topk = 0 if extra_indices_in_kvcache is None else extra_indices_in_kvcache.shape[-1]
    _fill(tile_scheduler_metadata, q, k_cache, causal, is_fp8_kvcache, topk, extra_k_cache,
          extra_topk)
    if out is None:
        out = arrays.new_like(q, (b, s_q, h_q, head_dim_v), "bf16", "out")
    elif tuple(out.shape) != (b, s_q, h_q, head_dim_v):
        raise ValueError(f"out: shape {tuple(out.shape)}: {(b, s_q, h_q, head_dim_v)} is required")
    lse = arrays.new_like(q, (b, s_q, h_q), "f32", "lse")
    scale = d_qk ** -0.5 if softmax_scale is None else float(softmax_scale)

    split = (q, indices, extra_indices_in_kvcache, out)
    if s_q > 1 and all(_is_collapsible(array) for array in split):
        # One call for all tokens: [b, s_q, ...] is [b * s_q, ...] in memory.
        views = [_collapsed(array) for array in (*split, lse)]
        lengths = [_repeated(length, s_q) for length in (topk_length, extra_topk_length)]
        calls = [(views, lengths)]
    else:
        calls = [([None if array is None else array[:, token] for array in (*split, lse)],
                  [topk_length, extra_topk_length]) for token in range(s_q)]
    for views, lengths in calls:
        _run(views, lengths, k_cache, extra_k_cache, attn_sink, scale, topk, extra_topk)
    return out, lse.swapaxes(1, 2)


def _run(views: Any, lengths: Any, k_cache: Any, extra_k_cache: Any, attn_sink: Any, scale: float,
         topk: int, extra_topk: int) -> None:
    rows = views[0].shape[0]
    for first in range(0, rows, k_rows_per_call_max):
        part = slice(first, min(first + k_rows_per_call_max, rows))
        whole = part.stop - part.start == rows
        q, main, extra, out, lse = (v if v is None or whole else v[part] for v in views)
        main_lengths, extra_lengths = (v if v is None or whole else v[part] for v in lengths)
        decoder = _decoder_for(q, topk, extra_topk)
        has_extra = extra_topk > 0
        try:
            decoder.run(q, k_cache, main, softmax_scale=scale, main_lengths=main_lengths,
                        extra_cache=extra_k_cache if has_extra else None,
                        extra_indices=extra if has_extra else None,
                        extra_lengths=extra_lengths if has_extra else None, sink=attn_sink,
                        out=out, lse=lse)
        except ValueError as refused:
            field, colon, rest = str(refused).partition(":")
            raise ValueError(_names.get(field, field) + colon + rest) from None


def _check(q: Any, k_cache: Any, head_dim_v: int, metadata: Any, num_splits: Any, causal: bool,
           is_fp8_kvcache: bool, indices: Any, extra_k_cache: Any, extra_indices: Any,
           topk_length: Any, extra_topk_length: Any) -> None:
    """The rules of the call that no decoder sees; each refusal says what would work."""
    if indices is None:
        raise ValueError("indices: None: splitwave serves sparse decode; give indices "
                         "[b, s_q, topk], or keep FlashMLA for dense attention")
    if causal:
        raise ValueError("causal: True: sparse decode attends to what indices names; pass False")
    if not is_fp8_kvcache:
        raise ValueError("is_fp8_kvcache: False: the caches are fp8 here; pass True")
    if head_dim_v != 512:
        raise ValueError(f"head_dim_v: {head_dim_v}: 512 is required")
    if num_splits is not None:
        raise ValueError("num_splits: pass None, the second value of get_mla_metadata()")
    if metadata is not None and not hasattr(metadata, "have_initialized"):
        raise ValueError(f"tile_scheduler_metadata: {type(metadata).__name__}: pass the first "
                         "value of get_mla_metadata(), or None")
    for field, array, dims in (("q", q, 4), ("k_cache", k_cache, 4), ("indices", indices, 3),
                               ("extra_k_cache", extra_k_cache, 4),
                               ("extra_indices_in_kvcache", extra_indices, 3),
                               ("topk_length", topk_length, 1),
                               ("extra_topk_length", extra_topk_length, 1)):
        if array is not None and len(array.shape) != dims:
            raise ValueError(f"{field}: shape {tuple(array.shape)}: {dims} dimensions are required")
    if (extra_k_cache is None) != (extra_indices is None):
        raise ValueError("extra_k_cache and extra_indices_in_kvcache: give both or neither")
    if extra_topk_length is not None and extra_indices is None:
        raise ValueError("extra_topk_length: given without extra_indices_in_kvcache")
    b, s_q, _, d_qk = q.shape
    if d_qk not in _formats:
        raise ValueError(f"q: head dimension {d_qk}: 576 (V3.2) or 512 (V4) is required")
    for field, array in (("k_cache", k_cache), ("extra_k_cache", extra_k_cache)):
        if array is not None and array.shape[3] != _formats[d_qk][1]:
            raise ValueError(f"{field}: {array.shape[3]} bytes a token: a query of {d_qk} "
                             f"dimensions goes with {_formats[d_qk][1]}")
    for field, array in (("indices", indices), ("extra_indices_in_kvcache", extra_indices)):
        if array is not None and tuple(array.shape[:2]) != (b, s_q):
            raise ValueError(f"{field}: shape {tuple(array.shape)}: [{b}, {s_q}, topk] is required")
    for field, array in (("topk_length", topk_length), ("extra_topk_length", extra_topk_length)):
        if array is not None and array.shape[0] != b:
            raise ValueError(f"{field}: shape {tuple(array.shape)}: [{b}] is required")


def _fill(metadata: Any, q: Any, k_cache: Any, causal: bool, is_fp8_kvcache: bool, topk: int,
          extra_k_cache: Any, extra_topk: int) -> None:
    if metadata is None or metadata.have_initialized:
        return
    has_extra = extra_k_cache is not None
    metadata.config = FlashMLASchedMeta.Config(
        q.shape[0], q.shape[1], q.shape[2], k_cache.shape[1], k_cache.shape[2], causal,
        is_fp8_kvcache, topk, extra_k_cache.shape[1] if has_extra else None,
        extra_topk if has_extra else None)
    metadata.have_initialized = True


def _strides(array: Any) -> Tuple[int, ...]:
    """In any unit: only ratios are taken."""
    return tuple(array.stride()) if arrays.module_of(array) == "torch" else tuple(array.strides)


def _is_collapsible(array: Any) -> bool:
    if array is None or array.shape[0] <= 1:
        return True
    strides = _strides(array)
    return strides[0] == strides[1] * array.shape[1]


def _collapsed(array: Any) -> Any:
    if array is None:
        return None
    return array.reshape((array.shape[0] * array.shape[1], *array.shape[2:]))


def _repeated(length: Any, times: int) -> Any:
    if length is None:
        return None
    if arrays.module_of(length) == "torch":
        return length.repeat_interleave(times, output_size=length.shape[0] * times)
    return length.repeat(times)


_lock = threading.Lock()
_decoders: "collections.OrderedDict[Tuple[Any, ...], Decoder]" = collections.OrderedDict()


def _decoder_for(q: Any, topk: int, extra_topk: int) -> Decoder:
    """The decoder of this shape and device, made on first use; a first use may be inside a capture.
    Calls bring their workspace, so that one decoder serves every stream and every graph."""
    rows_max = max(k_rows_least, 1 << max(0, q.shape[0] - 1).bit_length())
    device = arrays.device_of(q)
    key = (device, q.shape[1], q.shape[2], topk, extra_topk, rows_max)
    with _lock:
        decoder = _decoders.get(key)
        if decoder is None:
            decoder = Decoder(format=_formats[q.shape[2]][0], heads=q.shape[1], main_width=topk,
                              extra_width=extra_topk, rows_max=rows_max,
                              backend="cpu" if device is None else "cuda", device=device or 0)
            _decoders[key] = decoder
            if len(_decoders) > k_decoders_max:
                _decoders.popitem(last=False)
        else:
            _decoders.move_to_end(key)
    return decoder


def __getattr__(name: str) -> Any:
    if name.startswith("flash_mla_") or name.startswith("flash_attn_"):
        raise AttributeError(f"splitwave.flash_mla serves sparse decode only: import {name} from "
                             "flash_mla")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
