//! Reading, planning and building scale with the configuration: one eight times as large takes about eight times the
//! work, in any notation. The test compares growth of processor time of the thread, which does not depend on other
//! programs. A walk over all elements for each element would make it 64 times as much.

use control::Source;
use engine::clock::{Clock, Time};
use engine::graph::Walker;
use engine::graph::single;
use planner::Options;
use router_tests::{InMemory, registry};
use rustix::time::{ClockId, clock_gettime};
use std::fmt::Write;
use std::sync::Arc;

const SMALL: usize = 200;
const TIMES: usize = 8;
/// Between linear and quadratic growth. It allows for larger caches, longer numbers and growing maps.
const GROWTH_MAX: u64 = 24;

/// A form of configuration of any size, and a check of its result.
type Form = (&'static str, fn(usize) -> String, bool);

/// `n` pieces of text, one after the other.
fn each(n: usize, piece: impl Fn(usize) -> String) -> String {
    (0..n).map(piece).collect()
}

fn joined(n: usize, between: &str, piece: impl Fn(usize) -> String) -> String {
    let pieces: Vec<String> = (0..n).map(piece).collect();
    pieces.join(between)
}

/// Text of nested classes, each with two elements of the previous class.
fn doubled(levels: usize) -> String {
    let mut text = "elementclass A0 { input -> Counter -> output }\n".to_owned();
    for level in 1..=levels {
        let inner = level - 1;
        let _ = writeln!(
            text,
            "elementclass A{level} {{ input -> A{inner} -> A{inner} -> output }}"
        );
    }
    let _ = writeln!(text, "Idle -> A{levels} -> Discard;");
    text
}

const FORMS: &[Form] = &[
    (
        "a chain in one line",
        |n| format!("Idle{} -> Discard;", " -> Counter".repeat(n)),
        true,
    ),
    (
        "a chain written from its end",
        |n| {
            let names = each(n + 1, |i| format!("c{i} :: Counter;\n"));
            let links = each(n, |i| format!("c{} -> c{};\n", n - i - 1, n - i));
            format!("{names}{links} Idle -> c0; c{n} -> Discard;")
        },
        true,
    ),
    (
        "a pull chain written from its end",
        |n| {
            let names = each(n + 1, |i| format!("c{i} :: Counter;\n"));
            let links = each(n, |i| format!("c{} -> c{};\n", n - i - 1, n - i));
            format!("{names}{links} c{n} -> Unqueue -> Discard; Idle -> Queue -> c0;")
        },
        true,
    ),
    (
        "queues behind each other",
        |n| format!("Idle{} -> Discard;", " -> Queue -> Unqueue".repeat(n / 2)),
        true,
    ),
    (
        "routers beside each other",
        |n| {
            each(n / 2, |_| {
                "InfiniteSource(LIMIT 0) -> Strip(14) -> Counter -> Queue -> Unqueue -> Discard;\n"
                    .to_owned()
            })
        },
        true,
    ),
    (
        "circles",
        |n| each(n / 2, |i| format!("a{i} :: Counter -> Counter -> a{i};\n")),
        true,
    ),
    (
        "sources before one chain",
        |n| {
            let sources = each(n / 2, |_| "InfiniteSource -> c;\n".to_owned());
            format!(
                "c :: Counter{} -> Queue -> Discard;\n{sources}",
                " -> Counter".repeat(n / 2)
            )
        },
        true,
    ),
    (
        "one element with many outputs",
        |n| {
            format!(
                "Idle -> t :: Tee; {}",
                each(n, |i| format!("t[{i}] -> Queue -> Discard;\n"))
            )
        },
        true,
    ),
    (
        "one element with many inputs",
        |n| {
            format!(
                "s :: RoundRobinSched -> Unqueue -> Discard; {}",
                each(n, |i| format!("Idle -> Queue -> [{i}]s;\n"))
            )
        },
        true,
    ),
    (
        "one queue that many empty",
        |n| {
            format!(
                "Idle -> q :: Queue; {}",
                each(n, |_| "q -> Unqueue -> Discard;\n".to_owned())
            )
        },
        true,
    ),
    (
        "loops with elements between them",
        |n| {
            format!(
                "c :: Counter{} -> Discard; {}",
                " -> Counter".repeat(n / 2),
                each(n / 2, |_| "Idle -> Paint(1) -> Strip(14) -> c;\n"
                    .to_owned())
            )
        },
        true,
    ),
    (
        "uses of a compound element",
        |n| {
            format!(
                "elementclass C {{ $a, KEY $b | input -> Counter -> Paint($a) -> output }} {}",
                each(n / 2, |i| format!(
                    "Idle -> C({}, KEY 1) -> Discard;\n",
                    i % 256
                ))
            )
        },
        true,
    ),
    (
        "compound elements beside each other",
        |n| {
            each(n / 2, |i| {
                format!("elementclass C{i} {{ input -> Counter -> output }} c{i} :: C{i};\n")
            })
        },
        false,
    ),
    (
        "loose compound elements",
        |n| {
            format!(
                "elementclass C {{ input -> Strip(14) -> Paint(1) -> output }} {}",
                each(n / 2, |i| format!("c{i} :: C;\n"))
            )
        },
        false,
    ),
    (
        "variables",
        |n| {
            format!(
                "{} Idle -> Paint($v7) -> Discard;",
                each(n, |i| format!("define($v{i} {});\n", i % 256))
            )
        },
        true,
    ),
    (
        "variables that nothing defines",
        |n| {
            format!(
                "elementclass C {{ __REST__ $r | input -> Script($r) }} Idle -> C({});",
                joined(n, ", ", |i| format!("print $v{i}"))
            )
        },
        true,
    ),
    (
        "parameters",
        |n| {
            let formals = joined(n, ", ", |i| format!("K{i} $v{i}"));
            let values = joined(n, ", ", |i| format!("K{} {}", n - i - 1, i % 256));
            format!(
                "elementclass C {{ {formals} | input -> Paint($v7) -> output }} Idle -> C({values}) -> Discard;"
            )
        },
        true,
    ),
    (
        "names that look anonymous",
        |n| {
            format!(
                "{}{}",
                each(n / 2, |i| format!("Idle@{} :: Idle;\n", n / 2 + i)),
                "Idle;".repeat(n / 2)
            )
        },
        true,
    ),
    (
        "routes",
        |n| {
            let routes = joined(n, ", ", |i| {
                format!("10.{}.{}.0/24 0", i / 256 % 256, i % 256)
            });
            format!("Idle -> GetIPAddress(16) -> RadixIPLookup({routes}) -> Discard;")
        },
        true,
    ),
    (
        "rules",
        |n| {
            let rules = joined(n, ", ", |i| {
                format!("deny src host 10.{}.{}.1", i / 256 % 256, i % 256)
            });
            format!("Idle -> MarkIPHeader -> IPFilter({rules}, allow all) -> Discard;")
        },
        true,
    ),
    (
        "patterns of rewriters",
        |n| {
            each(n, |i| {
                format!("IPRewriterPatterns(p{i} 10.0.0.1 1024-2048 - -);\n")
            })
        },
        true,
    ),
    (
        "rewriters by named patterns",
        |n| {
            format!(
                "{}{}",
                each(n / 2, |i| format!(
                    "IPRewriterPatterns(p{i} 10.0.0.1 1024-2048 - -);\n"
                )),
                each(n / 2, |i| format!(
                    "Idle -> MarkIPHeader -> r{i} :: IPRewriter(pattern p{i} 0 0) -> Discard;\n"
                ))
            )
        },
        true,
    ),
    (
        "names of addresses",
        |n| {
            format!(
                "AddressInfo({}); {}",
                joined(n, ", ", |i| format!("a{i} 10.0.{}.{}", i / 256, i % 256)),
                each(n / 2, |i| format!(
                    "Idle -> SetIPAddress(a{i}) -> Discard;\n"
                ))
            )
        },
        true,
    ),
    (
        "a name in each of many compound elements",
        |n| {
            let entries = ["me 10.0.0.1/24"; 10].join(", ");
            each(n, |i| {
                format!(
                    "p{i} :: {{ AddressInfo({entries}); Idle -> SetIPAddress(me) -> Discard; }};\n"
                )
            })
        },
        true,
    ),
    (
        "scripts that call handlers",
        |n| {
            format!(
                "c :: Counter; Idle -> c -> Discard; {}",
                each(n, |_| "Script(TYPE PASSIVE, write c.reset);\n".to_owned())
            )
        },
        true,
    ),
    (
        "calls of handlers that are not there",
        |n| each(n, |i| format!("Script(TYPE PASSIVE, write cc{i}.reset);\n")),
        true,
    ),
    (
        "classes that nobody knows",
        |n| each(n, |i| format!("Idle -> Countr{i} -> Discard;\n")),
        false,
    ),
    (
        "classes that nobody knows in one line",
        |n| each(n, |i| format!("ä{i}(\"é\"); Countr{i}(é); ")),
        false,
    ),
    (
        "wrong arguments",
        |n| each(n, |i| format!("Idle -> Paint(x{i}) -> Discard;\n")),
        false,
    ),
    (
        "too many arguments",
        |n| {
            format!(
                "Idle -> Counter({}) -> Discard;",
                joined(n, ", ", |i| format!("K{i} {i}"))
            )
        },
        false,
    ),
    (
        "wrong arguments in one line",
        |n| {
            format!(
                "{}Idle -> Discard;",
                "Idle -> Paint(x) -> Discard; ".repeat(n)
            )
        },
        false,
    ),
    (
        "names declared twice",
        |n| each(n, |i| format!("a{i} :: Idle; a{i} :: Idle;\n")),
        false,
    ),
    (
        "ports that compound elements lack",
        |n| {
            format!(
                "elementclass C {{ input -> output }} {}",
                each(n, |_| "Idle -> [1]C -> Discard;\n".to_owned())
            )
        },
        false,
    ),
    (
        "places after line directives",
        |n| {
            each(n, |i| {
                format!("# {i} \"f{i}\"\nIdle -> Paint(x) -> Discard;\n")
            })
        },
        false,
    ),
    (
        "parentheses without an end",
        |n| format!("Idle{}", " -> Paint(\n".repeat(n)),
        false,
    ),
    (
        "parentheses without an end, and space",
        |n| format!("Idle -> Paint({}", "    \t   ".repeat(n)),
        false,
    ),
    (
        "braces without an end",
        |n| format!("Idle -> Script(print {}) -> Discard;", "${a-".repeat(n)),
        true,
    ),
    (
        "commas, quotes and comments",
        |n| {
            format!(
                "Idle -> Script({}) -> Discard;",
                "\"a\" /* b */ 'c', ".repeat(n)
            )
        },
        false,
    ),
    (
        "devices",
        |n| {
            each(n / 2, |i| {
                format!("FromDevice(a{i}) -> Queue -> ToDevice(a{i});\n")
            })
        },
        true,
    ),
    (
        "sub-interfaces",
        |n| {
            each(n / 2, |i| {
                format!(
                    "FromDevice(a{}.{}) -> ToDevice(b{i}.7);\n",
                    i / 200,
                    i % 200 + 1
                )
            })
        },
        true,
    ),
    (
        "devices that classify",
        |n| {
            each(n / 4, |i| {
                format!("FromDevice(a{i}, CLASSIFY hash) -> Counter -> Queue -> ToDevice(a{i});\n")
            })
        },
        true,
    ),
    (
        "state with one owner",
        |n| {
            format!(
                "{}FromDevice(a) -> t :: Tee; {}",
                each(n / 4, |i| format!("r{i} :: IPRewriter(pass 0);\n")),
                each(n / 4, |i| format!(
                    "t[{i}] -> Strip(14) -> CheckIPHeader -> r{i} -> Discard;\n"
                ))
            )
        },
        true,
    ),
];

/// Compiles a text on two workers and builds its graph. Returns the processor time used.
fn work(name: &str, text: String, is_right: bool) -> u64 {
    let begin = clock_gettime(ClockId::ThreadCPUTime);
    let ports = Arc::new(InMemory::default());
    let options = Options::new(2, &*ports);
    let source = Source {
        name: "growth.click".to_owned(),
        text: text.into(),
        ..Source::default()
    };
    let read = control::compile(&source, registry(), &options);
    let told = read.text();
    let json = read.json();
    assert_eq!(read.plan.is_some(), is_right, "{name}: {told:.2000}");
    assert_eq!(json.len() > 2, !told.is_empty(), "{name}");
    if let Some(plan) = &read.plan {
        let options = Options {
            previous: Some(plan),
            ..options
        };
        let again = control::compile(&source, registry(), &options);
        assert!(again.plan.is_some(), "{name}");
    }
    let one = Options::new(1, &*ports);
    if let Some(plan) = control::compile(&source, registry(), &one).plan {
        let before = Arc::clone(&ports) as _;
        drop(single(&plan, before, Walker::Sweep, Clock::at(Time(0)), 1));
    }
    let end = clock_gettime(ClockId::ThreadCPUTime);
    let ns = |t: rustix::time::Timespec| t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64;
    ns(end) - ns(begin)
}

#[test]
fn work_grows_as_configurations_do() {
    let mut wrong = String::new();
    for &(name, form, is_right) in FORMS {
        let growth = || {
            let (small, large) = [SMALL, TIMES * SMALL]
                .map(|n| work(name, form(n), is_right))
                .into();
            large / small.max(1)
        };
        // Other work on the machine does not disturb three measurements in a row.
        let growth = (0..3)
            .map(|_| growth())
            .find(|&growth| growth <= GROWTH_MAX);
        if growth.is_none() {
            let _ = writeln!(wrong, "{name}: more than {GROWTH_MAX} times the work");
        }
    }
    assert!(wrong.is_empty(), "{TIMES} times as large takes\n{wrong}");
}

/// A configuration that is too large is refused with a place, before it takes more memory and time than a router.
#[test]
fn excessive_configurations_are_refused_with_a_place() {
    let large = |text: String| {
        let ports = InMemory::default();
        let source = Source {
            name: "large.click".to_owned(),
            text: text.into(),
            ..Source::default()
        };
        let read = control::compile(&source, registry(), &Options::new(2, &ports));
        assert!(read.plan.is_none());
        read.text()
    };
    let ports = "Idle -> [65535]Discard;".repeat(17);
    let lists = "Idle[0-65535] => [0-65535]Discard; ".repeat(9);
    let long = format!("elementclass A0 {{ Script({}) }}\n", "x".repeat(1 << 20));
    let deep: String = each(201, |i| format!("elementclass A{} {{ A{i} }}\n", i + 1));
    let mut many = "elementclass A0 { Idle }\n".to_owned();
    many.push_str(&each(200, |_| {
        "elementclass A0 { $a, $b | Idle || ... }\n".to_owned()
    }));
    for (text, told) in [
        (
            format!(
                "elementclass A {{ {} }} {}",
                "Idle; ".repeat(1000),
                "A; ".repeat(132)
            ),
            "the router has more than 131072 elements",
        ),
        (doubled(30), "bytes of elements' names"),
        (
            format!("{long}{}", "A0; ".repeat(30)),
            "makes the configuration too long",
        ),
        (ports, "the router has more than 1048576 ports"),
        (
            lists,
            "the lists of ports up to here name more than 1048576",
        ),
        (
            format!("elementclass A0 {{ Idle }}\n{deep}A201;"),
            "more than 200 deep",
        ),
        (
            format!("{many} A0;"),
            "this class has more than 100 definitions",
        ),
    ] {
        let said = large(text);
        let line = said.lines().next().unwrap_or_default();
        assert!(
            line.starts_with("large.click:") && said.contains(told),
            "{told}: {said:.1000}"
        );
    }
}
