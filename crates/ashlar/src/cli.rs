//! The command line. Help, manual pages and completions are made from these definitions.

pub(crate) mod balancer;
mod bench;
pub(crate) mod cluster;
pub(crate) mod completion;
mod machine;
pub(crate) mod running;

pub(crate) use balancer::Balancer;
pub(crate) use bench::{Bench, Load};
use clap::{Args, Parser, Subcommand, ValueEnum};
pub(crate) use cluster::{Cluster, ClusterCommand, ClusterPlan, Simulate};
pub(crate) use machine::{Doctor, Ports, PortsCommand};
pub(crate) use running::{Capture, Copies, Reload, Save, Set, Show, Sort, Stop, Top, Trace};
use std::path::PathBuf;

/// A programmable router: Click configurations on real ports.
#[derive(Debug, Parser)]
#[command(name = "ashlar", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a configuration until it ends, a signal arrives, or `ashlar stop`
    ///
    /// SIGINT and SIGTERM end the router in order; at SIGHUP it reads its file again. It ends by
    /// itself when all its sources have ended and no element holds packets.
    Run(Run),
    /// Start a router, and restart it when it is killed, crashes or hangs
    ///
    /// For machines without systemd. A router hangs if its control thread or one of its workers no longer answers;
    /// then it is killed. Until it runs again, the queues of its control-plane interfaces stay open, so that routing
    /// daemons see no loss of carrier. The command ends when the router ends in order. SIGTERM and SIGINT end both,
    /// and SIGHUP is passed on. SIGUSR2 ends the router and starts it again: an upgrade, if the program on disk has
    /// changed.
    Keep(Keep),
    /// Run an untrusted program as another user, confined to a folder and a network namespace
    #[command(hide = true)]
    Confine(Confine),
    /// Make a network namespace for an isolated router, the only one in which its user has rights
    ///
    /// The command is like `ip netns add`, and `ip netns delete` removes the namespace. It belongs to a separate user
    /// namespace.
    Netns(Netns),
    /// Run a configuration as Click's user-level driver does
    ///
    /// One thread, one packet at a time, Click's options and messages: see `ashlar click --help`. The
    /// program does the same when its name is `click`.
    #[command(disable_help_flag = true)]
    Click {
        /// Click's command line
        #[arg(
            value_name = "WORD",
            allow_hyphen_values = true,
            trailing_var_arg = true
        )]
        words: Vec<std::ffi::OsString>,
    },
    /// Find all mistakes of a configuration
    ///
    /// Each mistake has its place, cause and remedy. A device that does not exist is a warning.
    Check(Check),
    /// Show the plan of a configuration: workers, queues, elements, memory, and where packets change worker
    Plan(Plan),
    /// Draw the graph of a configuration
    ///
    /// Solid connections push, dashed connections pull. Queues are drawn with bars, compounds as frames around their
    /// elements. Ports have numbers where an element has several. Elements that run on only one worker have its colour.
    Graph(Graph),
    /// List this machine's interfaces and cards, and the name of each in a configuration
    ///
    /// The interfaces are those of the network namespace in which the command runs.
    Ports(Ports),
    /// Show what ports lack on this machine, the reason, and the command that fixes it
    ///
    /// With a configuration, the command checks what its ports need; without one, what all cards bound to vfio-pci
    /// need. The exit status is 0 if nothing is wrong, though something could be better; 1 if something does not work
    /// as expected; 2 if something does not work at all.
    Doctor(Doctor),
    /// Show the manual page of an element class, find classes by words, or list all by topic
    Doc(Doc),
    /// Read handlers of a running router, or list its elements
    Show(Show),
    /// Write a handler of a running router
    Set(Set),
    /// Save settings made at run time, such as routes and rules, for the next start
    ///
    /// Settings are written to a file beside the configuration: `edge.saved` for `edge.click`. A router reads this file
    /// when it starts. If nothing differs from the configuration, the file is removed.
    Save(Save),
    /// Show rates of a running router: queues, workers, elements, drops by name
    ///
    /// On a terminal the table is live; `q` or Ctrl-C ends it.
    Top(Top),
    /// Copy packets of a running router, at its connections or where they are dropped
    ///
    /// Packets never wait for a capture: copies that cannot be kept are counted as lost. A capture ends if its output
    /// is not read for 30 seconds.
    Capture(Capture),
    /// Follow packets of a running router through its elements
    Trace(Trace),
    /// Replace the configuration of a running router
    ///
    /// The new configuration is checked first; if it is wrong, the old one keeps running. Elements that
    /// are in both keep counters, tables and queues.
    Reload(Reload),
    /// Enter commands for a running router, without `ashlar`, with completion, help and history
    ///
    /// Tab completes commands, options, files, and the elements and handlers of the router; a `?` at the end of a
    /// line shows what may follow. `tree` shows the elements as a tree, `use NAME` changes to another router of the
    /// process, `exit` or Ctrl-D ends the shell. Lines may come from standard input.
    Shell(Target),
    /// Measure the throughput and the latency of a configuration
    ///
    /// The configuration runs in this process with test ports in place of its devices. Packets of many UDP
    /// flows come in by one port at equal intervals, and packets that leave by another port are counted. A
    /// packet that finds the port's ring of 1024 packets full is lost, as with a device. Every host that the
    /// router looks for answers. Latency is the time from when a packet is due until it leaves. Workers make
    /// and count the packets, so the figures include this work, as they would include a driver's.
    ///
    /// The highest loads without loss (NDR) or with a small loss (PDR) are searched as in RFC 2544, 26.1, but
    /// faster: first coarsely, with short trials; in the end most of several full trials must agree.
    /// Both bounds of the result are shown. SIGINT ends the search.
    Bench(Bench),
    /// Plan, check, run and watch several servers that act as one router
    Cluster(Cluster),
    /// Plan, set up, watch and simulate ordinary routers that a balancer combines into one router
    ///
    /// `ashlar check, plan, run, show, top, reload` take a balancer's file as any other.
    #[command(subcommand)]
    Balance(Balancer),
    /// Add routers to a process, or remove them, while the others run
    Router(Router),
    /// Show IPsec of a running router
    #[command(subcommand)]
    Ipsec(Ipsec),
    /// Set up, show and end flows of a running router's FlowTable
    #[command(subcommand)]
    Flow(Flow),
    /// End a running router in order; with --router one of several, while the others continue
    Stop(Stop),
    /// Print the manual pages (roff), or write them to a folder
    Man {
        /// A folder; without it, all pages go to standard output
        folder: Option<PathBuf>,
    },
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// Confinement of an untrusted program.
#[derive(Args, Debug)]
pub(crate) struct Confine {
    /// User of the program; not root
    #[arg(long, value_name = "NAME")]
    pub(crate) user: String,
    /// Network namespace made by `ashlar netns`, in which the program has CAP_NET_ADMIN and CAP_NET_RAW; default is a
    /// new namespace, without these rights
    #[arg(long, value_name = "PATH")]
    pub(crate) netns: Option<String>,
    /// The only folder in which the program can write
    #[arg(long, value_name = "PATH")]
    pub(crate) folder: PathBuf,
    /// Program file that appears as `program` in that folder, so that the user needs no access to its original place
    #[arg(long, value_name = "PATH")]
    pub(crate) program: Option<PathBuf>,
    /// Memory limit in bytes
    #[arg(long, value_name = "BYTES")]
    pub(crate) memory: Option<u64>,
    /// Control group of the program, which bounds all its processes together
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<PathBuf>,
    /// Processors on which the program runs
    #[arg(long, value_name = "LIST", value_parser = cores)]
    pub(crate) cores: Option<Cores>,
    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// A network namespace of an isolated router.
#[derive(Args, Debug)]
pub(crate) struct Netns {
    /// Name below /run/netns
    pub(crate) name: String,
    /// The router's user; not root
    #[arg(long, value_name = "NAME")]
    pub(crate) user: String,
}

/// A router of a process with several.
#[derive(Args, Debug)]
pub(crate) struct Router {
    #[command(subcommand)]
    pub(crate) command: RouterCommand,
    /// The process's socket, or its name; default is the only one that runs
    #[arg(long, short, value_name = "PATH|NAME", global = true)]
    pub(crate) socket: Option<String>,
}

/// Action on the router.
#[derive(Subcommand, Debug)]
pub(crate) enum RouterCommand {
    /// Start a router of the process's file now; the rest of the file is not applied
    Add {
        /// The router, or a shared port
        name: String,
    },
    /// Take a router down, and drop all its state, until it is added or the file is read again
    Remove {
        /// The router, or a shared port
        name: String,
    },
}

#[derive(Subcommand, Debug)]
pub(crate) enum Ipsec {
    /// Show security associations without their keys, policies, and drops by name
    Show(Target),
}

/// Action on flows.
#[derive(Subcommand, Debug)]
pub(crate) enum Flow {
    /// Set up or change a flow: prints the reservation and the greatest delay of a packet, or the reason of a refusal
    ///
    /// The flow and its request are written as for the handler `add` (`ashlar doc FlowTable`), such as `10.0.0.1 1000
    /// 10.1.0.1 2000 udp RATE 64kbps BURST 1600 PACKET 200 DELAY 20ms`.
    Add(FlowWords),
    /// Print the answer of `add`, but set nothing up
    Admit(FlowWords),
    /// End a flow
    Remove(FlowWords),
    /// Show flows with their guarantees and counts, the reservations, and the number of refusals
    Show(FlowTables),
}

#[derive(Args, Debug)]
pub(crate) struct FlowWords {
    /// Flow and its request; `-` reads flows from standard input, one per line, of which all are accepted or none
    #[arg(required = true)]
    pub(crate) words: Vec<String>,
    #[command(flatten)]
    pub(crate) of: FlowTables,
}

#[derive(Args, Debug)]
pub(crate) struct FlowTables {
    /// The FlowTable; default is the only one
    #[arg(long, value_name = "ELEMENT")]
    pub(crate) table: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// A configuration and its definitions.
#[derive(Args, Clone, Debug)]
pub(crate) struct Configuration {
    /// The configuration; `-` is standard input; one that ends in `.toml` describes several routers, or a cluster
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    /// Values for the configuration's variables
    #[arg(value_name = "NAME=value", value_parser = definition)]
    pub(crate) definitions: Vec<(String, String)>,
    /// Server of a cluster, if FILE describes one
    #[arg(long, value_name = "NAME")]
    pub(crate) server: Option<String>,
    /// Run every element separately, without fused loops
    #[arg(long)]
    pub(crate) no_optimize: bool,
}

fn definition(word: &str) -> Result<(String, String), String> {
    control::source::definition(word)
        .ok_or_else(|| format!("`{word}` is not a definition: write NAME=value"))
}

fn port(word: &str) -> Result<(String, String), String> {
    match word.split_once('=') {
        Some((name, device)) if !name.is_empty() && !device.is_empty() => {
            Ok((name.to_owned(), device.to_owned()))
        }
        _ => Err(format!(
            "`{word}` names no port: write NAME=DEVICE, such as wan=eth0"
        )),
    }
}

/// Number of workers.
#[derive(Args, Clone, Debug)]
pub(crate) struct Workers {
    /// Worker threads, 1 to 64; default 1
    #[arg(long, short = 'j', value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) workers: Option<u8>,
}

impl Workers {
    pub(crate) fn count(&self) -> u8 {
        self.workers.unwrap_or(1)
    }
}

/// Options that select the router of a command.
#[derive(Args, Debug)]
pub(crate) struct Target {
    /// The router's socket, or its name; default is $ASHLAR_SOCKET, else the only running router
    #[arg(long, short, value_name = "PATH|NAME")]
    pub(crate) socket: Option<String>,
    /// The router, if a process runs several
    #[arg(long, value_name = "NAME")]
    pub(crate) router: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) configuration: Configuration,
    #[command(flatten)]
    pub(crate) workers: Workers,
    /// Processors to pin the workers to, such as 2-5,8; all other threads run on other processors, if there are any
    #[arg(long, value_name = "LIST", value_parser = cores)]
    pub(crate) cores: Option<Cores>,
    /// A virtual DPDK device, which the configuration names by NAME, such as net_null0,size=64
    #[arg(long, value_name = "NAME[,ARGUMENTS]")]
    pub(crate) vdev: Vec<String>,
    /// Port that a name of the configuration stands for, such as wan=eth0
    #[arg(long, value_name = "NAME=DEVICE", value_parser = port)]
    pub(crate) port: Vec<(String, String)>,
    /// File with definitions, a JSON array of names and values: other users can read a command line, but not this file
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) definitions_from: Option<PathBuf>,
    /// Packet buffers that DPDK ports share, in hugepages
    #[arg(long, value_name = "N", default_value_t = ports::DpdkSizes::default().buffers,
        value_parser = buffers)]
    pub(crate) buffers: usize,
    /// Maximum frame length, with its checksum: jumbo frames need 9018, or more with VLAN tags
    ///
    /// Every packet buffer gets this size (a power of two), and DPDK ports get an MTU to match.
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = frame_bytes())]
    pub(crate) frame_bytes: u16,
    /// Open Linux interfaces even if another router process has them: each gets all frames
    #[arg(long)]
    pub(crate) share_devices: bool,
    /// The router's name; default is the file's name without its extension
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Control socket for `ashlar show` and similar commands; the default depends on the name
    #[arg(long, short, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// The network namespace in which daemons run, and in which `tap:` interfaces are created: a name of
    /// `ip netns`, or a path
    #[arg(long, value_name = "NAME|PATH")]
    pub(crate) netns: Option<String>,
    /// Change to this user after reading the configuration, and keep only CAP_NET_ADMIN and CAP_NET_RAW
    /// of root's rights
    ///
    /// Reloads read the configuration as this user. For DPDK ports the user needs access to hugepages and devices.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Wait for FRR's zebra (-M dplane_fpm_nl) in that namespace, and use its routes instead of the kernel's
    /// main table
    ///
    /// Only root's and --fpm-user's programs may connect.
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = address, num_args = 0..=1,
        default_missing_value = "2620")]
    pub(crate) fpm: Option<std::net::SocketAddr>,
    /// Time for which routes are kept that zebra has not sent again after it has reconnected
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) fpm_stale: u64,
    /// User of zebra, in addition to root; default frr
    #[arg(long, value_name = "NAME", requires = "fpm")]
    pub(crate) fpm_user: Option<String>,
    /// Address of another machine, or namespace, where zebra runs instead: any program with this address may connect
    #[arg(long, value_name = "ADDR", requires = "fpm")]
    pub(crate) fpm_from: Option<std::net::IpAddr>,
    /// Open no control socket
    #[arg(long, conflicts_with = "socket")]
    pub(crate) no_socket: bool,
    /// Also serve Prometheus metrics over TCP; without ADDR on the loopback address
    ///
    /// Each connection gets one answer, and is closed after 10 seconds at the latest.
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = address)]
    pub(crate) metrics: Option<std::net::SocketAddr>,
    /// Workers never sleep: packets wait less, and each worker uses its whole processor
    #[arg(long)]
    pub(crate) poll: bool,
    /// Balancing of packets that are steered to workers: even out the load and let workers sleep (on), only even out
    /// the load (even), or neither (off); default on, with --poll even
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) balance: Option<Balance>,
    /// Seed of the elements' random numbers, for repeatable runs; without it they are unpredictable
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// At the end, print counts and drops, and check that all packets are accounted for
    #[arg(long)]
    pub(crate) report: bool,
    /// Format of logs
    #[arg(long, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,
    /// Lowest level of messages in the log: off, error, warn, info or debug
    #[arg(long, default_value = "info", value_name = "LEVEL")]
    pub(crate) log_level: control::log::Level,
}

