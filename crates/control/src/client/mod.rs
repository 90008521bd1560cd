//! The other end of the API, for the program's subcommands: blocking calls, one connection each.

pub mod cluster;
mod servers;

pub use servers::{Answers, Servers};

use crate::agreement::chain;
use crate::view::{self, Wrong};
use arguments::show::reason;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};
use serde::de::DeserializeOwned;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tokio_rustls::rustls::ClientConfig;

/// Time limit for a process to end.
const END_MAX: Duration = Duration::from_secs(30);
/// Time limits for another server of a cluster: for a whole answer, besides what the router may take for it, and for
/// one without end to begin.
const ANSWER_TIME: Duration = Duration::from_secs(10);
const BEGIN_MAX: Duration = Duration::from_secs(75);
/// Maximum length of another server's answer, and of a router's reason for a refusal, in bytes.
const ANSWER_MAX: usize = 64 << 20;
const REFUSAL_MAX: usize = 1 << 20;

/// A client of one process, or of one router of it.
#[derive(Clone)]
pub struct Client {
    place: Place,
    router: Option<String>,
}

/// Place at which a router answers.
#[derive(Clone)]
enum Place {
    /// A socket of this machine.
    Socket(PathBuf),
    /// Another server of the cluster, over mutual TLS.
    Server(SocketAddr, Arc<ClientConfig>),
}

/// Percent-encodes text for a path or query.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

impl Client {
    /// A client of the process that listens at `socket`. With a name, all requests are about that router.
    pub fn new(socket: &Path, router: Option<&str>) -> Client {
        Client {
            place: Place::Socket(socket.to_owned()),
            router: router.map(str::to_owned),
        }
    }

    /// A client of a cluster's server, which answers only what changes nothing.
    pub(crate) fn of_server(at: SocketAddr, tls: Arc<ClientConfig>) -> Client {
        Client {
            place: Place::Server(at, tls),
            router: None,
        }
    }

    /// True if the client asks about one router of several, by name.
    pub fn names_router(&self) -> bool {
        self.router.is_some()
    }

    /// Path of a request, with the router's name.
    fn target(&self, target: &str) -> String {
        match (&self.router, target.strip_prefix("/v1/")) {
            (Some(router), Some(rest)) => format!("/v1/routers/{}/{rest}", encode(router)),
            _ => target.to_owned(),
        }
    }

    /// Sends a GET, and returns the answer. Errors are sentences.
    pub fn get(&self, target: &str) -> Result<Bytes, String> {
        self.call(Method::GET, target, Vec::new())
    }

    /// The answer to a GET for which the router may take this time, besides what an answer may take anyway. Errors are
    /// sentences.
    pub fn get_within(&self, target: &str, time: Duration) -> Result<Bytes, String> {
        self.call_within(Method::GET, target, Vec::new(), time)
    }

    /// The answer to a GET, as JSON.
    pub fn get_json<T: DeserializeOwned>(&self, target: &str) -> Result<T, String> {
        parse(&self.get(target)?)
    }

    /// Sends a value, and returns the answer.
    pub fn put(&self, target: &str, value: Vec<u8>) -> Result<Bytes, String> {
        self.call(Method::PUT, target, value)
    }

    /// Requests an action; returns the answer.
    pub fn post(&self, target: &str, value: Vec<u8>) -> Result<Bytes, String> {
        self.call(Method::POST, target, value)
    }

    /// Ends the process, or the router, and waits until its ports are free: the process has ended then, or it has taken
    /// down the router. The error is a sentence.
    pub fn stop(&self) -> Result<(), String> {
        let process = self.process();
        let all = Client {
            router: None,
            ..self.clone()
        };
        // Without the list, there is one router.
        let routers = all.get_json::<Vec<view::Router>>("/v1/routers");
        let stays = self.names_router() && routers.is_ok_and(|routers| routers.len() > 1);
        self.post("/v1/stop", Vec::new())?;
        let Some(process) = process.filter(|_| !stays) else {
            return Ok(());
        };
        let mut waited = [PollFd::new(&process, PollFlags::IN)];
        let limit = Timespec::try_from(END_MAX).ok();
        match poll(&mut waited, limit.as_ref()) {
            Ok(0) => Err(format!(
                "the router was told to end, and has not ended within {} s",
                END_MAX.as_secs()
            )),
            _ => Ok(()),
        }
    }

    /// Descriptor (pidfd) of the process that listens at the socket, if this process may access it.
    fn process(&self) -> Option<OwnedFd> {
        let Place::Socket(socket) = &self.place else {
            return None;
        };
        let stream = std::os::unix::net::UnixStream::connect(socket).ok()?;
        let peer = rustix::net::sockopt::socket_peercred(&stream).ok()?;
        pidfd_open(peer.pid, PidfdFlags::empty()).ok()
    }

