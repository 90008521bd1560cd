//! etcd as the store on which servers agree: its JSON interface over mutual TLS.
//!
//! etcd's gRPC gateway offers the whole interface as JSON over HTTP, so hyper, which serves the API, is enough. Every
//! request has a connection of its own and a time limit, and begins at the member that answered last. A write is never
//! repeated here, because nobody knows whether it was done: the agent reads again and decides anew.

use agree::records::EPOCH;
use agree::store::{Answer, Entry, Event, Request, Revision, Store, Unwatched, Write};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustix::net::sockopt;
use serde_json::{Value, json};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// Time limits for a connection to one member, and for its answer.
const CONNECT: Duration = Duration::from_millis(1000);
const ANSWER: Duration = Duration::from_millis(2500);
/// Pause between attempts of a watch, and the time of vain attempts after which it is lost.
const AGAIN: Duration = Duration::from_millis(300);
const LOST: Duration = Duration::from_secs(10);
/// Silence after which a member's machine is asked whether it lives, and time limit for its answer.
const SILENT: Duration = Duration::from_secs(1);
/// Maximum length of an answer, and of one report of a watch, in bytes.
const LONGEST: usize = 16 << 20;

/// The members of an etcd, as one client sees them.
pub(super) struct Etcd {
    /// Addresses of members, `HOST:PORT`.
    members: Vec<String>,
    tls: Arc<ClientConfig>,
    /// Beginning of all keys of the cluster.
    prefix: String,
    /// Member that answered last.
    last: AtomicUsize,
    /// Each renewal that waits for an answer holds a clone.
    renewals: Arc<()>,
}

