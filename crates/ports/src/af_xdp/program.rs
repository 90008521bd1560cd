//! The XDP program of an interface: it passes the kernel's packets to the kernel, all others to the port's sockets.
//!
//! The kernel's packets are IP packets to an address that it has on this interface, and ARP, neighbour solicitations
//! and advertisements for such an address. A queue without a socket leaves its frames to the kernel.

use std::net::IpAddr;

/// Number of bytes of an address in the map of the kernel's addresses; IPv4 addresses are mapped (RFC 4291, 2.5.5.2).
pub(super) const KEY_BYTES: usize = 16;

/// An address in the form of the map's keys.
pub(super) fn key(address: IpAddr) -> [u8; KEY_BYTES] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// An instruction (RFC 9669, section 3).
#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    to: u8,
    from: u8,
    offset: i16,
    value: i32,
}

impl Instruction {
    fn bytes(self) -> [u8; 8] {
        let registers = match cfg!(target_endian = "little") {
            true => self.from << 4 | self.to,
            false => self.to << 4 | self.from,
        };
        let ([o0, o1], [v0, v1, v2, v3]) = (self.offset.to_ne_bytes(), self.value.to_ne_bytes());
        [self.code, registers, o0, o1, v0, v1, v2, v3]
    }
}

/// Target of a jump.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Port,
    Arp,
    V6,
    Multicast,
    V6Destination,
    LookUp,
}

/// Registers. The context is kept in `CONTEXT`, which calls leave alone.
const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
const R4: u8 = 4;
const CONTEXT: u8 = 6;
const FRAME: u8 = 7;
const END: u8 = 8;
const STACK: u8 = 10;

const BYTE: u8 = 0x10;
const HALF: u8 = 0x08;
const WORD: u8 = 0x00;

/// Fields of `struct xdp_md` (linux/bpf.h).
const MD_DATA: i16 = 0;
const MD_END: i16 = 4;
const MD_QUEUE: i16 = 16;

/// Helper functions (linux/bpf.h).
const MAP_LOOKUP: i32 = 1;
const REDIRECT_MAP: i32 = 51;

const XDP_PASS: i32 = 2;

/// Offsets in a frame.
const TYPE: i16 = 12;
const V4_TO: i16 = 14 + 16;
const ARP_KIND: i16 = 14;
const ARP_TARGET: i16 = 14 + 24;
const V6_NEXT: i16 = 14 + 6;
const V6_TO: i16 = 14 + 24;
const ICMP_TYPE: i16 = 14 + 40;
const ND_TARGET: i16 = 14 + 40 + 8;

#[derive(Default)]
struct Program {
    text: Vec<Instruction>,
    /// Jumps whose offsets are not known yet.
    jumps: Vec<(usize, Label)>,
    labels: Vec<(Label, usize)>,
}

impl Program {
    fn put(&mut self, code: u8, to: u8, from: u8, offset: i16, value: i32) {
        self.text.push(Instruction {
            code,
            to,
            from,
            offset,
            value,
        });
    }

    fn label(&mut self, label: Label) {
        self.labels.push((label, self.text.len()));
    }

    fn jump(&mut self, code: u8, to: u8, from: u8, value: i32, label: Label) {
        self.jumps.push((self.text.len(), label));
        self.put(code, to, from, 0, value);
    }

    fn set(&mut self, to: u8, value: i32) {
        self.put(0xb7, to, 0, 0, value);
    }

    fn copy(&mut self, to: u8, from: u8) {
        self.put(0xbf, to, from, 0, 0);
    }

    fn add(&mut self, to: u8, value: i32) {
        self.put(0x07, to, 0, 0, value);
    }

    fn load(&mut self, size: u8, to: u8, from: u8, offset: i16) {
        self.put(0x61 | size, to, from, offset, 0);
    }

    fn store(&mut self, to: i16, from: u8) {
        self.put(0x63, STACK, from, to, 0);
    }

    fn store_value(&mut self, to: i16, value: i32) {
        self.put(0x62, STACK, 0, to, value);
    }

    /// A map by its descriptor takes two instructions.
    fn map(&mut self, to: u8, descriptor: i32) {
        self.put(0x18, to, 1, 0, descriptor);
        self.put(0, 0, 0, 0, 0);
    }

    fn call(&mut self, function: i32) {
        self.put(0x85, 0, 0, 0, function);
    }

    fn end(&mut self) {
        self.put(0x95, 0, 0, 0, 0);
    }

    /// Jumps to a label if a register has a value.
    fn if_is(&mut self, register: u8, value: i32, label: Label) {
        self.jump(0x15, register, 0, value, label);
    }

    /// Jumps to a label if a register does not have a value.
    fn if_not(&mut self, register: u8, value: i32, label: Label) {
        self.jump(0x55, register, 0, value, label);
    }

