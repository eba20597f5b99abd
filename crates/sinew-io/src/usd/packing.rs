//! How a binary USD packs its tables: LZ4, and under it integers as differences of 0, 1, 2 or 4 bytes.

/// LZ4 cannot expand by more than this.
const MOST_LZ4: u64 = 255;

/// Four differences of two bits each, all "as usual", stand in one byte.
pub(super) const MOST_EXPANSION: u64 = MOST_LZ4 * 4;

/// The bytes of one packed table, at most `most`; `None` if it is malformed. Tables above 2 GB come in several chunks,
/// which openusd does not read either.
pub(super) fn unpack(packed: &[u8], most: u64) -> Option<Vec<u8>> {
    let (&chunks, block) = packed.split_first()?;
    let mut out = Vec::new();
    (chunks == 0).then(|| unpack_block(block, &mut out, most))??;
    Some(out)
}

/// `count` packed 32-bit integers: the usual difference, two bits for each that say how many bytes its difference has
/// (none: the usual one), then the differences.
pub(super) fn integers(packed: &[u8], count: u64) -> Option<Vec<i32>> {
    if count == 0 {
        return Some(Vec::new());
    }
    if count > packed.len() as u64 * MOST_EXPANSION {
        return None;
    }
    let bytes = unpack(packed, 4 + count.div_ceil(4) + 4 * count)?;
    let (usual, rest) = bytes.split_at_checked(4)?;
    let usual = i32::from_le_bytes(usual.try_into().expect("four bytes"));
    let (codes, mut rest) = rest.split_at_checked(count.div_ceil(4) as usize)?;
    let mut take = |width: usize| {
        let (head, tail) = rest.split_at_checked(width)?;
        rest = tail;
        Some(head)
    };
    let mut sum = 0_i32;
    let mut out = Vec::with_capacity(count as usize);
    for k in 0..count as usize {
        let difference = match codes[k / 4] >> (2 * (k % 4)) & 3 {
            0 => usual,
            1 => i32::from(take(1)?[0] as i8),
            2 => i32::from(i16::from_le_bytes(take(2)?.try_into().expect("two bytes"))),
            _ => i32::from_le_bytes(take(4)?.try_into().expect("four bytes")),
        };
        sum = sum.wrapping_add(difference);
        out.push(sum);
    }
    Some(out)
}

/// One LZ4 block: tokens of (literals, match), lengths of 15 continued byte by byte.
fn unpack_block(block: &[u8], out: &mut Vec<u8>, most: u64) -> Option<()> {
    let mut place = 0;
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
        if back == 0 || back > out.len() || (out.len() + count) as u64 > most {
            return None;
        }
        for _ in 0..count {
            out.push(out[out.len() - back]);
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of literals only.
    fn stored(bytes: &[u8]) -> Vec<u8> {
        assert!(bytes.len() < 15);
        [&[0, (bytes.len() as u8) << 4][..], bytes].concat()
    }

    #[test]
    fn matches_repeat_what_was_written() {
        // One literal, then a match of six bytes one back, then a last literal.
        assert_eq!(unpack(&[0, 0x12, b'a', 1, 0, 0x10, b'b'], 99).unwrap(), b"aaaaaaab");
        assert!(unpack(&[0, 0x12, b'a', 1, 0, 0x10, b'b'], 5).is_none(), "more than allowed");
        assert!(unpack(&[0, 0x12, b'a', 2, 0], 99).is_none(), "before the beginning");
    }

    #[test]
    fn integers_add_up_their_differences() {
        // Usual difference 1; the third of four has one byte (−7).
        let packed = stored(&[1, 0, 0, 0, 0b0001_0000, 0xf9]);
        assert_eq!(integers(&packed, 4).unwrap(), [1, 2, -5, -4]);
        assert!(integers(&packed, 1 << 40).is_none() && integers(&packed[..6], 4).is_none());
    }
}
