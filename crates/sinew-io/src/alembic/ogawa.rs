//! Ogawa, the container of Alembic files: a tree of groups and byte strings, addressed by position.
//!
//! ```text
//! "Ogawa" frozen:u8 version:u16be root:u64      a header of 16 bytes
//! group  = count:u64 child:u64 …                a child with the top bit set is data, else a group; 0 is empty
//! data   = size:u64 bytes
//! ```

use crate::FileError;
use crate::bytes::FileBytes;

/// The bit that tells data from groups.
const DATA: u64 = 1 << 63;

/// A child of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Child {
    /// A group at this position; 0 is a group without children.
    Group(u64),
    /// Bytes at this position; 0 is no bytes.
    Data(u64),
}

/// Where a piece of data lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// Of the first byte.
    pub offset: u64,
    /// In bytes.
    pub size: u64,
}

/// An open Ogawa file.
#[derive(Debug)]
pub(super) struct Ogawa {
    pub(super) bytes: FileBytes,
}

impl Ogawa {
    /// Checks the header and gives the file and its root group's position.
    pub(super) fn open(mut bytes: FileBytes) -> Result<(Self, u64), FileError> {
        let head = bytes.read(0, bytes.len().min(16))?;
        if head.starts_with(b"\x89HDF") {
            let what = "this is an HDF5 Alembic, which only old programs write; re-export it as Ogawa (the default)";
            return Err(bytes.corrupt(0, what));
        }
        if head.len() < 16 || !head.starts_with(b"Ogawa") {
            return Err(bytes.corrupt(0, "an Alembic file begins with `Ogawa`; this does not"));
        }
        if head[5] != 0xff {
            return Err(bytes.corrupt(5, "the file was not closed by its writer: the export was interrupted"));
        }
        let root = u64::from_le_bytes(head[8..16].try_into().expect("eight bytes"));
        Ok((Self { bytes }, root))
    }

    /// The children of the group at `position`.
    pub(super) fn group(&mut self, position: u64) -> Result<Vec<Child>, FileError> {
        if position == 0 {
            return Ok(Vec::new());
        }
        let count = self.bytes.u64_at(position)?;
        // The size is checked against the file before anything is allocated.
        let size = count.checked_mul(8).ok_or_else(|| self.bytes.corrupt(position, "a group of absurd size"))?;
        let table = self.bytes.read(position + 8, size)?;
        let child = |chunk: &[u8]| {
            let word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
            if word & DATA != 0 { Child::Data(word & !DATA) } else { Child::Group(word) }
        };
        Ok(table.chunks_exact(8).map(child).collect())
    }

    /// Where the data at `position` lies.
    pub(super) fn extent(&mut self, position: u64) -> Result<Extent, FileError> {
        if position == 0 {
            return Ok(Extent { offset: 0, size: 0 });
        }
        let size = self.bytes.u64_at(position)?;
        let offset = position + 8;
        if offset.checked_add(size).is_none_or(|end| end > self.bytes.len()) {
            let what = format!("{size} bytes are claimed here, but the file ends at {}", self.bytes.len());
            return Err(self.bytes.corrupt(position, what));
        }
        Ok(Extent { offset, size })
    }

    /// The bytes at `position`, and where they stood.
    pub(super) fn data(&mut self, position: u64) -> Result<(Vec<u8>, u64), FileError> {
        let extent = self.extent(position)?;
        Ok((self.bytes.read(extent.offset, extent.size)?, extent.offset))
    }
}
