//! Writes a line about each ARP packet, in the format of tcpdump, to the standard error stream.
//!
//! ```click
//! FromDevice(eth0) -> arp :: Classifier(12/0806, -);
//! arp[0] -> ARPPrint(arp) -> Discard;
//! arp[1] -> Discard;
//! ```
//!
//! Packets pass unchanged. They are Ethernet frames, or the network header annotation marks the ARP packet.
//!
//! Arguments:
//!
//! - `LABEL`: beginning of the line.
//!
//! Keyword arguments:
//!
//! - `TIMESTAMP`: true if the packet's timestamp is shown. Default true.
//! - `ETHER`: true if the frame's Ethernet addresses are shown. Default false.
//! - `OUTFILE`: a file to write to.
//! - `ACTIVE`: if false, writes nothing. Default true.

use super::printer::Style;
use crate::prelude::*;
use captures::summary::field_text::push_ether;
use std::io::Write as _;
use wire::EtherAddr;
use wire::arp::{Arp, REPLY, REQUEST};

pub(super) struct ArpPrint {
    ether: bool,
}

const ETHER: usize = 14;

/// Operations of reverse ARP (RFC 903) and inverse ARP (RFC 2390).
const RARP_REQUEST: u16 = 3;
const RARP_REPLY: u16 = 4;
const INARP_REQUEST: u16 = 8;
const INARP_REPLY: u16 = 9;

/// Source and destination of a frame, if the packet starts with its header or has it before.
fn addresses(packet: &Packet) -> Option<(EtherAddr, EtherAddr)> {
    let frame = packet.mac().unwrap_or(packet.data());
    let address = |at: usize| Some(EtherAddr(frame.get(at..at + 6)?.try_into().ok()?));
    Some((address(6)?, address(0)?))
}

/// The ARP packet in a packet.
fn arp(packet: &Packet) -> &[u8] {
    let data = packet.data();
    if packet.anno().network != 0 {
        packet.network()
    } else if data.get(12..ETHER) == Some(&[8, 6]) {
        &data[ETHER..]
    } else {
        data
    }
}

impl Style for ArpPrint {
    const CLASS: &'static str = "ARPPrint";
    const MANUAL: &'static str = manual!();
    const TIMESTAMP: bool = true;
    const TO_FILE: bool = true;

    fn configure(args: &mut Args) -> ArpPrint {
        ArpPrint {
            ether: args.key("ETHER", false, "true if Ethernet addresses are shown"),
        }
    }

    fn describe(&self, packet: &Packet, out: &mut Vec<u8>) {
        // Writing to a vector cannot fail, here and below.
        if let Some((src, dst)) = addresses(packet).filter(|_| self.ether) {
            let _ = push_ether(src, out);
            out.extend(b" > ");
            let _ = push_ether(dst, out);
            out.extend(b": ");
        }
        let Ok(arp) = Arp::new_checked(arp(packet)) else {
            out.extend(b"(Not an ARP packet)");
            return;
        };
        let _ = match arp.op() {
            REQUEST => {
                let _ = write!(out, "arp who-has {} ", arp.target_ip());
                if arp.target_ether() != EtherAddr::ZERO {
                    out.push(b'(');
                    let _ = push_ether(arp.target_ether(), out);
                    out.extend(b") ");
                }
                write!(out, "tell {}", arp.sender_ip())
            }
            REPLY => {
                let _ = write!(out, "arp reply {} is-at ", arp.sender_ip());
                push_ether(arp.sender_ether(), out)
            }
            op @ (RARP_REQUEST | INARP_REQUEST) => {
                let protocol = if op == RARP_REQUEST { "rarp" } else { "invarp" };
                let _ = write!(out, "{protocol} who-is ");
                let _ = push_ether(arp.target_ether(), out);
                out.extend(b" tell ");
                push_ether(arp.sender_ether(), out)
            }
            op @ (RARP_REPLY | INARP_REPLY) => {
                let protocol = if op == RARP_REPLY { "rarp" } else { "invarp" };
                let _ = write!(out, "{protocol} reply ");
                let _ = push_ether(arp.target_ether(), out);
                write!(out, " at {}", arp.target_ip())
            }
            op => write!(out, "arp-#{op}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Bench;

    #[test]
    fn requests_and_replies_are_told() {
        let file = std::env::temp_dir().join(format!("ashlar-{}-arp", std::process::id()));
        let text = format!(
            "p :: ARPPrint(x, OUTFILE {}, ETHER true) -> out :: Collect",
            file.display()
        );
        let mut bench = Bench::strict(crate::with_basics(), &text);
        let (a, b) = (
            EtherAddr([2, 0, 0, 0, 0, 10]),
            EtherAddr([2, 0, 0, 0, 0, 11]),
        );
        let (ip_a, ip_b) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let mut request = [&[0xff; 6][..], &a.0, &[8, 6]].concat();
        request.extend(wire::arp::packet(
            REQUEST,
            (a, ip_a),
            (EtherAddr::ZERO, ip_b),
        ));
        let mut reply = [&a.0[..], &b.0, &[8, 6]].concat();
        reply.extend(wire::arp::packet(REPLY, (b, ip_b), (a, ip_a)));
        let mut other = reply.clone();
        let [asked, rarp, answered, inarp, unknown] = [1, 3, 4, 8, 5].map(|op| {
            other[21] = op;
            other.clone()
        });
        bench.push("p", &[request, reply, b"abc".to_vec()]);
        bench.push("p", &[asked, rarp, answered, inarp, unknown]);
        assert_eq!(bench.take("out").len(), 8);
        drop(bench);
        let text = std::fs::read_to_string(&file).expect("the file was written");
        let _ = std::fs::remove_file(file);
        let text = text.replace("02-00-00-00-00-0B > 02-00-00-00-00-0A", "B > A");
        assert_eq!(
            text,
            "x: 0.000000: 02-00-00-00-00-0A > FF-FF-FF-FF-FF-FF: arp who-has 10.0.0.2 tell 10.0.0.1\n\
             x: 0.000000: B > A: arp reply 10.0.0.2 is-at 02-00-00-00-00-0B\n\
             x: 0.000000: (Not an ARP packet)\n\
             x: 0.000000: B > A: arp who-has 10.0.0.1 (02-00-00-00-00-0A) tell 10.0.0.2\n\
             x: 0.000000: B > A: rarp who-is 02-00-00-00-00-0A tell 02-00-00-00-00-0B\n\
             x: 0.000000: B > A: rarp reply 02-00-00-00-00-0A at 10.0.0.1\n\
             x: 0.000000: B > A: invarp who-is 02-00-00-00-00-0A tell 02-00-00-00-00-0B\n\
             x: 0.000000: B > A: arp-#5\n"
        );
    }
}
