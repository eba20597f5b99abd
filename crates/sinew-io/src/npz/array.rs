//! One `.npy` array: header and values.

/// An array as numpy holds it: a shape and values in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// The length of each axis.
    pub shape: Vec<usize>,
    /// The values, as many as the product of the shape.
    pub values: Values,
}

/// The values of an array, widened to the largest type of their kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Floating-point numbers that were f32 or f16 in the file.
    F32(Vec<f32>),
    /// Floating-point numbers that were f64.
    F64(Vec<f64>),
    /// Whole numbers.
    Int(Vec<i64>),
    /// A mask.
    Bool(Vec<bool>),
    /// Words.
    Text(Vec<String>),
}

impl Array {
    /// An array of f32.
    #[must_use]
    pub fn f32(shape: &[usize], values: Vec<f32>) -> Self {
        Self { shape: shape.to_vec(), values: Values::F32(values) }
    }

    /// An array of whole numbers.
    #[must_use]
    pub fn int(shape: &[usize], values: Vec<i64>) -> Self {
        Self { shape: shape.to_vec(), values: Values::Int(values) }
    }

    /// Reads the bytes of a `.npy` file (format 1 to 3, little- or big-endian, row-major).
    pub fn from_npy(bytes: &[u8]) -> Result<Self, String> {
        let (header, data) = split_header(bytes)?;
        let descr = field(header, "descr")?.trim_matches(['\'', '"']).to_owned();
        if field(header, "fortran_order")? != "False" {
            return Err("it is in column-major order; save it with numpy.ascontiguousarray".into());
        }
        let shape = parse_shape(field(header, "shape")?)?;
        let values = Values::parse(&descr, data, element_count(&shape)?)?;
        Ok(Self { shape, values })
    }

    /// The bytes of a `.npy` file.
    #[must_use]
    pub fn to_npy(&self) -> Vec<u8> {
        let (descr, data) = self.values.encode();
        let shape: String = self.shape.iter().map(|n| format!("{n},")).collect();
        let shape = if self.shape.len() == 1 { shape } else { shape.trim_end_matches(',').to_owned() };
        let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
        // The header, with its magic (10 bytes) and a line feed, fills a multiple of 64 bytes.
        let padded = (10 + header.len() + 1).next_multiple_of(64) - 11;
        header.extend(std::iter::repeat_n(' ', padded - header.len()));
        header.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&data);
        bytes
    }
}

impl Values {
    fn parse(descr: &str, data: &[u8], count: usize) -> Result<Self, String> {
        let (big, kind, size) = split_descr(descr)?;
        let wanted = count.checked_mul(size).ok_or("its size overflows")?;
        if data.len() < wanted {
            return Err(format!("it claims {wanted} bytes of data, the file has {}", data.len()));
        }
        let items = data[..wanted].chunks_exact(size.max(1));
        Ok(match (kind, size) {
            ('f', 4) => Self::F32(items.map(|b| f32::from_bits(unsigned(b, big) as u32)).collect()),
            ('f', 8) => Self::F64(items.map(|b| f64::from_bits(unsigned(b, big))).collect()),
            ('i', 1 | 2 | 4 | 8) => Self::Int(items.map(|b| signed(b, big)).collect()),
            ('b', 1) => Self::Bool(items.map(|b| b[0] != 0).collect()),
            ('u', 1 | 2 | 4 | 8) => {
                let number = |b| i64::try_from(unsigned(b, big)).map_err(|_| "a whole number is too large".to_string());
                Self::Int(items.map(number).collect::<Result<_, _>>()?)
            }
            // Words of no letters take no bytes, so there could be any number of them: a claim without substance.
            ('U', 4..) => Self::Text(items.map(|b| text(b, big)).collect()),
            ('S', 1..) => Self::Text(items.map(byte_text).collect()),
            _ => return Err(format!("its type is `{descr}`; use float32, float64, integers or strings")),
        })
    }

