//! Looks over what a binary USD (`.usdc`) claims, before openusd believes it.
//!
//! openusd allocates what a file says and follows every reference, and an allocation of exabytes, or a value that
//! contains itself, ends the program. Every count is therefore held against the file's length here: the sections and their
//! tables, the tree of paths, then the values that the fields refer to (a word each: array bit, inlined bit,
//! compressed bit, eight bits of type, 48 bits of offset). Indices out of range need no look: openusd panics on them,
//! which the reader's thread turns into an error.

use super::packing::{MOST_EXPANSION, integers, unpack};

/// More tokens, paths, fields or specs than this are not a character.
const MOST_ENTRIES: u64 = 1 << 24;

/// Elements of one packed array.
const MOST_PACKED: u64 = 1 << 27;

/// Bytes that one field may become in memory, beyond four times the file: what is shared in the file is not in memory.
const MOST_BYTES: u64 = 1 << 30;

/// How deep dictionaries and paths go.
const DEEPEST: usize = 256;

/// openusd takes shorter arrays for unpacked, whatever their word says.
const FEWEST_PACKED: u64 = 4;

/// Bytes an element of an array has in the file, by the format's number of its type (1 to 30).
const WIDTHS: [u64; 31] =
    [0, 1, 1, 4, 4, 8, 8, 2, 4, 8, 4, 4, 4, 32, 72, 128, 32, 16, 8, 16, 8, 4, 8, 24, 12, 6, 12, 32, 16, 8, 16];
const INTEGERS: std::ops::RangeInclusive<u64> = 3..=6;
const FLOATS: std::ops::RangeInclusive<u64> = 7..=9;
const TEXTS: std::ops::RangeInclusive<u64> = 10..=12;
const DICTIONARY: u64 = 31;
const REFERENCE_LIST: u64 = 35;
const PATH_VECTOR: u64 = 40;
const TOKEN_VECTOR: u64 = 41;
const VARIANT_SELECTIONS: u64 = 45;
const TIME_SAMPLES: u64 = 46;
const DOUBLE_VECTOR: u64 = 48;
const LAYER_OFFSET_VECTOR: u64 = 49;
const STRING_VECTOR: u64 = 50;
const PAYLOAD_LIST: u64 = 55;
const TIME_CODE: u64 = 56;
const PATH_EXPRESSION: u64 = 57;
const RELOCATES: u64 = 58;

/// A list operation's element: its type's number, bytes in the file.
const LISTS: [(u64, u64); 8] = [(32, 4), (33, 4), (34, 4), (36, 4), (37, 8), (38, 4), (39, 8), (54, 4)];

/// Refuses a `.usdc` with a claim that cannot be; other bytes pass. The error has the offset.
pub(super) fn check(bytes: &[u8]) -> Result<(), String> {
    if !bytes.starts_with(b"PXR-USDC") {
        return Ok(());
    }
    let mut file = Bytes { bytes, version: (0, 0), longest_text: 0, longest_path: 0, steps: bytes.len() as u64 };
    let version = file.take(8, 3)?;
    file.version = (version[0], version[1]);
    if file.version < (0, 4) {
        let what = format!("a file of version {}.{} is too old; save it anew", version[0], version[1]);
        return Err(format!("at byte 8: {what}"));
    }
    let contents = file.word(16)?;
    let count = file.word(contents)?;
    file.fits(contents, count, 32)?;
    let mut sections = Vec::new();
    for k in 0..count {
        let entry = contents + 8 + 32 * k;
        let name = file.take(entry, 16)?.split(|&byte| byte == 0).next().unwrap_or_default().to_owned();
        let (start, size) = (file.word(entry + 16)?, file.word(entry + 24)?);
        if start.checked_add(size).is_none_or(|end| end > bytes.len() as u64) {
            return Err(format!("at byte {entry}: a section of {size} bytes at {start} does not fit in the file"));
        }
        sections.push((name, start));
    }
    let mut tokens = Vec::new();
    for (_, start) in sections.iter().filter(|(name, _)| name == b"TOKENS") {
        tokens = file.tokens(*start)?;
        file.longest_text = tokens.iter().copied().max().unwrap_or(0);
    }
    for (_, start) in sections.iter().filter(|(name, _)| name == b"PATHS") {
        file.longest_path = file.paths(*start, &tokens)?;
    }
    for (name, start) in sections {
        match name.as_slice() {
            b"STRINGS" => file.fits(start, file.word(start)?, 4)?,
            b"FIELDSETS" => file.tables(start, start + 8, 1).map(drop)?,
            b"SPECS" => file.tables(start, start + 8, 3).map(drop)?,
            b"FIELDS" => file.fields(start)?,
            _ => {}
        }
    }
    Ok(())
}

