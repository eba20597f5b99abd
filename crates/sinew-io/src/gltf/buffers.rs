//! The bytes behind a glTF's accessors, checked once, and where in the file they are.

use std::path::Path;

use crate::FileError;

/// The buffers of a file, and where the binary chunk of a `.glb` begins in it.
pub(super) struct Buffers {
    list: Vec<Vec<u8>>,
    /// The buffer that is the binary chunk, and the chunk's first byte.
    chunk: Option<(usize, usize)>,
}

impl Buffers {
    /// Loads the buffers of `gltf`, whose file is `bytes`, and refuses views and accessors that do not fit them.
    pub(super) fn load(path: &Path, gltf: &gltf::Gltf, bytes: &[u8]) -> Result<Self, FileError> {
        let list = load_buffers(path, gltf, bytes.len())?;
        let inside = gltf.buffers().find(|buffer| matches!(buffer.source(), gltf::buffer::Source::Bin));
        // Two headers of 12 and 8 bytes, the JSON, whose length stands at byte 12, and the chunk's own header.
        let json = bytes.get(12..16).and_then(|b| Some(u32::from_le_bytes(b.try_into().ok()?) as usize));
        let chunk = inside.zip(json).map(|(buffer, json)| (buffer.index(), 28 + json));
        let buffers = Self { list, chunk };
        buffers.check(gltf).map_err(|what| FileError::format(path, what))?;
        Ok(buffers)
    }

    /// A buffer's bytes.
    pub(super) fn get(&self, index: usize) -> Option<&[u8]> {
        self.list.get(index).map(Vec::as_slice)
    }

    /// Where element `element` of an accessor stands: "at byte 1234 (accessor 2, element 7)".
    pub(super) fn place(&self, accessor: &gltf::Accessor<'_>, element: usize) -> String {
        let which = format!("accessor {}, element {element}", accessor.index());
        let Some(view) = accessor.view() else { return which };
        let stride = view.stride().unwrap_or(accessor.size());
        let offset = view.offset().saturating_add(accessor.offset()).saturating_add(stride.saturating_mul(element));
        format!("{} ({which})", self.at(view.buffer().index(), offset))
    }

    /// "at byte 1234" of the file, or of one of its buffers.
    fn at(&self, buffer: usize, offset: usize) -> String {
        match self.chunk {
            Some((chunk, start)) if chunk == buffer => format!("at byte {}", start.saturating_add(offset)),
            _ => format!("at byte {offset} of buffer {buffer}"),
        }
    }

    /// Refuses accessors that reach beyond their view or their view beyond its buffer.
    fn check(&self, gltf: &gltf::Gltf) -> Result<(), String> {
        let total: usize = self.list.iter().map(Vec::len).sum();
        for view in gltf.views() {
            let buffer = view.buffer().index();
            let end = view.offset().checked_add(view.length());
            if end.is_none_or(|end| end > self.list[buffer].len()) {
                let (at, size) = (self.at(buffer, view.offset()), self.list[buffer].len());
                let (index, length) = (view.index(), view.length());
                return Err(format!("{at}: buffer view {index} is {length} bytes long, its buffer {size}"));
            }
        }
        for accessor in gltf.accessors() {
            self.check_accessor(&accessor, total)?;
        }
        Ok(())
    }

