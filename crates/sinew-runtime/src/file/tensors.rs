//! Named tensors and words in a safetensors file, with a checksum over both.

use std::collections::BTreeMap;
use std::rc::Rc;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use crate::{ModelError, Skin};

/// The metadata entry that holds the checksum.
const CHECKSUM: &str = "checksum";

/// Collects tensors and words, then writes them in one fixed order.
#[derive(Default)]
pub(crate) struct TensorWriter {
    tensors: BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>,
    words: BTreeMap<String, String>,
    /// What the names of tensors begin with.
    prefix: &'static str,
}

impl TensorWriter {
    /// Lets `write` put its tensors under names that begin with `prefix`.
    pub fn beneath(&mut self, prefix: &'static str, write: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.prefix, prefix);
        write(self);
        self.prefix = outer;
    }

    pub fn word(&mut self, name: &str, text: &str) {
        self.words.insert(name.into(), text.into());
    }

    pub fn f32(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        self.put(name, Dtype::F32, shape, values.iter().flat_map(|v| v.to_le_bytes()).collect());
    }

    pub fn f64(&mut self, name: &str, shape: &[usize], values: &[f64]) {
        self.put(name, Dtype::F64, shape, values.iter().flat_map(|v| v.to_le_bytes()).collect());
    }

    pub fn u32(&mut self, name: &str, shape: &[usize], values: &[u32]) {
        self.put(name, Dtype::U32, shape, values.iter().flat_map(|v| v.to_le_bytes()).collect());
    }

    pub fn i32(&mut self, name: &str, shape: &[usize], values: &[i32]) {
        self.put(name, Dtype::I32, shape, values.iter().flat_map(|v| v.to_le_bytes()).collect());
    }

    pub fn u16(&mut self, name: &str, shape: &[usize], values: &[u16]) {
        self.put(name, Dtype::U16, shape, values.iter().flat_map(|v| v.to_le_bytes()).collect());
    }

    /// `name.joints` (V, K) and `name.weights` (V, K).
    pub fn skin(&mut self, name: &str, skin: &Skin) {
        let shape = [skin.vertex_count(), skin.width];
        self.u16(&format!("{name}.joints"), &shape, &skin.joints);
        self.f32(&format!("{name}.weights"), &shape, &skin.weights);
    }

    fn put(&mut self, name: &str, dtype: Dtype, shape: &[usize], bytes: Vec<u8>) {
        self.tensors.insert(format!("{}{name}", self.prefix), (dtype, shape.to_vec(), bytes));
    }

    /// The file's bytes.
    pub fn finish(mut self) -> Vec<u8> {
        let entries =
            self.tensors.iter().map(|(name, (dtype, shape, bytes))| (name.as_str(), *dtype, &shape[..], &bytes[..]));
        let words = self.words.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        let checksum = checksum(entries, words);
        self.words.insert(CHECKSUM.into(), checksum);
        // The crate writes its metadata in a hash map's order, which differs from run to run; so the header is ours.
        // Tensors are laid out by name; every dtype here is at least 2 bytes wide and each start is aligned to 8.
        let mut header = serde_json::Map::new();
        header.insert("__metadata__".into(), serde_json::json!(self.words));
        let mut data = Vec::new();
        for (name, (dtype, shape, bytes)) in &self.tensors {
            let start = data.len();
            data.extend_from_slice(bytes);
            let entry = serde_json::json!({"dtype": dtype, "shape": shape, "data_offsets": [start, data.len()]});
            header.insert(name.clone(), entry);
        }
        let mut header = serde_json::to_vec(&header).expect("words and numbers are JSON");
        header.resize(header.len().next_multiple_of(8), b' ');
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.append(&mut header);
        file.append(&mut data);
        file
    }
}

/// Reads tensors and words from a file's bytes.
pub(crate) struct TensorReader<'bytes> {
    tensors: Rc<SafeTensors<'bytes>>,
    words: BTreeMap<String, String>,
    /// What the names of tensors begin with.
    prefix: &'static str,
}

impl<'bytes> TensorReader<'bytes> {
    pub fn new(bytes: &'bytes [u8]) -> Result<Self, ModelError> {
        let wrong = |error| ModelError::Format(format!("{error}"));
        let tensors = SafeTensors::deserialize(bytes).map_err(wrong)?;
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(wrong)?;
        let words = metadata.metadata().iter().flatten().map(|(name, text)| (name.clone(), text.clone())).collect();
        Ok(Self { tensors: Rc::new(tensors), words, prefix: "" })
    }

    /// The tensors whose names begin with `prefix`, by the rest of their names.
    pub fn beneath(&self, prefix: &'static str) -> Self {
        Self { tensors: Rc::clone(&self.tensors), words: self.words.clone(), prefix }
    }

