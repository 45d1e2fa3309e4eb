"""The FlashMLA-shaped calls through numpy: values against reference.py, the signature and return
shapes of the original, what it refuses and ours serves."""

import inspect

import numpy as np
import pytest

import splitwave.flash_mla as flash_mla
from reference import assert_close, from_bf16, make_problem


def call(p, **changes):
    arguments = dict(
        q=p.q, k_cache=p.cache, block_table=None, cache_seqlens=None, head_dim_v=512,
        tile_scheduler_metadata=flash_mla.get_mla_metadata()[0], softmax_scale=p.scale,
        is_fp8_kvcache=True, indices=p.indices, attn_sink=p.sink, extra_k_cache=p.extra_cache,
        extra_indices_in_kvcache=p.extra_indices, topk_length=p.lengths,
        extra_topk_length=p.extra_lengths)
    arguments.update(changes)
    return flash_mla.flash_mla_with_kvcache(**arguments)


CASES = {
    "v4": dict(),
    "v4, the served shape": dict(heads=64, topk=128, page_size=64, extra_topk=512,
                                 extra_page_size=64, has_lengths=True, has_sink=True, b=2),
    "v4, two tokens a request": dict(s_q=2, extra_topk=53, extra_page_size=1, has_lengths=True),
    "v4, one head": dict(heads=1, b=5, has_sink=True),
    "v4, 128 heads": dict(heads=128, b=1, page_size=53, has_sink=True),
    "v4, one row, one entry": dict(b=1, topk=1, page_size=1),
    "v32": dict(fmt="v32", heads=16, topk=133, page_size=64),
    "v32 with lengths and an extra cache": dict(fmt="v32", extra_topk=29, has_lengths=True,
                                                has_sink=True, page_size=1, extra_page_size=61),
    "v32, three tokens a request": dict(fmt="v32", s_q=3, heads=7, has_lengths=True),
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_double_reference(name):
    problem = make_problem(**CASES[name])
    out, lse = call(problem)
    b, s_q, h, _ = problem.q.shape
    assert out.shape == (b, s_q, h, 512) and out.dtype == np.uint16
    assert lse.shape == (b, h, s_q) and lse.dtype == np.float32
    assert_close(from_bf16(out), lse.astype(np.float64), problem)


def test_the_reference_sees_a_dropped_key():
    problem = make_problem(topk=133)
    out, lse = call(problem)
    problem.indices[1, 0, np.argmax(problem.indices[1, 0] >= 0)] = -1
    with pytest.raises(AssertionError):
        assert_close(from_bf16(out), lse.astype(np.float64), problem)


def test_signature_is_flash_mlas():
    parameters = list(inspect.signature(flash_mla.flash_mla_with_kvcache).parameters.values())
    assert [p.name for p in parameters[:16]] == [
        "q", "k_cache", "block_table", "cache_seqlens", "head_dim_v", "tile_scheduler_metadata",
        "num_splits", "softmax_scale", "causal", "is_fp8_kvcache", "indices", "attn_sink",
        "extra_k_cache", "extra_indices_in_kvcache", "topk_length", "extra_topk_length"]
    defaults = {p.name: p.default for p in parameters}
    assert defaults["causal"] is False and defaults["is_fp8_kvcache"] is False
    assert defaults["softmax_scale"] is None and defaults["num_splits"] is None
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters[16:])
    metadata, second = flash_mla.get_mla_metadata(np.zeros(2, np.int32), 64, 1, topk=128)
    assert second is None and not metadata.have_initialized


def test_metadata_is_filled_and_may_be_reused_for_any_shape():
    metadata = flash_mla.get_mla_metadata()[0]
    first, second = make_problem(b=3), make_problem(b=5, heads=2, topk=9, has_lengths=True)
    call(first, tile_scheduler_metadata=metadata)
    assert metadata.have_initialized and metadata.config.b == 3 and metadata.config.topk == 37
    out, lse = call(second, tile_scheduler_metadata=metadata)
    assert_close(from_bf16(out), lse.astype(np.float64), second)
    call(second, tile_scheduler_metadata=None)


def test_the_scale_defaults_to_the_root_of_the_dimension():
    problem = make_problem()
    out, lse = call(problem, softmax_scale=None)
    problem.scale = 512 ** -0.5
    assert_close(from_bf16(out), lse.astype(np.float64), problem)


def test_a_row_has_the_same_bits_alone():
    problem = make_problem(b=6, extra_topk=53, has_lengths=True, has_sink=True)
    out, lse = call(problem)
    for row in range(6):
        part = slice(row, row + 1)
        alone_out, alone_lse = call(
            problem, q=problem.q[part], indices=problem.indices[part],
            extra_indices_in_kvcache=problem.extra_indices[part],
            topk_length=problem.lengths[part], extra_topk_length=problem.extra_lengths[part])
        np.testing.assert_array_equal(alone_out, out[part])
        np.testing.assert_array_equal(alone_lse, lse[part])


