//! Objects, properties and time samplings as Alembic lays them out in Ogawa groups.
//!
//! - archive: `[version, library version, top object, metadata, time samplings, indexed metadata]`
//! - object: `[its properties (a compound), child objects …, headers of the children]`
//! - compound: `[properties …, headers of the properties]`
//! - scalar property: one data a sample; array property: two data a sample (values, dimensions). Values follow a key
//!   of 16 bytes. Samples that repeat are stored once: the header says between which indices they change.

use std::collections::BTreeSet;

use super::ogawa::{Child, Extent, Ogawa};
use crate::FileError;
use crate::bytes::{Cursor, FileBytes};

/// Bytes of the hash before a sample's values.
const KEY: u64 = 16;

/// When an object's samples are.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TimeSampling {
    /// Seconds a cycle.
    pub cycle: f64,
    /// Times in the first cycle, in seconds; for an acyclic sampling all times.
    pub times: Vec<f64>,
}

/// The cycle of samplings whose times are listed one by one; `f64::MAX / 32` in the format's definition.
pub(super) const ACYCLIC: f64 = f64::MAX / 32.0;

impl TimeSampling {
    /// The time of sample `index`, in seconds.
    pub(super) fn time(&self, index: usize) -> f64 {
        let n = self.times.len();
        if self.cycle >= ACYCLIC {
            return self.times[index.min(n - 1)];
        }
        self.times[index % n] + self.cycle * (index / n) as f64
    }
}

/// An object: its name, metadata, properties and children.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub name: String,
    pub metadata: String,
    group: u64,
}

/// The type of a property's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pod {
    U8,
    I32,
    U32,
    F16,
    F32,
    F64,
    /// Any other, with its number in the format.
    Other(u32),
}

impl Pod {
    fn from_code(code: u32) -> Self {
        match code {
            0..=2 => Self::U8,
            5 => Self::U32,
            6 => Self::I32,
            9 => Self::F16,
            10 => Self::F32,
            11 => Self::F64,
            other => Self::Other(other),
        }
    }

    pub(super) fn size(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::F16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::F64 | Self::Other(_) => 8,
        }
    }
}

/// What kind a property is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Compound,
    Scalar,
    Array,
}

/// A property's header and where its samples are.
#[derive(Debug, Clone)]
pub(super) struct Property {
    pub name: String,
    pub metadata: String,
    pub kind: Kind,
    pub pod: Pod,
    /// Numbers an element: 3 for a point.
    pub extent: usize,
    /// Samples in time, repeats included.
    pub samples: usize,
    pub sampling: usize,
    first_changed: usize,
    last_changed: usize,
    group: u64,
}

/// An open archive.
#[derive(Debug)]
pub(super) struct Archive {
    pub ogawa: Ogawa,
    pub samplings: Vec<TimeSampling>,
    metadata: Vec<String>,
    top: u64,
}

impl Archive {
    /// Opens an archive and reads its tables.
    pub(super) fn open(bytes: FileBytes) -> Result<Self, FileError> {
        let (mut ogawa, root) = Ogawa::open(bytes)?;
        let children = ogawa.group(root)?;
        let [_, _, Child::Group(top), Child::Data(_), Child::Data(samplings), Child::Data(indexed)] = children[..]
        else {
            return Err(ogawa.bytes.corrupt(root, "the root group is not that of an Alembic archive"));
        };
        let samplings = read_samplings(&mut ogawa, samplings)?;
        let metadata = read_indexed_metadata(&mut ogawa, indexed)?;
        Ok(Self { ogawa, samplings, metadata, top })
    }

    /// The object at the top.
    pub(super) fn top(&self) -> Object {
        Object { name: String::new(), metadata: String::new(), group: self.top }
    }

    /// Every object with its path of ancestors, parents first: (object, index of its parent in the list).
    pub(super) fn objects(&mut self) -> Result<Vec<(Object, Option<usize>)>, FileError> {
        let mut objects: Vec<(Object, Option<usize>)> = vec![(self.top(), None)];
        let mut seen = BTreeSet::new();
        let mut next = 0;
        while next < objects.len() {
            let group = objects[next].0.group;
            if group != 0 && !seen.insert(group) {
                return Err(self.ogawa.bytes.corrupt(group, "an object is its own descendant or has two parents"));
            }
            for child in self.children(group)? {
                objects.push((child, Some(next)));
            }
            next += 1;
        }
        Ok(objects)
    }

