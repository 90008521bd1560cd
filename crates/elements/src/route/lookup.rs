//! Route lookup: the element that implements all lookup classes.

use super::batch_lookup::Bulk;
use crate::prelude::*;
use crate::secret;
use arguments::text_file::lines;
use arguments::{Arg, Names};
use engine::outputs;
use forwarding::RouteBound;
use forwarding::family::Family;
use forwarding::route_syntax::{Hops, PORTS_MAX, Parser, show_hops};
use forwarding::route_table::{HopSelector, Table};
use lang::Severity;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use tables::fib::{Prefix, Structure};
use tables::groups::{Member, View};

drops! {
    NO_ROUTE = "no_route",
    NO_NEXT_HOP = "no_next_hop",
}
/// Number of read-only handlers.
const READERS: usize = 6;
/// Port number of an unconnected output: packets are dropped.
const UNCONNECTED: u8 = u8::MAX;

/// Constants of a class of route lookup.
pub(crate) trait Kind<const N: usize>: 'static {
    /// Name of the class.
    const CLASS: &'static str;
    /// The manual page.
    const MANUAL: &'static str;
    /// True if the class has no handlers that change routes.
    const FIXED: bool = false;
    /// True if packets are looked up in batches, which hides the latency of dependent loads.
    const BULK: bool = true;
    /// Address family of the class.
    type Family: Family<N>;
    /// Lookup structure of the class.
    type Structure: Structure<N> + 'static;
}

pub(crate) struct Config<const N: usize, S: Structure<N>> {
    /// The routing table; `None` if memory for it ran out, which fails the build.
    table: Option<Arc<Table<N, S>>>,
    names: Names,
    no_route: Option<u8>,
    /// Highest port that the configuration uses.
    port_max: Option<u16>,
    /// Names of outputs, which stay when numbers change; none if the configuration names none.
    output_names: Vec<String>,
    /// Outputs of the running element; 0 until it runs.
    outputs: AtomicUsize,
    /// Random hash seed that differs between routers. With equal seeds, one router would polarise the flows of the
    /// next.
    seed: u32,
}

impl<const N: usize, S: Structure<N>> Config<N, S> {
    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    pub(super) fn output_names(&self) -> &[String] {
        &self.output_names
    }

    pub(super) fn no_route(&self) -> Option<u8> {
        self.no_route
    }

    pub(super) fn table(&self) -> Result<&Table<N, S>, String> {
        self.table
            .as_deref()
            .ok_or_else(|| "there was no memory for it".to_owned())
    }

    fn check_ports(&self, hops: &[Member]) -> Result<(), String> {
        let outputs = self.outputs.load(Relaxed);
        match hops.iter().find(|hop| usize::from(hop.port) >= outputs) {
            Some(hop) if outputs > 0 => Err(format!(
                "there is no output {}, only 0 to {}",
                hop.port,
                outputs - 1
            )),
            _ => Ok(()),
        }
    }
}

/// Routing table of any lookup structure.
pub trait Reach {
    /// True if an address has a route. Wait-free, for workers.
    fn has_route(&self, address: Ipv4Addr) -> bool;
}

impl<S: Structure<4>> Reach for Config<4, S> {
    fn has_route(&self, address: Ipv4Addr) -> bool {
        let table = self.table.as_ref();
        table.is_some_and(|table| table.fib().lookup(address.to_bits()) != 0)
    }
}

pub(crate) struct Lookup<K: Kind<N>, const N: usize> {
    config: Arc<Config<N, K::Structure>>,
    table: Arc<Table<N, K::Structure>>,
    outputs: usize,
    bulk: Bulk<K::Family, N>,
}

