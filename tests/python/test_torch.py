"""Through torch tensors: without copies on the CPU, and on a GPU where there is one: values, fp8
dtypes, streams, graphs, threads. Skipped where torch is not installed (scripts/python-gpu-check.sh
runs it on a GPU)."""

import threading

import numpy as np
import pytest

import splitwave
import splitwave.flash_mla as flash_mla
from reference import assert_close, make_problem

torch = pytest.importorskip("torch")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_cuda)]


def tensors(problem, device):
    """The arguments of flash_mla_with_kvcache as tensors; padding and page gaps survive."""
    def bf16(bits):
        return torch.from_numpy(bits.view(np.int16)).to(device).view(torch.bfloat16)

    def plain(array):
        return None if array is None else torch.from_numpy(array).to(device)

    def cache(array):
        if array is None:
            return None
        # The pool with the gap behind each page, then the view: strides as an engine has them.
        pages, page_size, _, row_bytes = array.shape
        pool = torch.from_numpy(array.base.copy()).to(device)
        return pool[:, :page_size * row_bytes].view(pages, page_size, 1, row_bytes)

    return dict(q=bf16(problem.q), k_cache=cache(problem.cache), block_table=None,
                cache_seqlens=None, head_dim_v=512, softmax_scale=problem.scale,
                is_fp8_kvcache=True, indices=plain(problem.indices),
                attn_sink=plain(problem.sink), extra_k_cache=cache(problem.extra_cache),
                extra_indices_in_kvcache=plain(problem.extra_indices),
                topk_length=plain(problem.lengths), extra_topk_length=plain(problem.extra_lengths))


def call(arguments, **changes):
    metadata = flash_mla.get_mla_metadata()[0]
    return flash_mla.flash_mla_with_kvcache(tile_scheduler_metadata=metadata,
                                            **{**arguments, **changes})


def assert_same(first, second):
    for a, b in zip(first, second):
        a, b = (t.view(torch.int16) if t.dtype == torch.bfloat16 else t for t in (a, b))
        assert torch.equal(a, b)


