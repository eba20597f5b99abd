//! Where a broken FBX breaks: ufbx says what, not where, so its tree of records is walked once more after a failure.
//!
//! A binary FBX is a header of 27 bytes (its version in the last four) and records: `end count length name` (the first
//! three 32 bits wide before version 7500, then 64), `length` bytes of `count` properties, and records inside up to `end`,
//! closed by an empty one.

/// How deep records go; the format itself has no deeper use.
const DEEPEST: usize = 64;

/// The place of the first thing that cannot be, in words; `None` if the records are sound.
pub(super) fn first_fault(bytes: &[u8]) -> Option<String> {
    if !bytes.starts_with(b"Kaydara FBX Binary  \0") {
        return text_fault(bytes);
    }
    let Some(version) = number(bytes, 23, 4) else { return Some(format!("at byte {}: the header ends", bytes.len())) };
    let wide = if version >= 7500 { 8 } else { 4 };
    let mut at = 27;
    loop {
        match record(bytes, at, bytes.len(), wide, 0) {
            Ok(Some(end)) => at = end,
            Ok(None) => return None,
            Err(fault) => return Some(fault),
        }
    }
}

/// Where the polygons are listed, in a file whose geometry is wrong.
pub(super) fn polygons(bytes: &[u8]) -> String {
    const NAME: &[u8] = b"PolygonVertexIndex";
    let found = bytes.windows(NAME.len()).enumerate().filter(|(_, name)| *name == NAME).map(|(at, _)| at);
    let binary = bytes.starts_with(b"Kaydara FBX Binary");
    let line = |at: usize| 1 + bytes[..at].iter().filter(|&&byte| byte == b'\n').count();
    let place = |at: usize| if binary { format!("byte {at}") } else { format!("line {}", line(at)) };
    // A few lists are enough to look at.
    let places: Vec<String> = found.take(8).map(place).collect();
    let places = if places.is_empty() { "no place".into() } else { places.join(", ") };
    format!(
        "in its geometry, polygons listed at {places}: a polygon names a vertex that is not there, or a count is wrong"
    )
}

/// Walks one record; returns its end, or nothing for the empty record that closes a list.
fn record(bytes: &[u8], at: usize, limit: usize, wide: usize, depth: usize) -> Result<Option<usize>, String> {
    let wrong = |what: &str| Err(format!("at byte {at}: {what}"));
    let word = |k: usize| number(bytes, at + k * wide, wide).and_then(|word| usize::try_from(word).ok());
    let name = at + 3 * wide;
    let (Some(end), Some(count), Some(length), Some(&name_length)) = (word(0), word(1), word(2), bytes.get(name))
    else {
        return wrong("a record is cut short");
    };
    if end == 0 {
        return Ok(None);
    }
    let start = name + 1 + name_length as usize;
    let Some(inside) = start.checked_add(length).filter(|&inside| inside <= end && end <= limit) else {
        return wrong(&format!("a record claims to end at {end}, what holds it ends at {limit}"));
    };
    if depth > DEEPEST {
        return wrong("records are nested too deep");
    }
    let mut property = start;
    for _ in 0..count {
        property = match property_end(bytes, property) {
            Some(end) if end <= inside => end,
            _ => return Err(format!("at byte {property}: a property reaches beyond its record")),
        };
    }
    let mut child = inside;
    while child < end {
        match record(bytes, child, end, wide, depth + 1)? {
            Some(next) => child = next,
            None => break,
        }
    }
    Ok(Some(end))
}

/// Where the property at `at` ends; `None` if it is of no known kind or the file ends first.
fn property_end(bytes: &[u8], at: usize) -> Option<usize> {
    let fixed = match bytes.get(at)? {
        b'C' | b'B' => 1,
        b'Y' => 2,
        b'I' | b'F' => 4,
        b'D' | b'L' => 8,
        b'S' | b'R' => 4 + number(bytes, at + 1, 4)? as usize,
        b'f' | b'd' | b'l' | b'i' | b'b' | b'c' => 12 + number(bytes, at + 9, 4)? as usize,
        _ => return None,
    };
    Some(at + 1 + fixed)
}

/// Text: braces that close too often, or that nothing closes.
fn text_fault(bytes: &[u8]) -> Option<String> {
    let mut open = Vec::new();
    for (line, text) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let mut quoted = false;
        for &byte in text {
            match byte {
                b'"' => quoted = !quoted,
                b';' if !quoted => break,
                b'{' if !quoted => open.push(line + 1),
                b'}' if !quoted && open.pop().is_none() => {
                    return Some(format!("line {}: a brace closes nothing", line + 1));
                }
                _ => {}
            }
        }
    }
    open.last().map(|line| format!("line {line}: nothing closes this brace"))
}

/// A little-endian number of `width` bytes.
fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(width)?)?;
    Some(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}
