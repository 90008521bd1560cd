//! Classification into queues: `CLASSIFY` of FromDevice.
//!
//! Ports differ in their capabilities, but `CLASSIFY` means the same on every port. So the graph does it: before a
//! plan is made, two elements are inserted after the FromDevice. One sorts packets into buckets; the other is a
//! Steer, which passes each packet to the worker that owns its bucket. All ports with the same description share one
//! table of buckets and workers.

use super::vlan::{RECEIVERS, add, connect, device_of};
use lang::{Config, Diagnostic, Element, Router, Span};
use planner::Options;
use std::ops::Range;

/// Default number of buckets of the hashing modes.
const BUCKETS: usize = 256;
/// Maximum length of a table's name in bytes; longer names are cut, and end in a hash.
const NAME_LEN: usize = 48;

/// Classification mode: its name, its element's class, and the keywords of that class.
struct Mode {
    name: &'static str,
    class: &'static str,
    keywords: &'static [&'static str],
}

const MODES: [Mode; 5] = [
    Mode {
        name: "hash",
        class: "BucketByHash",
        keywords: &["KEY", "BUCKETS", "INNER"],
    },
    Mode {
        name: "address",
        class: "BucketByAddress",
        keywords: &[],
    },
    Mode {
        name: "flow",
        class: "BucketByFlow",
        keywords: &["FIELDS", "RULES", "KEY", "BUCKETS", "INNER"],
    },
    Mode {
        name: "prefix",
        class: "BucketByPrefix",
        keywords: &["DEFAULT", "SOURCE", "FILE"],
    },
    Mode {
        name: "program",
        class: "",
        keywords: &["BUCKETS"],
    },
];

/// Error message, and help for it.
type Wrong = (String, String);

/// Classification that a port can perform in hardware.
pub(super) struct PortClassification {
    /// Hash key; `None` if the mode does not hash.
    pub(super) key: Option<String>,
    /// True if the port has rules.
    pub(super) has_rules: bool,
    pub(super) buckets: usize,
    /// Name of the indirection table.
    pub(super) table: String,
}

/// Value of CLASSIFY.
pub(super) struct Classify {
    mode: &'static Mode,
    /// Positional arguments of the mode.
    places: Vec<String>,
    /// Keywords with their values.
    keys: Vec<(&'static str, String)>,
    workers: Option<String>,
}

impl Classify {
    fn parse(words: &[String]) -> Result<Classify, Wrong> {
        let known = || {
            let names: Vec<&str> = MODES.iter().map(|mode| mode.name).collect();
            format!("the first word is one of {}", names.join(", "))
        };
        let (first, rest) = words
            .split_first()
            .ok_or_else(|| ("CLASSIFY is empty".to_owned(), known()))?;
        let mode = MODES
            .iter()
            .find(|mode| mode.name == first)
            .ok_or_else(|| (format!("`{first}` is no classification"), known()))?;
        let (mut places, mut workers) = (Vec::new(), None);
        let mut keys: Vec<(&'static str, String)> = Vec::new();
        // Words after a keyword form its value, up to the next keyword; words before the first keyword are positional.
        let mut current: Option<&'static str> = None;
        for word in rest {
            let is_keyword = word.len() > 1 && word.bytes().all(|b| b.is_ascii_uppercase());
            if is_keyword {
                current = Some(Classify::keyword(mode, word)?);
                continue;
            }
            match current {
                None => places.push(word.clone()),
                Some("WORKERS") => append(workers.get_or_insert_default(), word),
                Some(name) => match keys.iter_mut().find(|key| key.0 == name) {
                    Some(key) => append(&mut key.1, word),
                    None => keys.push((name, word.clone())),
                },
            }
        }
        Ok(Classify {
            mode,
            places,
            keys,
            workers,
        })
    }

    /// A keyword of the mode.
    fn keyword(mode: &Mode, word: &str) -> Result<&'static str, Wrong> {
        let all = mode.keywords.iter().copied().chain(["WORKERS"]);
        let found = all.clone().find(|known| *known == word);
        found.ok_or_else(|| {
            let all: Vec<&str> = all.collect();
            (
                format!("`{}` has no keyword {word}", mode.name),
                format!("it has {}", all.join(", ")),
            )
        })
    }

