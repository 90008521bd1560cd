//! Packets for the tests of IPv4 elements.

use wire::ipv4_options::EOL;
use wire::{Ipv4, proto};

/// An IPv4 packet with protocol UDP and TTL 64, and the given payload.
pub(crate) fn ip(src: [u8; 4], dst: [u8; 4], payload: &[u8]) -> Vec<u8> {
    make(src, dst, &[], payload)
}

/// A packet from 1.1.1.1 to 2.2.2.2 with options, which are filled up to a multiple of 4 bytes.
pub(crate) fn with_options(options: &[u8], payload: &[u8]) -> Vec<u8> {
    make([1, 1, 1, 1], [2, 2, 2, 2], options, payload)
}

/// A packet with these fields.
pub(crate) fn make(src: [u8; 4], dst: [u8; 4], options: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut options = options.to_vec();
    options.resize(options.len().next_multiple_of(4), EOL);
    let mut packet = vec![0; 20];
    packet.extend(&options);
    packet.extend(payload);
    let total = packet.len() as u16;
    let mut ip = Ipv4::new_unchecked(&mut packet[..]);
    ip.set_header_len(20 + options.len());
    ip.set_total_len(total);
    ip.set_ident(0x1234);
    ip.set_ttl(64);
    ip.set_protocol(proto::UDP);
    ip.set_src(src.into());
    ip.set_dst(dst.into());
    ip.fill_checksum();
    packet
}

/// Makes the header's checksum correct.
pub(crate) fn sum(packet: &mut [u8]) {
    Ipv4::new_unchecked(packet).fill_checksum();
}

/// Changes a packet's header and makes its checksum correct.
pub(crate) fn edited(mut packet: Vec<u8>, edit: impl FnOnce(&mut Ipv4<&mut [u8]>)) -> Vec<u8> {
    let mut ip = Ipv4::new_unchecked(&mut packet[..]);
    edit(&mut ip);
    ip.fill_checksum();
    packet
}

/// Pseudo-random numbers (Marsaglia's xorshift), the same at every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }

    pub(crate) fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.below(256) as u8).collect()
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[test]
fn the_builder_makes_packets_that_pass_every_check() {
    let packet = make([10, 0, 0, 1], [10, 0, 1, 1], &[1, 1, 1], b"payload");
    let ip = Ipv4::new_checked(&packet).unwrap();
    assert!(ip.verify_checksum());
    assert_eq!((ip.header_len(), ip.payload()), (24, &b"payload"[..]));
}
