//! The control socket's protocol: any bytes are understood or refused, and with the same result however they are
//! split.
//!
//! The first byte is the length of pieces.

use super::Choices;

/// Longer inputs are only slower.
const BYTES_MAX: usize = 16 << 10;

/// Reads bytes as a client's input.
pub fn run(data: &[u8]) {
    let mut choices = Choices(&data[..data.len().min(BYTES_MAX)]);
    let size = usize::from(choices.byte()).max(1);
    let whole = elements_tools::control::understood([choices.0]);
    let pieces = elements_tools::control::understood(choices.0.chunks(size));
    assert_eq!(whole, pieces, "in pieces of {size} bytes");
}
