#!/usr/bin/env python3
"""Compares sinew's metrics with numpy, scipy and trimesh on a built-in data set.

    pip install numpy scipy trimesh rtree
    python3 ci/check_metrics.py target/release/sinew

Fits linear blend skinning, evaluates the .sinew file here with numpy alone, measures with the tools named beside
each figure, and compares with results.json of `sinew compare` and with `sinew study`.
"""
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import scipy.stats
import trimesh

SURFACE_FRAMES = 10


def read_tensors(path):
    """A safetensors file: eight bytes of header length, JSON, data."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    types = {"F32": "<f4", "U16": "<u2", "U32": "<u4", "I32": "<i4", "U8": "u1"}
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            values = np.frombuffer(data[8 + length + start : 8 + length + end], types[entry["dtype"]])
            tensors[name] = values.reshape(entry["shape"])
    return tensors


def linear_blend(model, npz, frames):
    rest = np.c_[npz["rest_vertices"].astype(float), np.ones(len(npz["rest_vertices"]))]
    inverse_rest = np.linalg.inv(npz["rest_bones"].astype(float))
    weights, joints = model["skin.weights"].astype(float), model["skin.joints"]
    meshes = []
    for frame in frames:
        transforms = npz["bones"][frame].astype(float) @ inverse_rest
        carried = np.einsum("vkij,vj->vki", transforms[joints], rest)[..., :3]
        meshes.append(np.einsum("vk,vki->vi", weights, carried))
    return np.array(meshes)


def vertex_normals(vertices, faces):
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    area = np.cross(b - a, c - a)
    normals = np.zeros_like(vertices)
    for k in range(3):
        np.add.at(normals, faces[:, k], area)
    return normals / np.linalg.norm(normals, axis=1, keepdims=True)


def enveloping_error(npz, truth, predicted, frames):
    rest = np.c_[npz["rest_vertices"].astype(float), np.ones(len(npz["rest_vertices"]))]
    transforms = npz["bones"][frames].astype(float) @ np.linalg.inv(npz["rest_bones"].astype(float))
    carried = np.einsum("fbij,vj->bfvi", transforms, rest)[..., :3]
    rigid = ((carried - truth[None]) ** 2).sum(axis=(1, 3)).min(axis=0).sum()
    return 100 * np.sqrt(((truth - predicted) ** 2).sum() / rigid)


def expected(npz, truth, predicted, frames):
    faces = npz["faces"].astype(int)
    rest = npz["rest_vertices"].astype(float)
    diagonal = np.linalg.norm(rest.max(0) - rest.min(0))
    distances = np.linalg.norm(truth - predicted, axis=2)
    count = len(frames)
    angles = []
    for t, p in zip(truth, predicted):
        cosine = (vertex_normals(t, faces) * vertex_normals(p, faces)).sum(1)
        angles.append(np.degrees(np.arccos(np.clip(cosine, -1, 1))).mean())
    chosen = range(count) if count <= SURFACE_FRAMES else [(2 * k + 1) * count // (2 * SURFACE_FRAMES) for k in range(SURFACE_FRAMES)]
    surface, hausdorff = [], []
    for k in chosen:
        there = trimesh.proximity.closest_point(trimesh.Trimesh(truth[k], faces, process=False), predicted[k])[1]
        back = trimesh.proximity.closest_point(trimesh.Trimesh(predicted[k], faces, process=False), truth[k])[1]
        surface.append(there.mean())
        hausdorff.append(max(there.max(), back.max()))
    volume = lambda mesh: trimesh.Trimesh(mesh, faces, process=False).volume
    change = [100 * (volume(p) - volume(t)) / volume(t) for t, p in zip(truth, predicted)]
    return {
        "ee_percent": enveloping_error(npz, truth, predicted, frames),
        "e_rms": 1000 * np.linalg.norm(truth - predicted) / np.sqrt(truth.size) / (diagonal / 2),
        "rms_percent": 100 * np.sqrt((distances**2).mean()) / diagonal,
        "max_percent": 100 * distances.max() / diagonal,
        "p95_percent": 100 * np.percentile(distances, 95, method="inverted_cdf") / diagonal,
        "normal_mean_degrees": np.mean(angles),
        "kg_percent": 100 * np.linalg.norm(truth - predicted) / np.linalg.norm(truth - truth.mean(axis=1, keepdims=True)),
        "surface_mean_percent": 100 * np.mean(surface) / diagonal,
        "hausdorff_percent": 100 * np.max(hausdorff) / diagonal,
        "volume_mean_percent": np.mean(np.abs(change)),
        "volume_worst_percent": max(change, key=abs),
    }


def check(name, found, wanted, tolerance):
    close = abs(found - wanted) <= tolerance * max(1e-3, abs(wanted))
    print(f"{'ok   ' if close else 'WRONG'} {name:24} sinew {found:.6g}  here {wanted:.6g}")
    return close


def check_measures(sinew, folder):
    run = lambda *words: subprocess.run([sinew, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    run("data", "tube-bend", "-o", "tube.npz")
    run("fit", "tube.npz", "--method", "ssd", "-o", "tube.sinew")
    run("compare", "tube.npz", "--methods", "ssd", "-o", "report")
    npz = dict(np.load(folder / "tube.npz"))
    results = json.loads((folder / "report" / "results.json").read_text())
    frames = results["test_frames"]
    truth = npz["vertices"][frames].astype(float)
    predicted = linear_blend(read_tensors(folder / "tube.sinew"), npz, frames)
    found = results["methods"][0]["test"]
    # 2e-4: the model and the surface search are in f32, and small distances are differences of larger ones.
    return [check(name, found[name], value, 2e-4) for name, value in expected(npz, truth, predicted, frames).items()]


def check_study(sinew, folder):
    values = {"ssd": [7, 8, 6.5, 9, 7.5, 8], "rr": [9, 9.5, 8, 10, 9, 8.5, 9]}
    rows = [f"{k},clip_{m},{v}" for m, list_ in values.items() for k, v in enumerate(list_)]
    (folder / "ratings.csv").write_text("rater,clip,rating\n" + "\n".join(rows) + "\n")
    (folder / "key.json").write_text(json.dumps({f"clip_{m}": m for m in values}))
    subprocess.run([sinew, "study", "ratings.csv", "--json", "study.json"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    study = json.loads((folder / "study.json").read_text())
    good = []
    for method, list_ in values.items():
        low, high = scipy.stats.t.interval(0.95, len(list_) - 1, np.mean(list_), scipy.stats.sem(list_))
        for name, wanted, k in [("low", low, 0), ("high", high, 1)]:
            good.append(check(f"{method} interval {name}", study["methods"][method]["interval"][k], wanted, 1e-9))
    test = study["tests"][0]
    wanted = scipy.stats.ttest_ind(*(values[m] for m in test["methods"]), equal_var=False)
    good.append(check("t", test["test"]["t"], wanted.statistic, 1e-9))
    good.append(check("p", test["test"]["p"], wanted.pvalue, 1e-9))
    return good


def main():
    sinew = str(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as folder:
        good = check_measures(sinew, Path(folder)) + check_study(sinew, Path(folder))
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
