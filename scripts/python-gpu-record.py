#!/usr/bin/env python3
"""The record of scripts/python-gpu-check.sh: pytest's counts, and what a call through Python costs
the host beside what the GPU spends on it. Usage: python-gpu-record.py JUNIT.xml OUT.json COMMIT"""

import datetime
import json
import statistics
import sys
import time
import xml.etree.ElementTree

import torch

import splitwave
import splitwave.flash_mla as flash_mla


def counts(path):
    suite = xml.etree.ElementTree.parse(path).getroot().find("testsuite")
    return {key: int(suite.get(key)) for key in ("tests", "failures", "errors", "skipped")}


def arguments_of(batch, heads):
    def cache(page_size):
        return torch.full((4096, page_size, 1, 584), 0x70, dtype=torch.uint8, device="cuda")
    return dict(
        q=torch.randn((batch, 1, heads, 512), device="cuda").bfloat16(), k_cache=cache(64),
        block_table=None, cache_seqlens=None, head_dim_v=512, is_fp8_kvcache=True,
        indices=torch.randint(0, 4096 * 64, (batch, 1, 128), device="cuda", dtype=torch.int32),
        extra_k_cache=cache(64), extra_indices_in_kvcache=torch.randint(
            0, 4096 * 64, (batch, 1, 512), device="cuda", dtype=torch.int32))


def point(batch, heads):
    """Medians of the host's time for one call that only enqueues, and of a graph's replay (warm L2:
    the arguments stay the same; scripts/gpu-check.sh has the cold figures)."""
    arguments = arguments_of(batch, heads)
    run = lambda: flash_mla.flash_mla_with_kvcache(  # noqa: E731
        tile_scheduler_metadata=None, **arguments)
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(10):
            run()
    host, device = [], []
    for _ in range(100):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        run()
        host.append((time.perf_counter() - begin) * 1e6)
    for _ in range(30):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        device.append(start.elapsed_time(end) * 1e3 / 10)
    return {"batch": batch, "heads": heads, "host_us_median": statistics.median(host),
            "graph_us_median": statistics.median(device)}


def main():
    properties = torch.cuda.get_device_properties(0)
    decoder = splitwave.Decoder(heads=64, main_width=128, extra_width=512)
    plan = decoder.plan_for(64)
    record = {
        "command": "scripts/python-gpu-check.sh",
        "commit": sys.argv[3],
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "fingerprint": {
            "gpu": properties.name, "sms": properties.multi_processor_count,
            "arch": decoder.info["device_arch"], "torch": torch.__version__,
            "cuda": torch.version.cuda, "python": sys.version.split()[0],
            "splitwave": splitwave.__version__, "abi": splitwave.abi_version()},
        "pytest": counts(sys.argv[1]),
        "class": plan["numerics_class"], "variant_b64_h64": plan["variant"], "l2": "warm",
        "points": [point(batch, heads) for heads in (64, 8) for batch in (1, 16, 64, 128)]}
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(record, file, indent=1)
        file.write("\n")
    print(json.dumps(record["pytest"]))
    for p in record["points"]:
        print(f"B {p['batch']:4d} heads {p['heads']:3d}: host {p['host_us_median']:7.1f} us, "
              f"graph {p['graph_us_median']:7.1f} us")


if __name__ == "__main__":
    main()