    pub fn word(&self, name: &str) -> Result<&str, ModelError> {
        self.words
            .get(name)
            .map(String::as_str)
            .ok_or_else(|| ModelError::Format(format!("its metadata have no `{name}`")))
    }

    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Refuses a file whose content does not give the checksum it names.
    pub fn check_checksum(&self) -> Result<(), ModelError> {
        let tensors: BTreeMap<String, TensorView> =
            self.tensors.iter().map(|(name, view)| (name.into(), view)).collect();
        let entries = tensors.iter().map(|(name, view)| (name.as_str(), view.dtype(), view.shape(), view.data()));
        let words = self.words.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        let words = words.filter(|&(name, _)| name != CHECKSUM);
        let computed = checksum(entries, words);
        let found = self.word(CHECKSUM)?;
        if found == computed { Ok(()) } else { Err(ModelError::Checksum { found: found.into(), computed }) }
    }

    /// A tensor of f32 whose shape matches `shape`; `None` stands for any length.
    pub fn f32(&self, name: &str, shape: &[Option<usize>]) -> Result<Vec<f32>, ModelError> {
        Ok(self.get(name, Dtype::F32, shape)?.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect())
    }

    pub fn f64(&self, name: &str, shape: &[Option<usize>]) -> Result<Vec<f64>, ModelError> {
        Ok(self.get(name, Dtype::F64, shape)?.as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect())
    }

    pub fn u32(&self, name: &str, shape: &[Option<usize>]) -> Result<Vec<u32>, ModelError> {
        Ok(self.get(name, Dtype::U32, shape)?.as_chunks().0.iter().map(|&b| u32::from_le_bytes(b)).collect())
    }

    pub fn i32(&self, name: &str, shape: &[Option<usize>]) -> Result<Vec<i32>, ModelError> {
        Ok(self.get(name, Dtype::I32, shape)?.as_chunks().0.iter().map(|&b| i32::from_le_bytes(b)).collect())
    }

    pub fn u16(&self, name: &str, shape: &[Option<usize>]) -> Result<Vec<u16>, ModelError> {
        Ok(self.get(name, Dtype::U16, shape)?.as_chunks().0.iter().map(|&b| u16::from_le_bytes(b)).collect())
    }

    /// The second length of tensor `name`; 0 if there is no such tensor or it has no second length.
    pub fn width(&self, name: &str) -> usize {
        self.find(name).map_or(0, |view| view.shape().get(1).copied().unwrap_or(0))
    }

    pub fn skin(&self, name: &str) -> Result<Skin, ModelError> {
        let (joints, weights) = (format!("{name}.joints"), format!("{name}.weights"));
        let width = self.width(&joints);
        Ok(Skin {
            width,
            joints: self.u16(&joints, &[None, Some(width)])?,
            weights: self.f32(&weights, &[None, Some(width)])?,
        })
    }

    fn find(&self, name: &str) -> Option<TensorView<'bytes>> {
        self.tensors.tensor(&format!("{}{name}", self.prefix)).ok()
    }

    fn get(&self, name: &str, dtype: Dtype, shape: &[Option<usize>]) -> Result<&'bytes [u8], ModelError> {
        let name = format!("{}{name}", self.prefix);
        let view = self.tensors.tensor(&name).map_err(|_| ModelError::Missing(name.clone()))?;
        let fits = view.shape().len() == shape.len()
            && view.shape().iter().zip(shape).all(|(&found, &wanted)| wanted.is_none_or(|wanted| wanted == found));
        if !fits || view.dtype() != dtype {
            let wanted: Vec<String> = shape.iter().map(|s| s.map_or("any".into(), |s| s.to_string())).collect();
            return Err(ModelError::Shape {
                name,
                found: format!("{:?} {:?}", view.dtype(), view.shape()),
                expected: format!("{dtype:?} [{}]", wanted.join(", ")),
            });
        }
        Ok(view.data())
    }
}

/// CRC-32 over names, types, shapes, bytes and words, in the order of their names.
fn checksum<'a>(
    tensors: impl Iterator<Item = (&'a str, Dtype, &'a [usize], &'a [u8])>,
    words: impl Iterator<Item = (&'a str, &'a str)>,
) -> String {
    let mut hasher = crc32fast::Hasher::new();
    for (name, dtype, shape, bytes) in tensors {
        hasher.update(format!("{name}\0{dtype:?}\0{shape:?}\0").as_bytes());
        hasher.update(bytes);
    }
    for (name, text) in words {
        hasher.update(format!("{name}\0{text}\0").as_bytes());
    }
    format!("{:08x}", hasher.finalize())
}
