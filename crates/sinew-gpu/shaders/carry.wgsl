// Pass 3, of models that draw vertices from points: vertices carried on from the nearest pose within the trained ranges.
//
//   v ← Σ_k w_k X_k v
//
// w are the weights of linear blend skinning, smoothed; X_b takes bone b from the held pose, in which the earlier passes
// put the vertices, to the one that was asked for, both in the world. One thread carries one vertex of one instance:
// workgroups (vertices / 64, instances). Of instances within the ranges every X is the identity. Frames without a pose
// beyond the ranges do not need the pass.
//
// Storage buffers: 3.

struct Params {
    vertices: u32,   // V
    width: u32,      // influences a vertex, K
    bones: u32,      // J
    pad: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
// per vertex: K joints, then K weights (f32 bits)
@group(0) @binding(1) var<storage, read> table: array<u32>;
// per instance: X_b as 3 rows a bone, (J)
@group(0) @binding(2) var<storage, read> excess: array<vec4<f32>>;
// per instance: (V), w unused
@group(0) @binding(3) var<storage, read_write> positions: array<vec4<f32>>;

@compute @workgroup_size(64)
fn carry(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= params.vertices) {
        return;
    }
    let at = id.y * params.vertices + id.x;
    let v = positions[at].xyz;
    let h = vec4<f32>(v, 1.0);
    let base = id.x * 2u * params.width;
    var sum = vec3<f32>(0.0);
    var moves = false;
    for (var k = 0u; k < params.width; k++) {
        let x = 3u * (id.y * params.bones + table[base + k]);
        let w = bitcast<f32>(table[base + params.width + k]);
        let carried = vec3<f32>(dot(excess[x], h), dot(excess[x + 1u], h), dot(excess[x + 2u], h));
        moves = moves || (w != 0.0 && any(carried != v));
        sum += w * carried;
    }
    // What nothing moves stays to the bit, even if its weights do not quite sum to one.
    if (moves) {
        positions[at] = vec4<f32>(sum, 1.0);
    }
}
