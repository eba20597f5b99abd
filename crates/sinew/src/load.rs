//! The one place where a path becomes examples, whatever the format.

use std::path::{Path, PathBuf};

use sinew_examples::Examples;
use sinew_io::{Finding, Loaded, PackError, PackOptions, Trouble};

/// Whatever `path` holds: an `examples.npz`, one foreign file, or a pair `skeleton+mesh` such as `rig.fbx+sim.abc`.
/// What was found in foreign files is told on stderr.
pub fn any(path: &Path) -> anyhow::Result<Loaded> {
    if is_npz(path) {
        return Ok(sinew_io::npz::read(path)?);
    }
    let (skeleton, mesh) = pair(path);
    let packed = sinew_io::pack(&[(skeleton.clone(), mesh.clone())], &PackOptions::default());
    let still = |finding: &Finding| finding.trouble == Trouble::Static;
    let packed = packed.map_err(|error| match &error {
        PackError::Faults(faults) if skeleton == mesh && faults.iter().any(still) => {
            anyhow::anyhow!("{error}; if its frames are in another file, name both: {}+sim.abc", path.display())
        }
        _ => error.into(),
    })?;
    for finding in &packed.findings {
        eprintln!("note: {}: {finding}", path.display());
    }
    Ok(packed.loaded)
}

/// Whether `path` is to be read as an `examples.npz`; a path that is nothing else is, so that errors speak of it.
pub fn is_npz(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    const FOREIGN: [&str; 13] =
        ["abc", "bvh", "fbx", "glb", "gltf", "mdd", "obj", "pc2", "usd", "usda", "usdc", "usdz", "sinew"];
    let (skeleton, mesh) = pair(path);
    skeleton == mesh && !path.is_dir() && !FOREIGN.contains(&ending.as_str())
}

/// The skeleton's and the mesh's file of `skeleton+mesh`, or twice the same. Names may have a plus of their own: it is split
/// where both files are there, or else at the first plus.
pub fn pair(path: &Path) -> (PathBuf, PathBuf) {
    let text = path.to_string_lossy();
    let splits = text.match_indices('+').map(|(at, _)| (PathBuf::from(&text[..at]), PathBuf::from(&text[at + 1..])));
    let mut splits = splits.filter(|_| !path.exists()).peekable();
    let first = splits.peek().cloned().unwrap_or_else(|| (path.into(), path.into()));
    splits.find(|(skeleton, mesh)| skeleton.exists() && mesh.exists()).unwrap_or(first)
}

/// The file or files that `path` names.
pub fn files(path: &Path) -> Vec<PathBuf> {
    let (skeleton, mesh) = pair(path);
    if skeleton == mesh { vec![skeleton] } else { vec![skeleton, mesh] }
}

/// Examples with a skeleton; a bare mesh sequence is refused with the way out. What is odd is told on stderr.
pub fn examples(path: &Path) -> anyhow::Result<Examples> {
    match any(path)? {
        Loaded::Examples(examples) => {
            for notice in examples.notices() {
                eprintln!("note: {}: {notice}", path.display());
            }
            Ok(*examples)
        }
        Loaded::Sequence(_) => anyhow::bail!(
            "{0}: there is no skeleton in it; name the file that has it, as in rig.fbx+{0}, or recover one with `sinew recover {0} -o examples.npz`",
            path.display()
        ),
    }
}

/// An error that does not name its file, with the file.
pub fn named(path: &Path, error: sinew_runtime::ModelError) -> anyhow::Error {
    match error {
        sinew_runtime::ModelError::File { .. } => error.into(),
        other => anyhow::Error::from(other).context(path.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_split_where_both_files_are() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a+b.fbx", "sim.abc", "whole+file.npz"] {
            std::fs::write(folder.path().join(name), b"").unwrap();
        }
        let check = |text: &str, skeleton: &str, mesh: &str| {
            let at = |name: &str| folder.path().join(name);
            let path = PathBuf::from(text.replace('@', &format!("{}/", folder.path().display())));
            assert_eq!(pair(&path), (at(skeleton), at(mesh)), "{text}");
        };
        check("@a+b.fbx+@sim.abc", "a+b.fbx", "sim.abc");
        check("@whole+file.npz", "whole+file.npz", "whole+file.npz");
        check("@no.fbx+@such+file.abc", "no.fbx", "such+file.abc");
    }
}
