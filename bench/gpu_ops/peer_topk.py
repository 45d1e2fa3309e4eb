"""Times torch.topk at gpu_ops' top-k shapes, as CUDA graphs. usage: peer_topk.py OUT.json

torch.topk is exact but its order of ties is unspecified; sorted=False is its fastest form.
"""
import json
import sys

import torch


def graph_us(call, replays=10):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(8):
            call(i)
    times = []
    for _ in range(replays + 2):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        stop.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(stop) * 1e3 / 8)
    return sorted(times[2:])[replays // 2]


def main():
    points = []
    for warm in (True, False):
        for rows, length, k in ((64, 131072, 512), (64, 131072, 1024), (64, 131072, 2048),
                                (16, 32768, 512), (64, 32768, 512), (96, 32768, 512)):
            sets = 1 if warm else max(2, int(2.5e8 / (4 * rows * length)) + 1)
            logits = torch.randn(sets, rows, length, device="cuda")
            us = graph_us(lambda i: torch.topk(logits[i % sets], k, dim=1, sorted=False))
            shape = f"{'warm' if warm else 'cold'} rows {rows} length {length} k {k}"
            print(f"torch.topk   {shape:46s} {us:9.2f} us")
            points.append({"peer": "torch.topk", "version": torch.__version__, "shape": shape,
                           "us_median": us})
    try:
        import flashinfer  # noqa: F401
        print("flashinfer is installed: not timed here")
    except ImportError:
        print("flashinfer is not installed")
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        json.dump({"points": points}, out, indent=1)


main()