    fn call(&self, method: Method, target: &str, value: Vec<u8>) -> Result<Bytes, String> {
        self.call_within(method, target, value, Duration::ZERO)
    }

    fn call_within(
        &self,
        method: Method,
        target: &str,
        value: Vec<u8>,
        time: Duration,
    ) -> Result<Bytes, String> {
        let (mut all, mut fits) = (Vec::new(), true);
        let (most, time) = match self.place {
            Place::Socket(_) => (usize::MAX, None),
            Place::Server(..) => (ANSWER_MAX, Some(ANSWER_TIME + time)),
        };
        let mut take = |bytes: &[u8]| {
            fits = all.len() + bytes.len() <= most;
            if fits {
                all.extend_from_slice(bytes);
            }
            fits
        };
        let request = request(method, &self.target(target), value)?;
        runtime()?.block_on(async {
            let answered = self.stream(request, &mut take);
            match time {
                None => answered.await,
                Some(time) => timeout(time, answered)
                    .await
                    .unwrap_or_else(|_| Err(format!("no answer within {} s", time.as_secs()))),
            }
        })?;
        match fits {
            true => Ok(all.into()),
            false => Err(format!("the answer is longer than {} MiB", most >> 20)),
        }
    }

    /// Sends a GET, and passes the answer to `take` chunk by chunk, until `take` returns false, the answer ends, or
    /// SIGINT or SIGTERM arrives.
    pub fn follow(&self, target: &str, take: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), String> {
        let runtime = runtime()?;
        let request = request(Method::GET, &self.target(target), Vec::new())?;
        runtime.block_on(async {
            let on = |kind| signal(kind).map_err(|e| e.to_string());
            let mut interrupt = on(SignalKind::interrupt())?;
            let mut terminate = on(SignalKind::terminate())?;
            tokio::select! {
                done = self.stream(request, take) => done,
                _ = interrupt.recv() => Ok(()),
                _ = terminate.recv() => Ok(()),
            }
        })
    }

    async fn stream(
        &self,
        request: Request<Full<Bytes>>,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), String> {
        let (reply, _connection) = self.send(request).await?;
        let good = reply.status().is_success();
        let mut body = reply.into_body();
        let mut wrong = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|e| format!("the router broke off: {e}"))?;
            let Some(data) = frame.data_ref() else {
                continue;
            };
            if !good {
                if wrong.len() + data.len() > REFUSAL_MAX {
                    return Err("the router refuses it without a reason".to_owned());
                }
                wrong.extend_from_slice(data);
            } else if !take(data) {
                break;
            }
        }
        if good {
            Ok(())
        } else {
            Err(parse::<Wrong>(&wrong)?.error)
        }
    }

    async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Running), String> {
        match &self.place {
            Place::Socket(socket) => {
                let shown = socket.display();
                let stream = UnixStream::connect(socket).await;
                let stream = stream.map_err(|e| match e.kind() {
                    std::io::ErrorKind::NotFound => {
                        format!("no router answers at {shown}: no program listens there")
                    }
                    _ => format!("no router answers at {shown}: {}", reason(&e)),
                })?;
                exchange(stream, request)
                    .await
                    .map_err(|e| format!("the router at {shown} does not answer: {e}"))
            }
            Place::Server(at, tls) => {
                let failed = |why: String| format!("no answer from {at}: {why}");
                let stream = servers::connect(*at, tls).await.map_err(failed)?;
                let exchanged = timeout(BEGIN_MAX, exchange(stream, request)).await;
                exchanged
                    .map_err(|_| failed("it does not begin in time".to_owned()))?
                    .map_err(|e| failed(chain(&e)))
            }
        }
    }
}

/// Sends a request over a connection. Returns the answer's head, and the connection.
async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<(Response<Incoming>, Running), hyper::Error> {
    let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken?;
    let running = Running(tokio::spawn(async {
        // An error shows at the request, too.
        let _ = connection.await;
    }));
    let reply = sender.send_request(request).await?;
    Ok((reply, running))
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let builder = builder.enable_io().enable_time();
    builder.build().map_err(|e| e.to_string())
}

fn request(method: Method, target: &str, value: Vec<u8>) -> Result<Request<Full<Bytes>>, String> {
    Request::builder()
        .method(method)
        .uri(target)
        .header("host", "ashlar")
        .body(Full::new(Bytes::from(value)))
        .map_err(|e| format!("this cannot be asked: {e}"))
}

/// A connection that is closed with its last use.
struct Running(tokio::task::JoinHandle<()>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|e| format!("cannot read the router's answer: {e}"))
}
