//! Puts all packets into one bucket.
//!
//! ```click
//! FromDevice(null:64) -> c :: Classifier(12/0806, -);
//! c[0] -> SetBucket(0) -> s :: Steer(BUCKETS 2) -> Discard;
//! c[1] -> SetBucket(1) -> s;
//! ```
//!
//! Steer then passes the packets to the worker that owns this bucket. `FromDevice(..., CLASSIFY program NAME)`
//! inserts such elements after the outputs of NAME.
//!
//! Arguments:
//!
//! - `BUCKET`: the bucket's number, 0 to 4095.

use crate::prelude::*;
use engine::packet::BUCKETS_MAX;

/// Highest bucket number in a Steer.
const LAST: u16 = BUCKETS_MAX as u16 - 1;

pub(super) struct SetBucket(u16);

impl Element for SetBucket {
    const CONTRACT: Contract = Contract::new("SetBucket", manual!())
        .ports(Ports::new(&["in"], &["out"]))
        .ignores_annotations();

    type Config = u16;

    fn configure(args: &mut Args) -> u16 {
        args.required_in("BUCKET", 0..=LAST, "the bucket's number")
    }

    fn new(config: &Arc<u16>, _: &Init) -> SetBucket {
        SetBucket(**config)
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, _: &mut Cx) -> Verdict {
        packet.set_bucket(self.0);
        Verdict::ON
    }

    fn take(&mut self, _: SetBucket) {}

    const HANDLERS: &'static [Handler<SetBucket>] = &[
        Handler::show("bucket", "the bucket's number", |e| &e.0),
        Handler::set("bucket", "changes the bucket", |e, value, _| {
            e.0 = arguments::units::parse_in(value, 0..=LAST)?;
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn packets_get_the_bucket_that_is_set() {
        let mut bench = Bench::new(crate::CLASSES, "s :: SetBucket(7) -> out :: Collect");
        bench.push("s", &[b"a"]);
        bench.write("s.bucket", "9");
        assert!(bench.try_write("s.bucket", "4096").is_err());
        let errors = testkit::errors(crate::CLASSES, "Idle -> SetBucket(4096) -> Discard");
        assert!(errors.contains("between 0 and 4095"), "{errors}");
        bench.push("s", &[b"b"]);
        let got = bench.take_packets("out");
        assert_eq!((got[0].bucket, got[1].bucket), (7, 9));
        assert_eq!(bench.read("s.bucket"), "9");
    }
}
