#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets into corpus/TARGET/: a bar of twelve vertices on two bones, four frames, in every
format. Made from nothing but this file, so they are in the public domain (CC0).

Needs numpy and usd-core; the Alembic and `.sinew` seeds are written by sinew itself, if it is built:

    python3 fuzz/seeds.py [path/to/sinew]
"""
import json
import math
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np

CORPUS = Path(__file__).parent / "corpus"
FPS = 24.0
FRAMES = 4
RINGS = np.array([[[x, y, z] for x, z in ((-1, -1), (1, -1), (1, 1), (-1, 1))] for y in (0, 2, 4)], np.float64)
REST = (RINGS * [0.25, 0.5, 0.25]).reshape(-1, 3)
QUADS = [[4 * r + k, 4 * r + 4 + k, 4 * r + 4 + (k + 1) % 4, 4 * r + (k + 1) % 4] for r in range(2) for k in range(4)]
TRIANGLES = np.array([t for q in QUADS for t in (q[:3], [q[0], q[2], q[3]])], np.uint32)
WEIGHTS = np.repeat([0.0, 0.5, 1.0], 4)  # of the upper bone
ANGLES = np.radians([0.0, 10.0, 30.0, 60.0])
JOINT = np.array([0.0, 1.0, 0.0])


def turn(angle):
    """The upper bone's turn about x at its joint, 4 by 4."""
    m = np.eye(4)
    c, s = math.cos(angle), math.sin(angle)
    m[1:3, 1:3] = [[c, -s], [s, c]]
    m[:3, 3] = JOINT - m[:3, :3] @ JOINT
    return m


def posed(frame):
    moved = REST @ turn(ANGLES[frame])[:3, :3].T + turn(ANGLES[frame])[:3, 3]
    return REST + WEIGHTS[:, None] * (moved - REST)


SHAPES = np.stack([posed(e) for e in range(FRAMES)]).astype(np.float32)


def put(target, name, content):
    path = CORPUS / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def caches():
    put("mdd", "bar.mdd", struct.pack(">ii", FRAMES, 12) + (np.arange(FRAMES) / FPS).astype(">f4").tobytes() + SHAPES.astype(">f4").tobytes())
    put("pc2", "bar.pc2", struct.pack("<12siiffi", b"POINTCACHE2\0", 1, 12, 1.0, 1.0, FRAMES) + SHAPES.astype("<f4").tobytes())


