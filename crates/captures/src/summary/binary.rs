//! Binary records: a length word, then the fields of the `!data` line in network order.

use super::field_text::View;
use super::record::Record;
use super::{Field, Size};

/// The bit of a record's first word that marks a line of text in place of a packet.
pub(super) const META: u32 = 1 << 31;

/// Writes a packet as a record.
pub fn push(view: &View<'_>, fields: &[Field], out: &mut Vec<u8>) {
    let from = out.len();
    out.extend([0; 4]);
    for &field in fields {
        push_field(view, field, out);
    }
    let len = (out.len() - from) as u32;
    out[from..from + 4].copy_from_slice(&len.to_be_bytes());
}

/// Writes a line of text, newline included, as a record.
pub fn push_line(line: &[u8], out: &mut Vec<u8>) {
    let len = line.len() as u32 + 4;
    out.extend((len | META).to_be_bytes());
    out.extend(line);
}

fn push_field(view: &View<'_>, field: Field, out: &mut Vec<u8>) {
    let from = out.len();
    match field.size() {
        Size::None => {}
        Size::Counted => {
            out.push(0);
            // A field that the packet lacks has length 0.
            let _ = view.push_bytes(field, out);
            out[from] = u8::try_from(out.len() - from - 1).unwrap_or(0);
            out.truncate(from + 1 + usize::from(out[from]));
        }
        Size::Bytes(size) => {
            if let Some([seconds, rest]) = stamp(view, field) {
                out.extend(seconds.to_be_bytes());
                out.extend(rest.to_be_bytes());
            } else if view.push_bytes(field, out).is_none() {
                let number = view.number(field).unwrap_or(0).to_be_bytes();
                let fill = size.saturating_sub(8);
                out.extend(std::iter::repeat_n(0, fill));
                out.extend(&number[8 - size.min(8)..]);
            }
        }
    }
}

fn stamp(view: &View<'_>, field: Field) -> Option<[u32; 2]> {
    let (time, first) = view.times();
    let (nanos, stamp) = match field {
        Field::Timestamp(stamp) => (time, stamp),
        Field::FirstTimestamp(stamp) => (first, stamp),
        _ => return None,
    };
    Some([
        (nanos / 1_000_000_000) as u32,
        (nanos % 1_000_000_000 / u64::from(stamp.unit())) as u32,
    ])
}

/// Sets the fields of `record` from the bytes after a record's length word. If the bytes are too few, only the first
/// fields are set.
pub fn parse(mut data: &[u8], fields: &[Option<Field>], record: &mut Record) {
    for field in fields {
        // The length of an unknown field is unknown: the rest cannot be read.
        let Some(field) = field else {
            return;
        };
        let taken = match field.size() {
            Size::None => Some(0),
            Size::Counted => data.first().map(|len| usize::from(*len) + 1),
            Size::Bytes(size) => Some(size),
        };
        let Some((bytes, rest)) = taken.and_then(|len| data.split_at_checked(len)) else {
            return;
        };
        data = rest;
        record.set_binary(*field, bytes);
    }
}
