//! Lets other programs read and write the router's handlers over a socket.
//!
//! ```click
//! InfiniteSource(LIMIT 3) -> c :: Counter -> Discard;
//! ControlSocket(UNIX, /tmp/ashlar-example.sock);
//! ```
//!
//! Implements version 1.3 of Click's protocol: lines of text, which `nc` can send. `READ c.count` answers `200 Read
//! handler 'c.count' OK`, then `DATA 1` and one byte; `WRITE c.reset` answers one line. The other commands are
//! READDATA, READUNTIL, WRITEDATA, WRITEUNTIL, CHECKREAD, CHECKWRITE and QUIT. An element may be named by its number,
//! from 1; a name without a dot is a handler of the router. Codes that start with 2 mean success. 510 means that
//! there is no such element, 511 no such handler, 520 that the handler refused, 530 that it may not be read or
//! written. Script's `cat`, `catq` and `kill` cannot be used here.
//!
//! Up to 32 clients may be connected. If one more connects, it replaces the client that has been silent longest, if
//! that client has sent nothing for a minute; otherwise the new one gets an error and is disconnected. While a client
//! does not read its answers, nothing is read from it, and after a minute it is disconnected. A command may have 16
//! MiB of data.
//!
//! After a hot swap an element with the same name and address keeps its socket and its clients. There is one
//! copy, on one worker. It reads and writes all copies of an element, on all workers.
//!
//! Arguments:
//!
//! - `TYPE`: `TCP` or `UNIX`.
//! - `PORT`: the TCP port; with `PORT+` one of the following ports if that one is in use. For `UNIX`, the
//!   socket's file.
//! - `READONLY`: true if handlers may only be read. Default false.
//! - `ADDRESS`: the address of this host at which it listens for TCP connections. Default 127.0.0.1: only programs on
//!   this host can connect. This differs from Click, which listens at all addresses. Every program that can connect
//!   can change the router.
//! - `LOCALHOST`: Click's form of this setting: false = `ADDRESS 0.0.0.0`, all addresses. Default true.
//! - `PROXY`: an element that answers for all others: its handler `E.H` is used when a client asks for `E.H`.
//! - `VERBOSE`: true if it logs clients that connect and disconnect. Default false.
//! - `RETRIES`: number of further tries, one per second, if the socket cannot be opened; after that the router
//!   stops. Default 0: a socket that cannot be opened is an error of the configuration.
//! - `RETRY_WARNINGS`: true to log each failure. Default true.

use super::listener::{Address, Listener};
use super::session::{Rules, Session, answer};
use crate::prelude::*;
use elements::stderr_messages::complain;
use engine::external::{self, External};
use engine::port::Slot;
use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Duration;

/// Runs between two checks of the sockets while the router is busy: checks cost system calls.
const RUNS_BETWEEN_CHECKS: u32 = 32;
const RETRY: Duration = Duration::from_secs(1);
/// Time of silence after which a client may be replaced by a new one.
const SILENCE: Duration = Duration::from_secs(60);
/// Maximum number of clients at a time.
const CLIENTS_MAX: usize = 32;
/// Answer to further clients.
const FULL: &[u8] = b"Click::ControlSocket/1.3\r\n500 Too many connections\r\n";
/// Interval between attempts to send waiting answers.
const ROOM: Duration = Duration::from_millis(5);

pub(super) struct Config {
    address: Address,
    rules: Rules,
    verbose: bool,
    retries: u32,
    warnings: bool,
    /// The listening socket, until the element takes it.
    listener: Slot<Option<Listener>>,
    port: Arc<OnceLock<u16>>,
    /// The element of the running router has the socket.
    inherited: bool,
}

pub(super) struct ControlSocket {
    config: Arc<Config>,
    listener: Option<Listener>,
    sessions: Vec<Rc<RefCell<Session>>>,
    retries: u32,
    runs: u32,
}

impl Config {
    fn open(&self) -> Result<Listener, String> {
        let listener = Listener::bind(&self.address)?;
        if let Some(port) = listener.port() {
            let _ = self.port.set(port);
        }
        Ok(listener)
    }
}

