//! Holds IPsec's security associations and policies.
//!
//! ```click
//! ipsec :: IPsecTable(
//!     sa out spi 0x1001 reqid 1 suite aes128gcm16 tunnel 192.0.2.1 198.51.100.1
//!         ENC_KEY 0102030405060708090a0b0c0d0e0f1011121314,
//!     sa in spi 0x2001 reqid 1 suite aes128gcm16 tunnel 198.51.100.1 192.0.2.1
//!         ENC_KEY 2122232425262728292a2b2c2d2e2f3031323334,
//!     policy out src 10.1.0.0/16 dst 10.2.0.0/16 protect 1,
//!     policy in src 10.2.0.0/16 dst 10.1.0.0/16 protect 1);
//! ```
//!
//! IPsecEncap, IPsecDecap and IPsecCheck name it as their `TABLE`. All workers use it at once.
//!
//! An association (`sa`) has one direction: `out` or `in`. Arriving packets are matched to it by its SPI. A policy
//! that protects names a `reqid`, and the last added outbound association of that number encrypts its packets. So
//! keys are changed without loss: add the new inbound associations on both sides, then the new outbound ones, and
//! remove the old ones when the packets under way have arrived. The first policy that matches a packet counts. An
//! outbound packet that no policy matches is dropped (`policy`), and such a packet must not come through a tunnel.
//!
//! Manual keys last for ever, unlike those of a key exchange: use them only if there is no alternative, and give
//! lifetimes. They are not shown or logged. Sequence numbers restart with the router. After a restart the other side
//! takes packets for replays until it has new associations, too, unless it has no window. The same keys may be used
//! again: initialisation vectors count up from the time of the start. So the machine's clock must be right when the
//! router starts. Suites that a repeated vector would break (GCM, GMAC, ChaCha20) are refused outbound while the
//! clock shows a time before 2026, as machines without a battery do until they have the network's time. No vectors
//! are kept on disk, because an old copy might be restored. For the same reason no two outbound associations of these
//! suites may have the same key.
//!
//! Arguments, in any order; and lines of the handler `add`:
//!
//! - `sa DIRECTION spi SPI reqid NUMBER suite SUITE`, and further words:
//!   - `tunnel SRC DST`: the tunnel's ends, IPv4 or IPv6. Without it, transport mode.
//!   - `ENC_KEY HEX`: the cipher's key; of GCM, GMAC and ChaCha20 with the salt, four bytes, at its end.
//!   - `AUTH_KEY HEX`: the key of the code.
//!   - `KEY_FILE FILE`: instead of both, a file with a line of hexadecimal digits for each key that the suite has, the
//!     cipher's first. Nobody but its owner may read or write it (mode 600). So keys are in no configuration.
//! - `udp SPORT DPORT`: encapsulation in UDP, for a path through NAT.
//!   - `esn`: sequence numbers of 64 bits.
//!   - `window N`: size of the anti-replay window, 0 (none) to 4096. Default 64; choose more where several workers
//!     send.
//!   - `pad N`: payloads are padded to N bytes at least, so that lengths are hidden. Default 0.
//!   - `df copy|set|clear`: the outer header's "don't fragment". Default copy.
//!   - `dscp N`: the outer header's DSCP. By default that of the inner header.
//!   - `ecn no`: ECN does not pass between the headers. By default it does (RFC 6040).
//!   - `ttl N`: the outer header's time to live. Default 64.
//!   - `soft_packets N`, `soft_bytes N`, `soft_seconds N`: after these the association should be renewed; it is shown
//!     as
//!     `soft-expired`.
//!   - `hard_packets N`, `hard_bytes N`, `hard_seconds N`: after these it is used no longer.
//! - `policy DIRECTION src PREFIX dst PREFIX`, and further words:
//!   - `proto PROTOCOL`: a number or a name; `sport N[-N]`, `dport N[-N]`: ports. Fragments but the first have no
//!     ports: put IPReassembler before where policies ask for them.
//!   - `protect NUMBER`, `bypass` or `discard`: action for the packets.
//!
//! Keyword arguments:
//!
//! - `KERNEL`: true: associations and policies are those of the kernel in the router's namespace (XFRM), which `ip
//!   xfrm` or a key exchange such as strongSwan sets, and there are no lines. The router reports traffic to the
//!   kernel. A packet that no policy of the kernel matches is bypassed. Default false. See docs/ipsec.md.
//!
//! Suites: `aes128gcm16`, `aes192gcm16`, `aes256gcm16`, `chacha20poly1305`, `aes128gmac`, `aes192gmac`, `aes256gmac`;
//! `aes128`, `aes192`, `aes256` or `null` (no secrecy), each with `-sha1`, `-sha256` or `-sha512`.

