//! Input specifications: what happens to packets that have no mapping.

use super::free_values::Value;
use super::key::{Key, Kind};
use super::pattern::{self, Pattern, PatternState};
use super::set::{self, FlowSet, REAP};
use arguments::units::whole_number;
use arguments::{Arg, Args, Peer};
use engine::clock::Time;
use engine::shared::Shared;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use tables::flows::Side;
use wire::{FlowKey, proto};

/// Specification of an input: the treatment of packets without a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// Drops the packet.
    Drop,
    /// Sends the packet unchanged to an output.
    Pass(u8),
    /// Makes a mapping that leaves the flow's addresses and ports unchanged.
    Keep([u8; 2]),
    /// Makes a mapping from a pattern.
    Pattern(PatternChoice),
    /// Makes a mapping from a pattern that another element chooses.
    Mapper(Mapper),
}

/// A pattern, and the outputs for a flow and for its replies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternChoice {
    /// The pattern.
    pub pattern: Pattern,
    /// Output of the flow, and output of its replies.
    pub outputs: [u8; 2],
}

/// Method by which a mapper element chooses a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pick {
    /// Round robin.
    Turn,
    /// Hash of the source address, with a seed, and of each pattern's number.
    Source(u32, Vec<u64>),
    /// Protocol and destination port of the packet; one service per pattern.
    Service(Vec<Service>),
}

/// A protocol (TCP or UDP) and a range of destination ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    protocol: u8,
    ports: (u16, u16),
}

impl Service {
    /// Parses `tcp 80` or `udp 5000-5010`.
    fn parse(protocol: &str, ports: &str, args: &Args) -> Result<Service, String> {
        let protocol = match protocol {
            "tcp" => proto::TCP,
            "udp" => proto::UDP,
            _ => return Err(format!("`{protocol}` is neither tcp nor udp")),
        };
        let (low, high) = pattern::ports(ports, args)
            .ok_or_else(|| format!("`{ports}` is no port and no range of ports"))?;
        Ok(Service {
            protocol,
            ports: (low, high),
        })
    }

    fn has(&self, key: &Key, kind: Kind) -> bool {
        let protocol = match kind {
            Kind::Ip => key.proto == self.protocol,
            Kind::Tcp => self.protocol == proto::TCP,
            Kind::Udp => true, // for TCP and UDP alike
            Kind::Ping | Kind::Address | Kind::Pair => false,
        };
        protocol && (self.ports.0..=self.ports.1).contains(&key.dport)
    }
}

/// A mapper element's patterns and its method of choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapper {
    name: String,
    pick: Pick,
    choices: Vec<PatternChoice>,
    /// Output for flows that match no pattern; `None` drops them.
    fallback_output: Option<u8>,
}

/// Parses `PATTERN... FOUTPUT ROUTPUT`.
fn choice(words: &[String], name: &str, args: &Args) -> Result<PatternChoice, String> {
    let split = words.len().saturating_sub(2);
    let (pattern, outputs) = words.split_at(split);
    let outputs = outputs_of(outputs)?;
    let pattern = Pattern::parse(pattern, name, args)?;
    Ok(PatternChoice { pattern, outputs })
}

fn outputs_of(words: &[String]) -> Result<[u8; 2], String> {
    let [forward, reply] = words else {
        return Err("bad forward port".to_owned());
    };
    Ok([
        whole_number(forward).ok_or("bad forward port")?,
        whole_number(reply).ok_or("bad reply port")?,
    ])
}