    /// Frames that are shorter go to the port.
    fn has(&mut self, bytes: i16) {
        self.copy(R4, FRAME);
        self.add(R4, bytes.into());
        self.jump(0x2d, R4, END, 0, Label::Port);
    }

    /// Puts an address of the frame where the key is.
    fn take(&mut self, words: i16, from: i16) {
        for word in 0..words {
            self.load(WORD, R1, FRAME, from + 4 * word);
            self.store(-4 * (words - word), R1);
        }
    }

    fn finish(mut self) -> Vec<[u8; 8]> {
        for (at, label) in &self.jumps {
            let mut places = self.labels.iter().filter(|(known, _)| known == label);
            if let Some((_, place)) = places.next() {
                self.text[*at].offset = (*place as isize - *at as isize - 1) as i16;
            }
        }
        self.text.into_iter().map(Instruction::bytes).collect()
    }
}

/// A 16-bit number in network byte order, as a load from a frame returns it.
fn network_order(number: u16) -> i32 {
    u16::from_ne_bytes(number.to_be_bytes()).into()
}

/// Instructions of the program. `addresses` and `sockets` are the file descriptors of the map of the kernel's addresses
/// and of the map of sockets.
pub(super) fn text(addresses: i32, sockets: i32) -> Vec<[u8; 8]> {
    let mut p = Program::default();
    p.copy(CONTEXT, R1);
    p.load(WORD, FRAME, CONTEXT, MD_DATA);
    p.load(WORD, END, CONTEXT, MD_END);
    p.has(14);
    // The first twelve bytes of the key are constant for IPv4 addresses.
    p.store_value(-16, 0);
    p.store_value(-12, 0);
    p.store_value(-8, i32::from_ne_bytes([0, 0, 0xff, 0xff]));
    p.load(HALF, R1, FRAME, TYPE);
    p.if_is(R1, network_order(0x0806), Label::Arp);
    p.if_is(R1, network_order(0x86dd), Label::V6);
    p.if_not(R1, network_order(0x0800), Label::Port);
    p.has(14 + 20);
    p.take(1, V4_TO);
    p.jump(0x05, 0, 0, 0, Label::LookUp);

    // Ethernet and IPv4 (RFC 826).
    p.label(Label::Arp);
    p.has(14 + 28);
    for (at, number) in [
        (ARP_KIND, 1),
        (ARP_KIND + 2, 0x0800),
        (ARP_KIND + 4, 0x0604),
    ] {
        p.load(HALF, R1, FRAME, at);
        p.if_not(R1, network_order(number), Label::Port);
    }
    p.take(1, ARP_TARGET);
    p.jump(0x05, 0, 0, 0, Label::LookUp);

    p.label(Label::V6);
    p.has(14 + 40);
    p.load(BYTE, R1, FRAME, V6_TO);
    p.if_not(R1, 0xff, Label::V6Destination);
    // Takes only two kinds of multicast frames: solicitations for a neighbour (RFC 4861, 4.3) and advertisements to
    // all nodes.
    p.load(BYTE, R1, FRAME, V6_NEXT);
    p.if_not(R1, 58, Label::Port);
    p.has(14 + 40 + 24);
    p.load(BYTE, R1, FRAME, ICMP_TYPE);
    p.if_is(R1, 135, Label::Multicast);
    p.if_not(R1, 136, Label::Port);
    p.label(Label::Multicast);
    p.take(4, ND_TARGET);
    p.jump(0x05, 0, 0, 0, Label::LookUp);
    p.label(Label::V6Destination);
    p.take(4, V6_TO);

    p.label(Label::LookUp);
    p.map(R1, addresses);
    p.copy(R2, STACK);
    p.add(R2, -(KEY_BYTES as i32));
    p.call(MAP_LOOKUP);
    p.if_is(R0, 0, Label::Port);
    p.set(R0, XDP_PASS);
    p.end();

    p.label(Label::Port);
    p.map(R1, sockets);
    p.load(WORD, R2, CONTEXT, MD_QUEUE);
    p.set(R3, XDP_PASS);
    p.call(REDIRECT_MAP);
    p.end();
    p.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_go_forward_to_instructions() {
        let text = text(3, 4);
        let mut jumps = 0;
        for (at, bytes) in text.iter().enumerate() {
            let is_jump = matches!(bytes[0], 0x05 | 0x15 | 0x2d | 0x55);
            let offset = i16::from_ne_bytes([bytes[2], bytes[3]]);
            if is_jump {
                jumps += 1;
                assert!(
                    offset >= 0 && at + 1 + (offset as usize) < text.len(),
                    "{at}"
                );
            }
        }
        assert!(jumps > 10);
    }

    #[test]
    fn keys_of_both_families_differ() {
        let v4 = key("192.0.2.1".parse().unwrap());
        assert_eq!(v4[10..], [0xff, 0xff, 192, 0, 2, 1]);
        assert_eq!(
            key("2001:db8::1".parse().unwrap())[..4],
            [0x20, 1, 0xd, 0xb8]
        );
    }
}