    /// Hardware classification for a value of CLASSIFY; `None` if no port supports the mode.
    pub(super) fn of_port(text: &str) -> Option<PortClassification> {
        let asked = Classify::parse(&lang::args::unquoted_words(text)).ok()?;
        let key = asked.key("KEY").unwrap_or("symmetric");
        Some(PortClassification {
            key: matches!(asked.mode.name, "hash" | "flow").then(|| key.to_owned()),
            has_rules: matches!(asked.mode.name, "flow" | "address" | "prefix"),
            buckets: asked.buckets(),
            table: asked.table(),
        })
        .filter(|of_port| of_port.key.is_some() || of_port.has_rules)
    }

    fn key(&self, name: &str) -> Option<&str> {
        let key = self.keys.iter().find(|key| key.0 == name)?;
        Some(&key.1)
    }

    /// Number of buckets as far as known here. The element itself reports values that are not numbers.
    fn buckets(&self) -> usize {
        let given = self.key("BUCKETS").and_then(|n| n.parse().ok());
        match self.mode.name {
            "address" => crate::steer::bucket_by_address::buckets(&self.places),
            "prefix" => crate::steer::bucket_by_prefix::buckets(&self.places, self.key("DEFAULT")),
            _ => given.unwrap_or(BUCKETS),
        }
    }

    /// Configuration of the mode's element.
    fn config(&self, device: &str) -> String {
        let mut arguments = self.places.clone();
        let keys = self.keys.iter();
        arguments.extend(keys.map(|(name, value)| format!("{name} {value}")));
        arguments.push(format!("PORT {}", lang::args::quote(device)));
        arguments.join(", ")
    }

    /// Name of the table, shared by all ports with the same classification.
    fn table(&self) -> String {
        let hash = [
            self.key("KEY").unwrap_or("symmetric"),
            &self.buckets().to_string(),
        ]
        .join("-");
        if self.mode.name == "hash" {
            return cut(format!("hash-{hash}"));
        }
        let keys = self
            .keys
            .iter()
            .map(|(name, value)| format!("{name}-{value}"));
        let words = self.places.iter().cloned().chain(keys);
        let words: Vec<String> = words.collect();
        cut(format!("{}-{}", self.mode.name, words.join("-")))
    }
}

fn append(text: &mut String, word: &str) {
    if !text.is_empty() {
        text.push(' ');
    }
    text.push_str(word);
}

/// Name of bounded length without white space.
fn cut(name: String) -> String {
    let name = name.replace([' ', ','], "-");
    if name.len() <= NAME_LEN {
        return name;
    }
    // FNV-1a hash, which is the same in each run.
    let hash = name.bytes().fold(0x811c_9dc5u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let kept: String = name.chars().take(NAME_LEN - 9).collect();
    format!("{kept}-{hash:08x}")
}

/// The device's name, converted for use in element names.
fn plain(device: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '@');
    device.replace(|c| !fits(c), "_")
}

/// Argument CLASSIFY of an element: its position in the configuration, and its words.
fn classify_argument(element: &Element) -> Option<(Range<usize>, Vec<String>)> {
    let text = &element.config.text;
    lang::args::split(text).into_iter().find_map(|range| {
        let value = match &text[range.clone()] {
            "CLASSIFY" => "",
            argument => {
                lang::args::keyword(argument)
                    .filter(|k| k.0 == "CLASSIFY")?
                    .1
            }
        };
        // The whole value may be quoted.
        let value = lang::args::unquote(value).into_owned();
        Some((range, lang::args::unquoted_words(&value)))
    })
}

/// Inserts the elements of CLASSIFY. Click's driver has a single worker, for which nothing is inserted.
pub(super) fn rewrite(router: &mut Router, options: &Options) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    if options.as_click {
        return errors;
    }
    for index in 0..router.elements.len() {
        let element = &router.elements[index];
        if !RECEIVERS.contains(&element.class.as_str()) {
            continue;
        }
        let Some((range, words)) = classify_argument(element) else {
            continue;
        };
        let place = element.config.span_of(range);
        let done = Classify::parse(&words).and_then(|asked| put_in(router, index, &asked, place));
        if let Err((message, help)) = done {
            let element = &router.elements[index];
            let title = format!("{} :: {}", element.name, element.class);
            let wrong = Diagnostic::error("classify", message).at(place);
            let wrong = wrong.about(title, element.span, Some("configuring"));
            errors.push(wrong.help(help));
        }
    }
    errors
}

/// Input port of the inserted elements, and their output ports.
struct Sorter {
    input: (usize, usize),
    outputs: Vec<(usize, usize)>,
    buckets: usize,
}