def test_padded_strides_give_the_same_bits():
    problem = make_problem(b=4, s_q=2, has_lengths=True)
    out, lse = call(problem)
    q = np.full((4, 3, 11, 512 + 8), 0x7fc0, np.uint16)[:, :2, :8, :512]
    q[...] = problem.q
    indices = np.full((4, 3, 40), 2 ** 31 - 1, np.int32)[:, :2, :37]
    indices[...] = problem.indices
    given = np.zeros((4, 5, 8, 512), np.uint16)[:, 1:3]
    padded_out, padded_lse = call(problem, q=q, indices=indices, out=given)
    assert padded_out is given
    np.testing.assert_array_equal(padded_out, out)
    np.testing.assert_array_equal(padded_lse, lse)


def test_calls_longer_than_one_launch_are_cut_without_a_trace(monkeypatch):
    problem = make_problem(b=7, has_lengths=True)
    out, lse = call(problem)
    monkeypatch.setattr(flash_mla, "k_rows_per_call_max", 3)
    cut_out, cut_lse = call(problem)
    np.testing.assert_array_equal(cut_out, out)
    np.testing.assert_array_equal(cut_lse, lse)


def test_read_only_inputs_and_one_byte_views_are_taken():
    problem = make_problem()
    expected = call(problem)[0]
    for array in (problem.q, problem.cache, problem.indices):
        array.setflags(write=False)
    np.testing.assert_array_equal(call(problem, k_cache=problem.cache.view(np.int8))[0], expected)


def test_empty_batches_and_empty_lists():
    problem = make_problem(b=2)
    out, lse = call(problem, q=problem.q[:0], indices=problem.indices[:0])
    assert out.shape == (0, 1, 8, 512) and lse.shape == (0, 8, 1)
    out, lse = call(problem, indices=np.zeros((2, 1, 0), np.int32))
    assert (out == 0).all() and np.isposinf(lse).all()
    out, lse = call(problem, topk_length=np.zeros(2, np.int32))
    assert (out == 0).all() and np.isposinf(lse).all()


REFUSALS = {
    "dense": (dict(indices=None), "indices: None"),
    "bf16 cache": (dict(is_fp8_kvcache=False), "is_fp8_kvcache"),
    "causal": (dict(causal=True), "causal"),
    "head_dim_v": (dict(head_dim_v=576), "head_dim_v: 576"),
    "old num_splits": (dict(num_splits=np.zeros(4, np.int32)), "num_splits"),
    "old metadata": (dict(tile_scheduler_metadata=np.zeros(4)), "tile_scheduler_metadata: ndarray"),
    "int64 indices": (dict(indices=np.zeros((3, 1, 37), np.int64)),
                      "indices: dtype int64: int32 is required"),
    "float64 sink": (dict(attn_sink=np.zeros(8)), "attn_sink: dtype float64"),
    "sink of other heads": (dict(attn_sink=np.zeros(9, np.float32)), "sink: shape[0] = 9: 8"),
    "batch of indices": (dict(indices=np.zeros((2, 1, 37), np.int32)), "indices: shape (2, 1, 37)"),
    "lengths": (dict(topk_length=np.zeros((3, 1), np.int32)), "topk_length: shape (3, 1)"),
    "lone extra cache": (dict(extra_k_cache=np.zeros((1, 1, 1, 584), np.uint8)), "both or neither"),
    "other format": (dict(k_cache=np.zeros((1, 1, 1, 656), np.uint8)), "goes with 584"),
    "two KV heads": (dict(k_cache=np.zeros((1, 1, 2, 584), np.uint8)), "KV heads"),
    "float cache": (dict(k_cache=np.zeros((1, 1, 1, 584), np.float32)), "one byte"),
    "fp32 query": (dict(q=np.zeros((3, 1, 8, 512), np.float32)), "q: dtype float32"),
    "odd stride": (dict(q=np.zeros((3, 1, 8, 516), np.uint16)[..., :512]), "q_head_stride = 516"),
    "out": (dict(out=np.zeros((3, 8, 512), np.uint16)), "out: shape (3, 8, 512)"),
    "129 heads": (dict(q=np.zeros((3, 1, 129, 512), np.uint16)), "heads = 129"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refuses_with_the_field_and_the_remedy(name):
    changes, words = REFUSALS[name]
    with pytest.raises(ValueError) as refused:
        call(make_problem(), **changes)
    assert words in str(refused.value)


def test_a_read_only_out_is_refused():
    out = np.zeros((3, 1, 8, 512), np.uint16)
    out.setflags(write=False)
    with pytest.raises(ValueError, match="out: .*writable"):
        call(make_problem(), out=out)


def test_prefill_calls_say_where_they_are():
    with pytest.raises(AttributeError, match="from flash_mla"):
        flash_mla.flash_mla_sparse_fwd  # noqa: B018