/// A connection that is closed with its last use.
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Etcd {
    /// Client of the members at these addresses, each `HOST:PORT`, for one cluster.
    pub(super) fn new(members: Vec<String>, tls: ClientConfig, cluster: &str) -> Etcd {
        Etcd {
            members,
            tls: Arc::new(tls),
            prefix: format!("/ashlar/{cluster}/"),
            last: AtomicUsize::new(0),
            renewals: Arc::new(()),
        }
    }

    /// Answer to a request other than a watch. The error is a sentence.
    pub(super) async fn answer(&self, request: &Request) -> Result<Answer, String> {
        let unexpected = || "etcd gave an answer that cannot be read".to_owned();
        match request {
            Request::Read => {
                let reply = self.call("/v3/kv/range", &self.all()).await?;
                let revision = number(&reply["header"]["revision"]).ok_or_else(unexpected)?;
                let entries = reply["kvs"].as_array().into_iter().flatten();
                let entries = entries.map(|kv| self.entry(kv, true));
                let entries: Option<Vec<Entry>> = entries.collect();
                Ok(Answer::All(revision, entries.ok_or_else(unexpected)?))
            }
            Request::Write(write) => {
                let reply = match self.call("/v3/kv/txn", &self.transaction(write)).await {
                    Err(why) if why.contains("lease not found") => return Ok(Answer::Expired),
                    reply => reply?,
                };
                match reply["succeeded"].as_bool() {
                    Some(true) => {
                        let revision = number(&reply["header"]["revision"]);
                        Ok(Answer::Written(revision.ok_or_else(unexpected)?))
                    }
                    _ => Ok(Answer::Refused),
                }
            }
            Request::Grant(seconds) => {
                let asked = json!({"TTL": seconds.to_string()});
                let reply = self.call("/v3/lease/grant", &asked).await?;
                Ok(Answer::Granted(
                    number(&reply["ID"]).ok_or_else(unexpected)?,
                ))
            }
            Request::Renew(lease) => {
                let asked = json!({"ID": lease.to_string()});
                // A renewal whose forerunner waits for an answer begins at another member.
                let waiting = Arc::strong_count(&self.renewals) - 1;
                let _renewal = Arc::clone(&self.renewals);
                let reply = self.call_from(waiting, "/v3/lease/keepalive", &asked);
                let reply = reply.await?;
                match number(&reply["result"]["TTL"]) {
                    Some(1..) => Ok(Answer::Renewed),
                    _ => Ok(Answer::Expired),
                }
            }
            Request::Watch(_) => Err(unexpected()),
        }
    }

    /// Asks the only member of this client whether it works. The error is a sentence.
    pub(super) async fn status(&self) -> Result<(), String> {
        let reply = self.call("/v3/maintenance/status", &json!({})).await?;
        match reply["errors"].as_array().and_then(|all| all.first()) {
            Some(error) => Err(error.as_str().unwrap_or("it reports an error").to_owned()),
            None => Ok(()),
        }
    }

    /// Range of all keys of the cluster.
    fn all(&self) -> Value {
        let mut end = self.prefix.clone().into_bytes();
        // The range of keys with the prefix ends before this key: `0` follows `/` in ASCII.
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        json!({"key": BASE64.encode(&self.prefix), "range_end": BASE64.encode(end)})
    }

    fn key(&self, key: &str) -> String {
        BASE64.encode(format!("{}{key}", self.prefix))
    }

    fn transaction(&self, write: &Write) -> Value {
        let mut compare = Vec::new();
        match write.epoch {
            None => {}
            Some(0) => compare.push(self.unchanged(EPOCH, 0)),
            Some(epoch) => compare.push(json!({
                "target": "VALUE", "result": "EQUAL", "key": self.key(EPOCH), "value": BASE64.encode(epoch.to_string()),
            })),
        }
        let unchanged = write.unchanged.iter();
        compare.extend(unchanged.map(|(key, revision)| self.unchanged(key, *revision)));
        let changes = write.changes.iter().map(|change| match &change.value {
            Some(value) => json!({"request_put": {
                "key": self.key(&change.key),
                "value": BASE64.encode(value),
                "lease": change.lease.unwrap_or(0).to_string(),
            }}),
            None => json!({"request_delete_range": {"key": self.key(&change.key)}}),
        });
        json!({"compare": compare, "success": changes.collect::<Vec<_>>()})
    }

    fn unchanged(&self, key: &str, revision: Revision) -> Value {
        json!({"target": "MOD", "result": "EQUAL", "key": self.key(key), "mod_revision": revision.to_string()})
    }

    /// A key of the cluster; `None` if it cannot be read.
    fn entry(&self, kv: &Value, there: bool) -> Option<Entry> {
        let text = |field: &str| {
            let bytes = BASE64.decode(kv[field].as_str().unwrap_or_default()).ok()?;
            String::from_utf8(bytes).ok()
        };
        Some(Entry {
            key: text("key")?.strip_prefix(&self.prefix)?.to_owned(),
            value: if there { Some(text("value")?) } else { None },
            revision: number(&kv["mod_revision"])?,
            lease: number(&kv["lease"]).filter(|lease| *lease > 0),
        })
    }

    /// Asks members in turn until one answers. Only connections are tried again, never requests that were sent.
    async fn call(&self, path: &str, asked: &Value) -> Result<Value, String> {
        self.call_from(0, path, asked).await
    }

    /// Like [`Etcd::call`], but passes over this many members at first.
    async fn call_from(&self, skipped: usize, path: &str, asked: &Value) -> Result<Value, String> {
        let (body, _connection, member) = self.send(skipped, path, asked).await?;
        let whole = timeout(ANSWER, Limited::new(body, LONGEST).collect()).await;
        let bytes = match whole {
            Ok(Ok(whole)) => whole.to_bytes(),
            Ok(Err(e)) => return Err(self.failed(member, &chain(&*e))),
            Err(_) => return Err(self.failed(member, "it does not answer in time")),
        };
        // A stream has one value in each line.
        let first = bytes
            .split(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default();
        let reply: Value = serde_json::from_slice(first)
            .map_err(|_| self.failed(member, "it has no JSON interface (enable-grpc-gateway)"))?;
        match wrong(&reply) {
            Some(why) => Err(self.failed(member, &why)),
            None => Ok(reply),
        }
    }

    /// Sends a request to the first member that can be reached.
    async fn send(
        &self,
        skipped: usize,
        path: &str,
        asked: &Value,
    ) -> Result<(Incoming, Connection, usize), String> {
        let first = self.last.load(Ordering::Relaxed).wrapping_add(skipped);
        let mut failures = Vec::new();
        for step in 0..self.members.len() {
            let member = first.wrapping_add(step) % self.members.len();
            let connected = match timeout(CONNECT, self.connect(member)).await {
                Ok(connected) => connected,
                Err(_) => Err("it cannot be reached in time".to_owned()),
            };
            let (mut sender, connection) = match connected {
                Ok(connected) => connected,
                Err(why) => {
                    failures.push(format!("etcd at {}: {why}", self.members[member]));
                    continue;
                }
            };
            let request = hyper::Request::post(path)
                .header("host", &self.members[member])
                .header("content-type", "application/json")
                .body(Full::new(Bytes::from(asked.to_string())))
                .map_err(|e| e.to_string())?;
            let reply = match timeout(ANSWER, sender.send_request(request)).await {
                Ok(Ok(reply)) => reply,
                Ok(Err(e)) => return Err(self.failed(member, &chain(&e))),
                Err(_) => return Err(self.failed(member, "it does not answer in time")),
            };
            self.last.store(member, Ordering::Relaxed);
            return Ok((reply.into_body(), connection, member));
        }
        Err(failures.join("; "))
    }

    /// Message about a member that failed. The next request begins at another one.
    fn failed(&self, member: usize, why: &str) -> String {
        self.last.store(member + 1, Ordering::Relaxed);
        format!("etcd at {}: {why}", self.members[member])
    }

    async fn connect(
        &self,
        member: usize,
    ) -> Result<
        (
            hyper::client::conn::http1::SendRequest<Full<Bytes>>,
            Connection,
        ),
        String,
    > {
        let address = &self.members[member];
        let host = address
            .rsplit_once(':')
            .map_or(&**address, |(host, _)| host);
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let name = ServerName::try_from(host).map_err(|e| e.to_string())?;
        let stream = TcpStream::connect(address).await.map_err(|e| chain(&e))?;
        end_when_silent(&stream, SILENT).map_err(|e| chain(&e))?;
        let tls = TlsConnector::from(Arc::clone(&self.tls));
        let stream = tls.connect(name, stream).await.map_err(|e| chain(&e))?;
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|e| chain(&e))?;
        let connection = Connection(tokio::spawn(async {
            // An error shows at the request, too.
            let _ = connection.await;
        }));
        Ok((sender, connection))
    }

    /// Reports changes after a revision until the receiver is dropped, resuming after the last change when a member
    /// fails.
    async fn watch(&self, number: u64, mut after: Revision, events: UnboundedSender<Event>) {
        let mut reached = Instant::now();
        let why = loop {
            let ended = self.stream(number, &mut after, &mut reached, &events).await;
            if events.is_closed() {
                return;
            }
            if ended == Some(Unwatched::Compacted) {
                break Unwatched::Compacted;
            }
            if reached.elapsed() > LOST {
                break Unwatched::Lost;
            }
            self.last.fetch_add(1, Ordering::Relaxed);
            sleep(AGAIN).await;
        };
        let _ = events.send(Event::Unwatched(number, why));
    }

    /// One connection of a watch; the reason if etcd ended it.
    async fn stream(
        &self,
        number: u64,
        after: &mut Revision,
        reached: &mut Instant,
        events: &UnboundedSender<Event>,
    ) -> Option<Unwatched> {
        let mut range = self.all();
        range["start_revision"] = (*after + 1).to_string().into();
        let asked = json!({"create_request": range});
        let (mut body, _connection, _) = self.send(0, "/v3/watch", &asked).await.ok()?;
        let mut line = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.ok()?;
            let data = frame.data_ref().map_or(&[][..], |data| &data[..]);
            for piece in data.split_inclusive(|byte| *byte == b'\n') {
                line.extend_from_slice(piece);
                if line.len() > LONGEST {
                    return None;
                }
                if !line.ends_with(b"\n") {
                    continue;
                }
                let reply: Value = serde_json::from_slice(&std::mem::take(&mut line)).ok()?;
                *reached = Instant::now();
                let reply = &reply["result"];
                if self::number(&reply["compact_revision"]).is_some_and(|revision| revision > 0) {
                    return Some(Unwatched::Compacted);
                }
                if reply["canceled"].as_bool() == Some(true) || reply.is_null() {
                    return Some(Unwatched::Lost);
                }
                let changes = reply["events"].as_array().into_iter().flatten();
                let changes =
                    changes.map(|event| self.entry(&event["kv"], event["type"] != "DELETE"));
                let changes: Vec<Entry> = changes.collect::<Option<_>>()?;
                if let Some(last) = changes.last() {
                    *after = last.revision;
                    events.send(Event::Changed(number, *after, changes)).ok()?;
                }
            }
        }
        None
    }
}