struct Bytes<'a> {
    bytes: &'a [u8],
    version: (u8, u8),
    /// Bytes of the longest token, and of the longest path.
    longest_text: u64,
    longest_path: u64,
    /// How many more entries of dictionaries and references are followed: an honest file has fewer than bytes.
    steps: u64,
}

impl<'a> Bytes<'a> {
    fn take(&self, offset: u64, count: u64) -> Result<&'a [u8], String> {
        let end = offset.checked_add(count).filter(|&end| end <= self.bytes.len() as u64);
        let end = end.ok_or_else(|| format!("at byte {offset}: {count} bytes are needed, the file ends before"))?;
        Ok(&self.bytes[offset as usize..end as usize])
    }

    fn word(&self, offset: u64) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.take(offset, 8)?.try_into().expect("eight bytes were taken")))
    }

    /// Where the jump that stands at `place` leads.
    fn jump(&self, place: u64) -> Result<u64, String> {
        let distance = self.word(place)? as i64;
        place.checked_add_signed(distance).ok_or_else(|| format!("at byte {place}: a jump out of the file"))
    }

    /// Refuses `count` elements of at least `size` bytes behind `offset`.
    fn fits(&self, offset: u64, count: u64, size: u64) -> Result<(), String> {
        let left = (self.bytes.len() as u64).saturating_sub(offset);
        match count.checked_mul(size).is_some_and(|needed| needed <= left) {
            true => Ok(()),
            false => Err(format!("at byte {offset}: {count} elements are claimed, {left} bytes are left")),
        }
    }

    /// Packed bytes at `place`, with their size before them, and where they end.
    fn packed(&self, place: u64) -> Result<(&'a [u8], u64), String> {
        let size = self.word(place)?;
        let packed = self.take(place + 8, size)?;
        Ok((packed, place + 8 + size))
    }

    /// Refuses a count at `place` of entries that `packed` bytes cannot hold.
    fn entries(&self, place: u64, count: u64, packed: &[u8]) -> Result<(), String> {
        match count <= MOST_ENTRIES.min(packed.len() as u64 * MOST_EXPANSION) {
            true => Ok(()),
            false => Err(format!("at byte {place}: {count} entries are claimed in {} packed bytes", packed.len())),
        }
    }

    /// `tables` tables of packed integers from `place` on, as many in each as the count at `counted` says.
    fn tables(&self, counted: u64, mut place: u64, tables: usize) -> Result<Vec<&'a [u8]>, String> {
        let count = self.word(counted)?;
        let mut found = Vec::new();
        for _ in 0..tables {
            let (packed, end) = self.packed(place)?;
            self.entries(counted, count, packed)?;
            found.push(packed);
            place = end;
        }
        Ok(found)
    }

    /// The bytes of each token.
    fn tokens(&self, start: u64) -> Result<Vec<u64>, String> {
        let (count, size) = (self.word(start)?, self.word(start + 8)?);
        let (packed, _) = self.packed(start + 16)?;
        self.entries(start, count, packed)?;
        if size > packed.len() as u64 * MOST_EXPANSION {
            return Err(format!("at byte {}: {size} bytes of tokens from {} packed", start + 8, packed.len()));
        }
        let text = unpack(packed, size).ok_or_else(|| format!("at byte {start}: the tokens do not unpack"))?;
        Ok(text.split(|&byte| byte == 0).map(|token| token.len() as u64).collect())
    }

    /// The tree of paths, in the order of a walk: each entry says how far on its next sibling is (0 no child, −1 no
    /// sibling, −2 neither). Every entry is reached once. Returns the bytes of the longest path.
    fn paths(&self, start: u64, tokens: &[u64]) -> Result<u64, String> {
        let wrong = |what: &str| format!("at byte {start}: {what} of the paths");
        let (paths, count) = (self.word(start)?, self.word(start + 8)?);
        let tables = self.tables(start + 8, start + 16, 3)?;
        // One path, the empty one, may stand outside the tree.
        if paths > count + 1 {
            return Err(wrong(&format!("the tree has {count} entries for {paths}")));
        }
        let unpacked = |k: usize| integers(tables[k], count).ok_or_else(|| wrong("the tables do not unpack"));
        let (names, jumps) = (unpacked(1)?, unpacked(2)?);
        let (mut at, mut parent, mut visited) = (0, (0_u64, 0_usize), 0);
        let mut pending = Vec::new();
        let (mut longest, mut total) = (0, 0);
        if count == 0 {
            return Ok(0);
        }
        loop {
            visited += 1;
            let (Some(&name), Some(&jump)) = (names.get(at), jumps.get(at)) else {
                return Err(wrong("the tree leaves the table"));
            };
            let own = tokens.get(name.unsigned_abs() as usize).copied().unwrap_or(0);
            let (bytes, depth) = (parent.0 + own + 1, parent.1 + 1);
            longest = longest.max(bytes);
            total += bytes;
            if visited > count || depth > DEEPEST || total > MOST_BYTES {
                return Err(wrong("the tree is endless"));
            }
            if jump > 0 {
                pending.push((at + jump as usize, parent));
            }
            if jump > 0 || jump == -1 {
                parent = (bytes, depth);
            }
            at += 1;
            if jump < -1 {
                let Some(next) = pending.pop() else { break };
                (at, parent) = next;
            }
        }
        Ok(longest)
    }

    /// Every value a field refers to.
    fn fields(&mut self, start: u64) -> Result<(), String> {
        let count = self.word(start)?;
        let (packed, place) = self.packed(start + 8)?;
        self.entries(start, count, packed)?;
        let (packed, _) = self.packed(place)?;
        let values = unpack(packed, count.saturating_mul(8))
            .ok_or_else(|| format!("at byte {place}: the values of the fields do not unpack"))?;
        for word in values.chunks_exact(8) {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            let bytes = self.value(word, 0)?;
            self.bounded(place, bytes)?;
        }
        Ok(())
    }

    fn bounded(&self, place: u64, bytes: u64) -> Result<(), String> {
        match bytes <= MOST_BYTES + 4 * self.bytes.len() as u64 {
            true => Ok(()),
            false => Err(format!("at byte {place}: a value would take {bytes} bytes in memory")),
        }
    }

    /// Looks over a value; returns about how many bytes it becomes in memory.
    fn value(&mut self, word: u64, depth: usize) -> Result<u64, String> {
        let (array, inlined, packed) = (word >> 63 & 1 == 1, word >> 62 & 1 == 1, word >> 61 & 1 == 1);
        let (kind, offset) = (word >> 48 & 0xff, word & 0xffff_ffff_ffff);
        if inlined || offset == 0 && array {
            return Ok(0);
        }
        if depth > DEEPEST {
            return Err(format!("at byte {offset}: values are nested more than {DEEPEST} deep"));
        }
        if array && kind != PATH_EXPRESSION {
            return self.array(kind, offset, packed);
        }
        if let Some(&(_, width)) = LISTS.iter().find(|(list, _)| *list == kind) {
            return self.lists(offset, |file, place, count| {
                file.fits(place, count, width)?;
                Ok((place + count * width, file.texts(count)))
            });
        }
        match kind {
            TIME_SAMPLES => self.samples(offset, depth),
            DICTIONARY => Ok(self.dictionary(offset, depth)?.1),
            REFERENCE_LIST => self.lists(offset, |file, place, count| file.references(place, count, depth)),
            PAYLOAD_LIST => self.lists(offset, |file, place, count| {
                let width = if file.version < (0, 8) { 8 } else { 24 };
                file.fits(place, count, width)?;
                Ok((place + count * width, file.texts(count)))
            }),
            PATH_VECTOR | TOKEN_VECTOR | STRING_VECTOR | PATH_EXPRESSION | VARIANT_SELECTIONS | RELOCATES => {
                let count = self.word(offset)?;
                self.fits(offset, count, 4)?;
                Ok(self.texts(2 * count))
            }
            DOUBLE_VECTOR | LAYER_OFFSET_VECTOR => self.fits(offset, self.word(offset)?, 8).map(|()| 0),
            _ => Ok(0),
        }
    }

    /// What `count` references to tokens or paths become at most.
    fn texts(&self, count: u64) -> u64 {
        count.saturating_mul(24 + self.longest_text.max(self.longest_path))
    }

    fn array(&self, kind: u64, offset: u64, packed: bool) -> Result<u64, String> {
        // Counts are 32 bits wide before 0.7, behind a rank before 0.5.
        let place = if self.version < (0, 5) { offset + 4 } else { offset };
        let (count, behind) = match self.version < (0, 7) {
            true => {
                let count = self.take(place, 4)?.try_into().expect("four bytes were taken");
                (u64::from(u32::from_le_bytes(count)), place + 4)
            }
            false => (self.word(place)?, place + 8),
        };
        let width = if kind == TIME_CODE { 8 } else { WIDTHS.get(kind as usize).copied().unwrap_or(1) };
        let floats = FLOATS.contains(&kind) || kind == TIME_CODE;
        if packed && count >= FEWEST_PACKED && (INTEGERS.contains(&kind) || floats) {
            let size = self.packed_array(behind, floats.then_some(width))?;
            if count > MOST_PACKED.min(size * MOST_EXPANSION) {
                return Err(format!("at byte {place}: {count} elements are claimed in {size} packed bytes"));
            }
            return Ok(2 * count * width.max(4));
        }
        self.fits(behind, count, width)?;
        Ok(if TEXTS.contains(&kind) { self.texts(count) } else { count * width })
    }

    /// The size of packed bytes: at once for integers; for floats behind a letter that says how they are packed, as
    /// integers (`i`) or by a table of values (`t`).
    fn packed_array(&self, offset: u64, float_width: Option<u64>) -> Result<u64, String> {
        let sized = |place: u64| self.packed(place).map(|(packed, _)| packed.len() as u64);
        let Some(width) = float_width else { return sized(offset) };
        match self.take(offset, 1)?[0] {
            b'i' => sized(offset + 1),
            b't' => {
                let count = self.take(offset + 1, 4)?.try_into().expect("four bytes were taken");
                let count = u64::from(u32::from_le_bytes(count));
                self.fits(offset + 5, count, width)?;
                sized(offset + 5 + count * width)
            }
            other => Err(format!("at byte {offset}: floats are packed in the unknown way {other}")),
        }
    }

    /// A list operation: a byte says which lists follow, each a count and its elements. `list` is given a list's
    /// place and count, and returns its end and its bytes in memory.
    fn lists(
        &mut self,
        offset: u64,
        mut list: impl FnMut(&mut Self, u64, u64) -> Result<(u64, u64), String>,
    ) -> Result<u64, String> {
        let flags = self.take(offset, 1)?[0] & 0b0111_1110;
        let (mut place, mut total) = (offset + 1, 0_u64);
        for _ in 0..flags.count_ones() {
            let count = self.word(place)?;
            let (end, bytes) = list(self, place + 8, count)?;
            place = end;
            total = total.saturating_add(bytes);
        }
        Ok(total)
    }

    /// References: an asset, a path and a layer offset (24 bytes), then a dictionary.
    fn references(&mut self, mut place: u64, count: u64, depth: usize) -> Result<(u64, u64), String> {
        self.fits(place, count, 32)?;
        let mut total = self.texts(2 * count);
        for _ in 0..count {
            self.step(place)?;
            let (end, bytes) = self.dictionary(place + 24, depth)?;
            place = end;
            total = total.saturating_add(bytes);
        }
        Ok((place, total))
    }

    /// A dictionary: a count, then for each entry its key (4 bytes) and a jump to the word of its value, behind which
    /// the next entry follows. Returns its end and its bytes in memory.
    fn dictionary(&mut self, offset: u64, depth: usize) -> Result<(u64, u64), String> {
        let count = self.word(offset)?;
        self.fits(offset, count, 4)?;
        let (mut place, mut total) = (offset + 8, self.texts(count));
        for _ in 0..count {
            self.step(place)?;
            let word = self.jump(place + 4)?;
            let bytes = self.value(self.word(word)?, depth + 1)?;
            total = total.saturating_add(bytes);
            place = word + 8;
        }
        Ok((place, total))
    }

    fn step(&mut self, place: u64) -> Result<(), String> {
        self.steps = self.steps.checked_sub(1).ok_or_else(|| format!("at byte {place}: values refer to themselves"))?;
        Ok(())
    }

    /// Time samples: a jump to the times, a jump to the values, and as many words as there are values.
    fn samples(&mut self, offset: u64, depth: usize) -> Result<u64, String> {
        let times = self.jump(offset)?;
        let mut total = self.value(self.word(times)?, depth + 1)?;
        let values = self.jump(times + 8)?;
        let count = self.word(values)?;
        self.fits(values + 8, count, 8)?;
        for k in 0..count {
            let word = self.word(values + 8 + 8 * k)?;
            // Samples of samples do not occur, and would multiply.
            if word >> 48 & 0xff == TIME_SAMPLES {
                return Err(format!("at byte {values}: time samples within time samples"));
            }
            total = total.saturating_add(self.value(word, depth + 1)?);
        }
        Ok(total)
    }
}