impl ControlSocket {
    /// Accepts clients, some at a time. Returns true if there was one.
    fn accept(&mut self, now: Time) -> bool {
        let mut any = false;
        for _ in 0..CLIENTS_MAX {
            let accepted = self.listener.as_ref().and_then(Listener::accept);
            let Some((mut stream, from)) = accepted else {
                return any;
            };
            any = true;
            if self.sessions.len() == CLIENTS_MAX && !self.make_place(now) {
                // Without room for this message, the client sees only the end of the connection.
                let _ = stream.write(FULL);
                continue;
            }
            if self.config.verbose {
                complain(&format!("opened control connection from {from}"));
            }
            let session = Rc::new(RefCell::new(Session::new(stream, from, now)));
            session.borrow_mut().send(now);
            self.sessions.push(session);
        }
        any
    }

    /// Disconnects the client that has been silent longest, if that is long enough. Returns true if there was one.
    fn make_place(&mut self, now: Time) -> bool {
        let silent = self.sessions.iter().enumerate();
        let silent = silent.map(|(at, session)| (session.borrow().idle_time(now), at));
        let Some((_, at)) = silent.max().filter(|(silence, _)| *silence >= SILENCE) else {
            return false;
        };
        let session = self.sessions.remove(at);
        if self.config.verbose {
            let from = &session.borrow().from;
            complain(&format!(
                "closed control connection from {from}, which was silent"
            ));
        }
        true
    }
}

/// The address at which to listen.
fn host(args: &mut Args) -> Ipv4Addr {
    let address: Option<Ipv4Addr> = args.key_maybe("ADDRESS", "the address to listen at");
    let local = args.key("LOCALHOST", true, "false: at all addresses of this host");
    if !local && address.is_some_and(|address| !address.is_unspecified()) {
        args.error_in_whole(
            "ADDRESS and LOCALHOST false say different things",
            "leave LOCALHOST out",
        );
    }
    address.unwrap_or(match local {
        true => Ipv4Addr::LOCALHOST,
        false => Ipv4Addr::UNSPECIFIED,
    })
}

impl Element for ControlSocket {
    const CONTRACT: Contract = Contract::new("ControlSocket", manual!())
        .copies(Copies::One)
        .runs(Runs::AsTask)
        .extensions(&[&resources::of::<Self>(), &external::of::<Self>()]);

    type Config = Config;

    fn configure(args: &mut Args) -> Config {
        let kind: String = args.required("TYPE", "TCP or UNIX");
        let at: String = args.required("PORT", "the TCP port, or the socket's file");
        let host = host(args);
        let address = match kind.to_ascii_uppercase().as_str() {
            "UNIX" => Address::Unix(at),
            "TCP" => {
                let port = at.strip_suffix('+');
                let number = port.unwrap_or(&at).parse();
                if number.is_err() && !at.is_empty() {
                    args.error_in_whole(
                        format!("PORT must be a TCP port, not `{at}`"),
                        "write a number, and `+` behind it if one of the next will do",
                    );
                }
                Address::Tcp(host, number.unwrap_or(0), port.is_some())
            }
            _ => {
                if !kind.is_empty() {
                    args.error_in_whole(
                        format!("unknown socket type `{kind}`"),
                        "write TCP or UNIX",
                    );
                }
                Address::Tcp(host, 0, false)
            }
        };
        Config {
            address,
            rules: Rules {
                read_only: args.key("READONLY", false, "true if handlers may only be read"),
                proxy: args.key("PROXY", String::new(), "an element that answers for all"),
            },
            verbose: args.key("VERBOSE", false, "true to log connections"),
            retries: args.key("RETRIES", 0, "times to try again, once a second"),
            warnings: args.key("RETRY_WARNINGS", true, "true to log each failure"),
            listener: Slot::new(None),
            port: Arc::default(),
            inherited: false,
        }
    }