impl<K: Kind<N>, const N: usize> Lookup<K, N> {
    /// All handlers; the read-only ones come first.
    const ALL: &'static [Handler<Self>] = &[
        Handler::shared(
            "table",
            "a route per line",
            |config: &Config<N, K::Structure>, _| Ok(config.table()?.show(K::Family::show)),
        ),
        Handler::shared(
            "lookup",
            "`ADDRESS`: its route; in scripts its port and gateway, -1 without route",
            |config: &Config<N, K::Structure>, address| {
                let hops = config
                    .table()?
                    .hops(|fib| K::Family::lookup(fib, address))?;
                Ok(answer(&hops))
            },
        ),
        Handler::shared(
            "routes",
            "a route per line with its interface, as `add` takes it",
            |config: &Config<N, K::Structure>, _| Ok(config.table()?.show(K::Family::show)),
        ),
        Handler::shared(
            "length",
            "number of routes",
            |config: &Config<N, K::Structure>, _| Ok(config.table()?.count().to_string()),
        ),
        Handler::shared(
            "changes",
            "lines of `ctrl` that make of the configured routes those that there are: `ashlar save` keeps them",
            |_: &Config<N, K::Structure>, _| Err("ask from outside of the router".to_owned()),
        ),
        Handler::shared(
            "groups",
            "a group of next hops per line: id, routes, and each next hop, up or down",
            |config: &Config<N, K::Structure>, _| Ok(config.table()?.show_groups()),
        ),
        Handler::action(
            "add",
            "`ROUTE`: adds a new route, such as `10.0.0.0/8 via 192.0.2.1 dev eth1`",
            |config: &Config<N, K::Structure>, v| {
                carry_out::<K, N>(config, &format!("add {v}"))
                    .map(empty_answer)
                    .map_err(|(_, wrong)| wrong)
            },
        ),
        Handler::action(
            "set",
            "`ROUTE`: adds or changes a route",
            |config: &Config<N, K::Structure>, v| {
                carry_out::<K, N>(config, &format!("set {v}"))
                    .map(empty_answer)
                    .map_err(|(_, wrong)| wrong)
            },
        ),
        Handler::action(
            "remove",
            "`ADDRESS/MASK [GATEWAY] [PORT]`: removes a route",
            |config: &Config<N, K::Structure>, v| {
                carry_out::<K, N>(config, &format!("remove {v}"))
                    .map(empty_answer)
                    .map_err(|(_, wrong)| wrong)
            },
        ),
        Handler::action(
            "ctrl",
            "add, set and remove lines: all are carried out, or none",
            |config: &Config<N, K::Structure>, lines| {
                carry_out::<K, N>(config, lines)
                    .map(empty_answer)
                    .map_err(|(line, wrong)| format!("line {line}: {wrong}"))
            },
        ),
        Handler::action(
            "flush",
            "removes all routes",
            |config: &Config<N, K::Structure>, _| {
                config.table()?.flush();
                Ok(String::new())
            },
        ),
        Handler::action(
            "next_hop_down",
            "`GATEWAY [PORT]` or `- PORT`: removes a next hop from its groups; returns how many groups changed",
            |config: &Config<N, K::Structure>, v| set_up::<K, N>(config, v, false),
        ),
        Handler::action(
            "next_hop_up",
            "`GATEWAY [PORT]` or `- PORT`: puts a next hop back; returns how many groups changed",
            |config: &Config<N, K::Structure>, v| set_up::<K, N>(config, v, true),
        ),
    ];
}

impl<K: Kind<N>, const N: usize> Element for Lookup<K, N> {
    const CONTRACT: Contract = Contract::new(K::CLASS, K::MANUAL)
        .ports(Ports::coded(&["in"], &["out*"], "h/h"))
        .needs(&[<K::Family as Family<N>>::DST])
        .gives(&[<K::Family as Family<N>>::DST])
        .drops(DROPS)
        .extensions(&[&resources::of::<Self>(), &outputs::of::<Self>()])
        .carries_super_frames()
        .ignores_annotations();

    type Config = Config<N, K::Structure>;

