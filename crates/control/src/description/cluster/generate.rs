//! Configuration of one server of a cluster.
//!
//! External ports are as in conf/ip-router.click. A packet's input node does all processing of its headers, also for
//! ports of other servers. Then VLBInput, VLBTransit and VLBOutput carry the packet to its output port.

use super::description::{Connected, Description, Elements, Port, Server};
use super::file::first;
use crate::description::source::Source;
use std::fmt::Write;
use std::net::IpAddr;

mod internal_links;
mod punt;
mod routes;
mod underlay;

pub(crate) use internal_links::is_memory;
use routes::{Family, RemoteDestinations, Table};

const DEVICE: &str = include_str!("generate/device.click");
const PORT4: &str = include_str!("generate/port4.click");
const PORT6: &str = include_str!("generate/port6.click");
const REMOTE4: &str = include_str!("generate/remote4.click");
const REMOTE6: &str = include_str!("generate/remote6.click");
const HERE4: &str = include_str!("generate/here4.click");

/// Converts a name to a part of an element's name: `_` replaces characters that Click does not allow there.
pub(crate) fn identifier(name: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    name.chars().map(fit).collect()
}

/// True if a device name can be used in `DEVICE:eth` (its address) and needs no quotation marks.
pub(crate) fn is_plain(device: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-./:@".contains(c);
    device.chars().all(fits) && !device.contains("//")
}

/// Class of an external port for a family: one of its own if the file has elements for it.
fn port_class(port: &Port, family: Family) -> String {
    match family.own(port) {
        Some(_) => format!("Port{}_{}", family.number(), identifier(&port.name)),
        None => format!("Port{}", family.number()),
    }
}

/// Click text of an external port's class: `text` with the port's own elements from the file, and with an output for
/// the leader's kernel if the cluster has `interfaces` there.
fn with_own(text: &str, port: &Port, family: Family, interfaces: bool) -> String {
    let own = family.own(port);
    let element = own.map(|own| {
        format!("    own :: {own};  // elements of the cluster's file: port 0 from the link, port 1 to the link\n")
    });
    let chain = |input: &str| own.map_or(String::new(), |_| input.to_owned());
    let arrival = match family {
        Family::V4 => chain("[0] own[0] -> "),
        Family::V6 => chain("        -> [0] own[0]\n"),
    };
    let far = own.map_or(family.neighbours(), |_| "[1] own");
    // Text of the file comes last: a marker in it is the user's.
    punt::fill(text, family, interfaces)
        .replace("FROM_LINK", &arrival)
        .replace("TO_LINK", &chain("[1] own[1] -> "))
        .replace(&format!("FROM_FAR{}", family.neighbours()), far)
        .replacen(
            &format!("elementclass Port{} ", family.number()),
            &format!("elementclass {} ", port_class(port, family)),
            1,
        )
        .replace("OWN_ELEMENT", &element.unwrap_or_default())
}

/// The element that is an external port for a family.
fn port_name(port: &Port, family: Family) -> String {
    format!("port_{}_{}", identifier(&port.name), family.number())
}

impl Source {
    /// Configuration of a server of a cluster, if this file describes it.
    ///
    /// # Errors
    /// The cluster has no such server; a sentence.
    pub fn of_server(&self, description: &Description, server: &str) -> Result<Source, String> {
        let number = description.number(server);
        let number = number.map_err(|why| format!("{}: {why}", self.name))?;
        let mut source = Source {
            name: format!("{} for {server}", self.name),
            text: text(description, number, &self.name).into(),
            server: Some(server.to_owned()),
            numbers: Some(description.numbers(number)),
            ..self.clone()
        };
        source.define(&secrets(description));
        Ok(source)
    }
}

/// Definitions of secrets, which the text of no server contains.
pub fn secrets(description: &Description) -> Vec<(String, String)> {
    let keys = description.keys.iter();
    keys.map(|keys| ("KEY".to_owned(), keys.secret_text()))
        .collect()
}

