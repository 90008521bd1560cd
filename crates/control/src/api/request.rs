//! Requests of clients: a pure function from method, path and query, so that it can be fuzzed.

use super::Refusal;
use crate::isolated::remote::Answer;
use crate::running::{capture, trace};
use percent_encoding::percent_decode_str;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A syntactically valid request. Objects named in it may not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Description of the process or router.
    Info,
    /// The routers of the process.
    Routers,
    /// Elements and handlers.
    Elements,
    /// The plan as text.
    Plan,
    /// Settings that differ from the configuration, in the form of a saved file.
    Saved,
    /// All counts.
    Stats,
    /// Each worker's longest turn; resets the maximum.
    Turns,
    /// Reads a handler.
    Read {
        /// Element and handler, separated by a dot.
        path: String,
        /// Argument of the handler.
        argument: String,
    },
    /// Writes a handler.
    Write {
        /// Element and handler, separated by a dot.
        path: String,
    },
    /// Packets as pcapng.
    Capture(capture::Spec),
    /// Paths of packets through the graph.
    Trace(trace::Spec),
    /// The server's account of itself for other members of its cluster.
    Member,
    /// Events of the cluster that the server has noticed.
    Events,
    /// Findings of the machine's diagnosis for the open ports.
    Findings,
    /// All counts, for Prometheus.
    Metrics,
    /// Replaces the configuration by a [`ReloadRequest`](crate::view::ReloadRequest).
    Reload,
    /// Ends the process, or the router.
    Stop,
}

impl Request {
    /// True if any member of the server's cluster may send the request: it changes nothing, names no file, and its
    /// answer has no key.
    pub fn is_for_members(&self) -> bool {
        use Request::{Capture, Events, Findings, Info, Member, Metrics, Stats, Trace};
        matches!(
            self,
            Capture(_) | Events | Findings | Info | Member | Metrics | Stats | Trace(_)
        )
    }

    /// Kind of the answer, which determines how long the request may take. A reload has limits of its own.
    pub(super) fn answer_kind(&self) -> Answer {
        match self {
            Request::Capture(_) => Answer::Endless,
            Request::Trace(_) => Answer::Long,
            _ => Answer::Short,
        }
    }
}

/// Constructor of a request. Its arguments are the name of a handler (empty if there is none) and the query.
type Make = fn(&str, &Arguments) -> Result<Request, Refusal>;

/// A kind of request.
pub struct Route {
    /// Method of HTTP.
    pub method: &'static str,
    /// Path, and after `?` the names of all parameters. `E.H` stands for the name of a handler.
    pub target: &'static str,
    /// Effect, or content of the answer.
    pub doc: &'static str,
    make: Make,
}

const fn get(target: &'static str, doc: &'static str, make: Make) -> Route {
    Route {
        method: "GET",
        target,
        doc,
        make,
    }
}

const fn post(target: &'static str, doc: &'static str, make: Make) -> Route {
    Route {
        method: "POST",
        ..get(target, doc, make)
    }
}

/// All requests, in the order of docs/api.md.
pub const ROUTES: &[Route] = &[
    get(
        "/v1/info",
        "name, version, uptime, the configuration that runs, and the one that the next start reads",
        |_, _| Ok(Request::Info),
    ),
    get(
        "/v1/routers",
        "the routers of the process. For an isolated router, `isolated` has the user, whether the process runs, and \
            how often it was started",
        |_, _| Ok(Request::Routers),
    ),
    get(
        "/v1/elements",
        "elements: name, class, configuration, workers, handlers; `fused` is the first element of the loop that runs \
            this one",
        |_, _| Ok(Request::Elements),
    ),
    get(
        "/v1/plan",
        "the plan as text: which worker runs each element",
        |_, _| Ok(Request::Plan),
    ),
    get(
        "/v1/stats",
        "all counters, as `ashlar top --json` prints them",
        |_, _| Ok(Request::Stats),
    ),
    post(
        "/v1/turns",
        "each worker's longest turn (one pass over its tasks) since the last such request",
        |_, _| Ok(Request::Turns),
    ),
    get(
        "/v1/handlers/E.H?argument=A",
        "reads a handler; the answer is text",
        read,
    ),
    Route {
        method: "PUT",
        ..get(
            "/v1/handlers/E.H",
            "writes a handler; the body is the value, at most 64 MiB",
            write,
        )
    },
    get(
        "/v1/saved",
        "what handlers have changed, as `ashlar save` writes it",
        |_, _| Ok(Request::Saved),
    ),
    get(
        "/v1/capture?point=P&drops=E&count=N&filter=F&snaplen=N",
        "packets at connections, or drops, as pcapng. `point` may occur several times; `drops` without a value selects \
            the losses of all elements: drops except `heard` and `learned`",
        |_, arguments| Ok(Request::Capture(capture_spec(arguments)?)),
    ),
    get(
        "/v1/trace?count=N&from=E&snaplen=N&seconds=N",
        "the path of packets through the elements, each step with its time. `from` names a source and may occur \
         several times; without `from`, packets of all sources are followed",
        |_, arguments| Ok(Request::Trace(trace_spec(arguments)?)),
    ),
    get(
        "/v1/member",
        "a cluster's server that agrees with others: its clock, epoch, versions, ports, links, and the ends of its \
            certificates",
        |_, _| Ok(Request::Member),
    ),
    get(
        "/v1/events",
        "the latest 1000 events of the cluster that such a server has noticed since its start",
        |_, _| Ok(Request::Events),
    ),
    get(
        "/v1/findings",
        "what `ashlar doctor` finds on this machine for the ports that are open",
        |_, _| Ok(Request::Findings),
    ),
    post(
        "/v1/reload",
        "replaces the configuration: `{}` reads the router's own file again, `{\"text\": \"...\"}` brings another one, \
            `\"dry_run\": true` only reports the changes",
        |_, _| Ok(Request::Reload),
    ),
    post(
        "/v1/stop",
        "stops all routers and ends the process",
        |_, _| Ok(Request::Stop),
    ),
    get("/metrics", "all counts, for Prometheus", |_, _| {
        Ok(Request::Metrics)
    }),
];