    fn configure(args: &mut Args) -> Config<N, K::Structure> {
        let no_route: Option<u8> = args.key_maybe("NOROUTE", "port for packets without route");
        let file: Option<String> = args.key_maybe("ROUTES", "file with a route per line");
        // `attached` has expanded both keywords into routes by now.
        args.key_maybe::<String>("ATTACHED", "name of interfaces' addresses");
        args.key_maybe::<u8>("LOCAL", "port for interfaces' own addresses");
        let output_names: Option<String> =
            args.key_maybe("OUTPUTS", "a name for each output, in order");
        let output_names = output_names.unwrap_or_default();
        let output_names = output_names.split_whitespace().map(str::to_owned);
        let given = args.rest("ROUTE", "ADDRESS/MASK [GATEWAY] PORT", "a route");
        let names = args.names().clone();
        let mut routes = Vec::new();
        if let Some(file) = file {
            read_file::<K, N>(&file, &names, &mut routes, args);
        }
        let mut parser = Parser::new(&names);
        let mut seen: BTreeMap<_, Hops> = BTreeMap::new();
        let mut port_max = no_route.map(u16::from);
        // Click's IPv4 tables keep the first of two routes to a prefix, despite the wording of Click's warning.
        let keeps_first = args.as_click && N == 4;
        for (number, arg) in (1..).zip(&given) {
            match parser.route::<K::Family, N>(&arg.words().join(" ")) {
                Ok((prefix, hops)) => {
                    let before = seen.get(&prefix).filter(|before| **before != hops);
                    if let Some(before) = before {
                        let (to, last) = (show_hops(&**before), show_hops(&*hops));
                        let which = if keeps_first { "first" } else { "last" };
                        let prefix = K::Family::show(prefix);
                        let text = format!(
                            "{prefix} is routed to `{to}` and to `{last}`: the {which} one counts"
                        );
                        args.report(Severity::Warning, text);
                        if keeps_first {
                            // A wrong port is a mistake also in a route that does not count.
                            port_max = port_max.max(hops.iter().map(|h| h.port).max());
                            continue;
                        }
                    }
                    seen.insert(prefix, Arc::clone(&hops));
                    routes.push((prefix, hops));
                }
                Err(wrong) => refuse(args, number, arg, &wrong),
            }
        }
        if no_route == Some(UNCONNECTED) {
            args.error_in_whole("there is no port 255", "give NOROUTE a lower one");
        }
        let ports = routes
            .iter()
            .flat_map(|(_, hops)| hops.iter().map(|h| h.port));
        port_max = port_max.max(ports.max());
        let table = Table::new(args.router_wide::<RouteBound>()).map_err(|refused| {
            let help = "let the process have more (`ulimit -v`), or do with fewer routing tables";
            args.error_in_whole(refused.to_string(), help);
        });
        let most = args.of_plan::<RouteBound>().get();
        if let Ok(table) = &table
            && let Err((_, wrong)) = table.configure(most, routes)
        {
            args.error_in_whole(wrong, "leave some of the routes out");
        }
        Config {
            table: table.ok().map(Arc::new),
            names,
            no_route,
            port_max: port_max.filter(|&port| port < PORTS_MAX),
            output_names: output_names.collect(),
            outputs: AtomicUsize::new(0),
            seed: secret(cfg!(test)) as u32,
        }
    }

    fn new(config: &Arc<Config<N, K::Structure>>, init: &Init) -> Self {
        config.outputs.store(init.outputs, Relaxed);
        Lookup {
            config: Arc::clone(config),
            table: config
                .table
                .clone()
                .expect("a plan with mistakes is not built"),
            outputs: init.outputs,
            bulk: Bulk::default(),
        }
    }

    #[inline]
    fn step(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        fused::step(self, packet, cx)
    }

    #[inline]
    fn process(&mut self, _: usize, batch: &mut Batch, cx: &mut Cx) {
        fused::process(self, batch, cx);
    }

    fn inherit(config: &mut Config<N, K::Structure>, old: &Config<N, K::Structure>) {
        let old_names = &old.output_names;
        if let (Some(table), Some(old)) = (&config.table, &old.table) {
            table.inherit(old, |port| new_port(&config.output_names, old_names, port));
        }
        config.seed = old.seed; // flows stay on their next hops
    }

    const HANDLERS: &'static [Handler<Self>] = if K::FIXED {
        Self::ALL.split_at(READERS).0
    } else {
        Self::ALL
    };
}

impl<K: Kind<N>, const N: usize> Resources for Lookup<K, N> {
    fn memory(config: &Config<N, K::Structure>) -> usize {
        config.table.as_ref().map_or(0, |table| table.memory())
    }

    fn port_count(config: &Config<N, K::Structure>) -> (Option<usize>, Option<usize>) {
        (None, config.port_max.map(|port| usize::from(port) + 1))
    }
}