use super::static_database::own_keys;
use super::syntax::{self, Line};
use super::{KernelTable, StaticDatabase};
use crate::prelude::*;
use engine::clock::Clock;
use engine::resources::{self, Resources};
use esp::{CLOCK_MIN, Database, Direction, Sa};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) struct IPsecTable;

pub(super) struct Config {
    /// Content of the text.
    given: StaticDatabase,
    /// Database from before a reload.
    old: Option<Arc<Database>>,
    /// Directions and SPIs of the text before a reload, which are removed if the text no longer has them.
    forgotten: Vec<(Direction, u32)>,
    database: OnceLock<Arc<Database>>,
    /// The kernel fills the table.
    is_kernels: bool,
}

impl Config {
    /// The table, created at the first request.
    pub(super) fn database(&self, init: &Init) -> Arc<Database> {
        Arc::clone(self.database.get_or_init(|| self.make(init.timestamp)))
    }

    fn make(&self, now: u64) -> Arc<Database> {
        let database = Database::default();
        let mut all = Vec::new();
        let before = self.old.as_ref().map(|old| old.snapshot());
        for sa in before.iter().flat_map(|tables| tables.all()) {
            let named = (sa.spec().direction, sa.spec().spi);
            let in_text = self
                .given
                .sas
                .iter()
                .any(|(spec, _)| (spec.direction, spec.spi) == named);
            if !in_text && !self.forgotten.contains(&named) {
                all.push(Arc::clone(sa));
            }
        }
        for (spec, keys) in &self.given.sas {
            let known = before
                .as_ref()
                .and_then(|t| t.find(spec.direction, spec.spi));
            // An unchanged association keeps its sequence numbers and its window.
            let same = known.filter(|sa| sa.is(spec, keys)).cloned();
            // `configure` has checked that the association can be made.
            let new = || Sa::new(spec.clone(), keys, now).ok().map(Arc::new);
            all.extend(same.or_else(new));
        }
        // The newest association is used for sending: keep the order of creation.
        all.sort_by_key(|sa| sa.created_at());
        database.add(&all);
        database.set_policies(self.given.policies.clone());
        Arc::new(database)
    }

    /// The table, if handlers may change it.
    fn writable(&self) -> Result<&Arc<Database>, String> {
        match self.is_kernels {
            true => Err(
                "the kernel fills this table: use `ip xfrm` in the router's namespace".to_owned(),
            ),
            false => self.now(),
        }
    }

    fn now(&self) -> Result<&Arc<Database>, String> {
        self.database
            .get()
            .ok_or_else(|| "the router has not started".to_owned())
    }
}

/// Nanoseconds since the Unix epoch. This clock is not set back with the machine's: vectors count from it.
fn wall_ns() -> u64 {
    let clock = Clock::real();
    clock.wall_ns(clock.now())
}

/// Checks that the machine's clock shows a plausible time, which has not been before.
fn trust_clock(shown: Option<u64>) -> Result<(), String> {
    match shown {
        Some(shown) if shown >= CLOCK_MIN => Ok(()),
        _ => Err(format!(
            "the machine's clock shows {} s since 1970, which is before 2026: outbound associations of GCM, GMAC and \
             ChaCha20 count initialisation vectors up from it, and one that comes twice gives packets and keys away; \
             set the clock, \
             or start the router after it is set",
            shown.unwrap_or_default() / 1_000_000_000
        )),
    }
}

fn trust_this_clock() -> Result<(), String> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok();
    let shown = since.and_then(|since| u64::try_from(since.as_nanos()).ok());
    // The process's own clock starts with the machine's.
    trust_clock(shown).and_then(|()| trust_clock(Some(wall_ns())))
}

impl Resources for IPsecTable {
    fn initialize(config: &Config) -> Result<(), String> {
        match config.given.counts {
            true => trust_this_clock(),
            false => Ok(()),
        }
    }
}

fn add(config: &Config, text: &str) -> Result<String, String> {
    let database = config.writable()?;
    let present = database.snapshot();
    let mut added = Vec::new();
    for (n, line) in (1..).zip(syntax::lines(text)) {
        let wrong = |wrong| format!("line {n}: {wrong}");
        match syntax::parse(&line).map_err(wrong)? {
            Line::Sa(spec, keys) => {
                let sa = Sa::new(spec, &keys, wall_ns()).map_err(wrong)?;
                if sa.seals_by_count() {
                    trust_this_clock().map_err(wrong)?;
                }
                let others = present.all().into_iter().chain(&added);
                own_keys(&sa, others.map(|sa| &**sa)).map_err(wrong)?;
                added.push(Arc::new(sa));
            }
            Line::Policy(_) => {
                return Err(wrong(
                    "policies are written as a whole, to `policies`".to_owned(),
                ));
            }
        }
    }
    database.add(&added);
    Ok(String::new())
}

