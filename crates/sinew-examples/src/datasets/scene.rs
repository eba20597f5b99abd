//! A rig with its skin, and the frames in which it is posed, as examples.

use glam::{DAffine3, DMat3, DVec3};

use super::rig::{Rig, Turn};
use super::sweep::Piece;
use crate::{Bone, Examples, ExamplesParts, Mesh, Polygons, Pose, Split};

/// A rig, its skin, and where its root stands at rest.
pub(super) struct Scene {
    pub rig: Rig,
    pub pieces: Vec<Piece>,
    pub root: DAffine3,
    /// How many times as far from rest as a frame says every joint is turned.
    pub farther: f64,
}

/// One frame: every joint's turn, and where the root stands.
pub(super) struct Frame {
    pub turns: Vec<Turn>,
    pub root: DAffine3,
}

impl Scene {
    /// A frame in which the root stays where it is.
    pub(super) fn frame(&self, changes: &[(usize, Turn)]) -> Frame {
        let farther: Vec<_> = changes.iter().map(|&(bone, turn)| (bone, turn.times(self.farther))).collect();
        Frame { turns: self.rig.rest_plus(&farther), root: self.root }
    }

    /// Poses and skins every frame.
    pub(super) fn examples(&self, frames: &[Frame], split: Split, fps: f64) -> Examples {
        let rest = self.rig.rest();
        let rest_globals = self.rig.globals(&rest, self.root);
        let globals: Vec<Vec<DAffine3>> =
            frames.iter().map(|frame| self.rig.globals(&frame.turns, frame.root)).collect();
        let bones = self.rig.bones.iter().zip(&rest_globals);
        let parts = ExamplesParts {
            mesh: self.mesh(self.skin(&rest_globals, &rest)),
            bones: bones
                .map(|(bone, &rest)| Bone { name: bone.name.clone(), parent: bone.parent, rest: round_transform(rest) })
                .collect(),
            poses: globals
                .iter()
                .map(|globals| Pose { globals: globals.iter().map(|&g| round_transform(g)).collect() })
                .collect(),
            frames: frames.iter().zip(&globals).map(|(frame, globals)| self.skin(globals, &frame.turns)).collect(),
            split: Some(split),
            influences: None,
            pose_weights: None,
            fps: Some(fps),
        };
        Examples::new(parts).expect("a built-in data set is sound")
    }

    fn skin(&self, globals: &[DAffine3], turns: &[Turn]) -> Vec<DVec3> {
        self.pieces.iter().flat_map(|piece| piece.skin(globals, turns)).map(round).collect()
    }

    fn mesh(&self, vertices: Vec<DVec3>) -> Mesh {
        let columns = (self.pieces.len() as f64).sqrt().ceil();
        let mut polygons = Polygons { counts: Vec::new(), vertices: Vec::new() };
        let mut uvs = Vec::new();
        let mut first = 0;
        for (k, piece) in self.pieces.iter().enumerate() {
            let (column, row) = (k as f64 % columns, (k as f64 / columns).floor());
            let tile = [column / columns, row / columns, 0.98 / columns, 0.98 / columns];
            for polygon in piece.polygons(first, tile) {
                polygons.counts.push(polygon.len() as u32);
                polygons.vertices.extend(polygon.iter().map(|corner| corner.0));
                uvs.extend((1..polygon.len() - 1).map(|k| [polygon[0].1, polygon[k].1, polygon[k + 1].1]));
            }
            first += piece.vertex_count() as u32;
        }
        Mesh::new(vertices, polygons.fan(), Some(polygons), Some(uvs)).expect("a swept mesh is sound")
    }
}

/// The frames `train` train, all the others of `frames` test.
pub(super) fn split(frames: usize, train: impl Fn(usize) -> bool) -> Split {
    let (train, test) = (0..frames).partition(|&e| train(e));
    Split { train, test }
}

fn round(p: DVec3) -> DVec3 {
    p.as_vec3().as_dvec3()
}

fn round_transform(t: DAffine3) -> DAffine3 {
    let DMat3 { x_axis, y_axis, z_axis } = t.matrix3;
    DAffine3 {
        matrix3: DMat3::from_cols(round(x_axis), round(y_axis), round(z_axis)),
        translation: round(t.translation),
    }
}
