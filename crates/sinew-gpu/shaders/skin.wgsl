// Pass 2: every vertex from the palette, once a frame, into a buffer that all later passes read.
//
// One thread poses one vertex of one instance: workgroups (vertices / 64, instances). Three entry points, for the three
// kinds of skinning that the methods end in:
//
//   points   v = Σ_k T_k h_k, h a homogeneous point: linear blend skinning (h = w (v̂, 1)), animation space, rotational
//            regression (over the palette of pass 1). Palette in the world.
//   entries  v_i = c_i + Σ_k Σ_j T_k[i,j] h_k[i,j], then the root's frame: multi-weight enveloping. Palette in the
//            root's frame, followed by the frame itself.
//   dual     dual quaternions, then the root's frame. Two vectors (real, dual; x y z w) a bone, followed by the frame.
//
// Storage buffers: 3.

struct Params {
    vertices: u32,   // V
    width: u32,      // influences a vertex, K
    palette: u32,    // vectors of the palette an instance
    pad: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
// per vertex: K joints, then f32 bits: points 4 K; entries 12 K and the constant 3; dual K weights and the rest point 3
@group(0) @binding(1) var<storage, read> table: array<u32>;
@group(0) @binding(2) var<storage, read> palette: array<vec4<f32>>;
// per instance: (V), w unused
@group(0) @binding(3) var<storage, read_write> positions: array<vec4<f32>>;

fn number(index: u32) -> f32 {
    return bitcast<f32>(table[index]);
}

fn point4(index: u32) -> vec4<f32> {
    return vec4<f32>(number(index), number(index + 1u), number(index + 2u), number(index + 3u));
}

fn in_frame(frame: u32, p: vec3<f32>) -> vec4<f32> {
    let h = vec4<f32>(p, 1.0);
    return vec4<f32>(dot(palette[frame], h), dot(palette[frame + 1u], h), dot(palette[frame + 2u], h), 1.0);
}

@compute @workgroup_size(64)
fn points(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= params.vertices) {
        return;
    }
    let base = id.x * 5u * params.width;
    let matrices = id.y * params.palette;
    var sum = vec3<f32>(0.0);
    for (var k = 0u; k < params.width; k++) {
        let m = matrices + 3u * table[base + k];
        let h = point4(base + params.width + 4u * k);
        sum += vec3<f32>(dot(palette[m], h), dot(palette[m + 1u], h), dot(palette[m + 2u], h));
    }
    positions[id.y * params.vertices + id.x] = vec4<f32>(sum, 1.0);
}

@compute @workgroup_size(64)
fn entries(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= params.vertices) {
        return;
    }
    let base = id.x * (13u * params.width + 3u);
    let matrices = id.y * params.palette;
    let constant = base + 13u * params.width;
    var sum = vec3<f32>(number(constant), number(constant + 1u), number(constant + 2u));
    for (var k = 0u; k < params.width; k++) {
        let m = matrices + 3u * table[base + k];
        let h = base + params.width + 12u * k;
        sum += vec3<f32>(
            dot(palette[m], point4(h)),
            dot(palette[m + 1u], point4(h + 4u)),
            dot(palette[m + 2u], point4(h + 8u)),
        );
    }
    positions[id.y * params.vertices + id.x] = in_frame(matrices + params.palette - 3u, sum);
}

@compute @workgroup_size(64)
fn dual(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= params.vertices) {
        return;
    }
    let base = id.x * (2u * params.width + 3u);
    let bones = id.y * params.palette;
    let rest = base + 2u * params.width;
    let v = vec3<f32>(number(rest), number(rest + 1u), number(rest + 2u));
    // Terms on the side of the first (heaviest) one.
    let pivot = palette[bones + 2u * table[base]];
    var real = vec4<f32>(0.0);
    var dual_part = vec4<f32>(0.0);
    for (var k = 0u; k < params.width; k++) {
        let bone = bones + 2u * table[base + k];
        var w = number(base + params.width + k);
        if (dot(pivot, palette[bone]) < 0.0) {
            w = -w;
        }
        real += w * palette[bone];
        dual_part += w * palette[bone + 1u];
    }
    let square = dot(real, real);
    var p = v;
    // Only opposite rotations of equal weight cancel; then no rotation is better than another.
    if (square >= 1e-24) {
        let turn = cross(real.xyz, cross(real.xyz, v) + real.w * v);
        let shift = real.w * dual_part.xyz - dual_part.w * real.xyz + cross(real.xyz, dual_part.xyz);
        p = v + (2.0 / square) * (turn + shift);
    }
    positions[id.y * params.vertices + id.x] = in_frame(bones + params.palette - 3u, p);
}