    fn children(&mut self, group: u64) -> Result<Vec<Object>, FileError> {
        let members = self.ogawa.group(group)?;
        let groups: Vec<u64> = members[1.min(members.len())..]
            .iter()
            .filter_map(|&child| if let Child::Group(position) = child { Some(position) } else { None })
            .collect();
        let Some(&Child::Data(headers)) = members.last() else { return Ok(Vec::new()) };
        let (bytes, base) = self.ogawa.data(headers)?;
        // The last 32 bytes are hashes of the properties and of the children.
        let path = self.ogawa.bytes.path().to_path_buf();
        let mut cursor = Cursor::new(&bytes[..bytes.len().saturating_sub(32)], base, &path);
        let mut objects = Vec::new();
        for group in groups {
            let length = cursor.u32()? as usize;
            let name = cursor.text(length)?;
            let index = cursor.u8()?;
            let metadata = match index {
                0xff => {
                    let length = cursor.u32()? as usize;
                    cursor.text(length)?
                }
                index => self.indexed(index as usize, cursor.offset())?,
            };
            objects.push(Object { name, metadata, group });
        }
        Ok(objects)
    }

    /// The properties of an object.
    pub(super) fn properties(&mut self, object: &Object) -> Result<Vec<Property>, FileError> {
        match self.ogawa.group(object.group)?.first() {
            Some(&Child::Group(position)) => self.compound(position),
            _ => Ok(Vec::new()),
        }
    }

    /// The properties inside a compound property.
    pub(super) fn members(&mut self, property: &Property) -> Result<Vec<Property>, FileError> {
        self.compound(property.group)
    }

    fn compound(&mut self, position: u64) -> Result<Vec<Property>, FileError> {
        let members = self.ogawa.group(position)?;
        let Some((&Child::Data(headers), groups)) = members.split_last() else { return Ok(Vec::new()) };
        let (bytes, base) = self.ogawa.data(headers)?;
        let path = self.ogawa.bytes.path().to_path_buf();
        let mut cursor = Cursor::new(&bytes, base, &path);
        let mut properties = Vec::new();
        for child in groups {
            let &Child::Group(group) = child else { continue };
            properties.push(self.header(&mut cursor, group)?);
        }
        Ok(properties)
    }

    /// One property header: a word of flags, then numbers as wide as the flags' hint says.
    fn header(&self, cursor: &mut Cursor<'_>, group: u64) -> Result<Property, FileError> {
        let flags = cursor.u32()?;
        let kind = match flags & 3 {
            0 => Kind::Compound,
            1 => Kind::Scalar,
            _ => Kind::Array,
        };
        let hint = (flags >> 2) & 3;
        let number = |cursor: &mut Cursor<'_>| -> Result<usize, FileError> {
            Ok(match hint {
                0 => cursor.u8()? as usize,
                1 => cursor.u16()? as usize,
                _ => cursor.u32()? as usize,
            })
        };
        let (mut samples, mut sampling, mut first_changed, mut last_changed) = (0, 0, 0, 0);
        if kind != Kind::Compound {
            samples = number(cursor)?;
            if flags & 0x200 != 0 {
                first_changed = number(cursor)?;
                last_changed = number(cursor)?;
            } else if flags & 0x800 == 0 {
                (first_changed, last_changed) = (1, samples.saturating_sub(1));
            }
            if flags & 0x100 != 0 {
                sampling = number(cursor)?;
            }
        }
        let length = number(cursor)?;
        let name = cursor.text(length)?;
        let metadata = match (flags >> 20) & 0xff {
            0xff => {
                let length = number(cursor)?;
                cursor.text(length)?
            }
            index => self.indexed(index as usize, cursor.offset())?,
        };
        Ok(Property {
            name,
            metadata,
            kind,
            pod: Pod::from_code((flags >> 4) & 0xf),
            extent: ((flags >> 12) & 0xff) as usize,
            samples,
            sampling,
            first_changed,
            last_changed,
            group,
        })
    }

    fn indexed(&self, index: usize, offset: u64) -> Result<String, FileError> {
        let text = self.metadata.get(index);
        text.cloned().ok_or_else(|| self.ogawa.bytes.corrupt(offset, format!("there is no metadata {index}")))
    }

    /// The time of sample `index` of a property, in seconds.
    pub(super) fn time(&self, property: &Property, index: usize) -> Result<f64, FileError> {
        let sampling = self.samplings.get(property.sampling).ok_or_else(|| {
            let what = format!("`{}` uses time sampling {}, which does not exist", property.name, property.sampling);
            self.ogawa.bytes.corrupt(property.group, what)
        })?;
        Ok(sampling.time(index))
    }

    /// Where the values of each stored sample lie, the key left off; (number of stored samples).
    pub(super) fn stored(&mut self, property: &Property) -> Result<Vec<Extent>, FileError> {
        let members = self.ogawa.group(property.group)?;
        let step = if property.kind == Kind::Array { 2 } else { 1 };
        let mut extents = Vec::with_capacity(members.len() / step);
        for child in members.iter().step_by(step) {
            let &Child::Data(position) = child else {
                let what = format!("a sample of `{}` is not data", property.name);
                return Err(self.ogawa.bytes.corrupt(property.group, what));
            };
            let whole = self.ogawa.extent(position)?;
            extents.push(Extent { offset: whole.offset + KEY.min(whole.size), size: whole.size.saturating_sub(KEY) });
        }
        if extents.is_empty() && property.samples > 0 {
            let what = format!("`{}` claims {} samples and has none", property.name, property.samples);
            return Err(self.ogawa.bytes.corrupt(property.group, what));
        }
        Ok(extents)
    }

    /// The bytes of sample `index`.
    pub(super) fn sample(&mut self, property: &Property, index: usize) -> Result<(Vec<u8>, u64), FileError> {
        let stored = self.stored(property)?;
        let Some(extent) = stored.get(property.stored_index(index).min(stored.len().saturating_sub(1))) else {
            let what = format!("`{}` has no samples", property.name);
            return Err(self.ogawa.bytes.corrupt(property.group, what));
        };
        Ok((self.ogawa.bytes.read(extent.offset, extent.size)?, extent.offset))
    }
}

