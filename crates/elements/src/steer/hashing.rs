//! Common part of classes that hash flows: from the flow to its hash and its bucket.

use super::hash_key::{HashKey, Keys, Shared};
use arguments::Args;
use arguments::units::FromArg;
use engine::packet::BUCKETS_MAX;
use std::sync::Arc;
use steer::Sorter;
use wire::rss::Toeplitz;
use wire::{FlowKey, tunnel};

/// Settings of the hash: key, number of buckets, and true if inner headers are hashed.
pub(super) struct Hashing {
    pub(super) key: Arc<Shared>,
    /// Number of buckets, a power of two.
    pub(super) buckets: usize,
    pub(super) inner: bool,
}

impl Hashing {
    /// Parses KEY, BUCKETS and INNER.
    pub(super) fn configure(args: &mut Args) -> Hashing {
        let key = args.key("KEY", HashKey::stand_in(), "the key of the hash");
        let buckets = args.key("BUCKETS", 256, "buckets, a power of two");
        let inner = args.key("INNER", true, "true to hash inner headers of tunnels");
        let is_fit = buckets > 0 && buckets <= BUCKETS_MAX && usize::is_power_of_two(buckets);
        if !is_fit {
            args.error_in_whole(
                format!("BUCKETS must be a power of two up to {BUCKETS_MAX}, not {buckets}"),
                "give 256, or as many as the port's indirection table has",
            );
        }
        let description = format!("{key} {buckets}");
        Hashing {
            key: args.router_wide::<Keys>().get(&description, &key),
            buckets: if is_fit { buckets } else { 1 },
            inner,
        }
    }

    /// Bucket of a hash.
    #[inline]
    pub(super) fn bucket(&self, hash: u32) -> u16 {
        (hash & (self.buckets as u32 - 1)) as u16
    }

    /// Hash of a frame's flow; `None` if the frame is not IP. [`Plain`](wire::plain_frame::Plain) is faster for plain
    /// frames.
    #[inline(never)]
    pub(super) fn hash(&self, table: &Toeplitz, frame: &[u8]) -> Option<u32> {
        let packet = tunnel::ip_of_ether(frame)?;
        let flow = match self.inner {
            true => tunnel::innermost(packet),
            false => FlowKey::of_ip_or_quoted(packet),
        };
        Some(table.hash(&flow?))
    }

    /// Interface for elements that keep flow state by bucket.
    pub(super) fn sorter(&self) -> Arc<dyn Sorter> {
        Arc::new(ByHash {
            key: Arc::clone(&self.key),
            _stays: self.key.hold(),
            buckets: self.buckets,
        })
    }

    /// Text form of the key.
    pub(super) fn show_key(&self) -> String {
        HashKey(*self.key.table.snapshot().key()).to_string()
    }

    /// Replaces the key of all elements that share it.
    pub(super) fn set_key(&self, value: &str) -> Result<String, String> {
        self.key.replace(&arguments::units::parse(value)?)?;
        Ok(String::new())
    }
}

struct ByHash {
    key: Arc<Shared>,
    _stays: Arc<()>,
    buckets: usize,
}

impl Sorter for ByHash {
    fn function(&self) -> Box<dyn Fn(&FlowKey) -> u16> {
        let (table, mask) = (self.key.table.snapshot(), self.buckets as u32 - 1);
        Box::new(move |flow| (table.hash(flow) & mask) as u16)
    }

    fn is_symmetric(&self) -> bool {
        self.key.table.snapshot().is_symmetric()
    }

    fn kind(&self) -> usize {
        // Elements that share a key have the same number of buckets.
        Arc::as_ptr(&self.key) as usize
    }
}
