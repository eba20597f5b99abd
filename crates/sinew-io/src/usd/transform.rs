//! The `xformOp`s of USD prims.

use glam::{DAffine3, DQuat, DVec3};
use openusd::sdf::Value;
use openusd::usd::{Prim, TimeCode};

use super::read::{Failure, affine, numbers};

type Result<T> = std::result::Result<T, Failure>;

/// The transform from a prim to the stage, at `time` or by default values.
pub(super) fn to_stage(prim: &Prim, time: Option<f64>) -> Result<DAffine3> {
    let mut product = DAffine3::IDENTITY;
    let mut path = Some(prim.path().clone());
    while let Some(current) = path.filter(|path| !path.is_abs_root()) {
        let (local, reset) = local(&prim.stage().prim(current.clone()), time)?;
        product = local * product;
        if reset {
            break;
        }
        path = current.parent();
    }
    Ok(product)
}

/// The times at which a prim's place in the stage has samples.
pub(super) fn sample_times(prim: &Prim) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    let mut path = Some(prim.path().clone());
    while let Some(current) = path.filter(|path| !path.is_abs_root()) {
        let above = prim.stage().prim(current.clone());
        for name in order(&above)? {
            times.extend(above.attribute(name.trim_start_matches("!invert!")).time_sample_times()?);
        }
        path = current.parent();
    }
    times.sort_by(f64::total_cmp);
    times.dedup();
    Ok(times)
}

fn order(prim: &Prim) -> Result<Vec<String>> {
    Ok(match prim.attribute("xformOpOrder").get::<Value>()? {
        Some(Value::TokenVec(names)) => names.iter().map(|name| name.as_str().to_owned()).collect(),
        _ => Vec::new(),
    })
}

/// A prim's own transform, and whether it forgets those above. The first operation is outermost.
fn local(prim: &Prim, time: Option<f64>) -> Result<(DAffine3, bool)> {
    let mut product = DAffine3::IDENTITY;
    let mut reset = false;
    for name in order(prim)? {
        if name == "!resetXformStack!" {
            reset = true;
            continue;
        }
        let (plain, inverse) = match name.strip_prefix("!invert!") {
            Some(plain) => (plain, true),
            None => (name.as_str(), false),
        };
        let attribute = prim.attribute(plain);
        let sampled = time.map(|time| attribute.get_at::<Value>(TimeCode::new(time))).transpose()?.flatten();
        let value = match sampled {
            Some(value) => Some(value),
            None => attribute.get::<Value>()?,
        };
        let kind = plain.split(':').nth(1).unwrap_or_default();
        let operation = value.and_then(|value| operation(kind, &value)).unwrap_or(DAffine3::IDENTITY);
        product *= if inverse { operation.inverse() } else { operation };
    }
    Ok((product, reset))
}

fn operation(kind: &str, value: &Value) -> Option<DAffine3> {
    if let Value::Matrix4d(matrix) = value {
        return Some(affine(&matrix.0));
    }
    if let Some([w, x, y, z]) = quaternion(value) {
        return Some(DAffine3::from_quat(DQuat::from_xyzw(x, y, z, w).normalize()));
    }
    let n = numbers(value);
    let triple = (n.len() == 3).then(|| DVec3::new(n[0], n[1], n[2]));
    let turn = |axis: char, degrees: f64| match axis {
        'X' => DAffine3::from_rotation_x(degrees.to_radians()),
        'Y' => DAffine3::from_rotation_y(degrees.to_radians()),
        _ => DAffine3::from_rotation_z(degrees.to_radians()),
    };
    match kind {
        "translate" => triple.map(DAffine3::from_translation),
        "scale" => triple.map(DAffine3::from_scale),
        "rotateX" | "rotateY" | "rotateZ" => Some(turn(kind.chars().last()?, *n.first()?)),
        // `rotateXYZ` turns about X first: in column convention Z · Y · X.
        _ => {
            let axes: Vec<char> = kind.strip_prefix("rotate")?.chars().collect();
            let angles = triple?;
            let angle = |axis: char| angles["XYZ".find(axis).unwrap_or(2)];
            Some(axes.iter().fold(DAffine3::IDENTITY, |inner, &axis| turn(axis, angle(axis)) * inner))
        }
    }
}

fn quaternion(value: &Value) -> Option<[f64; 4]> {
    match value {
        Value::Quatf(q) => Some([q.w, q.x, q.y, q.z].map(f64::from)),
        Value::Quatd(q) => Some([q.w, q.x, q.y, q.z]),
        Value::Quath(q) => Some([q.w, q.x, q.y, q.z].map(f64::from)),
        _ => None,
    }
}