def obj():
    lines = ["o bar"] + ["v %.6f %.6f %.6f" % tuple(p) for p in REST]
    lines += ["vt %.3f %.3f" % (k % 4 / 4, k // 4 / 2) for k in range(12)]
    lines += ["f " + " ".join(f"{v + 1}/{v + 1}" for v in q) for q in QUADS]
    put("obj", "bar.obj", "\n".join(lines) + "\n")
    put("obj", "relative.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nvn 0 0 1\nf -3//1 -2//1 -1//1\n")


def bvh():
    head = """HIERARCHY
ROOT lower
{
\tOFFSET 0 0 0
\tCHANNELS 6 Xposition Yposition Zposition Zrotation Xrotation Yrotation
\tJOINT upper
\t{
\t\tOFFSET 0 1 0
\t\tCHANNELS 3 Zrotation Xrotation Yrotation
\t\tEnd Site
\t\t{
\t\t\tOFFSET 0 1 0
\t\t}
\t}
}
MOTION
"""
    rows = [f"0 0 0 0 0 0 0 {math.degrees(a):.4f} 0" for a in ANGLES]
    put("bvh", "bar.bvh", head + f"Frames: {FRAMES}\nFrame Time: {1 / FPS:.6f}\n" + "\n".join(rows) + "\n")


def npz():
    bones = np.stack([np.stack([np.eye(4), turn(a) @ np.block([[np.eye(3), JOINT[:, None]], [np.zeros(3), 1]])]) for a in ANGLES])
    path = CORPUS / "npz" / "bar.npz"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, rest_vertices=SHAPES[0], faces=TRIANGLES, vertices=SHAPES, bone_parents=np.array([-1, 0], np.int32),
                        rest_bones=bones[0].astype(np.float32), bones=bones.astype(np.float32), bone_names=np.array(["lower", "upper"]),
                        train=np.arange(3), test=np.array([3]), fps=np.float32(FPS))
    np.save(CORPUS / "npz" / "array.npy", SHAPES)


def glb_bytes(gltf, blob):
    text = json.dumps(gltf, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    blob += b"\0" * (-len(blob) % 4)
    return struct.pack("<III", 0x46546C67, 2, 28 + len(text) + len(blob)) + struct.pack("<II", len(text), 0x4E4F534A) + text + struct.pack("<II", len(blob), 0x4E4942) + blob


def gltf():
    """A skin with one linear and one cubic track; the same with its buffer inside the text; morph targets."""
    blob, views, accessors = b"", [], []

    def accessor(array, kind, component):
        nonlocal blob
        array = np.ascontiguousarray(array)
        views.append({"buffer": 0, "byteOffset": len(blob), "byteLength": array.nbytes})
        count = array.shape[0] if kind != "SCALAR" else array.size
        accessors.append({"bufferView": len(views) - 1, "componentType": component, "count": count, "type": kind})
        if kind == "VEC3" and array.dtype == np.float32:
            accessors[-1].update(min=array.min(0).tolist(), max=array.max(0).tolist())
        blob += array.tobytes() + b"\0" * (-array.nbytes % 4)
        return len(accessors) - 1

    positions, indices = accessor(SHAPES[0], "VEC3", 5126), accessor(TRIANGLES.reshape(-1), "SCALAR", 5125)
    joints = accessor(np.tile(np.array([0, 1, 0, 0], np.uint8), (12, 1)), "VEC4", 5121)
    weights = accessor(np.stack([1 - WEIGHTS, WEIGHTS, 0 * WEIGHTS, 0 * WEIGHTS], 1).astype(np.float32), "VEC4", 5126)
    inverse = np.stack([np.eye(4), np.eye(4)]).astype(np.float32)
    inverse[1, 3, :3] = -JOINT
    binds = accessor(inverse.reshape(2, 16), "MAT4", 5126)
    times = accessor((np.arange(FRAMES) / FPS).astype(np.float32), "SCALAR", 5126)
    turns = np.stack([[math.sin(a / 2), 0, 0, math.cos(a / 2)] for a in ANGLES]).astype(np.float32)
    turns = accessor(turns, "VEC4", 5126)
    moves = np.zeros((FRAMES, 3, 3), np.float32)
    moves[:, 1, 1] = np.arange(FRAMES) * 0.1
    moves = accessor(moves.reshape(-1, 3), "VEC3", 5126)
    document = {
        "asset": {"version": "2.0"}, "scene": 0, "scenes": [{"nodes": [0, 1]}],
        "nodes": [{"name": "bar", "mesh": 0, "skin": 0}, {"name": "lower", "children": [2]}, {"name": "upper", "translation": [0, 1, 0]}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": positions, "JOINTS_0": joints, "WEIGHTS_0": weights}, "indices": indices}]}],
        "skins": [{"joints": [1, 2], "inverseBindMatrices": binds}],
        "animations": [{"samplers": [{"input": times, "output": turns}, {"input": times, "output": moves, "interpolation": "CUBICSPLINE"}],
                        "channels": [{"sampler": 0, "target": {"node": 2, "path": "rotation"}}, {"sampler": 1, "target": {"node": 1, "path": "translation"}}]}],
        "bufferViews": views, "accessors": accessors, "buffers": [{"byteLength": len(blob)}],
    }
    put("gltf", "skin.glb", glb_bytes(document, blob))
    import base64
    inside = dict(document, buffers=[{"byteLength": len(blob), "uri": "data:application/octet-stream;base64," + base64.b64encode(blob).decode()}])
    put("gltf", "inside.gltf", json.dumps(inside))


def fbx_tree():
    """(name, properties, children) of two limbs and a turning curve."""
    second = 46186158000
    def curve(number, values):
        times = np.array([int(k * second / FPS) for k in range(FRAMES)], np.int64)
        return ("AnimationCurve", [number, "\0\1AnimCurve", ""], [
            ("Default", [0.0], []), ("KeyVer", [4008], []), ("KeyTime", [times], []), ("KeyValueFloat", [np.array(values, np.float32)], []),
            ("KeyAttrFlags", [np.array([24836], np.int32)], []), ("KeyAttrDataFloat", [np.zeros(4, np.float32)], []), ("KeyAttrRefCount", [np.array([FRAMES], np.int32)], [])])
    def limb(number, name, offset):
        place = ("P", ["Lcl Translation", "Lcl Translation", "", "A", *map(float, offset)], [])
        return ("Model", [number, f"{name}\0\1Model", "LimbNode"], [("Version", [232], []), ("Properties70", [], [place])])
    def attribute(number, name):
        return ("NodeAttribute", [number, f"{name}\0\1NodeAttribute", "LimbNode"], [("TypeFlags", ["Skeleton"], [])])
    corners = np.array([v if k < 3 else ~v for q in QUADS for k, v in enumerate(q)], np.int32)
    mesh = ("Geometry", [5, "bar\0\1Geometry", "Mesh"], [("Vertices", [REST.reshape(-1) * 100], []), ("PolygonVertexIndex", [corners], [])])
    objects = [limb(1, "lower", (0, 0, 0)), limb(2, "upper", (0, 100, 0)), attribute(3, "lower"), attribute(4, "upper"), mesh,
               ("Model", [6, "bar\0\1Model", "Mesh"], [("Version", [232], [])]),
               ("AnimationStack", [7, "take\0\1AnimStack", ""], [("Properties70", [], [("P", ["LocalStart", "KTime", "Time", "", 0], []), ("P", ["LocalStop", "KTime", "Time", "", int(3 * second / FPS)], [])])]),
               ("AnimationLayer", [8, "base\0\1AnimLayer", ""], []),
               ("AnimationCurveNode", [9, "R\0\1AnimCurveNode", ""], [("Properties70", [], [("P", ["d|X", "Number", "", "A", 0.0], [])])]),
               curve(10, np.degrees(ANGLES))]
    links = [("OO", 1, 0), ("OO", 2, 1), ("OO", 3, 1), ("OO", 4, 2), ("OO", 6, 0), ("OO", 5, 6), ("OO", 8, 7), ("OO", 9, 8), ("OP", 9, 2, "Lcl Rotation"), ("OP", 10, 9, "d|X")]
    settings = [("P", ["UnitScaleFactor", "double", "Number", "", 1.0], []), ("P", ["TimeMode", "enum", "", "", 11], [])]
    return [("FBXHeaderExtension", [], [("FBXVersion", [7400], [])]),
            ("GlobalSettings", [], [("Version", [1000], []), ("Properties70", [], settings)]),
            ("Objects", [], objects), ("Connections", [], [("C", list(link), []) for link in links])]


def fbx():
    def prop(value):
        if isinstance(value, str):
            return b"S" + struct.pack("<I", len(value.encode())) + value.encode()
        if isinstance(value, float):
            return b"D" + struct.pack("<d", value)
        if isinstance(value, int):
            return b"L" + struct.pack("<q", value)
        letter = {"f": "f", "d": "d", "l": "l", "q": "l", "i": "i"}[value.dtype.char]
        packed = zlib.compress(value.tobytes(), 9)
        return letter.encode() + struct.pack("<III", value.size, 1, len(packed)) + packed
    def node(item, start):
        name, properties, children = item
        body = b"".join(map(prop, properties))
        head = 13 + len(name)
        inner = b""
        for child in children:
            inner += node(child, start + head + len(body) + len(inner))
        if children:
            inner += b"\0" * 13
        end = start + head + len(body) + len(inner)
        return struct.pack("<IIIB", end, len(properties), len(body), len(name)) + name.encode() + body + inner
    out = b"Kaydara FBX Binary  \0\x1a\0" + struct.pack("<I", 7400)
    for item in fbx_tree():
        out += node(item, len(out))
    put("fbx", "bar.fbx", out + b"\0" * 13)
    def text(item, depth):
        name, properties, children = item
        words = []
        inner = ""
        for value in properties:
            if isinstance(value, str):
                parts = value.split("\0\1")
                words.append('"' + "::".join(reversed(parts)) + '"')
            elif isinstance(value, np.ndarray):
                words.append(f"*{value.size}")
                inner += "\t" * (depth + 1) + "a: " + ",".join(repr(v) for v in value.tolist()) + "\n"
            else:
                words.append(repr(value))
        inner += "".join(text(child, depth + 1) for child in children)
        body = " {\n" + inner + "\t" * depth + "}" if inner else ""
        return "\t" * depth + f"{name}: " + ", ".join(words) + body + "\n"
    put("fbx", "text.fbx", "; FBX 7.4.0 project file\n" + "".join(text(item, 0) for item in fbx_tree()))


def usd():
    from pxr import Gf, Usd, UsdGeom, UsdSkel, Vt
    for name in ("bar.usdc", "bar.usda"):
        path = CORPUS / "usd" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        stage = Usd.Stage.CreateNew(str(path))
        stage.SetTimeCodesPerSecond(FPS)
        stage.SetMetadata("customLayerData", {"made": {"by": "seeds"}})
        UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.y)
        UsdGeom.SetStageMetersPerUnit(stage, 1.0)
        root = UsdSkel.Root.Define(stage, "/root")
        mesh = UsdGeom.Mesh.Define(stage, "/root/bar")
        mesh.CreateFaceVertexCountsAttr([4] * 8)
        mesh.CreateFaceVertexIndicesAttr([v for q in QUADS for v in q])
        points = mesh.CreatePointsAttr(Vt.Vec3fArray.FromNumpy(SHAPES[0]))
        for e in range(FRAMES):
            points.Set(Vt.Vec3fArray.FromNumpy(SHAPES[e]), e)
        skeleton = UsdSkel.Skeleton.Define(stage, "/root/rig")
        skeleton.CreateJointsAttr(["lower", "lower/upper"])
        bind = Gf.Matrix4d(1.0).SetTranslate(Gf.Vec3d(*JOINT))
        skeleton.CreateBindTransformsAttr([Gf.Matrix4d(1.0), bind])
        skeleton.CreateRestTransformsAttr([Gf.Matrix4d(1.0), bind])
        motion = UsdSkel.Animation.Define(stage, "/root/rig/motion")
        motion.CreateJointsAttr(["lower", "lower/upper"])
        motion.CreateTranslationsAttr([Gf.Vec3f(0), Gf.Vec3f(*JOINT)])
        motion.CreateScalesAttr([Gf.Vec3h(1)] * 2)
        turns = motion.CreateRotationsAttr()
        for e, angle in enumerate(ANGLES):
            turns.Set([Gf.Quatf(1), Gf.Quatf(math.cos(angle / 2), math.sin(angle / 2), 0, 0)], e)
        UsdSkel.BindingAPI.Apply(skeleton.GetPrim()).CreateAnimationSourceRel().SetTargets([motion.GetPath()])
        stage.SetDefaultPrim(root.GetPrim())
        stage.Save()
    from pxr import UsdUtils
    package = CORPUS / "usd" / "bar.usdz"
    package.unlink(missing_ok=True)
    assert UsdUtils.CreateNewUsdzPackage(str(CORPUS / "usd" / "bar.usdc"), str(package))


def alembic(name, points=SHAPES, kind="PolyMesh", moved=None):
    """An Ogawa archive of one mesh under one transform. `points` may be of any float; `moved` are heights the transform
    lifts the mesh to, frame by frame."""
    out = bytearray(b"Ogawa\xff\0\x01" + bytes(8))
    data_bit = 1 << 63

    def data(content):
        at = len(out)
        out.extend(struct.pack("<Q", len(content)) + content)
        return at | data_bit

    def group(children):
        at = len(out)
        out.extend(struct.pack(f"<Q{len(children)}Q", len(children), *children))
        return at

    def sample(array):
        content = np.ascontiguousarray(array).tobytes()
        return data(struct.pack("<QQ", len(content), zlib.crc32(content)) + content)

    def header(title, property_kind, pod=0, extent=0, samples=0, timed=False, metadata=""):
        flags = property_kind | 2 << 2 | 0xFF << 20
        if property_kind:
            flags |= pod << 4 | extent << 12 | 0x400 | (0x800 if samples == 1 else 0) | (0x100 if timed else 0)
        content = struct.pack("<I", flags)
        if property_kind:
            content += struct.pack("<I", samples) + (struct.pack("<I", 1) if timed else b"")
        for text in (title, metadata):
            content += struct.pack("<I", len(text)) + text.encode()
        return content

    def child(title, metadata):
        return struct.pack("<I", len(title)) + title.encode() + b"\xff" + struct.pack("<I", len(metadata)) + metadata.encode() + bytes(32)

    def compound(title, members, metadata):
        inner = group([place for place, _ in members] + [data(b"".join(head for _, head in members))])
        return group([inner, data(header(title, 0, metadata=metadata))])

    pod = {np.dtype(np.float16): 9, np.dtype(np.float32): 10, np.dtype(np.float64): 11}[points.dtype]
    clockwise = [v for q in QUADS for v in (q[0], q[3], q[2], q[1])]
    positions = group([part for frame in points for part in (sample(frame), data_bit)])
    boxes = [np.concatenate([frame.min(0), frame.max(0)]).astype(np.float64) for frame in points]
    bounds = header(".selfBnds", 1, 11, 6, len(boxes), len(boxes) > 1, "interpretation=box")
    members = [(group([sample(box) for box in boxes]), bounds), (positions, header("P", 2, pod, 3, len(points), len(points) > 1, "geoScope=vtx;interpretation=point"))]
    for title, values in ((".faceIndices", clockwise), (".faceCounts", [4] * 8)):
        members.append((group([sample(np.array(values, np.int32)), data_bit]), header(title, 2, 6, 1, 1)))
    schema = f"AbcGeom_{kind}_v1"
    mesh = group([compound(".geom", members, f"schema={schema};schemaBaseType=AbcGeom_GeomBase_v1"), data(bytes(32))])
    lifted = []
    if moved:
        # One translation (operation 1, the number in the upper four bits), three numbers a sample.
        lifted = [(group([sample(np.array([0x10], np.uint8))]), header(".ops", 1, 1, 1, 1)),
                  (group([sample(np.array([0.0, height, 0.0])) for height in moved]), header(".vals", 1, 11, 3, len(moved), True))]
    transform = compound(".xform", lifted, "schema=AbcGeom_Xform_v3")
    shape = child("barShape", f"schema={schema};schemaBaseType=AbcGeom_GeomBase_v1;schemaObjTitle={schema}:.geom")
    top = group([0, group([transform, mesh, data(shape)]), data(child("bar", "schema=AbcGeom_Xform_v3;schemaObjTitle=AbcGeom_Xform_v3:.xform"))])
    samplings = struct.pack("<IdId", 1, 1.0, 1, 0.0) + struct.pack("<IdId", FRAMES, 1 / FPS, 1, 0.0)
    root = group([data(struct.pack("<I", 0)), data(struct.pack("<I", 10803)), top, data(b""), data(samplings), data(b"")])
    out[8:16] = struct.pack("<Q", root)
    put("alembic", name, bytes(out))


def alembics():
    alembic("half.abc", SHAPES.astype(np.float16))
    alembic("double.abc", SHAPES.astype(np.float64))
    alembic("cage.abc", kind="SubD")
    alembic("moved.abc", SHAPES[:1], moved=[0.0, 0.5, 1.0, 1.5])


def own(sinew):
    """The formats that sinew itself writes."""
    (CORPUS / "alembic").mkdir(parents=True, exist_ok=True)
    (CORPUS / "sinew").mkdir(parents=True, exist_ok=True)
    for method in ("ssd", "rr"):
        model = CORPUS / "sinew" / f"{method}.sinew"
        subprocess.run([sinew, "fit", CORPUS / "npz" / "bar.npz", "--method", method, "-o", model], check=True)
    model = CORPUS / "sinew" / "ssd.sinew"
    subprocess.run([sinew, "pose", model, CORPUS / "npz" / "bar.npz", "-o", CORPUS / "alembic" / "bar.abc"], check=True)
    subprocess.run([sinew, "pose", model, CORPUS / "npz" / "bar.npz", "-o", CORPUS / "gltf" / "morphs.glb"], check=True)


caches(), obj(), bvh(), npz(), gltf(), fbx(), usd(), alembics()
if len(sys.argv) > 1:
    own(sys.argv[1])