/// Inserts the elements after the receiver.
fn put_in(
    router: &mut Router,
    receiver: usize,
    asked: &Classify,
    place: Span,
) -> Result<(), Wrong> {
    let Some((_, device)) = device_of(&router.elements[receiver]) else {
        return Ok(()); // the receiver itself reports this error
    };
    let name = plain(&device);
    if router.find(&format!("{name}@steer")).is_some() {
        return Ok(()); // two receive from one device, which the plan refuses
    }
    let own = |config: String| Config::verbatim(config, place);
    let sorter = match asked.mode.class {
        "" => program(router, receiver, asked, &name)?,
        class => {
            let config = asked.config(&device);
            let bucket = add(
                router,
                format!("{name}@bucket"),
                class,
                String::new(),
                receiver,
            );
            router.elements[bucket].config = own(config);
            Sorter {
                input: (bucket, 0),
                outputs: vec![(bucket, 0)],
                buckets: asked.buckets(),
            }
        }
    };
    let table = lang::args::quote(&asked.table());
    let mut config = format!("BUCKETS {}, TABLE {table}", sorter.buckets);
    if let Some(workers) = &asked.workers {
        config.push_str(&format!(", CORES \"{workers}\""));
    }
    let steer = add(
        router,
        format!("{name}@steer"),
        "Steer",
        String::new(),
        receiver,
    );
    router.elements[steer].config = own(config);
    let after = router.connections.iter_mut();
    after
        .filter(|c| c.from.element == receiver)
        .for_each(|c| c.from.element = steer);
    connect(router, (receiver, 0), sorter.input);
    for output in sorter.outputs {
        connect(router, output, (steer, 0));
    }
    Ok(())
}

