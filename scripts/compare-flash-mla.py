#!/usr/bin/env python3
"""splitwave.flash_mla beside an installed flash_mla: the same inputs, results compared, times with
a cold L2, medians, JSON. Both are called through flash_mla_with_kvcache inside CUDA graphs, in
turn; FlashMLA's scheduler runs before the capture and is not timed. Exit status: 0 done, 1 results
differ, 2 bad usage, 3 something is missing (it says what).

  scripts/compare-flash-mla.py --batch 1,16,64 --heads 64 --out compare.json
  scripts/compare-flash-mla.py --self-check       # splitwave on both sides: no flash_mla needed
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys

k_cold_bytes = 256 << 20  # written between two timed calls: several times any L2
ROW_BYTES = {"v4": 584, "v32": 656}


def missing(what):
    print(f"compare-flash-mla: missing: {what}", file=sys.stderr)
    sys.exit(3)


def modules(self_check):
    try:
        import torch
    except ImportError:
        missing("torch; install PyTorch with CUDA")
    if not torch.cuda.is_available():
        missing("a CUDA device that torch can use")
    try:
        import splitwave.flash_mla as ours
    except ImportError as error:
        missing(f"splitwave ({error}); pip install the wheel of ./python")
    if not any(v["backend"] == "cuda" for v in __import__("splitwave").variants()):
        missing("the CUDA backend of splitwave: this wheel was built without nvcc")
    if self_check:
        return torch, ours, ours
    try:
        import flash_mla as theirs
    except ImportError as error:
        missing(f"flash_mla ({error}); install FlashMLA for this GPU, or pass --self-check")
    return torch, ours, theirs


def random_cache(torch, fmt, pages, page_size, generator):
    """fp8 rows whose values lie below about 0.4, page stride a multiple of 576 for V4."""
    def randint(low, high, shape):
        return torch.randint(low, high, shape, generator=generator, device="cuda",
                             dtype=torch.uint8)
    tokens = pages * page_size
    codes = randint(0, 0x70, (tokens, 512)) | (randint(0, 2, (tokens, 512)) << 7)
    rope = (torch.randn((tokens, 64), generator=generator, device="cuda") / 10).bfloat16()
    rope = rope.view(torch.uint8)
    used = page_size * ROW_BYTES[fmt]
    stride = (used + 575) // 576 * 576 if fmt == "v4" else used
    pool = torch.zeros((pages, stride), dtype=torch.uint8, device="cuda")
    if fmt == "v4":
        pool[:, :page_size * 576] = torch.cat([codes[:, :448], rope], 1).view(pages, -1)
        pool[:, page_size * 576:used] = randint(114, 118, (tokens, 8)).view(pages, -1)
    else:
        scales = torch.exp2(randint(0, 3, (tokens, 4)).float() - 13).view(torch.uint8)
        pool[:, :used] = torch.cat([codes, scales, rope], 1).view(pages, -1)
    return pool[:, :used].view(pages, page_size, 1, ROW_BYTES[fmt])


def make_arguments(torch, a, batch):
    generator = torch.Generator(device="cuda").manual_seed(batch)
    dims = 512 if a.format == "v4" else 576
    pages = a.pool_tokens // a.page_size
    extra_pages = a.pool_tokens // a.extra_page_size

    def indices(width, tokens):
        return torch.randint(0, tokens, (batch, 1, width), generator=generator, device="cuda",
                             dtype=torch.int32)
    arguments = dict(
        q=torch.randn((batch, 1, a.heads, dims), generator=generator,
                      device="cuda").clamp(-1, 1).bfloat16(),
        k_cache=random_cache(torch, a.format, pages, a.page_size, generator), block_table=None,
        cache_seqlens=None, head_dim_v=512, softmax_scale=dims ** -0.55, is_fp8_kvcache=True,
        indices=indices(a.topk, pages * a.page_size))
    if a.extra_topk:
        arguments["extra_k_cache"] = random_cache(torch, a.format, extra_pages, a.extra_page_size,
                                                  generator)
        arguments["extra_indices_in_kvcache"] = indices(a.extra_topk,
                                                        extra_pages * a.extra_page_size)
    return arguments


def captured(torch, module, arguments):
    metadata = module.get_mla_metadata()[0]
    run = lambda: module.flash_mla_with_kvcache(  # noqa: E731
        tile_scheduler_metadata=metadata, **arguments)
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = run()
    return graph, result


def timed(torch, graph, cold):
    cold.fill_(0)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3


def compare(torch, ours, theirs, a, batch):
    arguments = make_arguments(torch, a, batch)
    sides = [captured(torch, module, arguments) for module in (ours, theirs)]
    cold = torch.empty(k_cold_bytes, dtype=torch.uint8, device="cuda")
    times = ([], [])
    for sample in range(a.samples):
        for side in ((0, 1) if sample % 2 == 0 else (1, 0)):
            times[side].append(timed(torch, sides[side][0], cold))
    (out, lse), (peer_out, peer_lse) = sides[0][1], sides[1][1]
    out, peer_out = out.double(), peer_out.double()
    norm = torch.linalg.vector_norm
    relative = (norm(out - peer_out, dim=-1) / norm(peer_out, dim=-1)).max().item()
    us = [statistics.median(t) for t in times]
    return {"batch": batch, "splitwave_us_median": us[0], "flash_mla_us_median": us[1],
            "speedup": us[1] / us[0], "rel_l2_max": relative,
            "lse_abs_max": (lse.double() - peer_lse.double()).abs().max().item()}


def commit():
    # Out of the environment: the library refuses a SPLITWAVE_ variable that it does not know.
    given = os.environ.pop("SPLITWAVE_COMMIT", None)
    if given:
        return given
    git = subprocess.run(["git", "-C", os.path.dirname(os.path.abspath(__file__)), "rev-parse",
                          "HEAD"], capture_output=True, text=True)
    return git.stdout.strip() if git.returncode == 0 else "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--format", choices=("v4", "v32"), default="v4")
    parser.add_argument("--batch", default="1,16,64,128")
    parser.add_argument("--heads", type=int, default=64)
    parser.add_argument("--topk", type=int, default=128)
    parser.add_argument("--page-size", type=int, default=64)
    parser.add_argument("--extra-topk", type=int, default=512)
    parser.add_argument("--extra-page-size", type=int, default=64)
    parser.add_argument("--pool-tokens", type=int, default=1 << 18)
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--self-check", action="store_true")
    parser.add_argument("--out", help="write the JSON here too")
    a = parser.parse_args()
    try:
        batches = [int(b) for b in a.batch.split(",")]
    except ValueError:
        parser.error("--batch: numbers with commas between them are required")
    built_from = commit()
    torch, ours, theirs = modules(a.self_check)
    points = [compare(torch, ours, theirs, a, batch) for batch in batches]
    result = {
        "command": "compare-flash-mla", "commit": built_from,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "peer": "splitwave itself" if a.self_check else
                f"flash_mla {getattr(theirs, '__version__', 'of unknown version')}",
        "device": torch.cuda.get_device_name(), "torch": torch.__version__,
        "cuda": torch.version.cuda, "format": a.format, "heads": a.heads, "topk": a.topk,
        "extra_topk": a.extra_topk, "samples": a.samples, "cold_l2": True, "points": points}
    text = json.dumps(result, indent=1)
    print(text)
    if a.out:
        with open(a.out, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    # Two bf16 results of one contract: each within 4e-3 of the truth.
    sys.exit(1 if any(not p["rel_l2_max"] <= 8e-3 for p in points) else 0)


if __name__ == "__main__":
    main()
