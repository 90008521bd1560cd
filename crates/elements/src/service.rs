//! Ports as arguments: a number, or the name of a service.

use arguments::Names;
use arguments::units::FromArg;

/// A port of TCP or UDP, by the protocol's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Port<const PROTOCOL: u8>(pub(crate) u16);

impl<const PROTOCOL: u8> FromArg for Port<PROTOCOL> {
    const KIND: &'static str = "a port: a number from 0 to 65535, or a name such as domain";

    fn from_arg(raw: &str, names: &Names) -> Result<Port<PROTOCOL>, String> {
        match raw.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c)) {
            true => u16::from_arg(raw, names).map(Port),
            false => crate::classify::port(raw, Some(PROTOCOL), names)
                .map(Port)
                .ok_or_else(|| format!("must be {}, not `{raw}`", Self::KIND)),
        }
    }

    fn stand_in() -> Port<PROTOCOL> {
        Port(0)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn a_port_has_a_name_of_its_own_compound_element_or_a_well_known_one() {
        let text = "PortInfo(foo 10);
            c :: { PortInfo(bar 12/udp, foo 13 baz);
                Idle -> u :: UDPIPEncap(1.0.0.1, bar, 2.0.0.2, baz) -> output };
            c -> v :: UDPIPEncap(1.0.0.1, foo, 2.0.0.2, domain) -> Discard";
        let mut bench = Bench::new(crate::CLASSES, text);
        let ports = ["c/u.sport", "c/u.dport", "v.sport", "v.dport"].map(|path| bench.read(path));
        assert_eq!(ports, ["12", "13", "10", "53"]);
        bench.write("v.dport", "ntp");
        assert_eq!(bench.read("v.dport"), "123");
        let outside =
            "c :: { PortInfo(bar 12); Idle -> output } -> UDPIPEncap(1.0.0.1, bar, 2.0.0.2, 5)
            -> Discard";
        assert!(testkit::errors(crate::CLASSES, outside).contains("SPORT must be a port"));
        let other = "PortInfo(bar 12/tcp); Idle -> UDPIPEncap(1.0.0.1, 7, 2.0.0.2, bar) -> Discard";
        assert!(testkit::errors(crate::CLASSES, other).contains("DPORT must be a port"));
    }
}