/// Program that classifies packets; its outputs are buckets.
fn program(
    router: &mut Router,
    receiver: usize,
    asked: &Classify,
    device: &str,
) -> Result<Sorter, Wrong> {
    let help = "declare an element, or a compound element, that is connected to nothing, and name it here: \
        `sort :: IPClassifier(...); FromDevice(..., CLASSIFY program sort)`";
    let wrong = |message: String| (message, help.to_owned());
    let [name] = asked.places.as_slice() else {
        return Err(wrong("`program` wants the name of one element".into()));
    };
    let (input, outputs) = match router.unconnected.iter().find(|loose| loose.name == *name) {
        Some(loose) => {
            let [inputs] = loose.inputs.as_slice() else {
                return Err(wrong(format!("`{name}` should have one input")));
            };
            let [input] = inputs.as_slice() else {
                return Err(wrong(format!(
                    "the input of `{name}` should lead to one element"
                )));
            };
            (*input, loose.outputs.clone())
        }
        None => {
            let element = router
                .find(name)
                .ok_or_else(|| wrong(format!("there is no unconnected element `{name}`")))?;
            let ends = router.connections.iter().flat_map(|c| [c.from, c.to]);
            if ends.clone().any(|port| port.element == element) {
                return Err(wrong(format!("`{name}` is connected already")));
            }
            let arguments = lang::args::split(&router.elements[element].config.text).len();
            let given = asked.key("BUCKETS").and_then(|n| n.parse().ok());
            let port = |port| lang::Port { element, port };
            let outputs = (0..given.unwrap_or(arguments)).map(|n| vec![port(n)]);
            (port(0), outputs.collect())
        }
    };
    if outputs.is_empty() || outputs.len() > 255 {
        let many = outputs.len();
        return Err(wrong(format!("`{name}` has {many} outputs, not 1 to 255")));
    }
    let buckets = outputs.len();
    let mut leaves = Vec::new();
    for (bucket, from) in outputs.into_iter().enumerate() {
        let element = format!("{device}@bucket{bucket}");
        let set = add(router, element, "SetBucket", bucket.to_string(), receiver);
        for port in from {
            connect(router, (port.element, port.port), (set, 0));
        }
        leaves.push((set, 0));
    }
    Ok(Sorter {
        input: (input.element, input.port),
        outputs: leaves,
        buckets,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::port::NoPorts;

    fn rewritten(text: &str) -> Result<String, String> {
        let mut map = lang::SourceMap::new();
        let file = map.add("test.click", text);
        let (mut router, errors) = lang::parse(&mut map, file, &[]);
        assert!(errors.is_empty(), "{errors:?}");
        let wrong = super::super::rewrite(&mut router, &Options::new(2, &NoPorts));
        match wrong.is_empty() {
            true => Ok(lang::print(&router).replace("\n    ->", " ->")),
            false => Err(lang::render_all(&wrong, &map)),
        }
    }

    fn has(text: &str, parts: &[&str]) {
        let got = rewritten(text).unwrap_or_else(|e| panic!("{e}"));
        for part in parts {
            assert!(got.contains(part), "{part} is missing:\n{got}");
        }
    }

    #[test]
    fn a_hash_becomes_two_elements_behind_the_device() {
        has(
            "f :: FromDevice(eth0, CLASSIFY hash) -> c :: Counter -> Discard",
            &[
                "eth0@bucket :: BucketByHash(PORT eth0)",
                "eth0@steer :: Steer(BUCKETS 256, TABLE hash-symmetric-256)",
                "f -> eth0@bucket -> eth0@steer -> c -> Discard",
            ],
        );
        has(
            "FromDPDKDevice(net_null0, CLASSIFY \"hash KEY microsoft BUCKETS 128 INNER false WORKERS 1 3\") -> Discard",
            &[
                "BucketByHash(KEY microsoft, BUCKETS 128, INNER false, PORT net_null0)",
                "net_null0@steer :: Steer(BUCKETS 128, TABLE hash-microsoft-128, CORES \"1 3\")",
            ],
        );
    }

    #[test]
    fn arguments_of_other_modes_go_to_their_elements() {
        has(
            "FromDevice(mem:a, CLASSIFY address 02:00:00:00:00:01 02:00:00:00:00:02) -> Discard",
            &[
                "mem_a@bucket :: BucketByAddress(02:00:00:00:00:01, 02:00:00:00:00:02, PORT mem:a)",
                "Steer(BUCKETS 4, TABLE address-02:00",
            ],
        );
        has(
            "FromDevice(a, CLASSIFY prefix 10.0.0.0/8 11.0.0.0/8=3 DEFAULT 4) -> Discard",
            &[
                "BucketByPrefix(10.0.0.0/8, 11.0.0.0/8=3, DEFAULT 4, PORT a)",
                "BUCKETS 5",
            ],
        );
        has(
            "FromDevice(a, CLASSIFY flow FIELDS 12/2 30/4 RULES 9000 BUCKETS 64) -> Discard",
            &[
                "BucketByFlow(FIELDS 12/2 30/4, RULES 9000, BUCKETS 64, PORT a)",
                "BUCKETS 64",
            ],
        );
    }

    #[test]
    fn outputs_of_a_program_are_buckets() {
        let compound = "elementclass P { input -> c :: Classifier(12/0806, -); c[0] -> [1] output;
            c[1] -> Paint(1) -> [0] output } p :: P; FromDevice(a, CLASSIFY program p) -> Discard";
        has(
            compound,
            &[
                "a@bucket0 :: SetBucket(0)",
                "a@bucket1 :: SetBucket(1)",
                " -> p/c -> a@bucket1 -> a@steer -> Discard",
                "p/c [1] -> p/Paint@2 -> a@bucket0 -> a@steer;",
                "Steer(BUCKETS 2, TABLE program-p)",
            ],
        );
        has(
            "p :: Classifier(12/0806, 12/0800, -); FromDevice(a, CLASSIFY program p) -> Discard",
            &["p [2] -> a@bucket2 -> a@steer", "BUCKETS 3"],
        );
    }

    #[test]
    fn mistakes_are_told_with_place_and_remedy() {
        for (said, wrong) in [
            ("fast", "`fast` is no classification"),
            ("hash RULES 9", "`hash` has no keyword RULES"),
            ("program", "wants the name of one element"),
            ("program q", "there is no unconnected element `q`"),
            ("program c", "`c` is connected already"),
        ] {
            let text = format!("FromDevice(a, CLASSIFY {said}) -> c :: Counter -> Discard");
            let told = rewritten(&text).expect_err("it is wrong");
            assert!(told.contains(wrong) && told.contains("CLASSIFY"), "{told}");
            assert!(told.contains("    = "), "{told}");
        }
        let none = rewritten("FromDevice(a, CLASSIFY) -> Discard");
        assert!(none.is_err_and(|told| told.contains("CLASSIFY is empty")));
    }

    #[test]
    fn long_names_of_tables_are_cut_and_stay_different() {
        let names = ["a", "b"].map(|end| cut(format!("{}{end}", "x".repeat(90))));
        assert!(names.iter().all(|name| name.len() == NAME_LEN));
        assert_ne!(names[0], names[1]);
    }
}