/// The configuration of a server, by its number, without [`secrets`]. Errors in elements of the cluster's file have the
/// name `file`.
pub fn text(description: &Description, server: usize, file: &str) -> String {
    let Some(own) = description.servers.get(server) else {
        return String::new();
    };
    let remote = RemoteDestinations::new(description, server);
    let mut out = head(description, own);
    definitions(&mut out, description, server);
    if let Some(elements) = description
        .elements
        .as_ref()
        .filter(|_| own.uses_elements())
    {
        own_elements(&mut out, elements, (file, &own.name));
    }
    classes(&mut out, own, &remote, description, server);
    let tables =
        [Family::V4, Family::V6].map(|family| Table::new(description, server, &remote, family));
    for table in tables.iter().flatten() {
        table.write(&mut out);
    }
    for (number, port) in own.ports.iter().enumerate() {
        external(&mut out, number, port);
        if description.interfaces {
            punt::external(&mut out, number, port);
        }
        out.push('\n');
    }
    match description.links_of(server).next() {
        Some(_) => internal_links::write(&mut out, description, server, &remote),
        None => alone(&mut out, own),
    }
    for table in tables.iter().flatten() {
        table.outputs(&mut out);
    }
    if description.interfaces {
        punt::arrived4(&mut out, &own.ports);
    }
    out
}

/// Translator of a kernel's routes for a server's tables.
pub(crate) struct KernelRoutes<'a> {
    description: &'a Description,
    server: usize,
    remote: RemoteDestinations,
}

impl<'a> KernelRoutes<'a> {
    /// Translator for a server, by its number.
    pub(crate) fn new(description: &'a Description, server: usize) -> KernelRoutes<'a> {
        KernelRoutes {
            description,
            server,
            remote: RemoteDestinations::new(description, server),
        }
    }

    fn table(&self, v4: bool) -> Option<Table<'_>> {
        let family = if v4 { Family::V4 } else { Family::V6 };
        Table::new(self.description, self.server, &self.remote, family)
    }

    /// True if the server has a table of the family.
    pub(crate) fn has(&self, v4: bool) -> bool {
        self.table(v4).is_some()
    }

    /// Next hops by gateways (server, port, number of the gateway, weight) as the table takes them; without a gateway
    /// packets are dropped. `None` if there is no such gateway, or no table.
    pub(crate) fn hops(&self, v4: bool, hops: &[(usize, usize, usize, u16)]) -> Option<String> {
        let table = self.table(v4)?;
        if hops.is_empty() {
            return Some(table.drop());
        }
        let each = hops.iter().map(|(server, port, gateway, weight)| {
            let hop = table.hop((*server, *port, *gateway))?;
            Some(match weight {
                1 => hop,
                weight => format!("{hop} WEIGHT {weight}"),
            })
        });
        let each: Option<Vec<String>> = each.collect();
        Some(each?.join(" | "))
    }

    /// Prefixes of routes in the file.
    pub(crate) fn prefixes(&self) -> Vec<String> {
        let tables = [true, false].map(|v4| self.table(v4));
        let prefixes = tables.iter().flatten().flat_map(Table::prefixes);
        prefixes.collect()
    }
}

fn head(description: &Description, own: &Server) -> String {
    format!(
        "// Server {} of the cluster {}.\n\
         // Made by `ashlar cluster text`: change the cluster's file instead, and `ashlar cluster reload` it.\n\n",
        own.name, description.name
    )
}

/// Lists of addresses that the classes name.
fn definitions(out: &mut String, description: &Description, server: usize) {
    let list = |v4: bool, word: &dyn Fn(&Connected) -> String| -> String {
        let all = description
            .connected()
            .filter(|at| at.address.is_ipv4() == v4);
        all.map(|at| word(&at)).collect::<Vec<_>>().join(" ")
    };
    let whole = |at: &Connected| format!("{}/{}", at.address, at.length);
    let host = |at: &Connected| at.address.to_string();
    let local = |at: &Connected| match at.server == server {
        true => whole(at),
        false => host(at),
    };
    let lists = [
        (
            "ALL4",
            list(true, &whole),
            "the router's addresses, on all servers",
        ),
        ("HOSTS4", list(true, &host), "the same without lengths"),
        ("HOSTS6", list(false, &host), ""),
        ("LOCAL6", list(false, &local), "and the networks here"),
    ];
    for (name, words, comment) in lists.iter().filter(|(_, words, _)| !words.is_empty()) {
        let comment = match comment.is_empty() {
            true => String::new(),
            false => format!("   // {comment}"),
        };
        let _ = writeln!(out, "define(${name} {words});{comment}");
    }
    out.push('\n');
}

