//! What a client may ask: a pure function from method, path and query, so that it can be fuzzed.

use super::Refusal;
use percent_encoding::percent_decode_str;

/// A request that makes sense. What it names may still not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// `GET /v1/info`: about the process.
    Info,
    /// `GET /v1/elements`: elements and handlers.
    Elements,
    /// `GET /v1/plan`: the plan as text.
    Plan,
    /// `GET /v1/stats`: all counts.
    Stats,
    /// `GET /v1/handlers/ELEMENT.HANDLER?argument=TEXT`: reads a handler.
    Read {
        /// Element and handler.
        path: String,
        /// What follows the handler's name.
        argument: String,
    },
    /// `PUT /v1/handlers/ELEMENT.HANDLER` with the value as body: writes a handler.
    Write {
        /// Element and handler.
        path: String,
    },
    /// `POST /v1/reload` with a [`ReloadRequest`](crate::view::ReloadRequest).
    Reload,
    /// `POST /v1/stop`: ends the router.
    Stop,
}

/// Longest path and query, together, in bytes.
const TARGET_MAX: usize = 64 * 1024;

/// Reads a request's first line. A refusal says what would be right.
pub fn parse(method: &str, path: &str, query: Option<&str>) -> Result<Request, Refusal> {
    if path.len() + query.map_or(0, str::len) > TARGET_MAX {
        return Err(Refusal::new(414, "the path is too long"));
    }
    let arguments = Arguments::of(query)?;
    let Some(rest) = path.strip_prefix("/v1/") else {
        return Err(unknown(path));
    };
    let (request, known): (Request, &[&str]) = match (method, rest) {
        ("GET", "info") => (Request::Info, &[]),
        ("GET", "elements") => (Request::Elements, &[]),
        ("GET", "plan") => (Request::Plan, &[]),
        ("GET", "stats") => (Request::Stats, &[]),
        ("POST", "reload") => (Request::Reload, &[]),
        ("POST", "stop") => (Request::Stop, &[]),
        (_, "info" | "elements" | "plan" | "stats") => return Err(method_refused(method, "GET")),
        (_, "reload" | "stop") => return Err(method_refused(method, "POST")),
        (method, rest) => match rest.strip_prefix("handlers/") {
            Some(handler) => return handler_request(method, handler, &arguments),
            None => return Err(unknown(path)),
        },
    };
    arguments.only(known)?;
    Ok(request)
}

fn handler_request(method: &str, path: &str, arguments: &Arguments) -> Result<Request, Refusal> {
    let path = decode(path)?;
    if path.is_empty() {
        return Err(Refusal::new(
            400,
            "name a handler: /v1/handlers/ELEMENT.HANDLER",
        ));
    }
    match method {
        "GET" => {
            arguments.only(&["argument"])?;
            let argument = arguments.get("argument").unwrap_or_default().to_owned();
            Ok(Request::Read { path, argument })
        }
        "PUT" | "POST" => {
            arguments.only(&[])?;
            Ok(Request::Write { path })
        }
        _ => Err(method_refused(method, "GET and PUT")),
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

/// Decodes `%41` and the like.
fn decode(text: &str) -> Result<String, Refusal> {
    let text = percent_decode_str(text).decode_utf8();
    let text = text.map_err(|_| Refusal::new(400, "the path is not UTF-8"))?;
    Ok(text.into_owned())
}

/// A query, decoded.
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

    /// Refuses names that are not known here.
    fn only(&self, known: &[&str]) -> Result<(), Refusal> {
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
    fn a_wrong_request_is_refused_with_a_sentence() {
        let status = |method, path, query| parse(method, path, query).map_err(|r| r.status);
        assert_eq!(status("GET", "/v2/info", None), Err(404));
        assert_eq!(status("GET", "/v1/nothing", None), Err(404));
        assert_eq!(status("DELETE", "/v1/info", None), Err(405));
        assert_eq!(status("GET", "/v1/stop", None), Err(405));
        assert_eq!(status("GET", "/v1/info", Some("a=b")), Err(400));
        assert_eq!(status("GET", "/v1/handlers/%ff.x", None), Err(400));
        assert_eq!(status("GET", "/v1/handlers/", None), Err(400));
        assert_eq!(status("GET", &"/v1/".repeat(40_000), None), Err(414));
    }
}
