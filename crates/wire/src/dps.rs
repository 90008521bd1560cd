//! Dynamic packet state: a header in which packets of a guaranteed flow carry the flow's state, so that routers keep
//! none.
//!
//! The header stands between the Ethernet header, whose Ethertype is [`ETHERTYPE`], and the packet:
//!
//! ```text
//!  0       1       2               4                               8                              16
//! +-------+-------+---------------+-------------------------------+-------------------------------+
//! |   1   |   0   |   Ethertype   |              hop              |             lead              |
//! +-------+-------+---------------+-------------------------------+-------------------------------+
//! ```
//!
//! All fields are in network order: the version, a byte that is 0, the Ethertype of the packet, and two times in
//! nanoseconds. `hop` is the time that the flow's longest packet takes at the flow's rate; at each hop the virtual time
//! advances by it. A `hop` of 0 marks a packet without guarantee. `lead` is the time by which the packet reaches the
//! next router before its virtual time. A router adds `lead` to its own clock, so clocks need not agree.

use crate::bytes::{array, be16, be32, put, put16, put32};

/// Length of the state in bytes.
pub const LEN: usize = 16;
/// The first Ethertype that IEEE 802 reserves for local experiments.
pub const ETHERTYPE: u16 = 0x88b5;
/// The longest accepted lead in nanoseconds: a minute.
pub const LEAD_MAX: u64 = 60_000_000_000;
const VERSION: u8 = 1;

/// State that a packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Ethertype of the packet after this header.
    pub payload: u16,
    /// Time per hop in nanoseconds; 0: without a guarantee.
    pub hop: u32,
    /// Nanoseconds by which the packet arrives before its virtual time.
    pub lead: u64,
}

impl State {
    /// Parses the state at the beginning of `bytes`; `None` if it is invalid.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<State> {
        let bytes = bytes.first_chunk::<LEN>()?;
        let state = State {
            payload: be16(bytes, 2),
            hop: be32(bytes, 4),
            lead: u64::from_be_bytes(array(bytes, 8)),
        };
        let sound = state.lead <= LEAD_MAX && (state.hop > 0 || state.lead == 0);
        (bytes[..2] == [VERSION, 0] && sound).then_some(state)
    }

    /// Writes the state to a packet's bytes.
    #[inline]
    pub fn write(self, bytes: &mut [u8; LEN]) {
        bytes[..2].copy_from_slice(&[VERSION, 0]);
        put16(bytes, 2, self.payload);
        put32(bytes, 4, self.hop);
        put(bytes, 8, self.lead.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: State = State {
        payload: 0x0800,
        hop: 20_000_000,
        lead: 5_000_000_000,
    };

    #[test]
    fn written_state_parses_to_the_same_state() {
        let mut bytes = [0xff; LEN];
        STATE.write(&mut bytes);
        assert_eq!(bytes[..8], [1, 0, 8, 0, 0x01, 0x31, 0x2d, 0x00]);
        assert_eq!(State::read(&bytes), Some(STATE));
        assert_eq!(State::read(&bytes[..15]), None);
    }

    #[test]
    fn invalid_bytes_are_no_state() {
        let read = |state: State| {
            let mut bytes = [0; LEN];
            state.write(&mut bytes);
            State::read(&bytes)
        };
        let lead = LEAD_MAX + 1;
        assert_eq!(read(State { lead, ..STATE }), None);
        assert_eq!(read(State { hop: 0, ..STATE }), None);
        let none = State {
            hop: 0,
            lead: 0,
            ..STATE
        };
        assert_eq!(read(none), Some(none));
        for (at, value) in [(0, 0), (0, 2), (1, 1)] {
            let mut bytes = [0; LEN];
            STATE.write(&mut bytes);
            bytes[at] = value;
            assert_eq!(State::read(&bytes), None);
        }
    }
}
