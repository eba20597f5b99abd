// Draws a posed mesh with its normals: one light from the viewer's upper left, both sides lit.

struct View {
    matrix: mat4x4<f32>,
    light: vec4<f32>,
}

@group(0) @binding(0) var<uniform> view: View;

struct Corner {
    @builtin(position) clip: vec4<f32>,
    @location(0) normal: vec3<f32>,
    @location(1) colour: vec3<f32>,
}

@vertex
fn corner(
    @location(0) position: vec4<f32>,
    @location(1) normal: vec4<f32>,
    @location(2) colour: vec4<f32>,
) -> Corner {
    var out: Corner;
    out.clip = view.matrix * vec4<f32>(position.xyz, 1.0);
    out.normal = normal.xyz;
    out.colour = colour.rgb;
    return out;
}

@fragment
fn shade(in: Corner) -> @location(0) vec4<f32> {
    // A normal of length nil stays nil: ambient light only.
    let facing = abs(dot(in.normal, view.light.xyz)) / max(length(in.normal), 1e-6);
    let light = 0.25 + 0.75 * facing;
    return vec4<f32>(in.colour * light, 1.0);
}
