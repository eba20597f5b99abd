// Pass 4, of models that correct vertices: displacements interpolated over poses, added to the posed vertices.
//
//   v += Σ_parts Q_bone Σ_k a_k B_k
//
// One thread corrects one vertex of one instance: workgroups (vertices / 64, instances). A vertex stands in any number of
// parts; a part has a bone, a range of component weights, and for each of its vertices one displacement a component.
//
// Storage buffers: 3.

struct Params {
    vertices: u32,   // V
    weights: u32,    // component weights an instance, A
    bones: u32,      // J
    parts: u32,      // where the parts begin in `table`, in words: (bone, first weight, weights, vertices, components)
}

@group(0) @binding(0) var<uniform> params: Params;
// starts (V + 1); (part, place in it) pairs; parts, 5 words each; displacements (f32 bits)
@group(0) @binding(1) var<storage, read> table: array<u32>;
// per instance: A weights, then Q_b by columns, 9 a bone
@group(0) @binding(2) var<storage, read> inputs: array<f32>;
@group(0) @binding(3) var<storage, read_write> positions: array<vec4<f32>>;

@compute @workgroup_size(64)
fn correction(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= params.vertices) {
        return;
    }
    let base = id.y * (params.weights + 9u * params.bones);
    var sum = vec3<f32>(0.0);
    for (var e = table[id.x]; e < table[id.x + 1u]; e++) {
        let pair = params.vertices + 1u + 2u * e;
        let part = params.parts + 5u * table[pair];
        let place = table[pair + 1u];
        let count = table[part + 3u];
        var local = vec3<f32>(0.0);
        for (var k = 0u; k < table[part + 2u]; k++) {
            let at = table[part + 4u] + 3u * (k * count + place);
            let b = vec3<f32>(bitcast<f32>(table[at]), bitcast<f32>(table[at + 1u]), bitcast<f32>(table[at + 2u]));
            local += inputs[base + table[part + 1u] + k] * b;
        }
        let q = base + params.weights + 9u * table[part];
        let x = vec3<f32>(inputs[q], inputs[q + 1u], inputs[q + 2u]);
        let y = vec3<f32>(inputs[q + 3u], inputs[q + 4u], inputs[q + 5u]);
        let z = vec3<f32>(inputs[q + 6u], inputs[q + 7u], inputs[q + 8u]);
        sum += local.x * x + local.y * y + local.z * z;
    }
    positions[id.y * params.vertices + id.x] += vec4<f32>(sum, 0.0);
}