    fn check_accessor(&self, accessor: &gltf::Accessor<'_>, total: usize) -> Result<(), String> {
        let (index, count, size) = (accessor.index(), accessor.count(), accessor.size());
        // An accessor without a view is zeros: it may not claim more elements than the file has bytes.
        if count > total {
            return Err(format!("accessor {index} claims {count} elements, the file has {total} bytes"));
        }
        let fits = |count: usize, size: usize, offset: usize, view: &gltf::buffer::View| {
            let stride = view.stride().unwrap_or(size).max(1);
            let end = offset.saturating_add(stride.saturating_mul(count.saturating_sub(1))).saturating_add(size);
            count == 0 || end <= view.length()
        };
        if let Some(view) = accessor.view().filter(|view| !fits(count, size, accessor.offset(), view)) {
            let (place, length) = (self.place(accessor, 0), view.length());
            return Err(format!("{place}: {count} elements of {size} bytes reach beyond its view of {length} bytes"));
        }
        let Some(sparse) = accessor.sparse() else { return Ok(()) };
        let (indices, values) = (sparse.indices(), sparse.values());
        let width = match indices.index_type() {
            gltf::accessor::sparse::IndexType::U8 => 1,
            gltf::accessor::sparse::IndexType::U16 => 2,
            gltf::accessor::sparse::IndexType::U32 => 4,
        };
        let n = sparse.count();
        let fit = fits(n, width, indices.offset(), &indices.view()) && fits(n, size, values.offset(), &values.view());
        if n > count || !fit {
            let at = self.at(indices.view().buffer().index(), indices.view().offset().saturating_add(indices.offset()));
            return Err(format!("{at}: the sparse part of accessor {index} reaches beyond its buffer view"));
        }
        Ok(())
    }
}

/// What the parser says, with the byte of a `.glb` or the line of a `.gltf`.
pub(super) fn placed(error: &gltf::Error, bytes: &[u8]) -> String {
    let binary = bytes.starts_with(b"glTF");
    match error {
        // In a binary file the JSON begins behind two headers, 12 and 8 bytes, and is one line in nearly every file.
        gltf::Error::Deserialize(json) if binary => {
            let text = bytes.get(20..).unwrap_or_default().split(|&byte| byte == b'\n');
            let before: usize = text.take(json.line().saturating_sub(1)).map(|line| line.len() + 1).sum();
            format!("at byte {}: {error}", 20 + before + json.column().saturating_sub(1))
        }
        gltf::Error::Deserialize(_) => error.to_string(),
        gltf::Error::Binary(_) => format!("at byte 0 (the file has {}): {error}", bytes.len()),
        _ => error.to_string(),
    }
}

fn load_buffers(path: &Path, gltf: &gltf::Gltf, size: usize) -> Result<Vec<Vec<u8>>, FileError> {
    let mut buffers = Vec::new();
    for buffer in gltf.buffers() {
        let bytes = match buffer.source() {
            gltf::buffer::Source::Bin => gltf.blob.clone().unwrap_or_default(),
            gltf::buffer::Source::Uri(uri) => match uri.strip_prefix("data:") {
                Some(data) => base64(data.split_once(',').map_or("", |(_, data)| data))
                    .ok_or_else(|| FileError::format(path, "a data URI is not base64"))?,
                None => {
                    // A path that climbs out of the file's directory is refused: a model file must not read others' files.
                    let relative = Path::new(uri);
                    if relative.is_absolute() || relative.components().any(|c| c.as_os_str() == "..") {
                        return Err(FileError::format(path, format!("its buffer `{uri}` lies outside its directory")));
                    }
                    let file = path.with_file_name(uri.replace("%20", " "));
                    std::fs::read(&file).map_err(|source| {
                        let short: String = uri.chars().take(80).collect();
                        FileError::format(path, format!("its buffer `{short}` cannot be read: {source}"))
                    })?
                }
            },
        };
        if bytes.len() < buffer.length() {
            let what = format!(
                "buffer {} claims {} bytes, {} are there (of a file of {size})",
                buffer.index(),
                buffer.length(),
                bytes.len()
            );
            return Err(FileError::format(path, what));
        }
        buffers.push(bytes);
    }
    Ok(buffers)
}

/// The bytes of base64 text; `None` if it is not such.
fn base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut held, mut bits) = (0_u32, 0);
    for byte in text.bytes().filter(|&byte| byte != b'=') {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        held = (held << 6) | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((held >> bits) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_of_all_lengths() {
        assert_eq!(base64("c2luZXc=").unwrap(), b"sinew");
        assert_eq!(base64("c2luZQ==").unwrap(), b"sine");
        assert_eq!(base64("c2lu").unwrap(), b"sin");
        assert!(base64("c2 u").is_none());
    }
}
