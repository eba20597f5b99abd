//! `sinew inspect`: what is in a file, what is odd about it, how to mend it.

mod foreign;

use std::path::{Path, PathBuf};

use sinew_examples::{Examples, MeshSequence, Notice};
use sinew_io::Loaded;
use sinew_runtime::Model;

use crate::{Outcome, load, output, told_once};

/// Say what is in a file, what is wrong with it, and how to mend it.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  sinew inspect arm.npz arm.sinew
  sinew inspect rig.fbx sim.abc          each file, and whether the mesh follows the skeleton
  sinew inspect rig.fbx+sim.abc          the same")]
pub struct Args {
    /// Example files, models, or files of other tools; a skeleton's and a mesh's are also looked at together.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Also write what was found as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What is known of one file, as (name, words).
struct Findings {
    rows: Vec<(String, String)>,
    notices: Vec<String>,
}

/// Inspects every file; an unreadable one is an error after the others were shown.
pub fn run(args: Args) -> anyhow::Result<Outcome> {
    output::check_json(args.json.as_ref())?;
    let mut failed = None;
    let mut all = Vec::new();
    let files: Vec<PathBuf> = args.files.iter().flat_map(|path| load::files(path)).collect();
    for path in &files {
        match inspect(path) {
            Ok(findings) => {
                output::line(&path.display().to_string())?;
                let rows = findings.rows.iter().map(|(name, words)| vec![format!("  {name}"), words.clone()]);
                output::table(&["", ""], rows.collect())?;
                for notice in &findings.notices {
                    output::line(&format!("  note: {notice}"))?;
                }
                all.push(serde_json::json!({
                    "file": path.display().to_string(),
                    "found": findings.rows.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
                    "notices": findings.notices,
                }));
            }
            Err(error) => {
                let told = told_once(&error);
                eprintln!("error: {told}");
                all.push(serde_json::json!({"file": path.display().to_string(), "error": told}));
                failed = Some(path);
            }
        }
    }
    let pairs = foreign::pairs(&files);
    for (skeleton, mesh) in &pairs {
        let title = match skeleton == mesh {
            true => format!("{}: its mesh on its skeleton", skeleton.display()),
            false => format!("{} on {}", mesh.display(), skeleton.display()),
        };
        output::line(&title)?;
        let findings = foreign::diagnose(skeleton, mesh)?;
        if findings.is_empty() {
            output::line("  nothing is wrong")?;
        }
        for finding in &findings {
            output::line(&format!("  {}: {finding}", if finding.is_open() { "fault" } else { "note" }))?;
        }
        let list: Vec<_> = findings.iter().map(foreign::to_json).collect();
        all.push(serde_json::json!({"skeleton": skeleton.display().to_string(), "mesh": mesh.display().to_string(), "findings": list}));
    }
    if let Some(path) = &args.json {
        output::json(path, &serde_json::json!(all))?;
    }
    match failed {
        Some(path) => anyhow::bail!("{} could not be read", path.display()),
        None => Ok(Outcome::Done),
    }
}

fn inspect(path: &Path) -> anyhow::Result<Findings> {
    if path.extension().is_some_and(|extension| extension == "sinew") {
        return Ok(of_model(&Model::read(path).map_err(|error| load::named(path, error))?));
    }
    if !load::is_npz(path) {
        return foreign::inspect(path);
    }
    Ok(match load::any(path)? {
        Loaded::Examples(examples) => of_examples(&examples),
        Loaded::Sequence(sequence) => of_sequence(&sequence),
    })
}

fn of_model(model: &Model) -> Findings {
    let character = &model.character;
    let cost = model.cost();
    let mut rows = vec![
        ("kind".into(), "sinew model".into()),
        ("method".into(), model.metadata.method.clone()),
        ("source".into(), model.metadata.source.clone()),
        ("vertices".into(), character.vertex_count().to_string()),
        ("triangles".into(), character.triangles.len().to_string()),
        ("bones".into(), character.bones.len().to_string()),
        ("influences a vertex".into(), format!("at most {}", character.skin.width)),
        ("operations a frame".into(), cost.flops.to_string()),
        ("bytes a frame".into(), cost.bytes.to_string()),
    ];
    rows.extend(model.metadata.figures.iter().map(|(name, value)| (name.clone(), format!("{value:.4}"))));
    rows.extend(model.metadata.notes.iter().map(|(name, words)| (name.clone(), words.clone())));
    Findings { rows, notices: Vec::new() }
}

fn of_sequence(sequence: &MeshSequence) -> Findings {
    let mesh = sequence.mesh();
    let (low, high) = mesh.bounds();
    let size = high - low;
    let split = sequence.split();
    let polygons = mesh.polygons().map_or(String::new(), |p| format!(" from {} polygons", p.counts.len()));
    let rows = vec![
        ("kind".into(), "mesh sequence".into()),
        ("vertices".into(), mesh.vertex_count().to_string()),
        ("triangles".into(), format!("{}{polygons}", mesh.triangles().len())),
        ("texture coordinates".into(), if mesh.uvs().is_some() { "yes" } else { "no" }.into()),
        ("size".into(), format!("{:.3} × {:.3} × {:.3} m", size.x, size.y, size.z)),
        ("frames".into(), sequence.frame_count().to_string()),
        ("split".into(), format!("{} train, {} test", split.train.len(), split.test.len())),
        ("frames a second".into(), sequence.fps().map_or("not said".into(), |fps| fps.to_string())),
    ];
    Findings { rows, notices: words(sequence.notices()) }
}

fn of_examples(examples: &Examples) -> Findings {
    let mut findings = of_sequence(examples.sequence());
    findings.rows[0].1 = "examples".into();
    let skeleton = examples.skeleton();
    findings.rows.push(("bones".into(), skeleton.bone_count().to_string()));
    findings.rows.push(("root".into(), skeleton.bones()[skeleton.root()].name.clone()));
    let yes = |there: bool| if there { "yes" } else { "no" }.to_string();
    findings.rows.push(("painted influences".into(), yes(examples.influences().is_some())));
    findings.rows.push(("pose weights".into(), yes(examples.pose_weights().is_some())));
    findings.notices = words(examples.notices());
    findings
}

fn words(notices: &[Notice]) -> Vec<String> {
    notices.iter().map(ToString::to_string).collect()
}
