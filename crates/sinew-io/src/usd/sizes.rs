//! Looks over the sizes that a binary USD (`.usdc`) claims, before openusd believes them.
//!
//! openusd allocates what a file says, and an allocation of exabytes ends the program. Every count is therefore held
//! against the file's length here: sections and their tables, then the values that the fields refer to (a word each:
//! array bit, inlined bit, compressed bit, eight bits of type, 48 bits of offset).

/// LZ4 cannot expand by more than this; nor can USD's packing of integers on top of it, four to a byte.
const MOST_EXPANSION: u64 = 255 * 4;

/// Shorter arrays are not packed, whatever their word says.
const FEWEST_PACKED: u64 = 16;

/// Type numbers of the format.
const INTEGERS: std::ops::RangeInclusive<u64> = 3..=6;
/// Half, float, double, with their bytes.
const FLOATS: [(u64, u64); 3] = [(7, 2), (8, 4), (9, 8)];
const DICTIONARY: u64 = 31;
const LIST_OPERATIONS: std::ops::RangeInclusive<u64> = 32..=39;
const PATH_VECTOR: u64 = 40;
const TOKEN_VECTOR: u64 = 41;
const VARIANT_SELECTIONS: u64 = 45;
const TIME_SAMPLES: u64 = 46;
const VECTORS: std::ops::RangeInclusive<u64> = 48..=50;
const PAYLOAD_LIST: u64 = 55;
const RELOCATES: u64 = 58;

/// Refuses a `.usdc` with a size that cannot be; other bytes pass. The error has the offset.
pub(super) fn check(bytes: &[u8]) -> Result<(), String> {
    if !bytes.starts_with(b"PXR-USDC") {
        return Ok(());
    }
    let file = Bytes(bytes);
    let version = (file.take(8, 3)?[0], file.take(8, 3)?[1]);
    let contents = file.word(16)?;
    let sections = file.word(contents)?;
    file.fits(contents, sections, 32)?;
    for k in 0..sections {
        let entry = contents + 8 + 32 * k;
        let name = file.take(entry, 16)?;
        let (start, size) = (file.word(entry + 16)?, file.word(entry + 24)?);
        if start.checked_add(size).is_none_or(|end| end > bytes.len() as u64) {
            return Err(format!("at byte {entry}: a section of {size} bytes at {start} does not fit in the file"));
        }
        let section = Section { file: &file, start, end: start + size };
        let name = String::from_utf8_lossy(name);
        match name.trim_end_matches('\0') {
            "TOKENS" => section.tokens()?,
            "STRINGS" => section.plain(4)?,
            "FIELDS" => section.fields(version)?,
            "FIELDSETS" | "SPECS" => section.packed(8)?,
            "PATHS" => section.packed(16)?,
            _ => {}
        }
    }
    Ok(())
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&self, offset: u64, count: u64) -> Result<&'a [u8], String> {
        let end = offset.checked_add(count).filter(|&end| end <= self.0.len() as u64);
        let end = end.ok_or_else(|| format!("at byte {offset}: {count} bytes are needed, the file ends before"))?;
        Ok(&self.0[offset as usize..end as usize])
    }

    fn word(&self, offset: u64) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.take(offset, 8)?.try_into().expect("eight bytes were taken")))
    }

    /// Refuses `count` elements of at least `size` bytes behind `offset`.
    fn fits(&self, offset: u64, count: u64, size: u64) -> Result<(), String> {
        let left = (self.0.len() as u64).saturating_sub(offset);
        match count.checked_mul(size).is_some_and(|needed| needed <= left) {
            true => Ok(()),
            false => Err(format!("at byte {offset}: {count} elements are claimed, {left} bytes are left")),
        }
    }

    /// The same for packed elements.
    fn fits_packed(&self, offset: u64, count: u64) -> Result<(), String> {
        match count <= self.0.len() as u64 * MOST_EXPANSION {
            true => Ok(()),
            false => Err(format!("at byte {offset}: {count} packed elements are claimed")),
        }
    }
}

struct Section<'a> {
    file: &'a Bytes<'a>,
    start: u64,
    end: u64,
}

impl Section<'_> {
    fn plain(&self, size: u64) -> Result<(), String> {
        self.file.fits(self.start, self.file.word(self.start)?, size)
    }

    /// A count, perhaps a second, and at `behind` the size of the packed bytes that follow.
    fn packed(&self, behind: u64) -> Result<(), String> {
        for offset in (0..behind).step_by(8) {
            self.bounded(self.start + offset, self.file.word(self.start + offset)?)?;
        }
        self.file.fits(self.start + behind + 8, self.file.word(self.start + behind)?, 1)
    }

    fn bounded(&self, offset: u64, count: u64) -> Result<(), String> {
        match count <= (self.end - self.start) * MOST_EXPANSION {
            true => Ok(()),
            false => Err(format!(
                "at byte {offset}: {count} elements are claimed in a section of {} bytes",
                self.end - self.start
            )),
        }
    }

    fn tokens(&self) -> Result<(), String> {
        self.bounded(self.start, self.file.word(self.start)?)?;
        self.bounded(self.start + 8, self.file.word(self.start + 8)?)?;
        self.file.fits(self.start + 24, self.file.word(self.start + 16)?, 1)
    }

    /// Every value a field refers to.
    fn fields(&self, version: (u8, u8)) -> Result<(), String> {
        let count = self.file.word(self.start)?;
        self.bounded(self.start, count)?;
        let names = self.file.word(self.start + 8)?;
        self.file.fits(self.start + 16, names, 1)?;
        let place = self.start + 16 + names;
        let size = self.file.word(place)?;
        let packed = self.file.take(place + 8, size)?;
        let values = unpack(packed, count.saturating_mul(8))
            .ok_or_else(|| format!("at byte {place}: the values of the fields"))?;
        for word in values.chunks_exact(8) {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            check_value(self.file, word, version, true)?;
        }
        Ok(())
    }
}

