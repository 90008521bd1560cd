//! `ashlar doctor`

use super::print;
use crate::cli::Doctor;
use control::Source;
use control::file;
use control::file::File;
use control::needs::port_requirements;
use elements_linux::ipsec::KernelTable;
use engine::port::{OpenPort, PortDirectory, PortInfo, PortRequest};
use machine::Machine;
use machine::doctor::{Finding, Level, Remedy, Wanted};
use planner::Registry;
use ports::Directory;
use ports::shared_port::SharedPorts;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;

/// Directory in which every name is a port, to collect the names of a plan without opening or probing any port.
struct AnyPort;

impl PortDirectory for AnyPort {
    fn probe(&self, _: &str) -> Result<PortInfo, String> {
        Ok(PortInfo::of_process("any", 64))
    }

    fn open(&self, name: &str, _: &PortRequest) -> Result<OpenPort, String> {
        Err(format!("{name} is not opened"))
    }

    fn get(&self, _: &str) -> Option<OpenPort> {
        None
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn close(&self, _: &str) {}
}

pub(crate) fn doctor(args: &Doctor, registry: &Registry) -> Result<ExitCode, String> {
    let machine = Machine::here();
    ports::carry_frames(args.frame_bytes.into());
    let wanted = match &args.file {
        Some(file) => {
            let asks = requirements(file, &args.definitions, registry)?;
            Wanted {
                ipsec: asks.ipsec,
                mpls: asks.mpls,
                ..port_requirements(&asks.ports, args.buffers)
            }
        }
        None => all_cards(&machine, args.buffers),
    };
    let mut found = machine.findings(&wanted);
    if args.fix {
        run_fixes(&found)?;
        found = machine.findings(&wanted);
    }
    if args.json {
        let text = serde_json::to_string_pretty(&found).map_err(|e| e.to_string())?;
        print(&format!("{text}\n"))?;
    } else {
        print(&text(&found, args.fix))?;
    }
    let worst = found.iter().map(|finding| finding.level).max();
    Ok(exit_code(worst))
}

/// Exit status of a doctor, by the worst level of its findings.
pub(super) fn exit_code(worst: Option<Level>) -> ExitCode {
    ExitCode::from(match worst {
        None | Some(Level::Note) => 0,
        Some(Level::Warning) => 1,
        Some(Level::Error) => 2,
    })
}

/// Ports, memory and modules that a configuration needs.
#[derive(Default)]
struct ConfigRequirements {
    /// Names of ports.
    ports: Vec<String>,
    /// True if IPsec associations (`ipsec`) or MPLS labels (`mpls`) come from the kernel.
    ipsec: bool,
    mpls: bool,
}

fn requirements(
    file: &str,
    definitions: &[(String, String)],
    registry: &Registry,
) -> Result<ConfigRequirements, String> {
    if file::is_described(file) {
        return asks_of_all(file, definitions, registry);
    }
    asks_of(&Source::read(file, definitions.to_vec())?, registry)
}

/// Requirements of one graph.
fn asks_of(source: &Source, registry: &Registry) -> Result<ConfigRequirements, String> {
    let compiled = super::compile_source(source, registry, 1, &AnyPort, false);
    let Some(plan) = &compiled.plan else {
        super::say(&compiled.text());
        return Err(String::new());
    };
    let table = plan.find_router_wide::<KernelTable>();
    Ok(ConfigRequirements {
        ports: plan
            .devices
            .iter()
            .map(|device| device.name.clone())
            .collect(),
        ipsec: table.is_some_and(|table| table.in_use()),
        mpls: plan
            .elements
            .iter()
            .any(|e| e.class.name.starts_with("LinuxMPLS")),
    })
}

/// Requirements of all routers of a file, except ports within the process: shares of shared ports, and links.
fn asks_of_all(
    file: &str,
    definitions: &[(String, String)],
    registry: &Registry,
) -> Result<ConfigRequirements, String> {
    let source = Source::read(file, definitions.to_vec())?;
    let described = File {
        folder: control::isolated::folder(&source.stem()),
        source,
        netns: None,
    };
    let parsed = described.parse();
    super::say(&parsed.text());
    if parsed.errors() > 0 {
        return Err(String::new());
    }
    if parsed.description.is_some() {
        return Err(format!(
            "{file} describes a cluster: `ashlar ports` on each server shows its interfaces, and `ashlar doctor` \
             without a file shows what its cards lack"
        ));
    }
    let shared_ports = SharedPorts::new(1);
    shared_ports.commit(&parsed.sharing);
    let all = Directory::new().with_shared_ports(Arc::new(shared_ports));
    let mut asks = ConfigRequirements::default();
    for router in &parsed.routers {
        let ports = all.of_router(&router.name, None);
        let own = asks_of(&router.source, registry)?;
        asks.ports.extend(
            own.ports
                .into_iter()
                .filter(|name| ports.is_of_machine(name)),
        );
        asks.ipsec |= own.ipsec;
        asks.mpls |= own.mpls;
    }
    asks.ports.sort();
    asks.ports.dedup();
    Ok(asks)
}

/// Linux interfaces that a configuration opens; true if the kernel keeps its own packets there (AF_XDP).
pub(super) fn interfaces(
    file: &str,
    definitions: &[(String, String)],
    registry: &Registry,
) -> Result<BTreeMap<String, bool>, String> {
    let wanted = port_requirements(&requirements(file, definitions, registry)?.ports, 0);
    let plain = wanted.interfaces.into_iter().map(|name| (name, false));
    let xdp = wanted.xdp.into_iter().map(|name| (name, true));
    Ok(plain.chain(xdp).collect())
}

/// Requirements of the cards that are already bound for programs.
fn all_cards(machine: &Machine, buffers: usize) -> Wanted {
    let cards = machine
        .devices()
        .into_iter()
        .filter(|d| d.is_for_programs());
    let names: Vec<String> = cards.map(|d| d.address).collect();
    port_requirements(&names, buffers)
}

/// Runs the commands that need no decision of the operator.
fn run_fixes(found: &[Finding]) -> Result<(), String> {
    let mends = found.iter().filter_map(|finding| finding.mend.as_ref());
    let mut done: Vec<&Remedy> = Vec::new();
    for mend in mends.filter(|mend| !mend.by_hand) {
        if done.contains(&mend) {
            continue;
        }
        print(&format!("fixing: {}\n", mend.command))?;
        let ended = shell(&mend.command).map_err(|e| format!("cannot run `sh`: {e}"))?;
        match ended {
            true => done.push(mend),
            false => super::complain(&format!("`{}` has failed", mend.command)),
        }
    }
    // Changes are undone in reverse order.
    let undo: Vec<&str> = done
        .iter()
        .rev()
        .filter_map(|mend| mend.undo.as_deref())
        .collect();
    if undo.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = undo.iter().map(|line| format!("    {line}\n")).collect();
    print(&format!("to undo it:\n{}\n", lines.concat()))
}

/// Runs a shell command, in which `ashlar` is this program.
fn shell(line: &str) -> std::io::Result<bool> {
    let own = std::env::current_exe()?;
    let mut command = machine::program("sh");
    command.arg("-c");
    match line.strip_prefix("ashlar ") {
        Some(rest) => command.arg(format!("exec \"$0\" {rest}")).arg(own),
        None => command.arg(line),
    };
    Ok(command.status()?.success())
}

fn text(found: &[Finding], fixed: bool) -> String {
    if found.is_empty() {
        return "nothing is lacking\n".to_owned();
    }
    let mut text = String::new();
    let mut fixable = false;
    for finding in found {
        let Finding {
            level,
            about,
            what,
            why,
            mend,
        } = finding;
        let _ = writeln!(text, "{}: {about}: {what}\n    {why}", level.name());
        if let Some(mend) = mend {
            fixable |= !mend.by_hand;
            let hand = if mend.by_hand { " (by hand)" } else { "" };
            let _ = writeln!(text, "    mend{hand}: {}", mend.command);
        }
    }
    if fixable && !fixed {
        text += "\n`ashlar doctor --fix` runs the commands that are not marked \"by hand\", and says how to undo \
            them\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_names_this_program_runs_this_program() {
        assert!(shell("test 1 = 1").expect("there is a shell"));
        assert!(!shell("exit 3").expect("there is a shell"));
    }
}
