//! The API: HTTP/1.1 and JSON over the router's UNIX socket; over TCP only `/metrics`; for members of the cluster, over
//! mutual TLS, all that changes nothing.
//!
//! [`request::ROUTES`] lists the requests; docs/api.md is generated from it. [`crate::view`] has the shapes of answers.
//!
//! With `/v1/routers/NAME/` in place of `/v1/`, a request is about the router NAME: the answers have the same form,
//! with that router's counters. `info` describes the router, `reload` replaces its configuration, `stop` ends it alone.
//! Without a name, the request is about the only router. If there are several, `info`, `stop` and `/metrics` (with a
//! label `router`) cover the whole process, and `reload` reads the file that describes them.
//!
//! Errors are 4xx or 5xx with `{"error": "a sentence"}`. Requests that wait for workers run on blocking threads, a
//! bounded number at a time, so a slow or hostile client blocks neither the workers nor other clients. TCP clients are
//! not authenticated, so they have separate limits of connections and threads, one request each, and a short timeout. A
//! client that reads nothing of an answer for half a minute is disconnected. A body is accepted only if memory for all
//! of it can be reserved.

mod filter;
mod members;
mod reply;
pub mod request;
mod timed_stream;

use crate::compile::describe::describe;
use crate::isolated::remote::{self, Answer, RemoteAddress};
use crate::process::Process;
use crate::running::{Control, capture, trace};
use crate::view::{self, Failure};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use reply::{CAPTURE, JSON, Reply, TEXT, json, refused, stream, text};
use request::Request;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use timed_stream::TimedStream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Reason why a request was refused: an HTTP status and a message.
pub type Refusal = Failure;

/// Maximum length of a handler's value in bytes, enough for a million routes.
const BODY_MAX: usize = 64 << 20;
/// Memory limit for the bodies of all requests together, in bytes.
const BODIES_MAX: usize = 2 * BODY_MAX;
/// Unit in which the memory of bodies is counted, in bytes.
const BODY_UNIT_BYTES: usize = 1024;
/// Timeout for a client to send its request, and to read a part of its answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay after a failed accept, which is most likely caused by a lack of descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Maximum number of connected clients; further clients wait.
const CLIENTS_MAX: usize = 64;
/// Maximum number of concurrent requests that wait for workers.
const WAITING_REQUESTS_MAX: usize = 8;
/// Maximum number of TCP clients, and maximum number of these that wait for workers.
const FETCHING_MAX: usize = 32;
const FETCHED_MAX: usize = 2;
/// Timeout for the complete request of a TCP client.
const METRICS_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of concurrent captures and traces.
const CAPTURES_MAX: usize = 4;
/// Maximum number of chunks of a capture that are queued for a slow client.
const QUEUED_CHUNKS_MAX: usize = 16;

/// API of a process, for one kind of clients.
#[derive(Clone)]
pub(crate) struct Api {
    process: Arc<Process>,
    clients: Arc<Semaphore>,
    working: Arc<Semaphore>,
    watching: Arc<Semaphore>,
    reloading: Arc<Semaphore>,
    /// Free memory for request bodies, in units of `BODY_UNIT_BYTES`.
    room: Arc<Semaphore>,
    serves: Serves,
    /// Seconds that the present connection may take beyond the usual time limit, if it has one.
    extended: Option<Arc<AtomicU64>>,
}

/// Requests that clients may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Serves {
    /// All.
    Everything,
    /// Requests of [`Request::is_for_members`], about the only router.
    Members,
    /// `/metrics`.
    Metrics,
}

impl Serves {
    /// Refuses requests that these clients may not send.
    fn admit(self, router: Option<&str>, wanted: &Request) -> Result<(), Refusal> {
        let text = match self {
            Serves::Everything => return Ok(()),
            Serves::Members if router.is_none() && wanted.is_for_members() => {
                return match wanted {
                    Request::Capture(spec) => filter::check(&spec.filter),
                    _ => Ok(()),
                };
            }
            Serves::Members => {
                "other servers of the cluster may read counts and packets here, and change nothing: use the router's \
                 own socket, on its machine"
            }
            Serves::Metrics if *wanted == Request::Metrics => return Ok(()),
            Serves::Metrics => "only /metrics is served here",
        };
        Err(Refusal::new(403, text))
    }
}