impl<K: Kind<N>, const N: usize> Fuse for Lookup<K, N> {
    #[inline]
    fn fast(&self, cx: &Cx) -> impl Fn(&mut Packet) -> Option<Verdict> {
        let look = K::Family::lookup_fn(self.table.fib());
        let (groups, outputs) = (self.table.groups().reading(cx.reader()), self.outputs);
        #[inline(always)]
        move |packet| {
            let id = look(packet);
            // The groups are read after the look-up, as in `step_batch`.
            let brief = groups.get().view().compact(id);
            if K::BULK || usize::from(brief.port) >= outputs {
                return None;
            }
            if let Some(gateway) = brief.gateway() {
                K::Family::set_dst(packet, gateway.into());
            }
            Some(Verdict::out(brief.port as u8)) // below PORTS_MAX
        }
    }

    const STEPS_BATCH: bool = K::BULK;

    const PREFETCHES: bool = true;

    fn step_batch(&mut self, batch: &mut Batch, verdicts: &mut Vec<Verdict>, cx: &mut Cx) {
        if !K::BULK {
            return fused::step_each(self, batch, verdicts, cx);
        }
        let ids = self.bulk.look_up(self.table.fib(), batch);
        // The groups are read after the look-up: an earlier version might lack the id that the look-up returned.
        let groups = self.table.groups().read(cx.reader()).view();
        let outputs = self.outputs;
        let packets = batch.iter_of_same_length().zip(ids);
        verdicts.extend(packets.map(|(packet, &id)| {
            let brief = groups.compact(id);
            if usize::from(brief.port) >= outputs {
                return choose::<K, N>(&self.config, outputs, groups, id, packet);
            }
            if let Some(gateway) = brief.gateway() {
                K::Family::set_dst(packet, gateway.into());
            }
            Verdict::out(brief.port as u8) // below PORTS_MAX
        }));
    }

    #[inline]
    fn prefetch(&self) -> impl Fn(&Packet) {
        K::Family::fetch(self.table.fib())
    }

    fn slow(&mut self, packet: &mut Packet, cx: &mut Cx) -> Verdict {
        let id = K::Family::lookup_fn(self.table.fib())(packet);
        let groups = self.table.groups().read(cx.reader()).view();
        choose::<K, N>(&self.config, self.outputs, groups, id, packet)
    }
}

/// Verdict for a packet whose group has no brief form.
#[inline(never)]
fn choose<K: Kind<N>, const N: usize>(
    config: &Config<N, K::Structure>,
    outputs: usize,
    groups: View,
    id: u16,
    packet: &mut Packet,
) -> Verdict {
    let no_route = config.no_route.unwrap_or(UNCONNECTED);
    let next_hop = groups.next_hop_with(id, || flow_hash::<K::Family, N>(packet, config.seed));
    match next_hop {
        Some(hop) if usize::from(hop.port) < outputs => {
            if let Some(gateway) = hop.gateway {
                K::Family::set_dst(packet, gateway);
            }
            Verdict::out(hop.port as u8) // below PORTS_MAX
        }
        _ if id == 0 => Verdict::reject(NO_ROUTE, no_route),
        _ => Verdict::reject(NO_NEXT_HOP, no_route),
    }
}

/// Flow hash of a packet: the one that the port or an upstream element has stored. Otherwise the hash is computed, and
/// stored for downstream elements.
#[inline]
pub fn flow_hash<F: Family<N>, const N: usize>(packet: &mut Packet, seed: u32) -> u32 {
    match packet.hash() {
        0 => {
            let hash = F::flow_hash(packet, seed).max(1);
            packet.set_hash(hash);
            hash
        }
        hash => hash,
    }
}

/// New number of an old output: that of its name, or the same if the configurations do not name outputs.
fn new_port(new: &[String], old: &[String], port: u16) -> Option<u16> {
    if new.is_empty() || old.is_empty() {
        return Some(port);
    }
    let name = old.get(usize::from(port))?;
    let place = new.iter().position(|new| new == name)?;
    u16::try_from(place).ok()
}

