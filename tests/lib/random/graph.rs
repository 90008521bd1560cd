//! A random tree of elements as a configuration's text.

use std::fmt::Write;
use testkit::Rng;

/// Parts of packets at a sink that must be equal however a graph runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compare {
    /// The order of each flow's packets; false where several paths of a flow meet again.
    pub order: bool,
    /// True to compare all bytes; false where numbers depend on the order of packets of all flows.
    pub bytes: bool,
}

/// The end of a path.
#[derive(Clone, Debug)]
pub struct Sink {
    /// Name of a `Collect`.
    pub name: String,
    /// Parts that must agree.
    pub compare: Compare,
}

/// A configuration that receives from `mem:a`.
pub struct RandomGraph {
    /// Text of the graph.
    pub text: String,
    /// Sinks of the graph.
    pub sinks: Vec<Sink>,
    /// Names of Counters.
    pub counters: Vec<String>,
    rng: Rng,
    names: usize,
    /// Elements that may still be made before all paths are ended.
    left: usize,
}

/// Properties of packets on a path.
#[derive(Clone, Copy)]
struct Way {
    compare: Compare,
    /// True if they begin with a checked IPv4 header, false if with an Ethernet header.
    ip: bool,
    /// True if the bytes before the IPv4 header are still those of the frame.
    stripped: bool,
    /// True if they may be fragments.
    pieces: bool,
    /// True if they are encapsulated in another IPv4 header: fragments would then not end with a whole mark.
    wrapped: bool,
}

/// Compounds that graphs use.
const COMPOUNDS: &str = "elementclass Painted { $paint |
    input -> Paint($paint) -> Null -> output }
elementclass Halves { $at |
    input -> c :: HashSwitch($at, 1); c[0] -> output; c[1] -> Null -> [1] output }
";

const CHOICES: usize = 14;

impl RandomGraph {
    /// Makes the graph of a seed.
    pub fn new(seed: u64) -> RandomGraph {
        let mut rng = Rng::seed(seed);
        let mut graph = RandomGraph {
            text: COMPOUNDS.to_owned(),
            sinks: Vec::new(),
            counters: Vec::new(),
            left: rng.range(4..22),
            rng,
            names: 0,
        };
        graph.text += "source :: FromDevice(mem:a);\n";
        let all = Compare {
            order: true,
            bytes: true,
        };
        let way = Way {
            compare: all,
            ip: false,
            stripped: false,
            pieces: false,
            wrapped: false,
        };
        graph.grow("source".to_owned(), way);
        graph
    }

    fn name(&mut self, of: &str) -> String {
        self.names += 1;
        format!("{of}{}", self.names)
    }

    /// Adds an element with a new name after `from`, the text of an output.
    fn element(&mut self, from: &str, class: &str) -> String {
        let name = self.name("e");
        let _ = writeln!(self.text, "{from} -> {name} :: {class};");
        name
    }

    fn end(&mut self, from: &str, way: Way) {
        let name = self.name("sink");
        let _ = writeln!(self.text, "{from} -> {name} :: Collect;");
        let compare = way.compare;
        self.sinks.push(Sink { name, compare });
    }

    /// Continues a path from an output on.
    fn grow(&mut self, from: String, way: Way) {
        if self.left == 0 {
            return self.end(&from, way);
        }
        self.left -= 1;
        match self.rng.below(CHOICES) {
            0 => self.count(&from, way),
            1 => self.switch(&from, way),
            2 => self.tee(&from, way),
            3 => self.queue(&from, way),
            4 => self.meet(&from, way),
            5 => self.paint(&from, way),
            6 => self.schedule(&from, way),
            7 => {
                let halves = format!("Halves({})", if way.ip { 15 } else { 29 });
                self.fork(&from, way, &halves, 2);
            }
            _ if way.ip => self.of_ip(&from, way),
            _ => self.of_ether(&from, way),
        }
    }