impl Api {
    /// The full API.
    pub(crate) fn new(process: Arc<Process>) -> Api {
        Api::with_places(process, CLIENTS_MAX, WAITING_REQUESTS_MAX)
    }

    /// API for metrics only. Its clients have separate limits.
    pub(crate) fn of_metrics(process: Arc<Process>) -> Api {
        Api {
            serves: Serves::Metrics,
            ..Api::with_places(process, FETCHING_MAX, FETCHED_MAX)
        }
    }

    fn with_places(process: Arc<Process>, clients: usize, working: usize) -> Api {
        Api {
            process,
            clients: Arc::new(Semaphore::new(clients)),
            working: Arc::new(Semaphore::new(working)),
            watching: Arc::new(Semaphore::new(CAPTURES_MAX)),
            reloading: Arc::new(Semaphore::new(1)),
            room: Arc::new(Semaphore::new(BODIES_MAX / BODY_UNIT_BYTES)),
            serves: Serves::Everything,
            extended: None,
        }
    }

    /// Serves clients of a TCP socket, one request per connection, within `METRICS_TIMEOUT`. Never returns.
    pub(crate) async fn serve_tcp(self, listener: tokio::net::TcpListener) -> Infallible {
        loop {
            let slot = self.acquire_slot().await;
            match listener.accept().await {
                Ok((stream, _)) => {
                    let api = self.clone();
                    tokio::spawn(async move {
                        let answered = api.connection(stream, false);
                        // A slow client is abandoned.
                        let _ = tokio::time::timeout(METRICS_TIMEOUT, answered).await;
                        drop(slot);
                    });
                }
                Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
            }
        }
    }

    /// Serves clients of a UNIX socket. Never returns.
    pub(crate) async fn serve(self, listener: tokio::net::UnixListener) -> Infallible {
        loop {
            let slot = self.acquire_slot().await;
            match listener.accept().await {
                Ok((stream, _)) => {
                    let api = self.clone();
                    tokio::spawn(async move {
                        api.connection(TimedStream::new(stream), true).await;
                        drop(slot);
                    });
                }
                Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
            }
        }
    }

    /// Waits for a free client slot.
    async fn acquire_slot(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed.
        Arc::clone(&self.clients).acquire_owned().await.ok()
    }

    async fn connection(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        keep_alive: bool,
    ) {
        let service = service_fn(|request| async {
            Ok::<_, Infallible>(self.answer(request).await.unwrap_or_else(|e| refused(&e)))
        });
        // An error of a connection concerns only its client.
        let _ = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(CLIENT_TIMEOUT)
            .keep_alive(keep_alive)
            .serve_connection(TokioIo::new(stream), service)
            .await;
    }

