// Pass 5: normals from the posed triangles around each vertex (the one-ring), each weighted by its area.
//
//   n ∝ Σ (b − v) × (c − v)   over the triangles (v, b, c) at v
//
// One thread computes one normal of one instance: workgroups (vertices / 64, instances). A vertex without area has the
// normal 0.
//
// Storage buffers: 3.

struct Params {
    vertices: u32,   // V
    pad0: u32,
    pad1: u32,
    pad2: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
// starts (V + 1), then for every triangle at a vertex its other two corners in order
@group(0) @binding(1) var<storage, read> ring: array<u32>;
@group(0) @binding(2) var<storage, read> positions: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> normals: array<vec4<f32>>;

@compute @workgroup_size(64)
fn normals_of(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= params.vertices) {
        return;
    }
    let base = id.y * params.vertices;
    let v = positions[base + id.x].xyz;
    var sum = vec3<f32>(0.0);
    for (var e = ring[id.x]; e < ring[id.x + 1u]; e++) {
        let pair = params.vertices + 1u + 2u * e;
        let b = positions[base + ring[pair]].xyz;
        let c = positions[base + ring[pair + 1u]].xyz;
        sum += cross(b - v, c - v);
    }
    let square = dot(sum, sum);
    // Below the smallest normal f32 there is no direction.
    var n = vec3<f32>(0.0);
    if (square >= 1.2e-38) {
        n = sum * inverseSqrt(square);
    }
    normals[base + id.x] = vec4<f32>(n, 0.0);
}