    fn encode(&self) -> (String, Vec<u8>) {
        match self {
            Self::F32(values) => ("<f4".into(), values.iter().flat_map(|v| v.to_le_bytes()).collect()),
            Self::F64(values) => ("<f8".into(), values.iter().flat_map(|v| v.to_le_bytes()).collect()),
            Self::Int(values) => match values.iter().all(|&v| i32::try_from(v).is_ok()) {
                true => ("<i4".into(), values.iter().flat_map(|&v| (v as i32).to_le_bytes()).collect()),
                false => ("<i8".into(), values.iter().flat_map(|v| v.to_le_bytes()).collect()),
            },
            Self::Bool(values) => ("|b1".into(), values.iter().map(|&v| u8::from(v)).collect()),
            Self::Text(values) => {
                let width = values.iter().map(|v| v.chars().count()).max().unwrap_or(0).max(1);
                let padded =
                    |v: &String| v.chars().map(u32::from).chain(std::iter::repeat(0)).take(width).collect::<Vec<_>>();
                (format!("<U{width}"), values.iter().flat_map(padded).flat_map(u32::to_le_bytes).collect())
            }
        }
    }
}

/// The header's text and the data after it.
fn split_header(bytes: &[u8]) -> Result<(&str, &[u8]), String> {
    let short = || "it ends within its header".to_string();
    if !bytes.starts_with(b"\x93NUMPY") {
        return Err("it is not a numpy array".into());
    }
    let version = *bytes.get(6).ok_or_else(short)?;
    let after = bytes.get(8..).unwrap_or_default();
    let (length, start): (usize, usize) = match version {
        1 => (u16::from_le_bytes(*after.first_chunk().ok_or_else(short)?).into(), 10),
        2 | 3 => (u32::from_le_bytes(*after.first_chunk().ok_or_else(short)?) as usize, 12),
        other => return Err(format!("it has numpy format {other}, which is unknown")),
    };
    let header = bytes.get(start..start.saturating_add(length)).ok_or_else(short)?;
    let header = std::str::from_utf8(header).map_err(|_| "its header is not text".to_string())?;
    Ok((header, &bytes[start + length..]))
}

/// The value of `key` in the header's Python dictionary: a word, or everything in a pair of parentheses.
fn field<'a>(header: &'a str, key: &str) -> Result<&'a str, String> {
    let missing = || format!("its header has no `{key}`");
    let after = header.split_once(&format!("'{key}':")).ok_or_else(missing)?.1.trim_start();
    if after.starts_with('[') {
        return Err("it is a structured array; save plain arrays".into());
    }
    let end = if after.starts_with('(') { after.find(')').map(|e| e + 1) } else { after.find([',', '}']) };
    Ok(after[..end.ok_or_else(missing)?].trim())
}

fn parse_shape(text: &str) -> Result<Vec<usize>, String> {
    let inner = text.trim_start_matches('(').trim_end_matches(')');
    let numbers = inner.split(',').map(str::trim).filter(|part| !part.is_empty());
    numbers.map(|part| part.parse().map_err(|_| format!("its shape `{text}` is not a shape"))).collect()
}

fn element_count(shape: &[usize]) -> Result<usize, String> {
    let product = shape.iter().try_fold(1_usize, |product, &n| product.checked_mul(n));
    product.ok_or_else(|| format!("its shape {shape:?} overflows"))
}

/// (big-endian?, kind, bytes an item) of a type such as `<f4` or `|b1` or `>U7`.
fn split_descr(descr: &str) -> Result<(bool, char, usize), String> {
    let unknown = || format!("its type `{descr}` is unknown");
    let mut letters = descr.chars();
    let order = letters.next().ok_or_else(unknown)?;
    let kind = letters.next().ok_or_else(unknown)?;
    if !"<>|=".contains(order) || !kind.is_ascii() {
        return Err(unknown());
    }
    if kind == 'O' {
        return Err("it holds Python objects; save numbers, or words with numpy.array(…, dtype=str)".into());
    }
    let size: usize = letters.as_str().parse().map_err(|_| unknown())?;
    let size = if kind == 'U' { size.checked_mul(4).ok_or_else(unknown)? } else { size };
    Ok((order == '>', kind, size))
}

fn unsigned(bytes: &[u8], big: bool) -> u64 {
    let fold = |value: u64, &byte: &u8| value << 8 | u64::from(byte);
    if big { bytes.iter().fold(0, fold) } else { bytes.iter().rev().fold(0, fold) }
}

fn signed(bytes: &[u8], big: bool) -> i64 {
    let unused = 64 - 8 * bytes.len() as u32;
    ((unsigned(bytes, big) << unused) as i64) >> unused
}

fn text(bytes: &[u8], big: bool) -> String {
    let letters = bytes.chunks_exact(4).map(|b| unsigned(b, big) as u32).take_while(|&c| c != 0);
    letters.map(|c| char::from_u32(c).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// A word of bytes (numpy's `S`), padded with zeros.
fn byte_text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