#[derive(Args, Debug)]
pub(crate) struct Keep {
    /// Seconds after which a ready router is killed and restarted, if one of its threads (workers, control, netlink)
    /// does not answer; 0 for never
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    pub(crate) watchdog: u16,
    /// The command: ashlar run FILE ...
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Balance {
    /// Only the workers that the load needs, evenly loaded
    On,
    /// All workers, evenly loaded
    Even,
    /// No bucket moves
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Text for people
    Text,
    /// One JSON object per line
    Json,
}

#[derive(Clone, Debug)]
pub(crate) struct Cores(pub(crate) Vec<usize>);

fn cores(text: &str) -> Result<Cores, String> {
    let list: arguments::units::Cores = arguments::units::parse(text)?;
    Ok(Cores(list.0))
}

fn buffers(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 1024..=16_777_216) => Ok(n),
        _ => Err("write a number from 1024 to 16777216".to_owned()),
    }
}

fn frame_bytes() -> clap::builder::RangedI64ValueParser<u16> {
    clap::value_parser!(u16).range(2048..=16_384)
}

fn address(text: &str) -> Result<std::net::SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return Ok((std::net::Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse()
        .map_err(|_| "write PORT or ADDR:PORT, such as 9100 or [::1]:9100".to_owned())
}

#[derive(Args, Debug)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) configuration: Configuration,
    #[command(flatten)]
    pub(crate) workers: Workers,
    /// Print the mistakes as a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Plan {
    #[command(flatten)]
    pub(crate) configuration: Configuration,
    #[command(flatten)]
    pub(crate) workers: Workers,
    /// Print the plan as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct Graph {
    #[command(flatten)]
    pub(crate) configuration: Configuration,
    #[command(flatten)]
    pub(crate) workers: Workers,
    /// Output format
    #[arg(long, value_enum, default_value_t = GraphFormat::Svg, value_name = "FORMAT")]
    pub(crate) format: GraphFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    /// An SVG image
    Svg,
    /// Text for Graphviz
    Dot,
}