CASES = {
    "v4": dict(),
    "v4, the served shape": dict(b=19, heads=64, topk=128, page_size=64, extra_topk=512,
                                 extra_page_size=64, has_lengths=True, has_sink=True),
    "v4, 8 heads of a tensor-parallel shard": dict(b=33, heads=8, topk=128, extra_topk=512,
                                                   page_size=256, extra_page_size=64),
    "v4, C128 pages of two": dict(b=5, heads=16, topk=128, page_size=64, extra_topk=700,
                                  extra_page_size=2, has_lengths=True),
    "v4, two tokens a request": dict(b=4, s_q=2, heads=64, extra_topk=53, has_lengths=True),
    "v32": dict(fmt="v32", b=3, heads=128, topk=2048, page_size=64),
    "v32 with lengths": dict(fmt="v32", b=6, heads=16, topk=1000, page_size=61, has_lengths=True,
                             has_sink=True),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_double_reference(name, device):
    problem = make_problem(**CASES[name])
    out, lse = call(tensors(problem, device))
    assert out.dtype == torch.bfloat16 and out.device.type == device
    assert_close(out.double().cpu().numpy(), lse.double().cpu().numpy(), problem)


@pytest.mark.parametrize("device", DEVICES)
def test_fp8_dtypes_are_bytes(device):
    arguments = tensors(make_problem(extra_topk=53), device)
    expected = call(arguments)
    for dtype in (torch.float8_e4m3fn, torch.int8):
        assert_same(call(arguments, k_cache=arguments["k_cache"].view(dtype),
                         extra_k_cache=arguments["extra_k_cache"].view(dtype)), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_outputs_are_written_in_place(device):
    arguments = tensors(make_problem(), device)
    expected, _ = call(arguments)
    given = torch.zeros((3, 4, 8, 512), dtype=torch.bfloat16, device=device)[:, 1:2]
    out, _ = call(arguments, out=given)
    assert out is given and torch.equal(given, expected)


@needs_cuda
def test_tensors_of_two_devices_are_refused():
    arguments = tensors(make_problem(), "cuda")
    with pytest.raises(ValueError, match="^k_cache: on the CPU: the decoder runs on cuda:0"):
        call(arguments, k_cache=arguments["k_cache"].cpu())


@needs_cuda
def test_a_row_has_the_same_bits_alone_and_in_a_batch():
    problem = make_problem(b=24, heads=16, topk=128, extra_topk=512, has_lengths=True)
    arguments = tensors(problem, "cuda")
    out, lse = call(arguments)
    per_row = ("q", "indices", "extra_indices_in_kvcache", "topk_length", "extra_topk_length")
    for row in (0, 7, 23):
        part = {name: arguments[name][row:row + 1] for name in per_row}
        assert_same(call(arguments, **part), (out[row:row + 1], lse[row:row + 1]))


@needs_cuda
def test_the_current_stream_is_taken():
    """The query is written late on a side stream: a launch on another stream would read zeros."""
    arguments = tensors(make_problem(heads=64, topk=128), "cuda")
    expected = call(arguments)
    torch.cuda.synchronize()
    late = torch.zeros_like(arguments["q"])
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late.copy_(arguments["q"])
        result = call(arguments, q=late)
    stream.synchronize()
    assert_same(result, expected)


@needs_cuda
@pytest.mark.parametrize("name", ["v4, the served shape", "v32", "v4, two tokens a request"])
def test_a_graph_replays_the_eager_bits_on_new_inputs(name):
    first, second = (tensors(make_problem(**CASES[name], seed=s), "cuda") for s in (3, 4))
    expected = [call(first), call(second)]
    graph = torch.cuda.CUDAGraph()
    held = {k: v.clone() if torch.is_tensor(v) and "cache" not in k else v
            for k, v in first.items()}
    caches = [k for k in ("k_cache", "extra_k_cache") if held[k] is not None]
    with torch.cuda.graph(graph):
        result = call(held)
    graph.replay()
    assert_same(result, expected[0])
    for key, value in second.items():
        if torch.is_tensor(value) and key not in caches:
            held[key].copy_(value)
    for key in caches:
        held[key].copy_(second[key])
    graph.replay()
    assert_same(result, expected[1])


@needs_cuda
def test_the_first_use_of_a_shape_may_be_inside_a_capture():
    flash_mla._decoders.clear()
    arguments = tensors(make_problem(heads=24, topk=300, extra_topk=77), "cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call(arguments)
    graph.replay()
    assert_same(result, call(arguments))


@needs_cuda
def test_streams_and_threads_share_a_decoder():
    """V3.2 with many chunks: each call needs a workspace, and all are in flight at once."""
    arguments = tensors(make_problem(fmt="v32", b=16, heads=16, topk=2048), "cuda")
    expected = call(arguments)
    torch.cuda.synchronize()
    results = [None] * 4

    def work(i):
        with torch.cuda.stream(torch.cuda.Stream()):
            results[i] = [call(arguments) for _ in range(10)]
            torch.cuda.current_stream().synchronize()

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for result in results:
        for got in result:
            assert_same(got, expected)


@needs_cuda
def test_the_native_decoder_runs_on_the_gpu():
    problem = make_problem(heads=16, topk=128)
    arguments = tensors(problem, "cuda")
    for owns_workspace in (False, True):
        decoder = splitwave.Decoder(heads=16, main_width=128, owns_workspace=owns_workspace)
        assert decoder.info["backend"] == "cuda" and decoder.info["device_arch"] >= 80
        out, lse = decoder.run(arguments["q"][:, 0], arguments["k_cache"],
                               arguments["indices"][:, 0], softmax_scale=problem.scale,
                               stream=torch.cuda.current_stream())
        assert_same((out[:, None], lse[:, :, None]), call(arguments))
