"""The native interface. Owns Decoder: one problem's limits, created once, run many times."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from . import _core, arrays

_formats = {"v32": 0, "v4": 1}
_classes = {"throughput": 0, "latency": 1}
_operands = {"bf16": 0, "f16": 1}
_backends = {"auto": 0, "cpu": 1, "cuda": 2}
_value_dims = 512


def _number(field: str, value: str, table: Dict[str, int]) -> int:
    if value in table:
        return table[value]
    raise ValueError(f"{field} = {value!r}: one of {', '.join(table)} is required")


class Decoder:
    """Sparse MLA decode for calls within the limits given here.

    format: "v4" (d_qk 512, 584 bytes a token) or "v32" (d_qk 576, 656 bytes a token).
    heads: query heads, 1 to 128.
    main_width, extra_width: entries of a row of each index list; extra_width 0: no extra cache.
    rows_max: the most rows of one call.
    numerics: "throughput" or "latency": how a row is cut into chunks, and so its bits.
    operands: "bf16" or "f16"; f16 needs value_range_max.
    backend: "auto", "cpu" or "cuda"; device is the CUDA ordinal, threads the CPU workers (0: all).
    plan: planner overrides in the syntax of SPLITWAVE_PLAN, "mode=free,target_ctas=512".
    owns_workspace: True keeps one workspace in the decoder, which then serves one stream at a time;
        False (default) takes it from the arrays' framework for each call.

    Raises ValueError for what the caller gave, RuntimeError for what the machine lacks; both say
    what would work. Calls from several threads are safe.
    """

    def __init__(self, *, format: str = "v4", heads: int, main_width: int, extra_width: int = 0,
                 rows_max: int = 256, numerics: str = "throughput", operands: str = "bf16",
                 value_range_max: float = float("inf"), backend: str = "auto", device: int = 0,
                 threads: int = 0, plan: str = "", read_environment: bool = True,
                 owns_workspace: bool = False) -> None:
        self._core = _core.Decoder(
            _number("format", format, _formats), heads, main_width, extra_width, rows_max,
            _number("numerics", numerics, _classes), _number("operands", operands, _operands),
            value_range_max, _number("backend", backend, _backends), device, threads,
            read_environment, owns_workspace, plan)
        self.format = format
        self.heads = heads
        self.main_width = main_width
        self.extra_width = extra_width
        #: What was chosen: backend, backend_reason, device, device_arch, device_sms, rows_max,
        #: workspace_bytes_own, workspace_bytes_caller.
        self.info: Dict[str, Any] = self._core.info()
        self._workspace_bytes: int = self.info["workspace_bytes_caller"]

    def plan_for(self, rows: int) -> Dict[str, Any]:
        """What a call of so many rows launches, and why: variant, numerics_class, isa, mode,
        chunk_rows, block_heads, splits, ctas, waves, utilization, predicted_us, reasons, ..."""
        return self._core.plan(rows)

    def run(self, q: Any, main_cache: Any, main_indices: Any, *,
            softmax_scale: Optional[float] = None, main_lengths: Any = None,
            extra_cache: Any = None, extra_indices: Any = None, extra_lengths: Any = None,
            sink: Any = None, out: Any = None, lse: Any = None, stream: Any = None,
            workspace: Any = None) -> Tuple[Any, Any]:
        """Attends each row of q over the cache entries that its lists name; returns (out, lse).

        q: bf16 [rows, heads, d_qk] (numpy: uint16 that holds bf16 bits).
        main_cache, extra_cache: bytes [pages, page_size, 1, bytes of a token], pages any stride.
        main_indices, extra_indices: int32 [rows, width], page * page_size + offset; an entry
            that is negative or beyond the pool is skipped.
        main_lengths, extra_lengths: int32 [rows] or None (a row ends at its last valid entry).
        softmax_scale: d_qk ** -0.5 if None.  sink: float32 [heads] or None.
        out: bf16 [rows, heads, 512], lse: float32 [rows, heads]; made if None.
        stream: the arrays' framework's current one if None.  workspace: uint8 of
            info["workspace_bytes_caller"] bytes; made if None.

        On CUDA the call only enqueues; it may be inside a graph capture.
        """
        rows = q.shape[0]
        if out is None:
            out = arrays.new_like(q, (rows, self.heads, _value_dims), "bf16", "out")
        if lse is None:
            lse = arrays.new_like(q, (rows, self.heads), "f32", "lse")
        if workspace is None and self._workspace_bytes > 0:
            workspace = arrays.new_like(q, (self._workspace_bytes,), "byte", "workspace")
        number = arrays.current_stream(q) if stream is None else arrays.stream_number(stream)
        scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
        exported = arrays.exported
        self._core.run(exported(q), exported(main_cache), exported(main_indices),
                       exported(main_lengths), exported(extra_cache), exported(extra_indices),
                       exported(extra_lengths), scale, exported(sink), exported(out),
                       exported(lse), number, exported(workspace))
        return out, lse


def merge(out_a: Any, lse_a: Any, out_b: Any, lse_b: Any) -> Tuple[Any, Any]:
    """Merges two results of the same rows and heads over disjoint keys, made without a sink: out_a
    and lse_a receive the merge and are returned. Host memory, bf16 [rows, heads, 512] and float32
    [rows, heads], dense; +inf lse means empty."""
    exported = arrays.exported
    _core.merge(exported(out_a), exported(lse_a), exported(out_b), exported(lse_b))
    return out_a, lse_a
