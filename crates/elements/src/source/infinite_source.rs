//! Makes packets as fast as it can, all with the same data.
//!
//! ```click
//! InfiniteSource(DATA \<00 01 02>, LIMIT 10, BURST 5) -> Discard;
//! ```
//!
//! Arguments:
//!
//! - `DATA`: bytes of each packet. Default is a text of 64 bytes.
//! - `LIMIT`: number of packets; negative = no limit, the default.
//! - `BURST`: packets made at a time. Default 1.
//! - `ACTIVE`: if false, makes none. Default true.
//!
//! Keyword arguments:
//!
//! - `LENGTH`: if given, packets are this long; `DATA` is repeated or cut.
//! - `STOP`: whether to stop the router when `LIMIT` is reached. Default false.

use crate::prelude::*;
use engine::units::Bytes;

const DEFAULT_DATA: &[u8; 64] = b"Ashlar makes one router of many cores and servers. Random bytes!";

pub(super) struct Config {
    data: Vec<u8>,
    limit: Option<u64>,
    burst: usize,
    active: bool,
    stop: bool,
}

pub(super) struct InfiniteSource {
    config: Arc<Config>,
    active: bool,
    count: u64,
}

impl Element for InfiniteSource {
    const CLASS: &'static str = "InfiniteSource";
    const MANUAL: &'static str = manual!();
    const PORTS: Ports = Ports::coded(&[], &["out"], "/h");
    const RUNS: Runs = Runs::AsTask;

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let data = args
            .optional("DATA", Bytes(DEFAULT_DATA.to_vec()), "bytes of each packet")
            .0;
        let limit: i64 = args.optional("LIMIT", -1, "number of packets; negative = no limit");
        let burst = args.optional("BURST", 1, "packets made at a time");
        let active = args.optional("ACTIVE", true, "if false, makes none");
        let length: Option<usize> = args.key_maybe("LENGTH", "length of each packet");
        let stop = args.key("STOP", false, "whether to stop the router at the limit");
        let length = length.unwrap_or(data.len());
        if length > 65_000 {
            args.error_in_whole(
                format!("packets of {length} bytes cannot be made"),
                "the longest have 65000 bytes",
            );
        }
        let data = data
            .iter()
            .copied()
            .cycle()
            .take(length.min(65_000))
            .collect();
        Config {
            data,
            limit: u64::try_from(limit).ok(),
            burst,
            active,
            stop,
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> InfiniteSource {
        InfiniteSource {
            active: config.active,
            config: Arc::clone(config),
            count: 0,
        }
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        if !self.active {
            return Did::Sleep;
        }
        let left = self
            .config
            .limit
            .map_or(u64::MAX, |limit| limit.saturating_sub(self.count));
        if left == 0 {
            if self.config.stop {
                cx.stop();
            }
            return Did::End;
        }
        let mut batch = cx.spare();
        let n = self
            .config
            .burst
            .max(1)
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        batch.extend((0..n).map_while(|_| Packet::from_bytes(&self.config.data)));
        let made = batch.len();
        self.count += made as u64;
        cx.emit_batch(0, &mut batch);
        cx.keep_spare(batch);
        if made > 0 { Did::Work } else { Did::Nothing }
    }

    fn take(&mut self, old: InfiniteSource) {
        self.count = old.count;
    }

    const HANDLERS: &'static [Handler<InfiniteSource>] = &[
        Handler::sum("count", "packets made", |e| e.count),
        Handler::set("active", "see ACTIVE", |e, value, cx| {
            e.active = engine::units::parse(value)?;
            cx.wake_self();
            Ok(())
        }),
        Handler::set("reset", "counts from zero again", |e, _, cx| {
            e.count = 0;
            cx.wake_self();
            Ok(())
        }),
    ];
}

#[cfg(test)]
mod tests {
    use testkit::Bench;

    #[test]
    fn the_limit_and_the_length_hold() {
        let mut bench = Bench::new(
            crate::CLASSES,
            "s :: InfiniteSource(DATA ab, LIMIT 5, BURST 2, LENGTH 3) -> out :: Collect",
        );
        bench.run();
        assert_eq!(bench.take("out"), [b"aba"; 5]);
        assert_eq!(bench.read("s.count"), "5");
    }
}
