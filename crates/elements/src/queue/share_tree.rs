//! Groups, subscribers and classes of a ShareQueue, and those that a packet belongs to.

use arguments::Names;
use arguments::units::{Bandwidth, FromArg, parse};
use engine::packet::Packet;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU16;
use std::sync::Arc;
use tables::fib::{Poptrie, Prefix, Rib, Structure};
use tables::shares::Share;
use wire::{Ipv4, Ipv6, ipv4, ipv6};

/// Maximum number of subscribers, and of values that identify them.
pub(super) const SUBSCRIBERS_MAX: usize = 1 << 20;
/// Maximum number of classes.
const CLASSES_MAX: usize = 64;
/// Class index of DSCPs that belong to no class.
const UNCLAIMED: u8 = u8::MAX;

/// Key of subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SubscriberKey {
    Dst,
    Src,
    Anno,
    Vlan,
}

const NAMES: [(&str, SubscriberKey); 4] = [
    ("dst", SubscriberKey::Dst),
    ("src", SubscriberKey::Src),
    ("anno", SubscriberKey::Anno),
    ("vlan", SubscriberKey::Vlan),
];

impl FromArg for SubscriberKey {
    const KIND: &'static str = "dst, src, anno or vlan";

    fn from_arg(raw: &str, _: &Names) -> Result<SubscriberKey, String> {
        let by = NAMES.iter().find(|(name, _)| *name == raw);
        by.map(|(_, by)| *by)
            .ok_or_else(|| format!("must be {}, not `{raw}`", Self::KIND))
    }

    fn stand_in() -> SubscriberKey {
        SubscriberKey::Dst
    }

    fn unparse(&self) -> String {
        let name = NAMES.iter().find(|(_, by)| by == self);
        name.map_or_else(String::new, |(name, _)| (*name).to_owned())
    }
}

impl SubscriberKey {
    fn is_address(self) -> bool {
        matches!(self, SubscriberKey::Dst | SubscriberKey::Src)
    }
}

/// Address range, divided into subscribers by prefixes of length `size`.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// First address as a 128-bit number; IPv4 addresses are extended.
    base: u128,
    len: u8,
    size: u8,
    is_four: bool,
    /// Index of the block's first subscriber.
    first: usize,
}

impl Block {
    fn width(&self) -> u8 {
        if self.is_four { 32 } else { 128 }
    }

    fn parse(text: &str) -> Result<Block, String> {
        let wrong = || {
            format!(
                "`{text}` is no pattern: write ADDR, ADDR/LENGTH or ADDR/LENGTH/SIZE, where each block of SIZE bits of \
                 the address is a subscriber"
            )
        };
        let mut parts = text.split('/');
        let address: IpAddr = parts
            .next()
            .and_then(|a| a.parse().ok())
            .ok_or_else(wrong)?;
        let (base, width) = match address {
            IpAddr::V4(a) => (u128::from(a.to_bits()), 32),
            IpAddr::V6(a) => (a.to_bits(), 128),
        };
        let mut bits = |or| match parts.next() {
            None => Ok(or),
            Some(text) => {
                let bits = text.parse().ok().filter(|bits| *bits <= width);
                bits.ok_or_else(wrong)
            }
        };
        let (len, size): (u8, u8) = (bits(width)?, bits(width)?);
        if parts.next().is_some() || size < len {
            return Err(wrong());
        }
        let block = Block {
            base,
            len,
            size,
            is_four: width == 32,
            first: 0,
        };
        let beyond = u128::MAX.checked_shl((width - len).into()).unwrap_or(0);
        if base & !beyond & (u128::MAX >> (128 - width)) != 0 {
            return Err(format!("`{text}` has bits set beyond its length"));
        }
        Ok(block)
    }

    /// Base-2 logarithm of the number of subscribers.
    fn bits(&self) -> u8 {
        self.size - self.len
    }

    #[inline]
    fn subscriber(&self, address: u128) -> usize {
        // For `::/0/0` the shift exceeds the width: there is a single subscriber.
        let offset = (address ^ self.base).checked_shr(u32::from(self.width() - self.size));
        self.first + offset.unwrap_or(0) as usize
    }
}

/// Traffic class, present for each subscriber.
pub(super) struct Class {
    pub(super) name: String,
    pub(super) share: Share,
}

