//! Options of `ashlar ports` and `ashlar doctor`.

use clap::{Args, Subcommand};

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Ports {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Option<PortsCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PortsCommand {
    /// Bind cards to a driver for programs, as DPDK ports need; prints how to undo it
    ///
    /// The card's Linux interface disappears. It comes back by `ashlar ports unbind`, and when the machine restarts.
    Bind {
        /// Cards, by PCI address or by Linux interface
        #[arg(value_name = "CARD", required = true)]
        cards: Vec<String>,
        /// The driver
        #[arg(long, value_name = "NAME", default_value = machine::bind::VFIO)]
        driver: String,
        /// Proceed even if the default route leads through the card, or it is part of a bridge or bond
        #[arg(long)]
        force: bool,
    },
    /// Make the kernel leave a router's Linux interfaces alone: no addresses, no answers, links up
    ///
    /// Waits until the interfaces exist. The systemd unit does this before each start.
    Prepare {
        /// Seconds to wait for interfaces
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        wait: u16,
        /// Words that follow `ashlar run`
        #[arg(
            value_name = "FILE ...",
            required = true,
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        words: Vec<String>,
    },
    /// Give cards back to Linux's own drivers
    Unbind {
        /// Cards, by PCI address
        #[arg(value_name = "CARD", required = true)]
        cards: Vec<String>,
    },
}

#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// The configuration
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<String>,
    /// Values for the configuration's variables
    #[arg(value_name = "NAME=value", value_parser = super::definition)]
    pub(crate) definitions: Vec<(String, String)>,
    /// Packet buffers that DPDK ports will share, as for `ashlar run`
    #[arg(long, value_name = "N", default_value_t = ports::DpdkSizes::default().buffers,
        value_parser = super::buffers)]
    pub(crate) buffers: usize,
    /// Maximum frame length, as for `ashlar run`
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = super::frame_bytes())]
    pub(crate) frame_bytes: u16,
    /// Run the commands that fix problems, and print how to undo them
    #[arg(long)]
    pub(crate) fix: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
