// Pass 1 of rotational regression: the palette of proxy bones and bones from key gradients and bone transforms.
//
//   t = c₁ d + c₂ q,   palette = F t F̂⁻¹
//
// One thread computes one matrix of one instance: workgroups (palette / 64, instances). Proxy bones come first (P), then
// the skeleton's bones (J). c₁ and c₂ hold blocks: block row p of c₁ has 4×3 blocks over key gradients, of c₂ 4×4 blocks
// over bones; entry (r, c) of a block says how much of column c goes into column r of the proxy's transform.
//
// Storage buffers: 3.

struct Params {
    proxies: u32,        // P
    bones: u32,          // J
    c1_starts: u32,      // where each part of `blocks` begins, in words
    c2_starts: u32,
    c1_columns: u32,
    c2_columns: u32,
    c1_values: u32,
    c2_values: u32,
    deltas: u32,         // 1 if each proxy has something added to its transform, else 0
    gradients: u32,      // where the gradients of all instances begin in `pose`
    pad0: u32,
    pad1: u32,
    // F̂⁻¹, row by row
    inverse_rest: array<vec4<f32>, 3>,
}

@group(0) @binding(0) var<uniform> params: Params;
// starts (P + 1) of c₁ and of c₂, columns, values (f32 bits)
@group(0) @binding(1) var<storage, read> blocks: array<u32>;
// per instance: F as 4 columns; q as 4 columns a bone (J); deltas as 4 columns a proxy; after all instances: d as 3
// columns a gradient (P) and instance
@group(0) @binding(2) var<storage, read> pose: array<vec4<f32>>;
// per instance: 3 rows a matrix, (P + J)
@group(0) @binding(3) var<storage, read_write> palette: array<vec4<f32>>;

fn value(index: u32) -> f32 {
    return bitcast<f32>(blocks[index]);
}

@compute @workgroup_size(64)
fn proxies(@builtin(global_invocation_id) id: vec3<u32>) {
    let count = params.proxies + params.bones;
    if (id.x >= count) {
        return;
    }
    let size = 4u + 4u * params.bones + 4u * params.proxies * params.deltas;
    let base = id.y * size;
    let d = params.gradients + id.y * 3u * params.proxies;
    let q = base + 4u;
    var c0 = vec3<f32>(0.0);
    var c1 = vec3<f32>(0.0);
    var c2 = vec3<f32>(0.0);
    var c3 = vec3<f32>(0.0);
    if (id.x < params.proxies) {
        let p = id.x;
        for (var k = blocks[params.c1_starts + p]; k < blocks[params.c1_starts + p + 1u]; k++) {
            let at = d + 3u * blocks[params.c1_columns + k];
            let v = params.c1_values + 12u * k;
            for (var c = 0u; c < 3u; c++) {
                let column = pose[at + c].xyz;
                c0 += value(v + c) * column;
                c1 += value(v + 3u + c) * column;
                c2 += value(v + 6u + c) * column;
                c3 += value(v + 9u + c) * column;
            }
        }
        for (var k = blocks[params.c2_starts + p]; k < blocks[params.c2_starts + p + 1u]; k++) {
            let at = q + 4u * blocks[params.c2_columns + k];
            let v = params.c2_values + 16u * k;
            for (var c = 0u; c < 4u; c++) {
                let column = pose[at + c].xyz;
                c0 += value(v + c) * column;
                c1 += value(v + 4u + c) * column;
                c2 += value(v + 8u + c) * column;
                c3 += value(v + 12u + c) * column;
            }
        }
        if (params.deltas == 1u) {
            let at = q + 4u * params.bones + 4u * p;
            c0 += pose[at].xyz;
            c1 += pose[at + 1u].xyz;
            c2 += pose[at + 2u].xyz;
            c3 += pose[at + 3u].xyz;
        }
    } else {
        let at = q + 4u * (id.x - params.proxies);
        c0 = pose[at].xyz;
        c1 = pose[at + 1u].xyz;
        c2 = pose[at + 2u].xyz;
        c3 = pose[at + 3u].xyz;
    }
    // F t, by columns
    let f = mat3x3<f32>(pose[base].xyz, pose[base + 1u].xyz, pose[base + 2u].xyz);
    c0 = f * c0;
    c1 = f * c1;
    c2 = f * c2;
    c3 = f * c3 + pose[base + 3u].xyz;
    // times F̂⁻¹, by rows
    let r = params.inverse_rest;
    let out = 3u * (id.y * count + id.x);
    for (var row = 0u; row < 3u; row++) {
        var result = c0[row] * r[0] + c1[row] * r[1] + c2[row] * r[2];
        result.w += c3[row];
        palette[out + row] = result;
    }
}
