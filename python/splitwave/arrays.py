"""Arrays of any framework. Owns what differs between numpy, torch, cupy and others: views of dtypes
that DLPack does not name alike, the current stream, new arrays. Must not import a framework that
the caller has not imported. Called by decoder.py and flash_mla.py."""

from __future__ import annotations

import sys
from typing import Any, Optional, Tuple

k_dlpack_cuda = 2
k_no_sync = -1  # of __dlpack__(stream=...): the work goes to the producer's own current stream


def module_of(array: Any) -> str:
    """The package that an array's type belongs to: "numpy", "torch", "cupy", ..."""
    return type(array).__module__.partition(".")[0]


def exported(array: Any) -> Any:
    """What the extension reads: the array itself or a DLPack capsule of the same memory."""
    if array is None:
        return None
    module = module_of(array)
    if module == "torch":
        import torch

        if array.dtype.itemsize == 1 and array.dtype not in (torch.uint8, torch.int8):
            array = array.view(torch.uint8)  # fp8: bytes
        if array.requires_grad:
            array = array.detach()
        return array.__dlpack__(stream=k_no_sync) if array.is_cuda else array.__dlpack__()
    if module == "numpy":
        if array.dtype.kind == "V":  # ml_dtypes: bfloat16 and the fp8 types
            return array.view({1: "uint8", 2: "uint16"}.get(array.dtype.itemsize, array.dtype))
        return array
    if device_of(array) is not None:
        return array.__dlpack__(stream=k_no_sync)
    return array


def device_of(array: Any) -> Optional[int]:
    """The CUDA ordinal of an array's memory; None on the host."""
    if module_of(array) == "torch":
        return array.device.index if array.is_cuda else None
    find = getattr(array, "__dlpack_device__", None)
    if find is None:
        return None
    kind, ordinal = find()
    return int(ordinal) if int(kind) == k_dlpack_cuda else None


def current_stream(array: Any) -> int:
    """The stream on which the array's framework would enqueue now; 0 on the host."""
    device = device_of(array)
    if device is None:
        return 0
    module = module_of(array)
    if module == "torch":
        return int(sys.modules["torch"].cuda.current_stream(device).cuda_stream)
    if module == "cupy":
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)
    raise ValueError(f"stream: none is known for arrays of {module}: pass stream=")


def stream_number(stream: Any) -> int:
    """A cudaStream_t from a number or from an object that holds one."""
    if isinstance(stream, int):
        return stream
    for name in ("cuda_stream", "ptr", "handle"):
        value = getattr(stream, name, None)
        if isinstance(value, int):
            return value
    raise ValueError(f"stream: {type(stream).__name__}: a number, torch.cuda.Stream or "
                     "cupy.cuda.Stream is required")


def new_like(array: Any, shape: Tuple[int, ...], kind: str, field: str) -> Any:
    """A new array beside `array`: kind "bf16" takes its dtype; "f32" and "byte" say theirs."""
    module = module_of(array)
    if module == "torch":
        torch = sys.modules["torch"]
        dtype = {"bf16": array.dtype, "f32": torch.float32, "byte": torch.uint8}[kind]
        return torch.empty(shape, dtype=dtype, device=array.device)
    if module in ("numpy", "cupy"):
        empty = sys.modules[module].empty
        return empty(shape, {"bf16": array.dtype, "f32": "float32", "byte": "uint8"}[kind])
    raise ValueError(f"{field}: none can be made for arrays of {module}: pass {field}=")
