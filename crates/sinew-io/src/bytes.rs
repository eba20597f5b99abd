//! A file that is read piece by piece, with every claimed size checked against the file's length first.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::FileError;

/// An open file of known length. Errors name the file and the offset.
#[derive(Debug)]
pub(crate) struct FileBytes {
    path: PathBuf,
    file: File,
    len: u64,
}

impl FileBytes {
    /// Opens `path` for reading.
    pub(crate) fn open(path: &Path) -> Result<Self, FileError> {
        let wrap = |source| FileError::system(path, source);
        let file = File::open(path).map_err(wrap)?;
        let len = file.metadata().map_err(wrap)?.len();
        Ok(Self { path: path.to_path_buf(), file, len })
    }

    /// The file's length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The file's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The error that at `offset` stands something wrong.
    pub(crate) fn corrupt(&self, offset: u64, what: impl Into<String>) -> FileError {
        corrupt_at(&self.path, offset, what)
    }

    /// `count` bytes at `offset`.
    pub(crate) fn read(&mut self, offset: u64, count: u64) -> Result<Vec<u8>, FileError> {
        let mut bytes = Vec::new();
        self.read_into(offset, count, &mut bytes)?;
        Ok(bytes)
    }

    /// `count` bytes at `offset`, into memory that is reused.
    pub(crate) fn read_into(&mut self, offset: u64, count: u64, bytes: &mut Vec<u8>) -> Result<(), FileError> {
        if offset.checked_add(count).is_none_or(|end| end > self.len) {
            let what = format!("{count} bytes are claimed here, but the file ends at {}", self.len);
            return Err(self.corrupt(offset, what));
        }
        bytes.resize(count as usize, 0);
        let read = self.file.seek(SeekFrom::Start(offset)).and_then(|_| self.file.read_exact(bytes));
        read.map_err(|source| FileError::system(&self.path, source))
    }

    /// A little-endian u64 at `offset`.
    pub(crate) fn u64_at(&mut self, offset: u64) -> Result<u64, FileError> {
        let bytes = self.read(offset, 8)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes were read")))
    }
}

/// A cursor over bytes in memory that were read at `base`; running past the end is an error that names the offset.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
    base: u64,
    path: &'a Path,
}

impl<'a> Cursor<'a> {
    /// Starts at the first of `bytes`, which stood at `base` in the file at `path`.
    pub(crate) fn new(bytes: &'a [u8], base: u64, path: &'a Path) -> Self {
        Self { bytes, position: 0, base, path }
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.position >= self.bytes.len()
    }

    /// Where the cursor stands in the file.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.position as u64
    }

    /// The next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], FileError> {
        let end = self.position.checked_add(count).filter(|&end| end <= self.bytes.len());
        let Some(end) = end else {
            let left = self.bytes.len() - self.position;
            return Err(corrupt_at(self.path, self.offset(), format!("{count} bytes are needed, {left} are left")));
        };
        let taken = &self.bytes[self.position..end];
        self.position = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FileError> {
        Ok(self.take(N)?.try_into().expect("N bytes were taken"))
    }

    /// The next byte.
    pub(crate) fn u8(&mut self) -> Result<u8, FileError> {
        Ok(self.array::<1>()?[0])
    }

    /// The next little-endian u16.
    pub(crate) fn u16(&mut self) -> Result<u16, FileError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// The next little-endian u32.
    pub(crate) fn u32(&mut self) -> Result<u32, FileError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// The next little-endian f64.
    pub(crate) fn f64(&mut self) -> Result<f64, FileError> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    /// The next `count` bytes as text; bytes that are no UTF-8 are replaced.
    pub(crate) fn text(&mut self, count: usize) -> Result<String, FileError> {
        Ok(String::from_utf8_lossy(self.take(count)?).into_owned())
    }
}

/// The error that in the file at `path`, at `offset`, stands something wrong.
pub(crate) fn corrupt_at(path: &Path, offset: u64, what: impl Into<String>) -> FileError {
    FileError::format(path, format!("at byte {offset}: {}", what.into()))
}