    async fn answer(&self, request: hyper::Request<Incoming>) -> Result<Reply, Refusal> {
        let uri = request.uri();
        let (name, wanted) = request::parse(request.method().as_str(), uri.path(), uri.query())?;
        self.serves.admit(name.as_deref(), &wanted)?;
        if let Some(extended) = &self.extended {
            extended.store(members::extension(&wanted), Ordering::Relaxed);
        }
        // Requests about the process itself.
        match (&name, &wanted) {
            (None, Request::Metrics) => return self.run_blocking(|p| Ok(text(p.metrics()?))).await,
            (None, Request::Info) => return self.run_blocking(|p| json(&p.info())).await,
            (None, Request::Member) => return self.run_blocking(|p| json(&p.member()?)).await,
            (None, Request::Events) => return self.run_blocking(|p| json(&p.events())).await,
            (None, Request::Findings) => return self.run_blocking(|p| json(&p.findings())).await,
            (None, Request::Routers) => {
                return self.run_blocking(|p| json(&p.list_routers()?)).await;
            }
            (None, Request::Stop) => {
                self.process.stop();
                return Ok(text("stopping\n".to_owned()));
            }
            (_, Request::Reload) => {
                let (body, room) = self.body(request).await?;
                let asked: view::ReloadRequest = serde_json::from_slice(&body)
                    .map_err(|e| Refusal::new(400, format!("this is no reload request: {e}")))?;
                let run = move |p: &Process| {
                    let reply = json(&p.reload_here(name.as_deref(), &asked)?);
                    drop(room);
                    reply
                };
                // Reloads are serialised; waiting ones block no other requests.
                return self.run_in_slot(&self.reloading, run).await;
            }
            (Some(name), Request::Stop) => {
                let name = name.clone();
                let run = move |p: &Process| {
                    p.stop_router(&name)?;
                    Ok(text("stopping\n".to_owned()))
                };
                return self.run_blocking(run).await;
            }
            _ => {}
        }
        let isolated = &self.process.isolated;
        if let Some((name, slot)) = name
            .as_deref()
            .and_then(|name| Some((name, isolated.remote_address(name)?)))
        {
            let pieces = self.hand_on(&slot, request, &wanted).await?;
            if wanted == Request::Info {
                let mut info = info_of(pieces).await?;
                // Clients write to this file, so the path must not come from the isolated router.
                info.saved = isolated.saved(name);
                return json(&info);
            }
            return Ok(stream(kind_of(&wanted), pieces));
        }
        let gate = name
            .as_deref()
            .and_then(|name| self.process.isolated.of_gate(name));
        let router = self.process.router(gate.as_deref().or(name.as_deref()))?;
        match wanted {
            Request::Capture(spec) => self.capture(router, spec).await,
            Request::Trace(spec) => {
                let slot = self.watch()?;
                let run = move |_: &Process| json(&trace::run(&router, &spec)?);
                self.blocking(slot, run).await
            }
            Request::Write { path } => {
                let (body, room) = self.body(request).await?;
                let value = String::from_utf8(body.into())
                    .map_err(|_| Refusal::new(400, "the value is not UTF-8"))?;
                let run = move |_: &Process| {
                    let answer = router.write(&path, &value)?;
                    drop((value, room));
                    Ok(text(answer))
                };
                self.run_blocking(run).await
            }
            wanted => self.run_blocking(move |_| ask(&router, wanted)).await,
        }
    }

    /// Forwards a request to an isolated router's process.
    async fn hand_on(
        &self,
        place: &RemoteAddress,
        request: hyper::Request<Incoming>,
        wanted: &Request,
    ) -> Result<mpsc::Receiver<Bytes>, Refusal> {
        let method = request.method().clone();
        let target = request::of_router(request.uri());
        let kind = wanted.answer_kind();
        // Captures and traces run a few at a time.
        let seat = (kind != Answer::Short).then(|| self.watch()).transpose()?;
        let (body, _room) = self.body(request).await?;
        place.ask(method, &target, body, kind, seat).await
    }

    /// Receives a request's body. The memory stays reserved while the body is in use.
    ///
    /// # Errors
    ///
    /// The body is too large or too slow, or the memory for bodies is in use.
    async fn body(
        &self,
        request: hyper::Request<Incoming>,
    ) -> Result<(Bytes, OwnedSemaphorePermit), Refusal> {
        let too_large = || Refusal::new(413, format!("at most {} MiB are taken", BODY_MAX >> 20));
        let body = request.into_body();
        // A body whose announced length is too large is refused before it is sent.
        if body.size_hint().lower() > BODY_MAX as u64 {
            return Err(too_large());
        }
        let most = body
            .size_hint()
            .upper()
            .and_then(|n| usize::try_from(n).ok());
        let pieces = most
            .unwrap_or(BODY_MAX)
            .min(BODY_MAX)
            .div_ceil(BODY_UNIT_BYTES);
        let room = Arc::clone(&self.room).try_acquire_many_owned(pieces as u32);
        let busy = |_| Refusal::new(503, "too many bytes of requests at once: try again");
        let room = room.map_err(busy)?;
        match tokio::time::timeout(CLIENT_TIMEOUT, Limited::new(body, BODY_MAX).collect()).await {
            Ok(Ok(body)) => Ok((body.to_bytes(), room)),
            Ok(Err(_)) => Err(too_large()),
            Err(_) => Err(Refusal::new(408, "the request came too slowly")),
        }
    }

