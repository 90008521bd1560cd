//! Counts the packets and bytes that pass.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> c :: Counter -> Discard;
//! ```
//!
//! Each worker counts for itself; handlers give the sum.

use crate::prelude::*;

pub(super) struct Counter {
    packets: u64,
    bytes: u64,
}

impl Element for Counter {
    const CLASS: &'static str = "Counter";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::new(&["in"], &["out"]);

    type Config = ();

    fn configure(_: &mut Args) {}

    fn new(_: &Arc<()>, _: &Init) -> Counter {
        Counter {
            packets: 0,
            bytes: 0,
        }
    }

    fn process(&mut self, _: usize, batch: &mut Batch, _: &mut Cx) {
        self.packets += batch.len() as u64;
        self.bytes += batch.bytes();
    }

    fn take(&mut self, old: Counter) {
        *self = old;
    }

    const HANDLERS: &'static [Handler<Counter>] = &[
        Handler::sum("count", "packets passed", |e| e.packets),
        Handler::sum("byte_count", "bytes passed", |e| e.bytes),
        Handler::set("reset", "counts from zero again", |e, _, _| {
            (e.packets, e.bytes) = (0, 0);
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn packets_and_bytes_are_counted_until_reset() {
        let mut bench = Bench::new(crate::CLASSES, "c :: Counter -> Discard");
        bench.push("c", &[&b"four"[..], b"sixsix"]);
        assert_eq!(
            (bench.read("c.count"), bench.read("c.byte_count")),
            ("2".into(), "10".into())
        );
        bench.write("c.reset", "");
        assert_eq!(bench.read("c.count"), "0");
    }
}