/// Parses the specification of input `input`; the error describes the mistake.
pub fn parse(arg: &Arg, input: usize, args: &Args) -> Result<Spec, String> {
    let words = arg.words();
    let own = format!("{}[{input}]", args.element());
    let (word, rest) = match words.split_first() {
        Some((word, rest)) => (word.as_str(), rest),
        None => return Err("empty argument".to_owned()),
    };
    let spec = match word {
        "drop" | "discard" if rest.is_empty() => Spec::Drop,
        "drop" | "discard" => return Err(format!("syntax error, expected '{word}'")),
        "nochange" if rest.len() == 2 => Spec::Keep(outputs_of(rest)?),
        "pass" | "passthrough" | "nochange" => match rest {
            [] => Spec::Pass(0),
            [output] => {
                let wrong = || format!("syntax error, expected '{word} [OUTPUT]'");
                Spec::Pass(whole_number(output).ok_or_else(wrong)?)
            }
            _ => return Err(format!("syntax error, expected '{word} [OUTPUT]'")),
        },
        "keep" => Spec::Keep(outputs_of(rest)?),
        "pattern" | "xpattern" => Spec::Pattern(choice(rest, &own, args)?),
        name => match args.peer(name) {
            Some(_) if !rest.is_empty() => {
                return Err(format!("syntax error, expected element name '{name}'"));
            }
            Some(peer) => Spec::Mapper(mapper(peer).ok_or("element is not an IPMapper")??),
            None => return Err("unknown specification".to_owned()),
        },
    };
    for output in spec.outputs() {
        if usize::from(output) >= args.outputs() {
            return Err("output port out of range".to_owned());
        }
    }
    Ok(spec)
}

/// Mapper of an element; `None` if the element is of another class.
fn mapper(peer: Peer) -> Option<Result<Mapper, String>> {
    let mut args = peer.args(&[]);
    let found = match peer.class() {
        "RoundRobinIPMapper" => choices(&mut args).map(|choices| (Pick::Turn, choices, None)),
        "SourceIPHashMapper" => {
            hash_choices(&mut args).map(|(pick, choices)| (pick, choices, None))
        }
        "PortIPMapper" => service_choices(&mut args),
        _ => return None,
    };
    let name = peer.name().to_owned();
    let wrong = |(_, wrong)| format!("{name}: {wrong}");
    Some(
        found
            .map_err(wrong)
            .map(|(pick, choices, otherwise)| Mapper {
                name: name.clone(),
                pick,
                choices,
                fallback_output: otherwise,
            }),
    )
}

type Wrong = (Option<Arg>, String);

/// Records the errors in the patterns of a mapper element.
pub fn report(args: &mut Args, (place, wrong): Wrong) {
    match place {
        Some(arg) => args.error(&arg, wrong),
        None if args.element().is_empty() => {}
        None => args.error_in_whole(wrong, "see the manual page"),
    }
}

/// Parses the patterns of a mapper element.
pub fn choices(args: &mut Args) -> Result<Vec<PatternChoice>, Wrong> {
    let patterns = args.rest(
        "PATTERN",
        "SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT",
        "a pattern, or the name of one, and outputs for new flows",
    );
    if patterns.is_empty() {
        return Err(no_patterns());
    }
    patterns_of(&patterns, args)
}

fn patterns_of(patterns: &[Arg], args: &Args) -> Result<Vec<PatternChoice>, Wrong> {
    let each = patterns.iter().enumerate();
    each.map(|(i, arg)| nth_choice(i, arg, &pattern_words(arg), args))
        .collect()
}

/// Parses the words of a mapper's pattern number `i`, which stands in `arg`.
fn nth_choice(i: usize, arg: &Arg, words: &[String], args: &Args) -> Result<PatternChoice, Wrong> {
    let name = format!("{}[{i}]", args.element());
    choice(words, &name, args).map_err(|wrong| wrong_pattern(i, arg, &wrong))
}

fn no_patterns() -> Wrong {
    (None, "no patterns given".to_owned())
}

fn wrong_pattern(i: usize, arg: &Arg, wrong: &str) -> Wrong {
    (Some(arg.clone()), format!("pattern {i}: {wrong}"))
}

/// Words of a mapper's pattern, without the word `pattern` before them.
fn pattern_words(arg: &Arg) -> Vec<String> {
    let mut words = arg.words();
    if words.first().is_some_and(|word| word == "pattern") {
        words.remove(0);
    }
    words
}