impl Route {
    /// The name of a handler in a path of this kind, or an empty string; `None` for a path of another kind.
    fn handler<'p>(&self, path: &'p str) -> Option<&'p str> {
        let (own, _) = self.target.split_once('?').unwrap_or((self.target, ""));
        match own.strip_suffix("E.H") {
            Some(own) => path.strip_prefix(own),
            None => (path == own).then_some(""),
        }
    }

    /// True if the request may have this method. A client that cannot send PUT writes by POST.
    fn allows_method(&self, method: &str) -> bool {
        method == self.method || (self.method == "PUT" && method == "POST")
    }

    /// Names of the parameters.
    fn parameters(&self) -> Vec<&'static str> {
        let (_, query) = self.target.split_once('?').unwrap_or_default();
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.map(|(name, _)| name).collect()
    }
}

/// Maximum length of path and query together, in bytes.
const TARGET_MAX: usize = 64 * 1024;

/// Parses a request's method and target. Returns the named router, if any, and the request.
///
/// # Errors
///
/// The request is invalid; the message shows a correct one.
pub fn parse(
    method: &str,
    path: &str,
    query: Option<&str>,
) -> Result<(Option<String>, Request), Refusal> {
    let Some(rest) = path.strip_prefix("/v1/routers/") else {
        return Ok((None, parse_rest(method, path, query)?));
    };
    if path.len() > TARGET_MAX {
        return Err(Refusal::new(414, "the path is too long"));
    }
    let (name, rest) = rest.split_once('/').unwrap_or((rest, "info"));
    let name = decode(name)?;
    if name.is_empty() || rest == "routers" {
        return Err(unknown(path));
    }
    Ok((
        Some(name),
        parse_rest(method, &format!("/v1/{rest}"), query)?,
    ))
}

/// Path of a request for a named router, as sent to that router's own process.
pub(super) fn of_router(uri: &hyper::Uri) -> String {
    let all = uri.path_and_query().map_or("/", |all| all.as_str());
    let rest = all.strip_prefix("/v1/routers/").unwrap_or_default();
    let (_, rest) = rest.split_once('/').unwrap_or((rest, "info"));
    format!("/v1/{rest}")
}

fn parse_rest(method: &str, path: &str, query: Option<&str>) -> Result<Request, Refusal> {
    if path.len() + query.map_or(0, str::len) > TARGET_MAX {
        return Err(Refusal::new(414, "the path is too long"));
    }
    let arguments = Arguments::of(query)?;
    let mut methods = Vec::new();
    for route in ROUTES {
        let Some(handler) = route.handler(path) else {
            continue;
        };
        if route.allows_method(method) {
            arguments.allow_only(&route.parameters())?;
            return (route.make)(handler, &arguments);
        }
        methods.push(route.method);
    }
    match methods.is_empty() {
        true => Err(unknown(path)),
        false => Err(method_refused(method, &methods.join(" and "))),
    }
}

fn capture_spec(arguments: &Arguments) -> Result<capture::Spec, Refusal> {
    let drops = arguments.get("drops");
    let spec = capture::Spec {
        points: arguments.all("point"),
        drops: drops.map(|element| (!element.is_empty()).then(|| element.to_owned())),
        count: arguments.number("count", 1..=u64::MAX)?,
        filter: arguments.get("filter").unwrap_or_default().to_owned(),
        snap: arguments.number("snaplen", 0..=65_535)?.unwrap_or(65_535) as usize,
    };
    if spec.points.is_empty() && spec.drops.is_none() {
        return Err(Refusal::new(400, "say where: `point` or `drops`"));
    }
    if spec.points.len() > 16 {
        return Err(Refusal::new(400, "at most 16 points are taken"));
    }
    Ok(spec)
}

