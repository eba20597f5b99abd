"""Write an examples.npz from any tool that has numpy: a rest mesh, a skeleton, and posed frames of both.

    python examples/write_examples.py flag.npz
    cargo run --release -- inspect flag.npz

Matrices are 4x4, row by row as numpy prints them, translation in the last column; Y up, metres.
"""

import sys

import numpy as np


def rotation_z(angle):
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])


def translation(x, y, z):
    matrix = np.eye(4)
    matrix[:3, 3] = x, y, z
    return matrix


# A strip of quads along x with a bone at 0 and one at 1.
columns = np.linspace(0, 2, 21)
rest = np.array([[x, y, 0] for x in columns for y in (0.0, 0.2)], dtype=np.float32)
quads = np.array([[2 * i, 2 * i + 2, 2 * i + 3, 2 * i + 1] for i in range(20)], dtype=np.uint32)
faces = np.array([[q[0], q[k], q[k + 1]] for q in quads for k in (1, 2)], dtype=np.uint32)
rest_bones = np.array([np.eye(4), translation(1, 0, 0)])

vertices, bones = [], []
for angle in np.radians([0, 20, 40, 60]):
    # The strip bends along an arc of length 0.5 about the second bone: this is what a solver or a sculptor would give.
    turn = np.clip((rest[:, 0] - 0.75) / 0.5, 0, 1) * angle
    step = np.diff(columns, prepend=0)
    heading = np.clip((columns - 0.75) / 0.5, 0, 1) * angle
    axis = np.stack([np.cumsum(step * np.cos(heading)), np.cumsum(step * np.sin(heading))], axis=1)
    frame = np.zeros_like(rest)
    frame[:, :2] = np.repeat(axis, 2, axis=0)
    frame[:, 0] -= rest[:, 1] * np.sin(turn)
    frame[:, 1] += rest[:, 1] * np.cos(turn)
    vertices.append(frame)
    bones.append([np.eye(4), translation(1, 0, 0) @ rotation_z(angle)])

np.savez_compressed(
    sys.argv[1] if len(sys.argv) > 1 else "flag.npz",
    rest_vertices=rest,
    faces=faces,
    polygon_counts=np.full(len(quads), 4, dtype=np.uint32),
    polygon_vertices=quads.ravel(),
    vertices=np.array(vertices, dtype=np.float32),
    bone_parents=np.array([-1, 0], dtype=np.int32),
    bone_names=np.array(["pole", "flag"]),
    rest_bones=rest_bones.astype(np.float32),
    bones=np.array(bones, dtype=np.float32),
    train=np.array([0, 1, 3]),
    test=np.array([2]),
    fps=np.float32(24),
)