    /// Adds an element with `outputs` outputs, and continues at each.
    fn fork(&mut self, from: &str, way: Way, class: &str, outputs: usize) {
        let name = self.element(from, class);
        for output in 0..outputs {
            self.grow(format!("{name}[{output}]"), way);
        }
    }

    fn count(&mut self, from: &str, way: Way) {
        let name = self.name("count");
        let _ = writeln!(self.text, "{from} -> {name} :: Counter;");
        self.counters.push(name.clone());
        self.grow(name, way);
    }

    fn switch(&mut self, from: &str, way: Way) {
        let outputs = self.rng.range(2..4);
        let port = self.rng.below(outputs);
        let class = match self.rng.below(3) {
            0 => format!("Switch({port})"),
            1 => format!("StaticSwitch({port})"),
            // By the IPv4 source address.
            _ => format!("HashSwitch({}, 4)", if way.ip { 12 } else { 26 }),
        };
        self.fork(from, way, &class, outputs);
    }

    fn tee(&mut self, from: &str, way: Way) {
        if self.rng.one_in(2) {
            return self.fork(from, way, "Tee", 2);
        }
        let color = self.rng.below(3);
        self.fork(from, way, &format!("PaintTee({color})"), 2);
    }

    fn paint(&mut self, from: &str, way: Way) {
        let color = self.rng.below(3);
        match self.rng.below(4) {
            0 => {
                let name = self.element(from, &format!("Painted({color})"));
                self.grow(name, way);
            }
            1 => self.fork(from, way, &format!("CheckPaint({color})"), 2),
            2 => self.fork(from, way, "PaintSwitch", 2),
            _ => {
                let name = self.element(from, &format!("Paint({color})"));
                self.grow(name, way);
            }
        }
    }

    fn queue(&mut self, from: &str, way: Way) {
        let class = *self
            .rng
            .pick(&["Queue", "SimpleQueue", "NotifierQueue", "ThreadSafeQueue"]);
        let queue = self.element(from, &format!("{class}(100000)"));
        let burst = *self.rng.pick(&[1, 3, 32]);
        let unqueue = self.element(&queue, &format!("Unqueue(BURST {burst})"));
        self.grow(unqueue, way);
    }

    /// Splits a path and joins the parts again: the order of each flow's packets changes.
    fn meet(&mut self, from: &str, mut way: Way) {
        let parting = *self.rng.pick(&["RoundRobinSwitch", "Tee"]);
        let parting = self.element(from, parting);
        let meeting = self.name("e");
        let _ = writeln!(
            self.text,
            "{parting}[0] -> Null -> {meeting} :: Null; {parting}[1] -> {meeting};"
        );
        way.compare.order = false;
        self.grow(meeting, way);
    }

    /// Adds two queues upstream of a scheduler.
    fn schedule(&mut self, from: &str, mut way: Way) {
        let class = *self.rng.pick(&[
            "RoundRobinSched",
            "PrioSched",
            "StrideSched(3, 1)",
            "DRRSched",
        ]);
        let parting = self.element(
            from,
            &format!("HashSwitch({}, 4)", if way.ip { 16 } else { 30 }),
        );
        let meeting = self.name("e");
        let _ = writeln!(
            self.text,
            "{parting}[0] -> Queue(100000) -> [0] {meeting} :: {class}; {parting}[1] -> Queue(100000) -> [1] {meeting};"
        );
        way.compare.order = false;
        let unqueue = self.element(&meeting, "Unqueue");
        self.grow(unqueue, way);
    }

    fn of_ether(&mut self, from: &str, mut way: Way) {
        match self.rng.below(5) {
            0 => self.fork(from, way, "Classifier(12/0800, -)", 2),
            1 => self.fork(from, way, "Classifier(23/11, 23/06 22/40, !23/11%0f, -)", 4),
            2 => {
                let name = self.element(from, "EtherMirror");
                self.grow(name, way);
            }
            _ => {
                let ip = self.element(from, "Classifier(12/0800, -)");
                self.end(&format!("{ip}[1]"), way);
                let strip = self.element(&ip, "Strip(14)");
                let check = self.element(&strip, "CheckIPHeader");
                self.end(&format!("{check}[1]"), way);
                (way.ip, way.stripped) = (true, true);
                self.grow(check, way);
            }
        }
    }

