#!/usr/bin/env python3
"""Decomposes a mesh sequence with sinew and with Dem Bones (`pip install py-dem-bones`) on one core, and prints both.

    ci/bench_decompose.py SINEW SEQUENCE.npz [--frames test] [--bones 10,20,30] [--peer no] [--json FILE]

E_RMS is 1000 |A - B| / sqrt(3 N V) over half the rest bounding-box diagonal, at most four influences; processor seconds of
the decomposition alone. Exit 1 if sinew is not lower in both.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile

os.environ["OMP_NUM_THREADS"] = "1"  # before the peer is loaded

import numpy as np


WEIGHT_RUNS = 9


def processor_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def e_rms(drawn, truth, rest):
    half = np.linalg.norm(rest.max(0) - rest.min(0)) / 2
    return float(1000 * np.sqrt(np.mean((drawn - truth) ** 2)) / half)


def run_sinew(program, path, frames, bones, affine):
    """Runs the program and measures what it wrote, from the file alone."""
    with tempfile.TemporaryDirectory() as folder:
        out, report = os.path.join(folder, "out.npz"), os.path.join(folder, "out.json")
        command = [program, "--threads", "1", "decompose", path, "--frames", frames, "--bones", str(bones)]
        command += ["-o", out, "--json", report] + (["--affine"] if affine else [])
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(report, encoding="utf-8") as file:
            said = json.load(file)
        data = np.load(out)
        rest = data["rest_vertices"].astype(float)
        skinning = data["bones"].astype(float) @ np.linalg.inv(data["rest_bones"].astype(float))
        points = np.c_[rest, np.ones(len(rest))]
        weights = data["influences"].astype(float)
        assert (weights > 0).sum(1).max() <= 4
        drawn = np.einsum("vb,nbij,vj->nvi", weights, skinning[:, :, :3], points, optimize=True)
        return {"e_rms": e_rms(drawn, data["vertices"], rest), "cpu_seconds": said["cpu_seconds"], "bones": said["bones"]}


def run_weights(program, path, frames, bones):
    """Microseconds a vertex of the weight solve alone: the bones of a decomposition are given, no weights are.

    The least and the median of WEIGHT_RUNS runs, for one takes a tenth of a second and others share the machine.
    """
    with tempfile.TemporaryDirectory() as folder:
        out, report = os.path.join(folder, "out.npz"), os.path.join(folder, "out.json")
        quiet = {"check": True, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        common = [program, "--threads", "1", "decompose"]
        subprocess.run(common + [path, "--frames", frames, "--bones", str(bones), "-o", out], **quiet)
        again = ["--weights-only", "--iterations", "0", "-o", os.path.join(folder, "again.npz"), "--json", report]
        runs = []
        for _ in range(WEIGHT_RUNS):
            subprocess.run(common + [out] + again, **quiet)
            with open(report, encoding="utf-8") as file:
                said = json.load(file)
            runs.append(said["cpu_seconds"])
        per_vertex = 1e6 / said["vertices"]
        return {
            "e_rms": said["e_rms"],
            "cpu_seconds": min(runs),
            "microseconds_a_vertex": per_vertex * min(runs),
            "median_microseconds_a_vertex": per_vertex * float(np.median(runs)),
        }


def run_peer(rest, faces, vertices, bones):
    """Dem Bones with its own defaults."""
    import py_dem_bones

    start = processor_seconds()
    result = py_dem_bones.solve_skinning(rest, vertices, bones, faces=faces.tolist(), max_influences=4)
    seconds = processor_seconds() - start
    weights = np.asarray(result.weights).T  # (V, B)
    motion = np.asarray(result.transforms)
    points = np.c_[rest, np.ones(len(rest))]
    order = "nbij" if motion.shape[0] == len(vertices) else "bnij"
    drawn = np.einsum(f"vb,{order},vj->nvi", weights, motion[:, :, :3], points, optimize=True)
    return {"e_rms": e_rms(drawn, vertices, rest), "cpu_seconds": seconds, "bones": weights.shape[1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("sequence")
    parser.add_argument("--frames", default="test", choices=["train", "test", "all"])
    parser.add_argument("--bones", default="10,20,30")
    parser.add_argument("--peer", default="yes", choices=["yes", "no"])
    parser.add_argument("--json")
    args = parser.parse_args()
    data = np.load(args.sequence)
    rest, vertices = data["rest_vertices"].astype(float), data["vertices"].astype(float)
    if args.frames != "all":
        vertices = vertices[data[args.frames]]
    rows, missed = [], False
    print("bones  who            E_RMS   processor seconds")
    for bones in map(int, args.bones.split(",")):
        entries = [("sinew rigid", run_sinew(args.program, args.sequence, args.frames, bones, False))]
        entries.append(("sinew affine", run_sinew(args.program, args.sequence, args.frames, bones, True)))
        if args.peer == "yes":
            peer = run_peer(rest, data["faces"], vertices, bones)
            entries.append(("Dem Bones", peer))
            ours = entries[0][1]
            missed |= ours["e_rms"] > peer["e_rms"] or ours["cpu_seconds"] > peer["cpu_seconds"]
        for who, entry in entries:
            print(f"{bones:5}  {who:13} {entry['e_rms']:6.3f}   {entry['cpu_seconds']:6.2f}", flush=True)
            rows.append({"asked": bones, "who": who, **entry})
    most = max(map(int, args.bones.split(",")))
    weights = run_weights(args.program, args.sequence, args.frames, most)
    print(f"weights alone at {most} bones: {weights['microseconds_a_vertex']:.1f} microseconds a vertex (median {weights['median_microseconds_a_vertex']:.1f}), E_RMS {weights['e_rms']:.3f}")
    rows.append({"asked": most, "who": "sinew weights alone", **weights})
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=2)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