/// Parses the seed and the patterns of a SourceIPHashMapper. Rendezvous hashing ranks the patterns for each flow, so
/// the number of nodes is ignored. If a pattern with a number is added or removed, only its flows move.
pub fn hash_choices(args: &mut Args) -> Result<(Pick, Vec<PatternChoice>), Wrong> {
    let all = args.rest(
        "NNODES SEED, PATTERN",
        "a number and a seed, then SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT NODE",
        "a pattern, outputs for new flows, and the number of the node",
    );
    let Some((first, patterns)) = all.split_first() else {
        return Err((None, "NNODES SEED is missing".to_owned()));
    };
    if patterns.is_empty() {
        return Err(no_patterns());
    }
    let numbers: Option<Vec<u32>> = first
        .words()
        .iter()
        .map(|word| whole_number(word))
        .collect();
    let Some(&[_, seed]) = numbers.as_deref() else {
        let wrong = "NNODES SEED must be two numbers".to_owned();
        return Err((Some(first.clone()), wrong));
    };
    let (nodes, choices) = numbered(patterns, args)?;
    Ok((Pick::Source(seed, nodes), choices))
}

/// Parses patterns whose outputs may be followed by the number of a node, and the numbers. A pattern without one has
/// its place in the list.
fn numbered(patterns: &[Arg], args: &Args) -> Result<(Vec<u64>, Vec<PatternChoice>), Wrong> {
    let (mut nodes, mut choices) = (Vec::new(), Vec::new());
    for (i, arg) in patterns.iter().enumerate() {
        let mut words = pattern_words(arg);
        // Four words or the name of a pattern, two outputs, and the node.
        let node = if matches!(words.len(), 4 | 7) {
            words.pop()
        } else {
            None
        };
        nodes.push(match node {
            Some(node) => {
                whole_number(&node).ok_or_else(|| wrong_pattern(i, arg, "bad node number"))?
            }
            None => i as u64,
        });
        choices.push(nth_choice(i, arg, &words, args)?);
    }
    Ok((nodes, choices))
}

/// Parses the services and patterns of a PortIPMapper, and the output for all other flows.
pub fn service_choices(args: &mut Args) -> Result<(Pick, Vec<PatternChoice>, Option<u8>), Wrong> {
    let all = args.rest(
        "SERVICE",
        "tcp or udp, a port or a range, then SADDR SPORT DADDR DPORT FOUTPUT ROUTPUT",
        "a service, and the pattern and outputs for its new flows; the last may be `pass OUTPUT`",
    );
    let (mut services, mut choices, mut otherwise) = (Vec::new(), Vec::new(), None);
    for (i, arg) in all.iter().enumerate() {
        let wrong = |wrong: String| (Some(arg.clone()), format!("service {i}: {wrong}"));
        let words = arg.words();
        match words.as_slice() {
            // An empty argument, such as a variable without a value, is ignored.
            words if words.iter().all(String::is_empty) => {}
            [pass, output] if pass == "pass" && i + 1 == all.len() => {
                let number = whole_number(output).ok_or_else(|| wrong("bad output".to_owned()))?;
                otherwise = Some(number);
            }
            [protocol, ports, pattern @ ..] if pattern.len() > 2 => {
                services.push(Service::parse(protocol, ports, args).map_err(wrong)?);
                let name = format!("{}[{i}]", args.element());
                choices.push(choice(pattern, &name, args).map_err(wrong)?);
            }
            _ => {
                let form = "write PROTOCOL PORTS, then a pattern and two outputs";
                return Err(wrong(form.to_owned()));
            }
        }
    }
    Ok((Pick::Service(services), choices, otherwise))
}

