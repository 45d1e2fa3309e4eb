"""Sparse MLA decode over paged fp8 KV caches, the same bits alone and in any batch.

``splitwave.Decoder`` is the native interface, ``splitwave.flash_mla`` has the names and arguments
of FlashMLA's decode calls. Arrays are numpy's, torch's or any other's that speaks DLPack; they are
never copied. docs/contract.md of the project states what is computed.
"""

from ._core import abi_version, variants
from ._core import version as _version
from .decoder import Decoder, merge

__all__ = ["Decoder", "abi_version", "merge", "variants", "__version__"]
__version__: str = _version()