fn refuse(args: &mut Args, number: usize, arg: &Arg, wrong: &str) {
    args.error_with_help(
        arg,
        format!("argument {number} should be `ADDR/MASK [GATEWAY] OUTPUT`"),
        format!(
            "in `{}` {wrong}; more next hops may follow behind `|`",
            arg.raw
        ),
    );
}

fn read_file<K: Kind<N>, const N: usize>(
    file: &str,
    names: &Names,
    routes: &mut Vec<(Prefix<N>, Hops)>,
    args: &mut Args,
) {
    let text = match args.read_file(file) {
        Ok(text) => text,
        Err(wrong) => {
            let help = "ROUTES names a text file, from where the router was started";
            return args.error_in_whole(format!("cannot read `{file}`: {wrong}"), help);
        }
    };
    let mut parser = Parser::new(names);
    for (number, line) in lines(&text) {
        match parser.route::<K::Family, N>(line) {
            Ok(route) => routes.push(route),
            Err(wrong) => {
                let message = format!("in `{file}`, line {number}: {wrong}");
                return args.error_in_whole(message, "each line is a route");
            }
        }
    }
}

/// Empty answer to a change, as in Click.
fn empty_answer(_: Vec<Hops>) -> String {
    String::new()
}

/// Executes lines of `ctrl`. Returns the next hops of new and changed routes.
///
/// # Errors
///
/// The number of the wrong line, 0 if there is no table, and a message.
pub(super) fn carry_out<K: Kind<N>, const N: usize>(
    config: &Config<N, K::Structure>,
    text: &str,
) -> Result<Vec<Hops>, (usize, String)> {
    use forwarding::route_syntax::Command::{Add, Remove, Set};
    let mut parser = Parser::new(&config.names);
    let (mut commands, mut numbers) = (Vec::new(), Vec::new());
    for (number, line) in lines(text) {
        let command = parser.command::<K::Family, N>(line);
        let command = command.map_err(|wrong| (number, wrong))?;
        match &command {
            Add(_, hops) | Set(_, hops) => {
                config.check_ports(hops).map_err(|wrong| (number, wrong))?;
            }
            Remove(..) => {}
        }
        commands.push(command);
        numbers.push(number);
    }
    let table = config.table().map_err(|wrong| (0, wrong))?;
    let done = table.apply(&commands, K::Family::show);
    let mut brought = Vec::new();
    for command in &commands {
        if let Add(_, hops) | Set(_, hops) = command {
            brought.push(Arc::clone(hops));
        }
    }
    // Routes that were parsed together share equal next hops.
    brought.dedup_by_key(|hops| hops.as_ptr());
    done.map(|()| brought)
        .map_err(|(at, wrong)| (numbers.get(at).copied().unwrap_or(0), wrong))
}

fn set_up<K: Kind<N>, const N: usize>(
    config: &Config<N, K::Structure>,
    value: &str,
    up: bool,
) -> Result<String, String> {
    let words: Vec<&str> = value.split_ascii_whitespace().collect();
    let (gateway, port) = match words.as_slice() {
        [gateway] => (*gateway, None),
        [gateway, port] => (*gateway, Some(arguments::units::parse(port)?)),
        _ => return Err("write GATEWAY, GATEWAY PORT or - PORT".to_owned()),
    };
    let gateway = match gateway {
        "-" => None,
        text => K::Family::gateway(text, &config.names)
            .map_err(|wrong| format!("the gateway {wrong}"))?,
    };
    if gateway.is_none() && port.is_none() {
        return Err("without a gateway the port says which next hop it is".to_owned());
    }
    let changed = config.table()?.set_up(up, HopSelector { gateway, port });
    Ok(changed.to_string())
}

/// Answer of the handler `lookup`: port and gateway of each next hop.
fn answer(hops: &[Member]) -> String {
    let each = hops.iter().map(|hop| {
        let weight = match hop.weight {
            1 => String::new(),
            n => format!(" WEIGHT {n}"),
        };
        match hop.gateway {
            Some(gateway) => format!("{} {gateway}{weight}", hop.port),
            None => format!("{}{weight}", hop.port),
        }
    });
    match hops {
        [] => "-1".to_owned(),
        _ => each.collect::<Vec<_>>().join(" | "),
    }
}

#[cfg(test)]
#[path = "lookup_tests.rs"]
mod tests;
