//! Opens the layers of a stage for openusd, each only after a look over what it claims.
//!
//! Every file that a stage is made of, sublayers, references and the members of a `.usdz` alike, passes here: it must be an
//! ordinary file, binary ones must fit their own tables (`sizes`), text must not be nested deeper than the parser's stack,
//! and members of a package must be stored as they are, as its specification wants, so that nothing can unfold.

use std::io::{Cursor, Error, ErrorKind, Read, Result};

use openusd::ar::{Asset, DefaultResolver, ResolvedPath, Resolver};

use super::sizes;

/// Brackets within brackets: a scene of a thousand levels is not a scene, and the parser recurses once for each.
const DEEPEST: usize = 1000;

/// openusd's own resolver, with a look at what it opens.
pub(super) struct CheckedResolver(pub DefaultResolver);

impl Resolver for CheckedResolver {
    fn create_identifier(&self, asset_path: &str, anchor: Option<&ResolvedPath>) -> String {
        self.0.create_identifier(asset_path, anchor)
    }

    fn resolve(&self, asset_path: &str) -> Option<ResolvedPath> {
        self.0.resolve(asset_path)
    }

    fn resolve_for_new_asset(&self, asset_path: &str) -> Option<ResolvedPath> {
        self.0.resolve_for_new_asset(asset_path)
    }

    fn open_asset(&self, resolved_path: &ResolvedPath) -> Result<Box<dyn Asset>> {
        let text = resolved_path.to_string_lossy();
        // `package.usdz[member.usdc]`: the package is looked over as a whole.
        let file = text.split_once(".usdz[").map_or_else(|| text.to_string(), |(stem, _)| format!("{stem}.usdz"));
        if !std::fs::metadata(&file)?.is_file() {
            return Err(Error::new(ErrorKind::InvalidInput, format!("{file} is not a file")));
        }
        check(&std::fs::read(&file)?).map_err(|what| Error::new(ErrorKind::InvalidData, what))?;
        self.0.open_asset(resolved_path)
    }
}

/// Refuses the bytes of a layer or a package that openusd would not survive.
pub(super) fn check(bytes: &[u8]) -> std::result::Result<(), String> {
    match bytes {
        [b'P', b'X', b'R', ..] => sizes::check(bytes),
        [b'P', b'K', 3 | 5, ..] => check_package(bytes),
        _ => check_text(bytes),
    }
}

fn check_package(bytes: &[u8]) -> std::result::Result<(), String> {
    let wrong = |error: zip::result::ZipError| format!("the package does not open: {error}");
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(wrong)?;
    for member in 0..archive.len() {
        let mut member = archive.by_index(member).map_err(wrong)?;
        let name = member.name().map_err(wrong)?.into_owned();
        let start = member.data_start();
        let stored = member.compression() == zip::CompressionMethod::Stored;
        if !stored || member.size() > bytes.len() as u64 {
            return Err(format!("`{name}` of the package is compressed; a .usdz stores its members as they are"));
        }
        if !name.ends_with(".usd") && !name.ends_with(".usdc") && !name.ends_with(".usda") {
            continue;
        }
        let mut inside = Vec::new();
        member.read_to_end(&mut inside).map_err(|error| format!("`{name}` of the package: {error}"))?;
        let from = start.map_or_else(String::new, |start| format!(" (its first byte is byte {start} of the package)"));
        check(&inside).map_err(|what| format!("`{name}`{from}: {what}"))?;
    }
    Ok(())
}

/// Refuses text with too many open brackets; quoted text, asset paths and comments do not count.
fn check_text(bytes: &[u8]) -> std::result::Result<(), String> {
    let (mut depth, mut line, mut at) = (0_usize, 1, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'\n' => line += 1,
            b'#' => {
                at = end_of(bytes, at, |byte| byte == b'\n') - 1;
                line += usize::from(bytes.get(at) == Some(&b'\n'));
            }
            quote @ (b'"' | b'\'' | b'@') => {
                let end = end_of(bytes, at + 1, |byte| byte == quote || byte == b'\n');
                line += usize::from(bytes.get(end - 1) == Some(&b'\n'));
                at = end - 1;
            }
            _ => {}
        }
        if depth > DEEPEST {
            return Err(format!("line {line}: brackets are nested more than {DEEPEST} deep"));
        }
        at += 1;
    }
    Ok(())
}

/// The place behind the first byte from `at` on that `stops`.
fn end_of(bytes: &[u8], at: usize, stops: impl Fn(u8) -> bool) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.iter().position(|&byte| stops(byte)).map_or(bytes.len().max(at), |found| at + found + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_text_is_refused_with_its_line() {
        let deep = format!("#usda 1.0\n# (((\n\"(((\" @(((@\n{}", "(".repeat(DEEPEST));
        assert_eq!(check(deep.as_bytes()), Ok(()));
        let deeper = format!("{deep}\n[");
        assert!(check(deeper.as_bytes()).unwrap_err().starts_with("line 5: "), "{:?}", check(deeper.as_bytes()));
        // Quotes and comments that never end.
        for text in ["\"", "#", "@", "'a", "(\"\n"] {
            assert_eq!(check(text.as_bytes()), Ok(()));
        }
    }

    #[test]
    fn values_that_contain_themselves_are_refused() {
        // A crate file whose only field is a dictionary with itself inside.
        let mut file = b"PXR-USDC\0\x08\0\0\0\0\0\0".to_vec();
        let word = |offset: u64| (31_u64 << 48) | offset;
        file.extend(200_u64.to_le_bytes());
        file.resize(100, 0);
        // At 100: one entry, its key, a jump to the word behind it, the word.
        file.extend(1_u64.to_le_bytes());
        file.extend(0_u32.to_le_bytes());
        file.extend(8_u64.to_le_bytes());
        file.extend(word(100).to_le_bytes());
        // At 128, the fields: one, its packed name, its packed value as ten literals and more.
        file.extend(1_u64.to_le_bytes());
        file.extend(2_u64.to_le_bytes());
        file.extend([0, 0]);
        let packed: Vec<u8> = [&[0, 0x80][..], &word(100).to_le_bytes()].concat();
        file.extend((packed.len() as u64).to_le_bytes());
        file.extend(packed);
        file.resize(200, 0);
        file.extend(1_u64.to_le_bytes());
        file.extend(b"FIELDS\0\0\0\0\0\0\0\0\0\0");
        file.extend(128_u64.to_le_bytes());
        file.extend(60_u64.to_le_bytes());
        let error = check(&file).unwrap_err();
        assert!(error.contains("nested") || error.contains("themselves"), "{error}");
    }
}
