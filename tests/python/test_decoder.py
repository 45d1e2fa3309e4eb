"""The native interface through numpy: choices, overrides, threads, merging, refusals."""

import threading

import numpy as np
import pytest

import splitwave
from reference import assert_close, from_bf16, make_problem


def make_decoder(problem, **changes):
    arguments = dict(format=problem.fmt, heads=problem.q.shape[2],
                     main_width=problem.indices.shape[2], backend="cpu", threads=2)
    if problem.extra_indices is not None:
        arguments["extra_width"] = problem.extra_indices.shape[2]
    arguments.update(changes)
    return splitwave.Decoder(**arguments)


def run(decoder, p, **changes):
    arguments = dict(softmax_scale=p.scale, main_lengths=p.lengths, extra_cache=p.extra_cache,
                     extra_lengths=p.extra_lengths, sink=p.sink)
    if p.extra_indices is not None:
        arguments["extra_indices"] = p.extra_indices[:, 0]
    arguments.update(changes)
    return decoder.run(p.q[:, 0], p.cache, p.indices[:, 0], **arguments)


def test_says_what_it_chose_and_why():
    decoder = make_decoder(make_problem(), numerics="latency", rows_max=9)
    assert decoder.info["backend"] == "cpu" and decoder.info["rows_max"] == 9
    assert decoder.info["backend_reason"] and decoder.info["workspace_bytes_caller"] == 0
    plan = decoder.plan_for(9)
    assert plan["mode"] == "exact" and plan["numerics"] == "latency"
    assert plan["variant"] in {v["name"] for v in splitwave.variants() if v["is_runnable"]}
    assert all(isinstance(reason, str) for reason in plan["reasons"])
    with pytest.raises(ValueError, match="rows = 10"):
        decoder.plan_for(10)


def test_agrees_with_the_reference_in_both_modes():
    problem = make_problem(b=5, topk=200, extra_topk=53, has_lengths=True, has_sink=True)
    for plan in ("", "mode=free,target_ctas=64", "class=latency"):
        decoder = make_decoder(problem, plan=plan)
        out, lse = run(decoder, problem)
        assert_close(from_bf16(out)[:, None], lse.astype(np.float64)[:, :, None], problem)
    assert make_decoder(problem, plan="mode=free,target_ctas=64").plan_for(5)["mode"] == "free"


def test_a_cache_of_three_dimensions_is_the_same():
    problem = make_problem()
    decoder = make_decoder(problem)
    expected, _ = run(decoder, problem)
    problem.cache = problem.cache[:, :, 0]
    np.testing.assert_array_equal(run(decoder, problem)[0], expected)


def test_threads_may_share_a_decoder():
    problem = make_problem(b=8, topk=133)
    decoder = make_decoder(problem)
    expected, _ = run(decoder, problem)
    results, started = [None] * 4, threading.Barrier(4)

    def work(i):
        started.wait()
        results[i] = [run(decoder, problem)[0] for _ in range(5)]

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for result in results:
        for out in result:
            np.testing.assert_array_equal(out, expected)


def test_partials_of_disjoint_keys_merge_to_the_whole():
    problem = make_problem(topk=133, extra_topk=67)
    whole, whole_lse = run(make_decoder(problem), problem)
    extra = make_problem(topk=133, extra_topk=67)
    extra.cache, extra.indices = extra.extra_cache, extra.extra_indices
    extra.extra_cache = extra.extra_indices = None
    problem.extra_cache = problem.extra_indices = None
    out, lse = run(make_decoder(problem), problem)
    other, other_lse = run(make_decoder(extra), extra)
    merged, merged_lse = splitwave.merge(out, lse, other, other_lse)
    assert merged is out
    np.testing.assert_allclose(merged_lse, whole_lse, rtol=2e-5)
    np.testing.assert_allclose(from_bf16(merged), from_bf16(whole), atol=2e-3, rtol=2 / 128)


def test_outputs_given_are_the_outputs():
    problem = make_problem()
    out = np.full((3, 8, 512), 0x7fc0, np.uint16)
    lse = np.full((3, 8), np.nan, np.float32)
    got = run(make_decoder(problem), problem, out=out, lse=lse)
    assert got[0] is out and got[1] is lse
    assert_close(from_bf16(out)[:, None], lse.astype(np.float64)[:, :, None], problem)


@pytest.mark.parametrize("changes, words", [
    (dict(format="v5"), "format = 'v5': one of v32, v4"),
    (dict(heads=0), "heads = 0"),
    (dict(rows_max=-1), "rows_max = -1"),
    (dict(plan="chunk_row=3"), "chunk_row"),
    (dict(operands="f16"), "value_range_max"),
    (dict(backend="rocm"), "backend = 'rocm'"),
])
def test_refuses_a_bad_creation(changes, words):
    with pytest.raises(ValueError) as refused:
        make_decoder(make_problem(), **changes)
    assert words in str(refused.value)


def test_a_missing_device_is_a_runtime_error():
    try:
        make_decoder(make_problem(), backend="cuda")
    except RuntimeError as lacking:
        assert "CUDA" in str(lacking) or "cuda" in str(lacking)
    else:
        pytest.skip("this machine has a CUDA device")


@pytest.mark.parametrize("changes, words", [
    (dict(lse=np.zeros((3, 7), np.float32)), "lse: shape[1] = 7: 8 is required"),
    (dict(out=[1, 2]), "out: list"),
    (dict(main_lengths=np.zeros(2, np.int32)), "main_lengths: shape[0] = 2: 3"),
    (dict(extra_indices=np.zeros((3, 4), np.int32)), "extra_width = 0"),
    (dict(softmax_scale=float("nan")), "softmax_scale"),
    (dict(stream="main"), "stream: str"),
])
def test_refuses_a_bad_call(changes, words):
    problem = make_problem()
    with pytest.raises(ValueError) as refused:
        run(make_decoder(problem), problem, **changes)
    assert words in str(refused.value)


def test_more_rows_than_declared_are_refused():
    problem = make_problem(b=4)
    with pytest.raises(ValueError, match="rows = 4: 0 to rows_max = 2"):
        run(make_decoder(problem, rows_max=2), problem)


def test_the_versions_agree():
    assert splitwave.__version__.count(".") == 2
    assert splitwave.abi_version() == 1