/// Has a connection end within twice the time after its peer's machine has gone, also if nothing is to be sent: a watch
/// only listens.
pub(crate) fn end_when_silent(stream: &TcpStream, time: Duration) -> std::io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, time)?;
    sockopt::set_tcp_keepintvl(stream, time)?;
    sockopt::set_tcp_keepcnt(stream, 1)?;
    Ok(())
}

/// Message of an error in an answer.
fn wrong(reply: &Value) -> Option<String> {
    let error = reply.get("error")?;
    let text = error.as_str().or_else(|| error["message"].as_str());
    Some(
        text.unwrap_or("it gives an error without a text")
            .to_owned(),
    )
}

/// Number in etcd's JSON, which writes 64 bits as text.
fn number(value: &Value) -> Option<u64> {
    value
        .as_str()
        .map_or_else(|| value.as_u64(), |text| text.parse().ok())
}

/// Innermost reason of an error, in words if it is about certificates.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut inner = error;
    loop {
        // An I/O error shows its own source as itself.
        let io = inner
            .downcast_ref::<std::io::Error>()
            .and_then(|e| e.get_ref());
        inner = match (io, inner.source()) {
            (Some(io), _) => io,
            (None, Some(source)) => source,
            (None, None) => break,
        };
    }
    let text = inner.to_string();
    if text.contains("invalid peer certificate") {
        return format!("its certificate is not of this cluster ({text})");
    }
    if text.contains("close_notify") {
        return "it has closed the connection".to_owned();
    }
    if text.contains("fatal alert") {
        return format!(
            "it refuses the certificate that it was shown, or that none was shown ({text})"
        );
    }
    text
}