fn remove(config: &Config, text: &str) -> Result<String, String> {
    let database = config.writable()?;
    let (direction, spi) = syntax::direction_and_spi(text)?;
    match database.remove(direction, spi) {
        true => Ok(String::new()),
        false => Err(format!("there is no association `{}`", text.trim())),
    }
}

fn set_policies(config: &Config, text: &str) -> Result<String, String> {
    let database = config.writable()?;
    let mut list = Vec::new();
    for (n, line) in (1..).zip(syntax::lines(text)) {
        match syntax::parse(&line).map_err(|wrong| format!("line {n}: {wrong}"))? {
            Line::Policy(policy) => list.push(policy),
            Line::Sa(..) => return Err(format!("line {n}: associations are written to `add`")),
        }
    }
    database.set_policies(list);
    Ok(String::new())
}

fn sas(config: &Config, _: &str) -> Result<String, String> {
    let tables = config.now()?.snapshot();
    let now = wall_ns();
    Ok(tables
        .all()
        .iter()
        .map(|sa| syntax::show_sa(sa, now))
        .collect())
}

fn policies(config: &Config, _: &str) -> Result<String, String> {
    let tables = config.now()?.snapshot();
    Ok(tables
        .policies()
        .list()
        .iter()
        .map(syntax::show_policy)
        .collect())
}

impl Element for IPsecTable {
    const CONTRACT: Contract = Contract::new("IPsecTable", manual!())
        .ports(Ports::coded(&[], &[], "a"))
        .extensions(&[&resources::of::<Self>()])
        .ignores_annotations();

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let mut config = Config {
            given: StaticDatabase::default(),
            old: None,
            forgotten: Vec::new(),
            database: OnceLock::new(),
            is_kernels: args.key("KERNEL", false, "true if the kernel fills the table"),
        };
        if config.is_kernels {
            let table = args.router_wide::<KernelTable>();
            table.used.store(true, Ordering::Release);
            let _ = config.database.set(Arc::clone(&table.database));
        }
        let rest = args.rest(
            "LINE",
            "an association or a policy",
            "`sa` or `policy` and further words",
        );
        for arg in rest {
            if config.is_kernels {
                args.error(
                    &arg,
                    "with `KERNEL true` there are no lines: the kernel fills the table",
                );
                continue;
            }
            let words = arg.words();
            let mut names = words.iter().skip_while(|word| *word != "KEY_FILE").skip(1);
            if let Some(file) = names.next() {
                args.note_file(file);
            }
            if let Err(wrong) = config.given.add(&words) {
                args.error(&arg, wrong);
            }
        }
        config
    }

    fn new(config: &Arc<Config>, init: &Init) -> IPsecTable {
        config.database(init);
        IPsecTable
    }

    fn inherit(config: &mut Config, old: &Config) {
        if config.is_kernels || old.is_kernels {
            return;
        }
        config.old = old.database.get().cloned();
        config.forgotten = old
            .given
            .sas
            .iter()
            .map(|(spec, _)| (spec.direction, spec.spi))
            .collect();
    }

    const HANDLERS: &'static [Handler<IPsecTable>] = &[
        Handler::shared(
            "sas",
            "a line per association: its parameters without keys, its numbers and counts",
            sas,
        ),
        Handler::shared("policies", "a line per policy, in order", policies),
        Handler::action(
            "policies",
            "replaces all policies, by lines as in the arguments",
            set_policies,
        ),
        Handler::action(
            "add",
            "adds associations, by lines as in the arguments",
            add,
        ),
        Handler::action(
            "remove",
            "`DIRECTION SPI`: removes an association, and wipes its keys",
            remove,
        ),
        Handler::action("clear", "removes all associations", |config: &Config, _| {
            config.writable()?.clear();
            Ok(String::new())
        }),
        Handler::shared("count", "number of associations", |config: &Config, _| {
            Ok(config.now()?.snapshot().all().len().to_string())
        }),
        Handler::shared(
            "library",
            "library that does the encryption",
            |_: &Config, _| Ok(esp::library().to_owned()),
        ),
        Handler::shared(
            "unlocked",
            "keys in memory that may be swapped, as the system would not lock it (RLIMIT_MEMLOCK)",
            |_: &Config, _| Ok(esp::unlocked().to_string()),
        ),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_has_not_been_set_is_refused() {
        for shown in [None, Some(0), Some(CLOCK_MIN - 1)] {
            let wrong = trust_clock(shown).expect_err("it shows no time of now");
            assert!(wrong.contains("set the clock"), "{wrong}");
        }
        assert_eq!(trust_clock(Some(CLOCK_MIN)), Ok(()));
        assert_eq!(trust_this_clock(), Ok(()));
        assert!(wall_ns() <= wall_ns());
    }
}