    fn new(config: &Arc<Config>, _: &Init) -> ControlSocket {
        ControlSocket {
            listener: config.listener.take().flatten(),
            retries: config.retries,
            config: Arc::clone(config),
            sessions: Vec::new(),
            runs: 0,
        }
    }

    fn start(&mut self, cx: &mut Cx) {
        if self.listener.is_none() {
            cx.set_timer(cx.now() + RETRY);
        }
    }

    fn timer(&mut self, cx: &mut Cx) {
        if self.listener.is_some() {
            self.runs = RUNS_BETWEEN_CHECKS - 1; // the next run looks for room for answers
            return;
        }
        self.retries = self.retries.saturating_sub(1);
        match self.config.open() {
            Ok(listener) => self.listener = Some(listener),
            Err(wrong) if self.retries == 0 => {
                complain(&wrong);
                cx.stop();
            }
            Err(wrong) => {
                if self.config.warnings {
                    complain(&format!("{wrong}, will try again"));
                }
                cx.set_timer(cx.now() + RETRY);
            }
        }
    }

    fn task(&mut self, cx: &mut Cx) -> Did {
        self.runs = self.runs.wrapping_add(1);
        let ready = self.sessions.iter().any(|s| s.borrow().is_ready());
        if !ready && !self.runs.is_multiple_of(RUNS_BETWEEN_CHECKS) {
            return Did::Nothing;
        }
        let now = cx.now();
        let mut any = self.accept(now);
        for session in &self.sessions {
            if session.borrow_mut().poll(now) {
                any = true;
                let (session, config) = (Rc::clone(session), Arc::clone(&self.config));
                cx.defer(move |cx| answer(&session, &config.rules, cx));
            }
        }
        let verbose = self.config.verbose;
        self.sessions.retain(|session| {
            let session = session.borrow();
            let over = session.is_over();
            if over && verbose {
                complain(&format!("closed control connection from {}", session.from));
            }
            !over
        });
        if self.sessions.iter().any(|s| s.borrow().has_output()) {
            cx.set_timer(now + ROOM);
        }
        if any { Did::Work } else { Did::Nothing }
    }

    fn inherit(config: &mut Config, old: &Config) {
        if config.address == old.address {
            config.inherited = true;
            config.port = Arc::clone(&old.port);
        }
    }

    fn take(&mut self, old: ControlSocket) {
        if self.config.inherited {
            self.listener = old.listener;
            self.sessions = old.sessions;
        }
    }

    const HANDLERS: &'static [Handler<ControlSocket>] = &[
        Handler::text("port", "the TCP port", |e, _| {
            let port = e.config.port.get();
            Ok(port.map_or_else(String::new, u16::to_string))
        }),
        Handler::text("filename", "the socket's file", |e, _| {
            Ok(match &e.config.address {
                Address::Unix(file) => file.clone(),
                Address::Tcp(..) => String::new(),
            })
        }),
    ];
}

impl Resources for ControlSocket {
    fn initialize(config: &Config) -> Result<(), String> {
        if config.inherited {
            return Ok(());
        }
        // A reload may try the same plan twice: the socket of a failed attempt must not be in the way of the next.
        drop(config.listener.take());
        match config.open() {
            Ok(listener) => config.listener.put_back(Some(listener)),
            Err(wrong) if config.retries == 0 => return Err(wrong),
            Err(wrong) if config.warnings => complain(&format!("{wrong}, will try again")),
            Err(_) => {}
        }
        Ok(())
    }

    fn placement(_: &Config) -> Placement {
        Placement {
            workers: Some(vec![0]),
            ..Placement::default()
        }
    }
}

impl External for ControlSocket {
    fn wait_fds(&self, fds: &mut Vec<RawFd>) {
        fds.extend(self.listener.as_ref().map(Listener::fd));
        // Input of a client that does not read its answers need not wake a worker.
        let heard = self.sessions.iter().map(|s| s.borrow());
        fds.extend(heard.filter(|s| !s.has_output()).map(|s| s.fd()));
    }

    fn must_poll(&self) -> bool {
        self.sessions.iter().any(|s| s.borrow().is_ready())
    }
}
