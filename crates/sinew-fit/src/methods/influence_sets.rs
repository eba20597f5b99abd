//! Which bones may move which vertex (Merry et al. 2006, §6.1; Wang and Phillips 2002, §4.1).
//!
//! A painted map decides if there is one: the bones with a value above zero, the value itself being how freely the bone
//! may act. Otherwise the set is: the vertex's own bones in the fitted skin; the parent and the children of the heaviest
//! of them, for skin bulges with the joints at both ends of its bone; and the bones that carry the vertices up to
//! `rings` edges away, so that sets do not end abruptly. Wider sets fit the training poses better and unseen ones worse:
//! limbs that happened to move together are then taken for one another.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::ssd::SparseWeights;
use crate::Training;
use crate::geometry::topology::Topology;

/// A bone whose mean weight in the neighbourhood is below this is there by chance: few poses let far bones in.
const SMALLEST_NEAR_WEIGHT: f64 = 0.02;

/// How influence sets are chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct InfluenceParams {
    /// Bones a vertex at most; `None` for as many as the rule below finds.
    pub most: Option<usize>,
    /// How many edges away the bones of other vertices count; 2 leaves corrections room to fade (Merry et al. 2006, §7.1,
    /// grow their painted sets a little too).
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

/// The parent and the children of the bone that moves `v` most, then the bones of its neighbourhood by their weight.
fn automatic(
    training: &Training,
    skin: &SparseWeights,
    topology: &Topology,
    params: &InfluenceParams,
    v: usize,
) -> Vec<usize> {
    let dominant = skin.dominant(v);
    let mut bones = vec![training.skeleton.parent(dominant)];
    bones.extend(training.skeleton.children(dominant));
    let near = topology.vertex_vertices.within(v, params.rings);
    let mut weights: BTreeMap<usize, f64> = BTreeMap::new();
    for &(b, w) in near.iter().flat_map(|&u| &skin.vertices[u]) {
        *weights.entry(b).or_default() += w / near.len() as f64;
    }
    let mut strong: Vec<(usize, f64)> = weights.into_iter().filter(|&(_, w)| w > SMALLEST_NEAR_WEIGHT).collect();
    strong.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    for (b, _) in strong {
        if !bones.contains(&b) {
            bones.push(b);
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
