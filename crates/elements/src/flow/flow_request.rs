//! Request of a flow at its set-up, after its key.

use arguments::units::{self, Bandwidth};
use std::time::Duration;
use tables::guarantee::Wanted;

/// Requested treatment of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowTreatment {
    /// Output for the flow's packets.
    pub(super) port: u8,
    /// Token bucket and further parameters of the requested guarantee; `None` without one.
    pub(super) wanted: Option<Wanted>,
    /// Lifetime of the flow.
    pub(super) lifetime: Option<Duration>,
}

const FORM: &str = "behind a flow come [PORT n] [RATE bandwidth BURST bytes [PACKET bytes] [DELAY time] [JITTER time] \
     [RESERVE bandwidth] [HOPS n]] [LEASE time]";

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl FlowTreatment {
    /// Parses a request. A flow's maximum packet length defaults to the link's `mtu`, in bytes.
    pub(super) fn parse(words: &[&str], mtu: u64) -> Result<FlowTreatment, String> {
        let mut wish = FlowTreatment {
            port: 0,
            wanted: None,
            lifetime: None,
        };
        let mut wanted = Wanted {
            rate: 0,
            burst: 0,
            packet: 0,
            hops: 1,
            delay: None,
            jitter: None,
            reserve: None,
        };
        let (pairs, odd) = words.as_chunks::<2>();
        if !odd.is_empty() {
            return Err(FORM.to_owned());
        }
        for [name, value] in pairs {
            let in_value = |wrong: String| wrong.replacen("the value", name, 1);
            match *name {
                "PORT" => wish.port = units::parse(value).map_err(in_value)?,
                "RATE" => wanted.rate = units::parse::<Bandwidth>(value).map_err(in_value)?.0,
                "BURST" => wanted.burst = units::parse(value).map_err(in_value)?,
                "PACKET" => wanted.packet = units::parse(value).map_err(in_value)?,
                "HOPS" => wanted.hops = units::parse(value).map_err(in_value)?,
                "DELAY" => wanted.delay = Some(nanoseconds(units::parse(value).map_err(in_value)?)),
                "JITTER" => {
                    wanted.jitter = Some(nanoseconds(units::parse(value).map_err(in_value)?));
                }
                "RESERVE" => {
                    wanted.reserve = Some(units::parse::<Bandwidth>(value).map_err(in_value)?.0)
                }
                "LEASE" => wish.lifetime = Some(units::parse(value).map_err(in_value)?),
                _ => return Err(format!("`{name}` is not known: {FORM}")),
            }
        }
        let with_rate = pairs.iter().any(|[name, _]| *name == "RATE");
        let needs_rate = ["BURST", "PACKET", "HOPS", "DELAY", "JITTER", "RESERVE"];
        match pairs.iter().find(|[name, _]| needs_rate.contains(name)) {
            Some([name, _]) if !with_rate => {
                return Err(format!(
                    "{name} needs RATE: a guarantee is for a flow that keeps to a rate"
                ));
            }
            _ => {}
        }
        if with_rate {
            if wanted.packet == 0 {
                wanted.packet = mtu;
            }
            wish.wanted = Some(wanted);
        }
        Ok(wish)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<FlowTreatment, String> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        FlowTreatment::parse(&words, 1500)
    }

    #[test]
    fn requests_are_parsed() {
        let wish =
            parse("PORT 2 RATE 64kbps BURST 1600 DELAY 20ms JITTER 5ms LEASE 10s HOPS 3").unwrap();
        assert_eq!(
            (wish.port, wish.lifetime),
            (2, Some(Duration::from_secs(10)))
        );
        let wanted = wish.wanted.unwrap();
        assert_eq!(
            (wanted.rate, wanted.burst, wanted.packet),
            (8000, 1600, 1500)
        );
        assert_eq!((wanted.delay, wanted.hops), (Some(20_000_000), 3));
        assert_eq!(wanted.jitter, Some(5_000_000));
        assert_eq!(parse("").unwrap().wanted, None);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, wrong) in [
            ("RATE", "behind a flow come"),
            ("RATE fast BURST 3", "RATE must be a bandwidth"),
            ("SPEED 3", "`SPEED` is not known"),
            ("DELAY 10ms", "DELAY needs RATE"),
            ("LEASE soon", "LEASE must be a time"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(wrong), "{text}: {message}");
        }
    }
}
