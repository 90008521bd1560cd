//! Defines names of TCP and UDP ports that other elements can use.
//!
//! ```click
//! PortInfo(cache 3128/tcp squid, sip 5060);
//! FromDevice(null:64) -> Strip(14) -> CheckIPHeader
//!     -> IPFilter(allow dst port squid or sip) -> Discard;
//! ```
//!
//! Each argument has the form of a line of /etc/services: a name, the port with its protocol (both TCP and UDP if
//! there is no protocol), and further names; `#` starts a comment. Ports of other protocols have no effect. Names
//! apply in the compound element that contains PortInfo, and in those within it. They take precedence over the
//! built-in names: those of Click, and those in the file `/etc/services`.

use crate::prelude::*;
use arguments::Names;
use planner::GivesNames;

pub(super) struct PortInfo;

impl Element for PortInfo {
    const CONTRACT: Contract = Contract::new("PortInfo", manual!())
        .ports(Ports::coded(&[], &[], "a"))
        .extensions(&[&GivesNames(Names::insert_port_entry)])
        .ignores_annotations();

    type Config = ();

    fn configure(args: &mut Args) {
        for entry in args.rest("NAME", "a name and its port", "an entry") {
            let mut words = arguments::port_words(&entry.raw);
            // A line with only a comment has no effect.
            if words.next().is_none() {
                continue;
            }
            if words.next().and_then(arguments::port_entry).is_none() {
                let wrong = format!("`{}` names no port: write www 80/tcp", entry.raw);
                args.error_as(&entry, wrong, "expected 'NAME PORT/PROTO'");
            }
        }
    }

    fn new(_: &Arc<()>, _: &Init) -> PortInfo {
        PortInfo
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn names_stand_for_ports_of_their_protocols() {
        let text = "PortInfo(cache 3128/tcp squid, www 8080);
            f :: IPFilter(0 tcp port squid, 1 port www) -> a :: Collect; f[1] -> b :: Collect;
            c :: CheckIPHeader(CHECKSUM false) -> f";
        let packet = |protocol: u8, port: u16| {
            let mut p = [0; 28];
            (p[0], p[3], p[8], p[9]) = (0x45, 28, 9, protocol);
            p[22..24].copy_from_slice(&port.to_be_bytes());
            p
        };
        let mut bench = Bench::new(crate::CLASSES, text);
        let packets = [
            packet(6, 3128),
            packet(17, 3128),
            packet(17, 8080),
            packet(6, 80),
        ];
        bench.push("c", &packets);
        assert_eq!(bench.take("a"), [packet(6, 3128)]);
        assert_eq!(bench.take("b"), [packet(17, 8080)]);
    }

    #[test]
    fn an_entry_without_a_port_is_refused() {
        let errors = testkit::errors(
            crate::CLASSES,
            "PortInfo(a 80/tcp, b, c -1, d 80/sctp, # e)",
        );
        assert!(errors.contains("`b` names no port"), "{errors}");
        assert!(errors.contains("`c -1` names no port"), "{errors}");
        assert_eq!(errors.matches("names no port").count(), 2, "{errors}");
    }
}
