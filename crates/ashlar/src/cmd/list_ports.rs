//! `ashlar ports`

use super::prepare::prepare;
use super::{Done, print};
use crate::cli::{Ports, PortsCommand};
use machine::{Device, Interface, Machine};
use planner::Registry;
use serde_json::json;

pub(crate) fn ports(args: &Ports, registry: &Registry) -> Done {
    let machine = Machine::here();
    match &args.command {
        None if args.json => {
            let value = json!({
                "interfaces": machine.interfaces().iter().map(interface).collect::<Vec<_>>(),
                "cards": machine.devices().iter().map(|device| card(&machine, device)).collect::<Vec<_>>(),
            });
            let text = serde_json::to_string_pretty(&value).map_err(|e| e.to_string())?;
            print(&format!("{text}\n"))
        }
        None => print(&text(&machine)),
        Some(PortsCommand::Bind {
            cards,
            driver,
            force,
        }) => for_each_card(cards, |card| machine.bind(card, driver, *force)),
        Some(PortsCommand::Prepare { wait, words }) => prepare(words, *wait, registry),
        Some(PortsCommand::Unbind { cards }) => for_each_card(cards, |card| machine.unbind(card)),
    }
}

/// Runs `does` for each card, and continues after failures.
fn for_each_card(cards: &[String], does: impl Fn(&str) -> Result<String, String>) -> Done {
    let mut refused = false;
    for card in cards {
        match does(card) {
            Ok(said) => print(&said)?,
            Err(why) => {
                super::complain(&why);
                refused = true;
            }
        }
    }
    match refused {
        true => Err(String::new()),
        false => Ok(()),
    }
}

fn with(value: impl serde::Serialize, more: serde_json::Value) -> serde_json::Value {
    let mut value = json!(value);
    if let (Some(all), serde_json::Value::Object(more)) = (value.as_object_mut(), more) {
        all.extend(more);
    }
    value
}

fn interface(i: &Interface) -> serde_json::Value {
    with(
        i,
        json!({"ports": i.port_names(), "used_by": ports::user_of(&i.name)}),
    )
}

fn card(machine: &Machine, device: &Device) -> serde_json::Value {
    let ready = device.is_for_programs();
    with(
        device,
        json!({"ports": [device.address], "ready": ready, "used_by": machine.user_of(device)}),
    )
}

/// Formats rows as a table; the last column is not padded.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |at: usize| {
        rows.iter()
            .map(|row| row[at].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let cells = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        let cells: Vec<String> = cells.collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

fn or_dash(text: Option<impl ToString>) -> String {
    text.map_or("-".to_owned(), |text| text.to_string())
}

fn text(machine: &Machine) -> String {
    let (interfaces, devices) = (machine.interfaces(), machine.devices());
    let head = [
        "INTERFACE",
        "DRIVER",
        "CARD",
        "STATE",
        "MBIT/S",
        "NODE",
        "QUEUES",
        "XDP",
        "OFFLOADS",
        "USED BY",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    for i in &interfaces {
        let offloads: Vec<&str> = i.offloads.iter().map(|o| o.name()).collect();
        let mut users: Vec<String> = ports::user_of(&i.name).into_iter().collect();
        users.extend(i.member.clone());
        users.extend(i.default_route.then(|| "default route".to_owned()));
        users.extend(i.addresses.iter().map(ToString::to_string));
        rows.push([
            i.name.clone(),
            or_dash(i.driver.as_ref()),
            or_dash(i.pci.as_ref()),
            i.state.to_owned(),
            or_dash(i.speed),
            or_dash(i.node),
            format!("{}/{}", i.rx_queues, i.tx_queues),
            i.xdp.name().to_owned(),
            or_dash(Some(offloads.join(",")).filter(|all| !all.is_empty())),
            or_dash(Some(users.join(", ")).filter(|all| !all.is_empty())),
        ]);
    }
    let mut text = table(&rows);
    if interfaces.is_empty() {
        text = "no interfaces that carry Ethernet frames in this network namespace\n".to_owned();
    }
    if !devices.is_empty() {
        let head = [
            "CARD",
            "DRIVER",
            "NODE",
            "GROUP",
            "INTERFACE",
            "USED BY",
            "MODEL",
        ];
        let mut rows = vec![head.map(str::to_owned)];
        rows.extend(devices.iter().map(|d| {
            [
                d.address.clone(),
                or_dash(d.driver.as_ref()),
                or_dash(d.node),
                or_dash(d.iommu_group),
                or_dash(Some(d.interfaces.join(",")).filter(|all| !all.is_empty())),
                or_dash(machine.user_of(d)),
                d.model.clone(),
            ]
        }));
        text += &format!("\n{}", table(&rows));
    }
    text + &names(&interfaces, &devices)
}

/// Names for a configuration.
fn names(interfaces: &[Interface], devices: &[Device]) -> String {
    let mut rows: Vec<[String; 2]> = Vec::new();
    for i in interfaces {
        rows.push([
            i.name.clone(),
            "by AF_XDP where that is safe and fast, or by AF_PACKET: `ashlar plan` says which"
                .to_owned(),
        ]);
        let how = format!(
            "by AF_XDP ({}): the kernel keeps what is for its own addresses there",
            i.xdp.name()
        );
        rows.push([format!("af_xdp:{}", i.name), how]);
    }
    for d in devices {
        let how = match d.is_for_programs() {
            true => "by DPDK".to_owned(),
            false => format!("by DPDK, after `ashlar ports bind {}`", d.address),
        };
        rows.push([d.address.clone(), how]);
    }
    match rows.is_empty() {
        true => String::new(),
        false => format!("\nNames in a configuration:\n{}", table(&rows)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "bb", "c"], ["dddd", "e", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), "a     bb  c\ndddd  e\n");
    }
}
