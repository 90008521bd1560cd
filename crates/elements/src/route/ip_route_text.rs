//! Routes in the notation of `ip route`, with interfaces for outputs: `10.0.0.0/8 via 192.0.2.1 dev eth1`.

use super::lookup::{Config, Kind, Lookup, carry_out};
use arguments::text_file::lines;
use engine::outputs::{ByDevice, Outputs};
use forwarding::family::Family;
use forwarding::route_syntax::Hops;
use std::fmt::Write;
use std::net::IpAddr;
use tables::fib::{Prefix, Structure};
use tables::groups::Member;

const FORM: &str = "a route is written `PREFIX [via GATEWAY] [dev INTERFACE] [weight N] [| ...]`, or as in Click \
    `PREFIX [GATEWAY] OUTPUT`";

impl<K: Kind<N>, const N: usize> ByDevice for Lookup<K, N> {
    fn control(
        config: &Config<N, K::Structure>,
        handler: &str,
        value: &str,
        outputs: &Outputs,
    ) -> Option<Result<String, String>> {
        let one = |line: String| change::<K, N>(config, &line, outputs).map_err(|(_, wrong)| wrong);
        Some(match handler {
            "routes" => show::<K, N>(config, outputs),
            "changes" => changes::<K, N>(config, outputs),
            "lookup" => look_up::<K, N>(config, value, outputs),
            "add" | "set" | "remove" => one(format!("{handler} {value}")),
            "ctrl" => change::<K, N>(config, value, outputs)
                .map_err(|(line, wrong)| format!("line {line}: {wrong}")),
            _ => return None,
        })
    }
}

/// Text form of all routes, one per line.
fn show<K: Kind<N>, const N: usize>(
    config: &Config<N, K::Structure>,
    outputs: &Outputs,
) -> Result<String, String> {
    let mut text = String::new();
    config.table()?.for_each(|prefix, hops| {
        let _ = writeln!(
            text,
            "{} {}",
            K::Family::show(prefix),
            words_of(hops, (outputs, config.output_names()))
        );
    });
    Ok(text)
}

/// Commands that turn the configured routes into the current ones.
fn changes<K: Kind<N>, const N: usize>(
    config: &Config<N, K::Structure>,
    outputs: &Outputs,
) -> Result<String, String> {
    let mut text = String::new();
    config.table()?.each_change(|prefix, hops| {
        let prefix = K::Family::show(prefix);
        let _ = match hops {
            [] => writeln!(text, "remove {prefix}"),
            hops => writeln!(
                text,
                "set {prefix} {}",
                words_of(hops, (outputs, config.output_names()))
            ),
        };
    });
    Ok(text)
}

/// Looks up the route to an address.
fn look_up<K: Kind<N>, const N: usize>(
    config: &Config<N, K::Structure>,
    address: &str,
    outputs: &Outputs,
) -> Result<String, String> {
    let host = K::Family::prefix(address.trim(), config.names())?;
    match config.table()?.route_of(host.address()) {
        Some((prefix, hops)) => {
            let prefix = K::Family::show(prefix);
            Ok(format!(
                "{prefix} {}",
                words_of(&hops, (outputs, config.output_names()))
            ))
        }
        None => Ok(match config.no_route() {
            Some(output) => format!("no route: packets leave by output {output}"),
            None => "no route: packets are dropped".to_owned(),
        }),
    }
}

fn words_of(hops: &[Member], (outputs, names): (&Outputs, &[String])) -> String {
    let each = hops.iter().map(|hop| {
        let via = hop.gateway.map(|gateway| format!("via {gateway} "));
        let to = match outputs.device(hop.port.into()) {
            Some(device) => format!("dev {device}"),
            // A name means the same when numbers change.
            None => match names.get(usize::from(hop.port)) {
                Some(name) => format!("output {name}"),
                None => format!("output {}", hop.port),
            },
        };
        let weight = match hop.weight {
            1 => String::new(),
            n => format!(" weight {n}"),
        };
        format!("{}{to}{weight}", via.unwrap_or_default())
    });
    each.collect::<Vec<_>>().join(" | ")
}

/// Executes lines of `ctrl`, in words or in Click's form. Returns a warning or an empty text.
///
/// # Errors
///
/// The message names the wrong line.
fn change<K: Kind<N>, const N: usize>(
    config: &Config<N, K::Structure>,
    text: &str,
    outputs: &Outputs,
) -> Result<String, (usize, String)> {
    let mut plain = String::with_capacity(text.len());
    let mut next = 1;
    for (number, line) in lines(text) {
        // Empty lines keep the line numbers of messages right.
        (next..number).for_each(|_| plain.push('\n'));
        next = number + 1;
        match in_words(line) {
            true => {
                let line = in_clicks_form::<K, N>(config, line, outputs);
                plain.push_str(&line.map_err(|wrong| (number, wrong))?);
            }
            false => plain.push_str(line),
        }
        plain.push('\n');
    }
    let hops = carry_out::<K, N>(config, &plain)?;
    Ok(unattached_gateway(config, &hops, outputs).unwrap_or_default())
}