impl Property {
    /// Which stored sample holds sample `index`: those before the first change are the first, those after the last
    /// change repeat the last.
    pub(super) fn stored_index(&self, index: usize) -> usize {
        if self.last_changed == 0 || index < self.first_changed {
            return 0;
        }
        index.min(self.last_changed) - self.first_changed + 1
    }

    /// Whether all samples are the same.
    pub(super) fn is_constant(&self) -> bool {
        self.samples <= 1 || self.last_changed == 0
    }

    /// The property's `key` in its metadata (`key=value;key=value`).
    pub(super) fn meta(&self, key: &str) -> Option<&str> {
        metadata_value(&self.metadata, key)
    }
}

/// The value of `key` in metadata of the form `key=value;key=value`.
pub(super) fn metadata_value<'a>(metadata: &'a str, key: &str) -> Option<&'a str> {
    metadata.split(';').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
}

fn read_samplings(ogawa: &mut Ogawa, position: u64) -> Result<Vec<TimeSampling>, FileError> {
    let (bytes, base) = ogawa.data(position)?;
    let path = ogawa.bytes.path().to_path_buf();
    let mut cursor = Cursor::new(&bytes, base, &path);
    let mut samplings = Vec::new();
    while !cursor.is_empty() {
        let _most_samples = cursor.u32()?;
        let cycle = cursor.f64()?;
        let offset = cursor.offset();
        let count = cursor.u32()? as usize;
        let bytes = cursor.take(count.saturating_mul(8))?;
        let times: Vec<f64> =
            bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().expect("eight bytes"))).collect();
        if times.is_empty() || !cycle.is_finite() || times.iter().any(|time| !time.is_finite()) {
            return Err(ogawa.bytes.corrupt(offset, "a time sampling without finite times"));
        }
        samplings.push(TimeSampling { cycle, times });
    }
    Ok(samplings)
}

fn read_indexed_metadata(ogawa: &mut Ogawa, position: u64) -> Result<Vec<String>, FileError> {
    let (bytes, base) = ogawa.data(position)?;
    let path = ogawa.bytes.path().to_path_buf();
    let mut cursor = Cursor::new(&bytes, base, &path);
    // Number 0 is the empty text, which is not stored.
    let mut metadata = vec![String::new()];
    while !cursor.is_empty() {
        let length = cursor.u8()? as usize;
        metadata.push(cursor.text(length)?);
    }
    Ok(metadata)
}