/// Description of the hierarchy.
pub(super) struct Tree {
    by: SubscriberKey,
    pub(super) classes: Vec<Class>,
    /// Class of each code point, then that of other packets.
    of_dscp: [u8; 64],
    other_class: u8,
    pub(super) groups: Vec<(String, Share)>,
    /// Index of each group by name.
    group_of: HashMap<String, usize>,
    pub(super) subscribers: Vec<(usize, Share)>,
    /// Blocks by their numbers in the tables, less one.
    blocks: Vec<Block>,
    four: Option<Arc<Poptrie<4>>>,
    six: Option<Arc<Poptrie<16>>>,
    /// The subscriber of each number and 1; 0 is none.
    numbers: Vec<u32>,
    /// Subscriber of all remaining packets.
    default_subscriber: Option<usize>,
}

/// Names and values behind the words that a statement begins with.
struct Options {
    rate: Option<u64>,
    ceiling: Option<u64>,
    share: Option<u64>,
    dscp: Vec<u8>,
}

fn options(words: &[&str], may: &[&str]) -> Result<Options, String> {
    let mut options = Options {
        rate: None,
        ceiling: None,
        share: None,
        dscp: Vec::new(),
    };
    let mut words = words.iter().peekable();
    while let Some(&name) = words.next() {
        if !may.contains(&name) {
            return Err(format!("`{name}` is not one of {}", may.join(", ")));
        }
        let mut value = || {
            words
                .next()
                .copied()
                .ok_or_else(|| format!("{name} has no value"))
        };
        let in_value = |wrong: String| wrong.replacen("the value", name, 1);
        let above_zero = |value: u64| match value {
            0 => Err(format!("{name} must not be 0")),
            value => Ok(value),
        };
        let bandwidth = |text| above_zero(parse::<Bandwidth>(text).map_err(in_value)?.0);
        match name {
            "RATE" => options.rate = Some(bandwidth(value()?)?),
            "CEIL" => options.ceiling = Some(bandwidth(value()?)?),
            "SHARE" => {
                let share = parse::<u32>(value()?).map_err(in_value)?;
                options.share = Some(above_zero(share.into())?);
            }
            _ => {
                while let Some(number) = words.peek().and_then(|word| word.parse::<u8>().ok()) {
                    if number > 63 {
                        return Err(format!("a code point is at most 63, not {number}"));
                    }
                    options.dscp.push(number);
                    words.next();
                }
                if options.dscp.is_empty() {
                    return Err("behind DSCP come code points, such as DSCP 46 48".to_owned());
                }
            }
        }
    }
    Ok(options)
}

impl Options {
    fn share(&self) -> Result<Share, String> {
        Ok(Share {
            rate: self.rate.ok_or("RATE is missing")?,
            ceiling: self.ceiling,
        })
    }
}

impl Tree {
    pub(super) fn new(by: SubscriberKey) -> Tree {
        Tree {
            by,
            classes: Vec::new(),
            of_dscp: [UNCLAIMED; 64],
            other_class: 0,
            groups: Vec::new(),
            group_of: HashMap::new(),
            subscribers: Vec::new(),
            blocks: Vec::new(),
            four: None,
            six: None,
            numbers: Vec::new(),
            default_subscriber: None,
        }
    }