fn in_words(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    words.any(|word| matches!(word, "via" | "dev" | "output" | "default" | "weight"))
}

/// Translates a line of `ctrl` from words into Click's form.
fn in_clicks_form<K: Kind<N>, const N: usize>(
    config: &Config<N, K::Structure>,
    line: &str,
    outputs: &Outputs,
) -> Result<String, String> {
    let line = line.replace('|', " | ");
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [command, prefix, hops @ ..] = &words[..] else {
        return Err(FORM.to_owned());
    };
    let prefix = match *prefix {
        "default" => K::Family::show(Prefix::ALL),
        prefix => prefix.to_owned(),
    };
    if hops.is_empty() {
        return Ok(format!("{command} {prefix}"));
    }
    let each = hops.split(|word| *word == "|");
    let each: Result<Vec<String>, String> = each
        .map(|hop| hop_in_clicks_form::<K, N>(config, hop, (outputs, *command == "remove")))
        .collect();
    Ok(format!("{command} {prefix} {}", each?.join(" | ")))
}

fn hop_in_clicks_form<K: Kind<N>, const N: usize>(
    config: &Config<N, K::Structure>,
    hop: &[&str],
    (outputs, goes): (&Outputs, bool),
) -> Result<String, String> {
    let (mut via, mut output, mut weight) = (None, None, "1");
    let (pairs, rest) = hop.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(FORM.to_owned());
    }
    for [word, value] in pairs {
        match *word {
            "via" => {
                let gateway = K::Family::gateway(value, config.names());
                via = gateway.map_err(|wrong| format!("the gateway {wrong}"))?;
            }
            "dev" => output = Some(outputs.of(value)?),
            "output" => {
                let names = config.output_names();
                output = match names.iter().position(|name| name == value) {
                    Some(named) => Some(named),
                    None => Some(arguments::units::parse::<u8>(value)?.into()),
                };
            }
            "weight" | "WEIGHT" => weight = value,
            _ => return Err(FORM.to_owned()),
        }
    }
    let Some(gateway) = via else {
        let output = output.ok_or_else(|| FORM.to_owned())?;
        return Ok(format!("- {output} WEIGHT {weight}"));
    };
    let attached = attached(config, gateway);
    let output = match output {
        Some(output) if goes || is_link_local(gateway) || attached.contains(&output) => output,
        Some(output) => {
            return Err(format!(
                "{}: {NOT_ATTACHED}",
                no_network(gateway, output, outputs)
            ));
        }
        None => *attached.first().ok_or_else(|| {
            format!("{gateway} is on no attached network: {NOT_ATTACHED}, or say `dev INTERFACE`")
        })?,
    };
    Ok(format!("{gateway} {output} WEIGHT {weight}"))
}

const NOT_ATTACHED: &str = "add a route without gateway to its network first";

/// Outputs of the attached networks that contain an address: routes without a gateway.
fn attached<const N: usize, S: Structure<N>>(config: &Config<N, S>, address: IpAddr) -> Vec<usize> {
    let bytes: Option<[u8; N]> = match address {
        IpAddr::V4(address) => address.octets()[..].try_into().ok(),
        IpAddr::V6(address) => address.octets()[..].try_into().ok(),
    };
    let route = bytes.and_then(|bytes| config.table().ok()?.route_of(bytes));
    let hops = route.map(|(_, hops)| hops).unwrap_or_default();
    let direct = hops.iter().filter(|hop| hop.gateway.is_none());
    direct.map(|hop| usize::from(hop.port)).collect()
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn no_network(gateway: IpAddr, output: usize, outputs: &Outputs) -> String {
    match outputs.device(output) {
        Some(device) => format!("{gateway} is on no network attached to {device}"),
        None => format!("{gateway} is on no network attached to output {output}"),
    }
}

/// Warning about the first gateway that is on no attached network.
fn unattached_gateway<const N: usize, S: Structure<N>>(
    config: &Config<N, S>,
    all: &[Hops],
    outputs: &Outputs,
) -> Option<String> {
    let mut hops = all.iter().flat_map(|hops| hops.iter());
    let (gateway, output) = hops.find_map(|hop| {
        let (gateway, output) = (hop.gateway?, usize::from(hop.port));
        let lost = !is_link_local(gateway) && !attached(config, gateway).contains(&output);
        lost.then_some((gateway, output))
    })?;
    let text = no_network(gateway, output, outputs);
    Some(format!(
        "warning: {text}: packets go there only if a host answers for it\n"
    ))
}