fn trace_spec(arguments: &Arguments) -> Result<trace::Spec, Refusal> {
    let most = u64::from(trace::COUNT_MAX);
    Ok(trace::Spec {
        count: arguments.number("count", 1..=most)?.unwrap_or(1) as u16,
        sources: arguments.all("from"),
        snap: arguments.number("snaplen", 0..=2048)?.unwrap_or(64) as usize,
        time_limit: Duration::from_secs(arguments.number("seconds", 1..=60)?.unwrap_or(10)),
    })
}

fn read(handler: &str, arguments: &Arguments) -> Result<Request, Refusal> {
    let argument = arguments.get("argument").unwrap_or_default().to_owned();
    let path = handler_name(handler)?;
    Ok(Request::Read { path, argument })
}

fn write(handler: &str, _: &Arguments) -> Result<Request, Refusal> {
    let path = handler_name(handler)?;
    Ok(Request::Write { path })
}

/// Name of a handler from a path.
fn handler_name(path: &str) -> Result<String, Refusal> {
    let text = "name a handler: /v1/handlers/ELEMENT.HANDLER";
    match decode(path)? {
        name if name.is_empty() => Err(Refusal::new(400, text)),
        name => Ok(name),
    }
}

fn unknown(path: &str) -> Refusal {
    let shown: String = path.chars().take(80).filter(|c| !c.is_control()).collect();
    Refusal::new(404, format!("there is nothing at {shown}"))
}

fn method_refused(method: &str, right: &str) -> Refusal {
    let shown: String = method.chars().take(20).collect();
    Refusal::new(405, format!("{shown} is not possible here; {right} is"))
}

/// Decodes percent-encoded text.
fn decode(text: &str) -> Result<String, Refusal> {
    let text = percent_decode_str(text).decode_utf8();
    let text = text.map_err(|_| Refusal::new(400, "the path is not UTF-8"))?;
    Ok(text.into_owned())
}

/// Decoded query parameters.
struct Arguments(Vec<(String, String)>);

