"""Blender reads what sinew writes and sees the same points.

    python ci/check_blender.py SINEW EXAMPLES.npz WORK_DIRECTORY          (PyPI: bpy 4.5.*, numpy; Python 3.11)

Fits nothing: WORK_DIRECTORY must hold ssd.sinew and, for the proxy-bone check, rr.sinew drawn by weights, both fitted to EXAMPLES. Where the
shared development data are (beside the project, or where SINEW_SHARED says), the same is done with the body exported from
Blender itself: packed from its FBX and Alembic, fitted, written, and read back.
"""

import os
import subprocess
import sys
from pathlib import Path

import bpy
import numpy as np

TOLERANCE = 1e-4  # metres: the requirement


def run(*words):
    subprocess.run([str(word) for word in words], check=True)


def empty_scene(fps=24):
    bpy.ops.wm.read_factory_settings(use_empty=True)
    bpy.context.scene.render.fps = fps
    bpy.context.scene.render.fps_base = 1.0


def meshes():
    return [o for o in bpy.context.scene.objects if o.type == "MESH" and len(o.data.vertices) > 42]


def evaluated(time, fps=24.0):
    """World-space vertices, Y up, of the scene's only mesh at `time` seconds."""
    frame = time * fps
    whole = int(np.floor(frame + 1e-4))
    bpy.context.scene.frame_set(whole, subframe=max(0.0, min(0.999999, frame - whole)))
    graph = bpy.context.evaluated_depsgraph_get()
    (obj,) = meshes()
    obj = obj.evaluated_get(graph)
    mesh = obj.to_mesh()
    points = np.empty(3 * len(mesh.vertices))
    mesh.vertices.foreach_get("co", points)
    points = points.reshape(-1, 3) @ np.array(obj.matrix_world)[:3, :3].T + np.array(obj.matrix_world)[:3, 3]
    obj.to_mesh_clear()
    return points[:, [0, 2, 1]] * [1, 1, -1]


def compare(name, truth, times, by_order):
    """The largest distance from Blender's points to ours: by index, or (glTF splits seams) to the nearest at rest."""
    worst = 0.0
    for e in range(0, len(times), max(1, len(times) // 12)):
        seen = evaluated(times[e])
        if by_order is None:
            assert len(seen) == truth.shape[1], f"{name}: {len(seen)} vertices"
            ours = truth[e]
        else:
            ours = truth[e][by_order]
        worst = max(worst, np.abs(seen - ours).max())
    print(f"{name}: {len(times)} frames, Blender's vertices differ by {worst:.2e} m")
    assert worst < TOLERANCE, name


def order_of(rest):
    """Which of our vertices each of Blender's is, by rest position."""
    (obj,) = meshes()
    points = np.array([v.co for v in obj.data.vertices]) @ np.array(obj.matrix_world)[:3, :3].T
    points = points[:, [0, 2, 1]] * [1, 1, -1]
    distance = ((points[:, None, :] - rest[None]) ** 2).sum(-1)
    assert np.sqrt(distance.min(1).max()) < 1e-5, "the rest meshes differ"
    return distance.argmin(1)


def check(sinew, examples, work):
    data = np.load(examples)
    rest = data["rest_vertices"].astype(np.float64)

    for kind in ["ssd", "rr"]:
        model = work / f"{kind}.sinew"
        if not model.exists():
            print(f"SKIPPED: {model} is not there")
            continue
        run(sinew, "pose", model, examples, "-o", work / f"{kind}.npz")
        posed = np.load(work / f"{kind}.npz")
        truth = posed["vertices"].astype(np.float64)
        times = np.arange(len(truth)) / float(posed["fps"])
        for ending in ["abc", "usda"]:
            out = work / f"{kind}_pose.{ending}"
            run(sinew, "pose", model, examples, "-o", out)
            empty_scene()
            if ending == "abc":
                bpy.ops.wm.alembic_import(filepath=str(out), as_background_job=False)
            else:
                bpy.ops.wm.usd_import(filepath=str(out))
            compare(f"{kind} as {ending}", truth, times, None)
        out = work / f"{kind}_export.glb"
        flags = ["--proxy-bones", "--influences", "8"] if kind == "rr" else ["--influences", "8"]
        run(sinew, "export", model, "--animation", examples, *flags, "-o", out)
        empty_scene()
        bpy.ops.import_scene.gltf(filepath=str(out), merge_vertices=False)
        compare(f"{kind} as skinned glb", truth, times, order_of(rest))
        out = work / f"{kind}_pose.glb"
        run(sinew, "pose", model, examples, "-o", out)
        empty_scene()
        bpy.ops.import_scene.gltf(filepath=str(out), merge_vertices=False)
        compare(f"{kind} as morph glb", truth, times, order_of(rest))


def human(sinew, work):
    """Blender's own exports through sinew and back into Blender."""
    beside = Path(__file__).resolve().parents[2] / "shared"
    files = Path(os.environ.get("SINEW_SHARED", beside)) / "data" / "human"
    if not files.exists():
        print(f"SKIPPED: {files} is not there")
        return
    work.mkdir(parents=True, exist_ok=True)
    examples = work / "human.npz"
    run(sinew, "pack", "--skeleton", files / "skeleton.fbx", "--mesh", files / "char_baked.abc", "--test", "41..101", "-o", examples)
    for kind in ["ssd", "rr"]:
        if not (work / f"{kind}.sinew").exists():
            by_weights = ["--points", "off"] if kind == "rr" else []
            run(sinew, "fit", examples, "--method", kind, *by_weights, "-o", work / f"{kind}.sinew")
    # What Blender itself reads from its Alembic is what was packed.
    packed = np.load(examples)
    empty_scene()
    bpy.ops.wm.alembic_import(filepath=str(files / "char_baked.abc"), as_background_job=False)
    times = (1 + np.arange(len(packed["vertices"]))) / 24.0
    compare("the packed body", packed["vertices"].astype(np.float64), times, None)
    check(sinew, examples, work)


if __name__ == "__main__":
    check(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
    human(Path(sys.argv[1]), Path(sys.argv[3]) / "human")