impl Spec {
    /// Outputs that the specification uses.
    fn outputs(&self) -> Vec<u8> {
        match self {
            Spec::Drop => Vec::new(),
            Spec::Pass(output) => vec![*output],
            Spec::Keep(outputs) => outputs.to_vec(),
            Spec::Pattern(choice) => choice.outputs.to_vec(),
            Spec::Mapper(m) => {
                let outputs = m.choices.iter().flat_map(|c| c.outputs);
                outputs.chain(m.fallback_output).collect()
            }
        }
    }

    /// Text form of the specification, as the `patterns` handler shows it.
    pub fn show(&self) -> String {
        match self {
            Spec::Drop => "<drop>".to_owned(),
            Spec::Pass(_) => "<nochange>".to_owned(),
            Spec::Keep(_) => "<keep>".to_owned(),
            Spec::Pattern(choice) => choice.pattern.show(),
            Spec::Mapper(_) => "<mapper>".to_owned(),
        }
    }

    /// True if every rewritten flow can be given replies that hash to the flow's own bucket.
    pub fn splits(&self) -> bool {
        match self {
            Spec::Drop | Spec::Pass(_) | Spec::Keep(_) => true,
            Spec::Pattern(_) | Spec::Mapper(_) => self
                .choices()
                .iter()
                .all(|choice| choice.pattern.varies_ports()),
        }
    }

    /// True if the specification changes the destination of some flows.
    pub fn sets_destinations(&self) -> bool {
        let mut choices = self.choices().iter();
        choices.any(|choice| choice.pattern.sets_destination())
    }

    fn choices(&self) -> &[PatternChoice] {
        match self {
            Spec::Pattern(choice) => std::slice::from_ref(choice),
            Spec::Mapper(mapper) => &mapper.choices,
            _ => &[],
        }
    }
}

/// State that an input needs to make mappings.
pub struct Input {
    spec: Spec,
    states: Vec<PatternState>,
    /// Round-robin position of a mapper, shared by all rewriters that use the mapper.
    turn: Rc<Cell<usize>>,
}

/// Bucket in which a new mapping must keep its flow and its replies.
pub struct BucketConstraint<'a> {
    /// Bucket function; `None` if this worker handles the packets of all buckets.
    pub bucket_of: Option<&'a dyn Fn(&FlowKey) -> u16>,
    /// Bucket of the packet that makes the mapping. All packets of the flow, and its replies, have this bucket.
    pub bucket: u16,
}

/// Result for a packet without a mapping.
pub enum MappingResult {
    /// A new mapping: the side that matches the packet.
    Mapping(Side),
    /// No mapping: the packet passes unchanged to this output.
    Pass(u8),
    /// No mapping: the specification drops the packet.
    Unwanted,
    /// No mapping: no address or port is free.
    Failed,
    /// No mapping: the table is full of flows within their guarantee.
    Full,
}

impl Input {
    /// State of an input with this specification.
    pub fn new(spec: &Spec, shared: &Shared) -> Input {
        let states = spec.choices().iter();
        Input {
            states: states
                .map(|c| PatternState::new(&c.pattern, shared))
                .collect(),
            turn: match spec {
                Spec::Mapper(mapper) => shared.get(&format!("turn {}", mapper.name), Cell::default),
                _ => Rc::default(),
            },
            spec: spec.clone(),
        }
    }

    /// The specification.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Output for packets that pass unchanged; `None` for any other specification.
    pub fn pass_output(&self) -> Option<u8> {
        match self.spec {
            Spec::Pass(output) => Some(output),
            _ => None,
        }
    }