    fn of_ip(&mut self, from: &str, mut way: Way) {
        match self.rng.below(13) {
            0 => self.fork(
                from,
                way,
                "IPClassifier(udp && dst port 53, tcp, ip ttl < 3, -)",
                4,
            ),
            1 => self.fork(
                from,
                way,
                "IPFilter(allow src net 10.0.1.0/24, 1 udp, deny icmp type echo, allow all)",
                2,
            ),
            2 => self.fork(from, way, "DecIPTTL", 2),
            3 => self.fork(
                from,
                way,
                "StaticIPLookup(198.18.0.0/24 0, 198.18.1.0/24 192.0.2.1 1, 0/0 2)",
                3,
            ),
            4 if !way.wrapped => {
                // Fragments keep eight bytes for the mark.
                self.left = self.left.saturating_sub(1);
                // Fragments are new packets, without the frame's header before them.
                (way.pieces, way.stripped) = (true, false);
                self.fork(from, way, "IPFragmenter(252, HONOR_DF true)", 2);
            }
            5 => {
                let dscp = self.rng.below(64);
                let name = self.element(from, &format!("SetIPDSCP({dscp})"));
                self.grow(name, way);
            }
            6 => self.rewrite(from, way),
            7 => {
                let name = self.element(from, "EtherEncap(0x0800, 2:0:0:0:0:3, 2:0:0:0:0:4)");
                (way.ip, way.stripped) = (false, false);
                self.grow(name, way);
            }
            8 if way.stripped => {
                let name = self.element(from, "Unstrip(14)");
                (way.ip, way.stripped) = (false, false);
                self.grow(name, way);
            }
            9 => {
                let name = self.element(from, "IPEncap(4, 192.0.2.9, 198.18.1.9)");
                // Identifications are numbered over all flows.
                (way.stripped, way.wrapped, way.compare.bytes) = (false, true, false);
                self.grow(name, way);
            }
            10 => {
                let name = self.element(from, "IPMirror");
                self.grow(name, way);
            }
            11 => {
                let classes = [
                    "SetIPChecksum",
                    "DropBroadcasts",
                    "GetIPAddress(12)",
                    "Align(4, 0)",
                ];
                let class = *self.rng.pick(&classes);
                let name = self.element(from, class);
                self.grow(name, way);
            }
            _ => {
                let length = self.rng.range(100..500);
                self.fork(from, way, &format!("CheckLength({length})"), 2);
            }
        }
    }

    /// An address translator; each flow has its own port, so only the last pattern has a choice.
    fn rewrite(&mut self, from: &str, mut way: Way) {
        if way.pieces {
            return self.grow(from.to_owned(), way);
        }
        let class = *self.rng.pick(&["IPRewriter", "UDPRewriter"]);
        let what = self.rng.below(3);
        let spec = [
            "keep 0 0",
            "pattern 203.0.113.1 - - - 0 0",
            "pattern 203.0.113.1 1024-65535# - - 0 0",
        ][what];
        way.compare.bytes &= what != 2;
        let known = self.element(from, "IPClassifier(udp, tcp, -)");
        self.end(&format!("{known}[2]"), way);
        let tcp = if class == "IPRewriter" {
            Some(self.element(&format!("{known}[1]"), &format!("{class}({spec})")))
        } else {
            self.end(&format!("{known}[1]"), way);
            None
        };
        let udp = self.element(&known, &format!("{class}({spec})"));
        for rewritten in tcp.into_iter().chain([udp]) {
            self.grow(rewritten, way);
        }
    }
}