fn check_value(file: &Bytes<'_>, word: u64, version: (u8, u8), outermost: bool) -> Result<(), String> {
    let (array, inlined, packed) = (word >> 63 & 1 == 1, word >> 62 & 1 == 1, word >> 61 & 1 == 1);
    let (kind, offset) = (word >> 48 & 0xff, word & 0xffff_ffff_ffff);
    if inlined || offset == 0 {
        return Ok(());
    }
    if array {
        // Counts are 32 bits wide before 0.7, behind a rank before 0.5.
        let place = if version < (0, 5) { offset + 4 } else { offset };
        let count = match version < (0, 7) {
            true => u64::from(u32::from_le_bytes(file.take(place, 4)?.try_into().expect("four bytes were taken"))),
            false => file.word(place)?,
        };
        if !packed || count < FEWEST_PACKED {
            return file.fits(place, count, 1);
        }
        file.fits_packed(place, count)?;
        let behind = if version < (0, 7) { place + 4 } else { place + 8 };
        return check_packed(file, kind, behind);
    }
    match kind {
        TIME_SAMPLES if outermost => check_samples(file, offset, version),
        DICTIONARY | PATH_VECTOR | TOKEN_VECTOR | VARIANT_SELECTIONS | RELOCATES => {
            file.fits(offset, file.word(offset)?, 4)
        }
        kind if VECTORS.contains(&kind) => file.fits(offset, file.word(offset)?, 4),
        kind if LIST_OPERATIONS.contains(&kind) || kind == PAYLOAD_LIST => {
            // A byte says which lists follow; the first list's count is behind it.
            let flags = file.take(offset, 1)?[0];
            if flags & 0b0111_1110 == 0 { Ok(()) } else { file.fits(offset + 1, file.word(offset + 1)?, 1) }
        }
        _ => Ok(()),
    }
}

/// The size of packed bytes: at once for integers; for floats behind a letter that says how they are packed, as
/// integers (`i`) or by a table of values (`t`).
fn check_packed(file: &Bytes<'_>, kind: u64, offset: u64) -> Result<(), String> {
    let sized = |place: u64| file.fits(place + 8, file.word(place)?, 1);
    if INTEGERS.contains(&kind) {
        return sized(offset);
    }
    let Some(width) = FLOATS.into_iter().find(|&(float, _)| float == kind).map(|(_, width)| width) else {
        return Ok(());
    };
    match file.take(offset, 1)?[0] {
        b'i' => sized(offset + 1),
        b't' => {
            let count = u32::from_le_bytes(file.take(offset + 1, 4)?.try_into().expect("four bytes were taken"));
            file.fits(offset + 5, count.into(), width)?;
            sized(offset + 5 + u64::from(count) * width)
        }
        _ => Ok(()),
    }
}

/// Time samples: a jump to the times, a jump to the values, and as many words as there are values.
fn check_samples(file: &Bytes<'_>, offset: u64, version: (u8, u8)) -> Result<(), String> {
    let jump = |place: u64| -> Result<u64, String> {
        let distance = file.word(place)? as i64;
        place.checked_add_signed(distance).ok_or_else(|| format!("at byte {place}: a jump out of the file"))
    };
    let times = jump(offset)?;
    check_value(file, file.word(times)?, version, false)?;
    let values = jump(times + 8)?;
    let count = file.word(values)?;
    file.fits(values + 8, count, 8)?;
    for k in 0..count {
        check_value(file, file.word(values + 8 + 8 * k)?, version, false)?;
    }
    Ok(())
}

/// USD's compression: a number of chunks (0 is one without a size before it), each an LZ4 block.
fn unpack(packed: &[u8], most: u64) -> Option<Vec<u8>> {
    let (&chunks, mut rest) = packed.split_first()?;
    let mut out = Vec::new();
    if chunks == 0 {
        unpack_block(rest, &mut out, most)?;
        return Some(out);
    }
    for _ in 0..chunks {
        let (size, behind) = rest.split_at_checked(4)?;
        let size = usize::try_from(i32::from_le_bytes(size.try_into().expect("four bytes"))).ok()?;
        let (block, behind) = behind.split_at_checked(size)?;
        unpack_block(block, &mut out, most)?;
        rest = behind;
    }
    Some(out)
}

/// One LZ4 block: tokens of (literals, match), lengths of 15 continued byte by byte.
fn unpack_block(block: &[u8], out: &mut Vec<u8>, most: u64) -> Option<()> {
    let mut place = 0;
    let start = out.len();
    let length = |first: u8, place: &mut usize| -> Option<usize> {
        let mut sum = first as usize;
        if first == 15 {
            loop {
                let byte = *block.get(*place)?;
                *place += 1;
                sum += byte as usize;
                if byte != 255 {
                    break;
                }
            }
        }
        Some(sum)
    };
    while place < block.len() {
        let token = block[place];
        place += 1;
        let literals = length(token >> 4, &mut place)?;
        out.extend_from_slice(block.get(place..place.checked_add(literals)?)?);
        place += literals;
        if place == block.len() {
            break;
        }
        let back = u16::from_le_bytes([*block.get(place)?, *block.get(place + 1)?]) as usize;
        place += 2;
        let count = length(token & 15, &mut place)? + 4;
        if back == 0 || back > out.len() - start || (out.len() + count) as u64 > most {
            return None;
        }
        for _ in 0..count {
            out.push(out[out.len() - back]);
        }
    }
    Some(())
}