/// Connection of a server to etcd.
pub(super) struct Line {
    etcd: Arc<Etcd>,
    sender: UnboundedSender<Event>,
    events: UnboundedReceiver<Event>,
    watch: Option<Connection>,
}

impl Line {
    /// A new line. Use it within tokio's runtime.
    pub(super) fn new(etcd: Arc<Etcd>) -> Line {
        let (sender, events) = unbounded_channel();
        Line {
            etcd,
            sender,
            events,
            watch: None,
        }
    }

    /// Waits for the next event.
    pub(super) async fn heard(&mut self) -> Option<Event> {
        self.events.recv().await
    }
}

impl Store for Line {
    fn ask(&mut self, number: u64, request: Request) {
        let (etcd, sender) = (Arc::clone(&self.etcd), self.sender.clone());
        if let Request::Watch(after) = request {
            let watch = async move { etcd.watch(number, after, sender).await };
            self.watch = Some(Connection(tokio::spawn(watch)));
            return;
        }
        tokio::spawn(async move {
            let answer = etcd.answer(&request).await;
            // Nobody listens when the process ends.
            let _ = sender.send(Event::Answered(number, answer));
        });
    }

    fn next(&mut self) -> Option<Event> {
        self.events.try_recv().ok()
    }
}

#[cfg(test)]
#[path = "etcd_tests.rs"]
mod tests;