    /// Makes a mapping for a flow that has none. `number` is this input's index.
    pub fn make_mapping(
        &self,
        set: &mut FlowSet,
        (key, kind): (Key, Kind),
        number: usize,
        (class, now): (usize, Time),
        home: &BucketConstraint,
        mut random: impl FnMut() -> u32,
    ) -> MappingResult {
        let order = match &self.spec {
            Spec::Drop => return MappingResult::Unwanted,
            Spec::Pass(output) => return MappingResult::Pass(*output),
            Spec::Keep(_) | Spec::Pattern(_) => 0..1,
            Spec::Mapper(mapper) => match self.order(mapper, (&key, kind)) {
                Some(order) => order,
                None => {
                    return mapper
                        .fallback_output
                        .map_or(MappingResult::Unwanted, MappingResult::Pass);
                }
            },
        };
        let mut chosen = self.choose(&order, set, (key, kind), (home, &mut random), now);
        while chosen.is_none() && !set.until_reaped {
            // Expired mappings are removed first, which frees their values.
            let before = set.count();
            set.remove_expired(now, REAP);
            if set.count() == before {
                break;
            }
            chosen = self.choose(&order, set, (key, kind), (home, &mut random), now);
        }
        let found = chosen.is_some();
        let made = chosen.and_then(|(to, outputs)| {
            set.add(key, to, (number, outputs), (class, home.bucket), now)
        });
        if made.is_none() {
            let space = &mut set.spaces[usize::from(key.space)];
            if let Some(counts) = space.inputs.get_mut(number) {
                counts.failures += 1;
            }
        }
        match made {
            Some(end) => MappingResult::Mapping(end),
            None if found => MappingResult::Full,
            None => MappingResult::Failed,
        }
    }

    /// Rewritten form of a flow by the first pattern with a free value. `order` gives the sequence of patterns; an
    /// index beyond the last one wraps around.
    fn choose(
        &self,
        order: &Range<usize>,
        set: &mut FlowSet,
        (key, kind): (Key, Kind),
        (home, random): (&BucketConstraint, &mut impl FnMut() -> u32),
        now: Time,
    ) -> Option<(Key, [u8; 2])> {
        if let Spec::Keep(outputs) = &self.spec {
            return Some((key, *outputs));
        }
        let choices = self.spec.choices();
        for index in order.clone().map(|i| i % choices.len()) {
            let choice = &choices[index];
            let to = self.try_choice(choice, index, set, (key, kind), (home, random), now);
            if let Some(to) = to {
                self.turn.set(index + 1);
                return Some((to, choice.outputs));
            }
        }
        None
    }

    fn try_choice(
        &self,
        choice: &PatternChoice,
        index: usize,
        set: &mut FlowSet,
        flow: (Key, Kind),
        (home, random): (&BucketConstraint, &mut impl FnMut() -> u32),
        now: Time,
    ) -> Option<Key> {
        let now = set.time_of_ends(now);
        let (flows, free) = set.free_values();
        let look = |to: &Key| {
            let reply = to.reversed();
            let bucket_of = home.bucket_of;
            if bucket_of.is_some_and(|of| of(&reply.flow()) != home.bucket) {
                Value::OtherBucket
            } else if set::find(flows, &reply, now).is_some() {
                Value::Taken
            } else {
                Value::Free
            }
        };
        let state = &self.states[index];
        let free = (free, home.bucket, flows.len());
        choice.pattern.apply(state, flow, free, look, random)
    }

    /// Sequence of a mapper's patterns to try; an index beyond the last one wraps around. `None` if no pattern matches
    /// the flow.
    fn order(&self, mapper: &Mapper, (key, kind): (&Key, Kind)) -> Option<Range<usize>> {
        let n = mapper.choices.len();
        let first = match &mapper.pick {
            Pick::Turn => self.turn.get().checked_rem(n).unwrap_or(0),
            Pick::Source(seed, nodes) => {
                let client = u64::from(key.src) << 32 | u64::from(*seed);
                let rank = |i: &usize| mix(client, nodes[*i]);
                (0..n).max_by_key(rank).unwrap_or(0)
            }
            Pick::Service(services) => {
                let fits = services.iter().position(|service| service.has(key, kind));
                return fits.map(|i| i..i + 1);
            }
        };
        Some(first..first + n)
    }
}

/// Mixes two words (the final steps of SplitMix64).
fn mix(a: u64, b: u64) -> u64 {
    let mut x = a ^ b.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