#[derive(Args, Debug)]
pub(crate) struct Doc {
    /// A class; or words to search for, such as `firewall`, in names, topics and manual pages
    #[arg(value_name = "CLASS | WORD")]
    pub(crate) words: Vec<String>,
    /// Print Markdown: the pages of all classes that are found
    #[arg(long)]
    pub(crate) markdown: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) json: bool,
}

fn interval(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.05..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("write seconds, 0.05 to 3600".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_may_follow_the_value_that_is_written_and_the_question_that_is_asked() {
        for words in [
            "set q.capacity - --socket p",
            "set --socket p q.capacity -",
            "set q.capacity -s p -",
        ] {
            let words = std::iter::once("ashlar").chain(words.split(' '));
            let Command::Set(set) = Cli::parse_from(words).command else {
                panic!("no other command");
            };
            assert_eq!(set.target.socket.as_deref(), Some("p"));
            assert_eq!(
                (&*set.handler, set.value),
                ("q.capacity", vec!["-".to_owned()])
            );
        }
        let words = [
            "ashlar", "set", "x.low", "-5", "-0.5", "--socket", "p", "--", "-a", "-s",
        ];
        let Command::Set(set) = Cli::parse_from(words).command else {
            panic!("no other command");
        };
        assert_eq!(set.value, ["-5", "-0.5", "-a", "-s"]);
        let words = [
            "ashlar",
            "show",
            "rt.lookup",
            "10.0.0.1",
            "--json",
            "-s",
            "p",
        ];
        let Command::Show(show) = Cli::parse_from(words).command else {
            panic!("no other command");
        };
        assert_eq!(
            (show.argument, show.json),
            (vec!["10.0.0.1".to_owned()], true)
        );
        assert!(Cli::try_parse_from(["ashlar", "set", "x.text", "-abc"]).is_err());
    }

    #[test]
    fn an_address_without_a_host_is_on_the_loopback() {
        let local = |text| address(text).map(|a| a.to_string());
        assert_eq!(local("9100"), Ok("127.0.0.1:9100".into()));
        assert_eq!(local(":9100"), Ok("127.0.0.1:9100".into()));
        assert_eq!(local("[::1]:9100"), Ok("[::1]:9100".into()));
        assert!(local("here").is_err());
    }
}
