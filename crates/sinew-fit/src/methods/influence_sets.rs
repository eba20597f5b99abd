//! Which bones may move which vertex (Merry et al. 2006, §6.1; Wang and Phillips 2002, §4.1).
//!
//! A painted map decides if there is one: the bones with a value above zero, the value itself being how freely the bone
//! may act. Otherwise the set is found from the fitted skinning weights: a vertex's own bones and those of the
//! vertices up to `rings` edges away, and the parents of all of them (a child's matrix holds its parent's motion, and
//! only with both can a correction depend on the joint between them alone).

use rayon::prelude::*;

use super::ssd::SparseWeights;
use crate::Training;
use crate::geometry::topology::Topology;

/// How influence sets are chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct InfluenceParams {
    /// Bones a vertex at most; `None` for as many as the rule below finds.
    pub most: Option<usize>,
    /// How many edges away the bones of other vertices count; 2 leaves corrections room to fade (Merry et al. 2006 grow
    /// their painted sets «slightly» for the same reason).
    pub rings: usize,
}

impl Default for InfluenceParams {
    fn default() -> Self {
        Self { most: None, rings: 2 }
    }
}

/// The influence sets of all vertices.
#[derive(Debug, Clone, PartialEq)]
pub struct InfluenceSets {
    /// The bones of each vertex, (V), ascending, never empty.
    pub bones: Vec<Vec<usize>>,
    /// How freely each of those bones may act, (V), as painted; all ones without a map.
    pub freedom: Vec<Vec<f64>>,
}

impl InfluenceSets {
    /// The sets of every vertex.
    #[must_use]
    pub fn new(training: &Training, skin: &SparseWeights, topology: &Topology, params: &InfluenceParams) -> Self {
        let bones: Vec<Vec<usize>> = (0..training.vertex_count())
            .into_par_iter()
            .map(|v| {
                let mut ranked = match painted(training, v) {
                    Some(ranked) => ranked,
                    None => automatic(training, skin, topology, params, v),
                };
                // The bones of the skin itself come first whatever the map says: the fit starts from them.
                ranked.retain(|b| skin.vertices[v].iter().all(|(own, _)| own != b));
                let mut bones: Vec<usize> = skin.vertices[v].iter().map(|&(b, _)| b).chain(ranked).collect();
                bones.truncate(params.most.unwrap_or(usize::MAX).max(skin.vertices[v].len()));
                bones.sort_unstable();
                bones
            })
            .collect();
        let freedom = bones.iter().enumerate().map(|(v, bones)| freedom(training, v, bones)).collect();
        Self { bones, freedom }
    }

    /// The mean number of bones a vertex.
    #[must_use]
    pub fn mean_count(&self) -> f64 {
        self.bones.iter().map(Vec::len).sum::<usize>() as f64 / self.bones.len().max(1) as f64
    }
}

/// The painted bones of vertex `v`, the strongest first; `None` without a map or if nothing is painted there.
fn painted(training: &Training, v: usize) -> Option<Vec<usize>> {
    let map = training.influences.as_ref()?.vertex(v);
    let mut bones: Vec<usize> = (0..map.len()).filter(|&b| map[b] > 0.0).collect();
    bones.sort_by(|&a, &b| map[b].total_cmp(&map[a]).then(a.cmp(&b)));
    if bones.is_empty() { None } else { Some(bones) }
}

/// The bones of the neighbourhood by their summed weight, then their parents in the same order.
fn automatic(
    training: &Training,
    skin: &SparseWeights,
    topology: &Topology,
    params: &InfluenceParams,
    v: usize,
) -> Vec<usize> {
    let mut weights: Vec<(usize, f64)> = Vec::new();
    for near in topology.vertex_vertices.within(v, params.rings) {
        for &(b, w) in &skin.vertices[near] {
            match weights.iter_mut().find(|(bone, _)| *bone == b) {
                Some((_, sum)) => *sum += w,
                None => weights.push((b, w)),
            }
        }
    }
    weights.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut bones: Vec<usize> = weights.iter().map(|&(b, _)| b).collect();
    for k in 0..bones.len() {
        let parent = training.skeleton.parent(bones[k]);
        if !bones.contains(&parent) {
            bones.push(parent);
        }
    }
    bones
}

fn freedom(training: &Training, v: usize, bones: &[usize]) -> Vec<f64> {
    let Some(map) = &training.influences else { return vec![1.0; bones.len()] };
    let row = map.vertex(v);
    let strongest = row.iter().fold(0.0_f32, |most, &value| most.max(value));
    if strongest == 0.0 {
        return vec![1.0; bones.len()];
    }
    // A bone of the skin that is painted zero may keep its weight but not be corrected freely.
    bones.iter().map(|&b| f64::from(row[b] / strongest)).collect()
}