/// Classes of the file, between lines that tell where errors are.
fn own_elements(out: &mut String, elements: &Elements, (file, server): (&str, &str)) {
    let _ = writeln!(
        out,
        "# {} \"{file}\"\n{}",
        elements.line,
        elements.text.trim_end()
    );
    let next = out.lines().count() + 2;
    let _ = writeln!(out, "# {next} \"{file} for {server}\"\n");
}

/// The compound classes that this server needs.
fn classes(
    out: &mut String,
    own: &Server,
    remote: &RemoteDestinations,
    description: &Description,
    server: usize,
) {
    let far = |v4| remote.of_family(v4).any(|target| target.port.is_some());
    let v4 = own.ports.iter().any(|port| port.v4.is_some());
    let others = description.connected().filter(|at| at.server != server);
    let others = others.filter(|at| at.address.is_ipv6());
    let far6: String = others.map(|at| format!("{}/128 0, ", at.address)).collect();
    let port6 = PORT6.replace("FAR6_ROUTES ", &far6);
    let mut ports: Vec<String> = Vec::new();
    for (family, text) in [(Family::V4, PORT4), (Family::V6, &*port6)] {
        for port in own.ports.iter().filter(|port| routes::has(port, family)) {
            let class = with_own(text, port, family, description.interfaces);
            if !ports.contains(&class) {
                ports.push(class);
            }
        }
    }
    let ports = ports.join("\n");
    let all = [
        (!own.ports.is_empty(), DEVICE),
        (!ports.is_empty(), &*ports),
        (!own.ports.is_empty() && far(Family::V4), REMOTE4),
        (!own.ports.is_empty() && far(Family::V6), REMOTE6),
        (v4 && !description.interfaces, HERE4),
        (v4 && description.interfaces, punt::HERE4),
        (!own.ports.is_empty() && description.interfaces, punt::CLASS),
    ];
    for (_, class) in all.iter().filter(|(needed, _)| *needed) {
        out.push_str(class);
        out.push('\n');
    }
}

/// An external port and its link.
fn external(out: &mut String, number: usize, port: &Port) {
    let (four, six) = (port_name(port, Family::V4), port_name(port, Family::V6));
    let (device, mtu, color) = (&port.device, port.mtu, number + 1);
    let [class4, class6] = [Family::V4, Family::V6].map(|family| port_class(port, family));
    let _ = writeln!(
        out,
        "// ---- External port {number}: {}\n\nd{number} :: Device({device});",
        port.name
    );
    match port.v4 {
        Some((ip, length)) => {
            let _ = writeln!(
                out,
                "{four} :: {class4}({device}, {color}, {mtu}, {ip}, {ip}/{length});\n\
                 d{number}[0] -> [2] {four};\nd{number}[1] -> [3] {four};\n\
                 {four}[0] -> rt4;\n{four}[1] -> d{number};"
            );
        }
        None => {
            let _ = writeln!(
                out,
                "d{number}[0] -> Discard;  // no IPv4 here\nd{number}[1] -> Discard;"
            );
        }
    }
    match port.v6 {
        Some((ip, length)) => {
            let _ = writeln!(
                out,
                "{six} :: {class6}({device}, {color}, {mtu}, {ip}, {ip}/{length}, {});\n\
                 d{number}[2] -> [2] {six};\n{six}[0] -> rt6;\n{six}[1] -> d{number};",
                port.link_local
            );
        }
        None => {
            let _ = writeln!(out, "d{number}[2] -> Discard;  // no IPv6 here");
        }
    }
}

/// Click text for a server without links, which gets no packets from other servers.
fn alone(out: &mut String, own: &Server) {
    for port in own.ports.iter().filter(|port| port.v6.is_some()) {
        let _ = writeln!(out, "Idle -> [1] {};", port_name(port, Family::V6));
    }
    out.push('\n');
}

/// Formats an address or a prefix in the syntax of the routing tables.
fn prefix(address: IpAddr, length: u8) -> String {
    format!("{}/{length}", first(address, length))
}

#[cfg(test)]
mod tests;