    /// Takes a statement.
    pub(super) fn add(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            ["class", name, rest @ ..] => self.add_class(name, rest),
            ["group", name, rest @ ..] => {
                if self.group_of.contains_key(*name) {
                    return Err(format!("there are two groups `{name}`"));
                }
                let share = options(rest, &["RATE", "CEIL"])?.share()?;
                self.group_of.insert((*name).to_owned(), self.groups.len());
                self.groups.push(((*name).to_owned(), share));
                Ok(())
            }
            ["subscribers", group, rest @ ..] => self.add_subscribers(group, rest),
            _ => Err(
                "write `class NAME ...`, `group NAME ...` or `subscribers GROUP PATTERN ...`"
                    .to_owned(),
            ),
        }
    }

    fn add_class(&mut self, name: &str, rest: &[&str]) -> Result<(), String> {
        if self.classes.iter().any(|class| class.name == name) {
            return Err(format!("there are two classes `{name}`"));
        }
        if self.classes.len() == CLASSES_MAX {
            return Err(format!("there are at most {CLASSES_MAX} classes"));
        }
        let options = options(rest, &["DSCP", "SHARE", "CEIL"])?;
        let number = self.classes.len() as u8;
        for &dscp in &options.dscp {
            let class = &mut self.of_dscp[usize::from(dscp)];
            if let Some(other) = self.classes.get(usize::from(*class)) {
                return Err(format!("class `{}` has DSCP {dscp} already", other.name));
            }
            *class = number;
        }
        self.classes.push(Class {
            name: name.to_owned(),
            share: Share {
                rate: options.share.unwrap_or(1),
                ceiling: options.ceiling,
            },
        });
        Ok(())
    }

    fn add_subscribers(&mut self, group: &str, rest: &[&str]) -> Result<(), String> {
        let known = self.group_of.get(group).copied();
        let group = known.ok_or_else(|| format!("there is no group `{group}` above"))?;
        let is_option = |word: &&str| ["RATE", "CEIL"].contains(word);
        let split = rest.iter().position(is_option).unwrap_or(rest.len());
        let (patterns, rest) = rest.split_at(split);
        let share = options(rest, &["RATE", "CEIL"])?.share()?;
        let of_group = &self.groups[group].1;
        if share.rate > of_group.rate {
            return Err(format!(
                "RATE is more than that of the group, {}",
                Bandwidth::of(of_group.rate).unparse()
            ));
        }
        let first = self.subscribers.len();
        let number = match patterns {
            [] => return Err("no pattern names the subscribers".to_owned()),
            ["-"] if self.default_subscriber.is_some() => {
                return Err("there are two patterns `-`".to_owned());
            }
            ["-"] => {
                self.default_subscriber = Some(first);
                1
            }
            patterns if self.by.is_address() => self.add_blocks(patterns, first)?,
            patterns => self.add_numbers(patterns, first)?,
        };
        if first + number > SUBSCRIBERS_MAX {
            return Err(format!("there are more than {SUBSCRIBERS_MAX} subscribers"));
        }
        self.subscribers
            .extend(std::iter::repeat_n((group, share), number));
        Ok(())
    }

    /// Adds patterns with equally many subscribers, of which the nth is the same one. Returns their number.
    fn add_blocks(&mut self, patterns: &[&str], first: usize) -> Result<usize, String> {
        let blocks: Vec<Block> = patterns
            .iter()
            .map(|text| Block::parse(text))
            .collect::<Result<_, _>>()?;
        let bits = blocks.iter().map(Block::bits).max().unwrap_or(0);
        if blocks.iter().any(|block| block.bits() != bits) {
            return Err(
                "all patterns of a line must have as many subscribers: the nth of each is the same one".to_owned(),
            );
        }
        if bits > SUBSCRIBERS_MAX.ilog2() as u8 {
            return Err(format!("there are more than {SUBSCRIBERS_MAX} subscribers"));
        }
        if self.blocks.len() + blocks.len() > usize::from(u16::MAX) {
            return Err(format!(
                "there are more than {} patterns of addresses",
                u16::MAX
            ));
        }
        self.blocks
            .extend(blocks.into_iter().map(|block| Block { first, ..block }));
        Ok(1 << bits)
    }

    fn add_numbers(&mut self, patterns: &[&str], first: usize) -> Result<usize, String> {
        let most = if self.by == SubscriberKey::Vlan {
            4095
        } else {
            SUBSCRIBERS_MAX - 1
        };
        let mut count = 0;
        for text in patterns {
            let (from, to) = text.split_once('-').unwrap_or((text, text));
            let (Ok(from), Ok(to)) = (from.parse::<usize>(), to.parse::<usize>()) else {
                return Err(format!("`{text}` is no pattern: write N or N-N"));
            };
            if from > to || to > most {
                return Err(format!("`{text}` must rise and end at {most} at most"));
            }
            if self.numbers.len() <= to {
                self.numbers.resize(to + 1, 0);
            }
            for number in from..=to {
                if self.numbers[number] != 0 {
                    return Err(format!("{number} is two subscribers"));
                }
                self.numbers[number] = (first + count + 1) as u32;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Checks all statements together. Returns mistakes with advice.
    pub(super) fn finish(&mut self, link: Option<u64>) -> Vec<(String, &'static str)> {
        let mut wrong = Vec::new();
        if self.subscribers.is_empty() {
            let help = "write `group all RATE 1Gbps` and `subscribers all 10.0.0.0/24 RATE 1Mbps`, or TREE and a file \
                of such lines";
            wrong.push(("there is no subscriber".to_owned(), help));
        }
        for (name, share) in &self.groups {
            if let Some(link) = link.filter(|link| *link < share.rate) {
                let link = Bandwidth::of(link).unparse();
                wrong.push((
                    format!("group `{name}` has a higher RATE than LINK, {link}"),
                    "give it a part of the link",
                ));
            }
        }
        if self.classes.is_empty() {
            self.classes.push(Class {
                name: "all".to_owned(),
                share: Share {
                    rate: 1,
                    ceiling: None,
                },
            });
        }
        let claims = |class: usize| self.of_dscp.contains(&(class as u8));
        let unclaimed: Vec<usize> = (0..self.classes.len()).filter(|&c| !claims(c)).collect();
        match unclaimed[..] {
            [] => wrong.push((
                "all classes have DSCP, and none takes the packets of other code points".to_owned(),
                "write a class without DSCP",
            )),
            [class] => self.other_class = class as u8,
            _ => wrong.push((
                "two classes have no DSCP".to_owned(),
                "one of them takes all packets that are of no other class; give the others DSCP",
            )),
        }
        for class in &mut self.of_dscp {
            if *class == UNCLAIMED {
                *class = self.other_class;
            }
        }
        if let Err(full) = self.index() {
            wrong.push((full, "fewer, larger patterns take less"));
        }
        wrong
    }

    fn index(&mut self) -> Result<(), String> {
        let (mut four, mut six) = (None, None);
        for (block, number) in self.blocks.iter().zip(1..) {
            let Some(id) = NonZeroU16::new(number) else {
                continue;
            };
            let twice = if block.is_four {
                let address = (block.base as u32).to_be_bytes();
                let rib: &mut Rib<4> = four.get_or_insert_with(Rib::new);
                rib.stage_insert(Prefix::new(address, block.len), id)
            } else {
                let rib: &mut Rib<16> = six.get_or_insert_with(Rib::new);
                rib.stage_insert(Prefix::new(block.base.to_be_bytes(), block.len), id)
            };
            if twice.is_some() {
                let address: IpAddr = match block.is_four {
                    true => Ipv4Addr::from_bits(block.base as u32).into(),
                    false => Ipv6Addr::from_bits(block.base).into(),
                };
                return Err(format!("{address}/{} is written twice", block.len));
            }
        }
        let full = |_| "the patterns do not fit into the table of addresses".to_owned();
        if let Some(mut rib) = four {
            rib.publish().map_err(full)?;
            self.four = Some(Arc::clone(rib.fib()));
        }
        if let Some(mut rib) = six {
            rib.publish().map_err(full)?;
            self.six = Some(Arc::clone(rib.fib()));
        }
        Ok(())
    }

    /// The subscriber of an address.
    pub(super) fn of_address(&self, address: IpAddr) -> Option<usize> {
        let (number, address) = match address {
            IpAddr::V4(address) => (
                self.four.as_ref()?.lookup(address.to_bits()),
                u128::from(address.to_bits()),
            ),
            IpAddr::V6(address) => (
                self.six.as_ref()?.lookup(address.octets()),
                address.to_bits(),
            ),
        };
        let block = self.blocks.get(usize::from(number).checked_sub(1)?)?;
        Some(block.subscriber(address))
    }

    fn of_number(&self, number: u32) -> Option<usize> {
        let subscriber = self.numbers.get(number as usize)?.checked_sub(1)?;
        Some(subscriber as usize)
    }

    /// The subscriber with this name: an address, a number, or `-` for the one of all other packets.
    pub(super) fn find(&self, text: &str) -> Result<usize, String> {
        let found = match text {
            "-" => self.default_subscriber,
            text if self.by.is_address() => {
                let address = text
                    .parse()
                    .map_err(|_| format!("`{text}` is no address"))?;
                self.of_address(address)
            }
            text => {
                let number = text.parse().map_err(|_| format!("`{text}` is no number"))?;
                self.of_number(number)
            }
        };
        found.ok_or_else(|| format!("there is no subscriber `{text}`"))
    }

    /// The subscriber and the class of a packet.
    #[inline]
    pub(super) fn of_packet(&self, packet: &Packet) -> Option<(usize, usize)> {
        let bytes = packet.network();
        let (mut dscp, mut address) = (None, None);
        match bytes.first().map(|first| first >> 4) {
            Some(4) => {
                if let Some(header) = bytes.first_chunk::<{ ipv4::MIN_LEN }>() {
                    let ip = Ipv4::new_unchecked(header);
                    dscp = Some(ip.dscp());
                    address = Some(IpAddr::V4(if self.by == SubscriberKey::Src {
                        ip.src()
                    } else {
                        ip.dst()
                    }));
                }
            }
            Some(6) => {
                if let Some(header) = bytes.first_chunk::<{ ipv6::LEN }>() {
                    let ip = Ipv6::new_unchecked(header);
                    dscp = Some(ip.dscp());
                    address = Some(IpAddr::V6(if self.by == SubscriberKey::Src {
                        ip.src()
                    } else {
                        ip.dst()
                    }));
                }
            }
            _ => {}
        }
        let class = dscp.map_or(self.other_class, |dscp| {
            self.of_dscp[usize::from(dscp & 63)]
        });
        let subscriber = match self.by {
            SubscriberKey::Dst | SubscriberKey::Src => {
                address.and_then(|address| self.of_address(address))
            }
            SubscriberKey::Anno => self.of_number(packet.cold().aggregate()),
            SubscriberKey::Vlan => self.of_number(u32::from(packet.vlan_tci() & 0xfff)),
        };
        Some((subscriber.or(self.default_subscriber)?, usize::from(class)))
    }
}