    /// Runs a job that may wait for workers, on a blocking thread.
    async fn run_blocking(
        &self,
        run: impl FnOnce(&Process) -> Result<Reply, Refusal> + Send + 'static,
    ) -> Result<Reply, Refusal> {
        self.run_in_slot(&self.working, run).await
    }

    /// Runs a job on a blocking thread, once one of the given slots is free.
    async fn run_in_slot(
        &self,
        places: &Arc<Semaphore>,
        run: impl FnOnce(&Process) -> Result<Reply, Refusal> + Send + 'static,
    ) -> Result<Reply, Refusal> {
        let slot = Arc::clone(places).acquire_owned().await;
        let closed = |_| Refusal::new(503, "the router ends");
        self.blocking(slot.map_err(closed)?, run).await
    }

    async fn blocking(
        &self,
        place: OwnedSemaphorePermit,
        run: impl FnOnce(&Process) -> Result<Reply, Refusal> + Send + 'static,
    ) -> Result<Reply, Refusal> {
        let process = Arc::clone(&self.process);
        let done = tokio::task::spawn_blocking(move || {
            let reply = run(&process);
            drop(place);
            reply
        });
        let broken = |_| Refusal::new(500, "the request failed inside the router");
        done.await.map_err(broken)?
    }

    /// Reserves a slot for a capture or trace.
    ///
    /// # Errors
    ///
    /// All slots are in use.
    fn watch(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let busy = |_| {
            let text = format!("{CAPTURES_MAX} captures and traces run already: end one");
            Refusal::new(429, text)
        };
        Arc::clone(&self.watching).try_acquire_owned().map_err(busy)
    }

    async fn capture(&self, control: Arc<Control>, spec: capture::Spec) -> Result<Reply, Refusal> {
        let slot = self.watch()?;
        let (to, pieces) = mpsc::channel(QUEUED_CHUNKS_MAX);
        let (started, start) = tokio::sync::oneshot::channel();
        tokio::task::spawn_blocking(move || {
            match capture::Capture::start(&control, spec) {
                Err(refusal) => drop(started.send(Err(refusal))),
                Ok(capture) => {
                    drop(started.send(Ok(())));
                    capture.run(&to);
                }
            }
            drop(slot);
        });
        let broken = |_| Refusal::new(500, "the capture failed inside the router");
        start.await.map_err(broken)??;
        Ok(stream(CAPTURE, pieces))
    }
}

/// Content type of the answer to a request.
fn kind_of(wanted: &Request) -> &'static str {
    match wanted {
        Request::Capture(_) => CAPTURE,
        Request::Read { .. } | Request::Write { .. } | Request::Plan | Request::Saved => TEXT,
        _ => JSON,
    }
}

/// Parses the `info` answer of an isolated router.
async fn info_of(pieces: mpsc::Receiver<Bytes>) -> Result<view::Info, Refusal> {
    let text = remote::collect_body(pieces, remote::INFO_MAX).await?;
    serde_json::from_slice(&text).map_err(|e| {
        Refusal::new(
            502,
            format!("the answer of the router's process cannot be read: {e}"),
        )
    })
}

fn ask(router: &Control, wanted: Request) -> Result<Reply, Refusal> {
    match wanted {
        Request::Info => json(&router.info()),
        Request::Elements => json(&router.elements()),
        Request::Plan => Ok(text(describe(&router.router().plan()).to_string())),
        Request::Saved => Ok(text(router.saved()?)),
        Request::Stats => json(&router.stats()?),
        Request::Turns => json(&router.longest_turns()),
        Request::Read { path, argument } => Ok(text(router.read(&path, &argument)?)),
        _ => Err(Refusal::new(404, "this is no router's")),
    }
}
