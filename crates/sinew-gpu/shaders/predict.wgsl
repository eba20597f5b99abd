// Pass 0 of rotational regression, if d(q) is predicted here and not by the processor: key gradients from joint rotations.
//
//   D_k = Q_frame exp(ρ̃) S,   ρ̃ = M x,   S = I + sym(H x),   x = [φ(θ̃) of each joint that predictor k sees, 1]
//   θ̃_b = log(Q_parentᵀ Q_b) on the branch nearest to the joint's reference,
//   φ(θ) = [θ, (1 − cos ‖θ‖)/‖θ‖² (θx², θy², θz², θxθy, θxθz, θyθz)]
//
// Two entry points, one after the other: `joints`, a thread a bone, workgroups (J / 64, instances), writes what is seen of
// each joint; `predict`, a thread a predictor, workgroups (P / 64, instances), writes the gradients into the pose buffer,
// where pass `proxies` reads them.
//
// An instance beyond the trained ranges, which its F tells, has its gradients from the processor: nothing is predicted.
//
// Storage buffers: 3.

struct Params {
    bones: u32,          // J
    predictors: u32,     // P
    width: u32,          // joints a predictor
    features: u32,       // features a joint, 3 or 9
    pose_size: u32,      // vectors of the pose an instance, gradients not counted
    gradients: u32,      // where the gradients of all instances begin in `pose`
    references: u32,     // where each part of `tables` begins, in words; the parents (J) stand first
    frames: u32,
    seen: u32,
    rotation: u32,
    stretch: u32,
    pad: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
// parents (J), the root its own; branch references (J, 3); frames (P); joints (P, width); M (P, 3, C); H (P, 6, C),
// C = width · features + 1; real numbers as f32 bits
@group(0) @binding(1) var<storage, read> tables: array<u32>;
// per instance: F as 4 columns, the first with a 1 behind it beyond the trained ranges; q as 4 columns a bone; …; after all instances: d as 3 columns a predictor and instance
@group(0) @binding(2) var<storage, read_write> pose: array<vec4<f32>>;
// per instance and bone: 9 features, then Q_b column by column
@group(0) @binding(3) var<storage, read_write> joint: array<f32>;

const TAU: f32 = 6.283185307179586;
const PER_JOINT: u32 = 18u;

fn table(index: u32) -> f32 {
    return bitcast<f32>(tables[index]);
}

// The rotation nearest to m (to −m if m mirrors) by Newton's iteration; the identity if m is singular.
fn nearest_rotation(m: mat3x3<f32>) -> mat3x3<f32> {
    let scale = max(length(m[0]), max(length(m[1]), length(m[2])));
    let identity = mat3x3<f32>(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0);
    if (!(scale > 0.0)) {
        return identity;
    }
    var q = m * (1.0 / scale);
    if (abs(determinant(q)) < 1e-6) {
        return identity;
    }
    for (var step = 0u; step < 24u; step++) {
        // The inverse transpose: cross products of the columns over the determinant.
        let cofactors = mat3x3<f32>(cross(q[1], q[2]), cross(q[2], q[0]), cross(q[0], q[1]));
        let next = 0.5 * (q + cofactors * (1.0 / dot(q[0], cofactors[0])));
        let change = max(length(next[0] - q[0]), max(length(next[1] - q[1]), length(next[2] - q[2])));
        q = next;
        if (change < 1e-7) {
            break;
        }
    }
    return q * sign(determinant(q));
}

// The unit quaternion of a rotation (x, y, z, w), by the largest of its entries.
fn quaternion(m: mat3x3<f32>) -> vec4<f32> {
    let trace = m[0][0] + m[1][1] + m[2][2];
    let w = vec4<f32>(m[1][2] - m[2][1], m[2][0] - m[0][2], m[0][1] - m[1][0], 1.0 + trace);
    let x = vec4<f32>(1.0 + 2.0 * m[0][0] - trace, m[0][1] + m[1][0], m[0][2] + m[2][0], w.x);
    let y = vec4<f32>(x.y, 1.0 + 2.0 * m[1][1] - trace, m[1][2] + m[2][1], w.y);
    let z = vec4<f32>(x.z, y.z, 1.0 + 2.0 * m[2][2] - trace, w.z);
    var best = w;
    var most = w.w;
    if (x.x > most) { best = x; most = x.x; }
    if (y.y > most) { best = y; most = y.y; }
    if (z.z > most) { best = z; most = z.z; }
    return normalize(best);
}

// The logarithm of a rotation, axis times angle, nearest to `reference`.
fn logarithm(m: mat3x3<f32>, reference: vec3<f32>) -> vec3<f32> {
    var q = quaternion(m);
    if (q.w < 0.0) {
        q = -q;
    }
    let sine = length(q.xyz);
    // Below 1e-6 the axis is rounding; whole turns then lie along the reference.
    var rho = 2.0 * q.xyz;
    var axis = vec3<f32>(0.0);
    if (sine >= 1e-6) {
        axis = q.xyz / sine;
        rho = axis * (2.0 * atan2(sine, q.w));
    } else if (length(reference) > 0.0) {
        axis = normalize(reference);
    }
    return rho + axis * (TAU * round(dot(reference - rho, axis) / TAU));
}

// The rotation by ‖rho‖ about rho.
fn exponential(rho: vec3<f32>) -> mat3x3<f32> {
    let angle = length(rho);
    var v = 0.5 * rho;
    if (angle > 1e-4) {
        v = rho * (sin(0.5 * angle) / angle);
    }
    let w = cos(0.5 * angle);
    let d = v + v;
    return mat3x3<f32>(
        1.0 - v.y * d.y - v.z * d.z, v.x * d.y + w * d.z, v.x * d.z - w * d.y,
        v.x * d.y - w * d.z, 1.0 - v.x * d.x - v.z * d.z, v.y * d.z + w * d.x,
        v.x * d.z + w * d.y, v.y * d.z - w * d.x, 1.0 - v.x * d.x - v.y * d.y,
    );
}

fn bone_rotation(instance: u32, b: u32) -> mat3x3<f32> {
    let at = instance * params.pose_size + 4u + 4u * b;
    return nearest_rotation(mat3x3<f32>(pose[at].xyz, pose[at + 1u].xyz, pose[at + 2u].xyz));
}

@compute @workgroup_size(64)
fn joints(@builtin(global_invocation_id) id: vec3<u32>) {
    let b = id.x;
    if (b >= params.bones) {
        return;
    }
    let own = bone_rotation(id.y, b);
    let at = params.references + 3u * b;
    let reference = vec3<f32>(table(at), table(at + 1u), table(at + 2u));
    let theta = logarithm(transpose(bone_rotation(id.y, tables[b])) * own, reference);
    let square = dot(theta, theta);
    // 2 (sin(θ/2)/θ)²; below 0.03 radians the series' next term is less than rounding.
    var factor = 0.5 - square / 24.0;
    if (square >= 1e-3) {
        let sine = sin(0.5 * sqrt(square));
        factor = 2.0 * sine * sine / square;
    }
    let squares = factor * theta * theta;
    let products = factor * theta.xxy * theta.yzz;
    let out = (id.y * params.bones + b) * PER_JOINT;
    for (var k = 0u; k < 3u; k++) {
        joint[out + k] = theta[k];
        joint[out + 3u + k] = squares[k];
        joint[out + 6u + k] = products[k];
        joint[out + 9u + k] = own[0][k];
        joint[out + 12u + k] = own[1][k];
        joint[out + 15u + k] = own[2][k];
    }
}

@compute @workgroup_size(64)
fn predict(@builtin(global_invocation_id) id: vec3<u32>) {
    let k = id.x;
    if (k >= params.predictors || pose[id.y * params.pose_size].w != 0.0) {
        return;
    }
    let columns = params.width * params.features + 1u;
    var sums: array<f32, 9>;
    for (var row = 0u; row < 9u; row++) {
        var start = params.rotation + (3u * k + row) * columns;
        if (row >= 3u) {
            start = params.stretch + (6u * k + row - 3u) * columns;
        }
        // The constant is the last column.
        var sum = table(start + columns - 1u);
        for (var w = 0u; w < params.width; w++) {
            let b = tables[params.seen + k * params.width + w];
            let x = (id.y * params.bones + b) * PER_JOINT;
            for (var f = 0u; f < params.features; f++) {
                sum += table(start + w * params.features + f) * joint[x + f];
            }
        }
        sums[row] = sum;
    }
    let stretch = mat3x3<f32>(
        1.0 + sums[3], sums[6], sums[7],
        sums[6], 1.0 + sums[4], sums[8],
        sums[7], sums[8], 1.0 + sums[5],
    );
    let q = (id.y * params.bones + tables[params.frames + k]) * PER_JOINT + 9u;
    let frame = mat3x3<f32>(
        joint[q], joint[q + 1u], joint[q + 2u],
        joint[q + 3u], joint[q + 4u], joint[q + 5u],
        joint[q + 6u], joint[q + 7u], joint[q + 8u],
    );
    let gradient = frame * exponential(vec3<f32>(sums[0], sums[1], sums[2])) * stretch;
    let out = params.gradients + 3u * (id.y * params.predictors + k);
    pose[out] = vec4<f32>(gradient[0], 0.0);
    pose[out + 1u] = vec4<f32>(gradient[1], 0.0);
    pose[out + 2u] = vec4<f32>(gradient[2], 0.0);
}