impl Arguments {
    fn of(query: Option<&str>) -> Result<Arguments, Refusal> {
        let pairs = query
            .unwrap_or_default()
            .split('&')
            .filter(|p| !p.is_empty());
        let decoded = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name)?, decode(&value.replace('+', " "))?))
        });
        Ok(Arguments(decoded.collect::<Result<_, Refusal>>()?))
    }

    fn get(&self, name: &str) -> Option<&str> {
        let pair = self.0.iter().find(|(n, _)| n == name);
        pair.map(|(_, value)| value.as_str())
    }

    /// All values of an argument that may occur several times.
    fn all(&self, name: &str) -> Vec<String> {
        let pairs = self.0.iter().filter(|(n, _)| n == name);
        pairs.map(|(_, value)| value.clone()).collect()
    }

    fn number(&self, name: &str, range: RangeInclusive<u64>) -> Result<Option<u64>, Refusal> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        match text.parse() {
            Ok(n) if range.contains(&n) => Ok(Some(n)),
            _ => {
                let (least, most) = (range.start(), range.end());
                let text = format!("{name} must be a number from {least} to {most}");
                Err(Refusal::new(400, text))
            }
        }
    }

    /// Refuses parameters whose names are not in `known`.
    fn allow_only(&self, known: &[&str]) -> Result<(), Refusal> {
        let strange = self
            .0
            .iter()
            .find(|(name, _)| !known.contains(&name.as_str()));
        match strange {
            None => Ok(()),
            Some((name, _)) if known.is_empty() => Err(Refusal::new(
                400,
                format!("`{name}` is not known here; nothing may follow `?`"),
            )),
            Some((name, _)) => Err(Refusal::new(
                400,
                format!("`{name}` is not known here; known are {}", known.join(", ")),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a request without a router's name.
    fn parse(method: &str, path: &str, query: Option<&str>) -> Result<Request, Refusal> {
        let (router, request) = super::parse(method, path, query)?;
        assert_eq!(router, None);
        Ok(request)
    }

    #[test]
    fn router_name_precedes_the_request_in_a_path() {
        let parse = |path| super::parse("GET", path, None);
        let of = |name: &str, request| Ok((Some(name.to_owned()), request));
        assert_eq!(parse("/v1/routers"), Ok((None, Request::Routers)));
        assert_eq!(parse("/v1/routers/red"), of("red", Request::Info));
        assert_eq!(parse("/v1/routers/a%2Fb/stats"), of("a/b", Request::Stats));
        let read = Request::Read {
            path: "c/x.count".into(),
            argument: String::new(),
        };
        assert_eq!(parse("/v1/routers/red/handlers/c/x.count"), of("red", read));
        let status = |path: &str| super::parse("GET", path, None).map_err(|r| r.status);
        for path in [
            "/v1/routers/",
            "/v1/routers//info",
            "/v1/routers/a/routers",
            "/v1/routers/a/b",
        ] {
            assert_eq!(status(path), Err(404), "{path}");
        }
        assert_eq!(status("/v1/routers/a/stop"), Err(405));
        assert_eq!(
            status(&format!("/v1/routers/{}", "a".repeat(70_000))),
            Err(414)
        );
    }

    #[test]
    fn request_to_an_isolated_process_omits_the_routers_name() {
        for (asked, right) in [
            ("/v1/routers/red", "/v1/info"),
            ("/v1/routers/red/stats", "/v1/stats"),
            (
                "/v1/routers/red/handlers/a%2Fb.c?argument=1%2F2",
                "/v1/handlers/a%2Fb.c?argument=1%2F2",
            ),
        ] {
            assert_eq!(of_router(&asked.parse().unwrap()), right);
        }
    }

    #[test]
    fn names_of_compound_elements_and_arguments_are_decoded() {
        let read = parse(
            "GET",
            "/v1/handlers/a%2Fq@1.length",
            Some("argument=1+%2B1"),
        );
        let right = Request::Read {
            path: "a/q@1.length".into(),
            argument: "1 +1".into(),
        };
        assert_eq!(read, Ok(right));
        assert_eq!(
            parse("PUT", "/v1/handlers/a/q@1.reset", None),
            Ok(Request::Write {
                path: "a/q@1.reset".into()
            })
        );
    }

    #[test]
    fn a_capture_says_where_and_how_much() {
        let query = "point=a+-%3E+b&point=%5B0%5Dq&drops&count=5&filter=udp+port+53&snaplen=96";
        let right = capture::Spec {
            points: vec!["a -> b".into(), "[0]q".into()],
            drops: Some(None),
            count: Some(5),
            filter: "udp port 53".into(),
            snap: 96,
        };
        assert_eq!(
            parse("GET", "/v1/capture", Some(query)),
            Ok(Request::Capture(right))
        );
    }

    /// A request of each kind, with its path.
    fn each() -> impl Iterator<Item = (&'static Route, String, Request)> {
        ROUTES.iter().map(|route| {
            let (path, _) = route.target.split_once('?').unwrap_or((route.target, ""));
            let path = path.replace("E.H", "a.b");
            let query = path.ends_with("capture").then_some("drops");
            let request = parse(route.method, &path, query).unwrap();
            (route, path, request)
        })
    }

    #[test]
    fn only_captures_and_traces_take_longer_than_other_requests() {
        for (_, path, request) in each() {
            let right = match &*path {
                "/v1/capture" => Answer::Endless,
                "/v1/trace" => Answer::Long,
                _ => Answer::Short,
            };
            assert_eq!(request.answer_kind(), right, "{path}");
        }
    }

    #[test]
    fn members_of_a_cluster_read_counts_and_packets_and_change_nothing() {
        let mut read = Vec::new();
        for (route, path, request) in each() {
            if request.is_for_members() {
                assert_eq!(route.method, "GET");
                read.push(path);
            }
        }
        let right = [
            "info", "stats", "capture", "trace", "member", "events", "findings",
        ];
        let right = right.map(|name| format!("/v1/{name}"));
        assert_eq!(read[..7], right);
        assert_eq!(read[7..], ["/metrics"]);
    }

    #[test]
    fn a_wrong_request_is_refused_with_a_sentence() {
        let status = |method, path, query| parse(method, path, query).map_err(|r| r.status);
        assert_eq!(status("GET", "/v2/info", None), Err(404));
        assert_eq!(status("GET", "/v1/nothing", None), Err(404));
        assert_eq!(status("DELETE", "/v1/info", None), Err(405));
        assert_eq!(status("GET", "/v1/stop", None), Err(405));
        assert_eq!(status("GET", "/v1/info", Some("a=b")), Err(400));
        assert_eq!(
            status("PUT", "/v1/handlers/a.b", Some("argument=1")),
            Err(400)
        );
        assert_eq!(status("GET", "/v1/handlers/%ff.x", None), Err(400));
        assert_eq!(status("GET", "/v1/capture", None), Err(400));
        assert_eq!(
            status("GET", "/v1/capture", Some("point=a&count=0")),
            Err(400)
        );
        assert_eq!(status("GET", "/v1/trace", Some("count=501")), Err(400));
        assert_eq!(status("PUT", "/metrics", None), Err(405));
        assert_eq!(status("GET", "/v1/handlers/", None), Err(400));
        assert_eq!(status("GET", &"/v1/".repeat(40_000), None), Err(414));
    }
}
