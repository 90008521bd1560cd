//! Joining a cluster: a token admits one server once, and pins the cluster's authority.
//!
//! The new server's key never leaves it: it sends the public part and gets a certificate. Only a server with the token
//! gets an answer. The authority's key is used only while an operator invites.

use super::authority::{self, Authority};
use super::etcd::chain;
use super::home::{AUTHORITY, About, CERTIFICATE, DESCRIPTION, Home, KEY};
use super::{hex, identifier};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq;
use sync::Lock;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::time::timeout;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use zeroize::Zeroizing;

/// Time limit for one join, on both sides.
const LIMIT: Duration = Duration::from_secs(20);
/// Maximum number of connections at a time; more are closed at once.
const CLIENTS_MAX: usize = 64;
/// Maximum length of a request, and of an answer, in bytes.
const ASKED_MAX: usize = 4096;
const ANSWER_MAX: usize = 4 << 20;

/// Admission of one server: a secret, the fingerprint of the cluster's authority, and the inviting server's address.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    secret: String,
    pin: String,
    /// Address of the inviting server.
    pub at: SocketAddr,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}@{}", self.secret, self.pin, self.at)
    }
}

impl FromStr for Token {
    type Err = String;

    fn from_str(text: &str) -> Result<Token, String> {
        let parts = text.trim().split_once('@').and_then(|(secrets, at)| {
            let (secret, pin) = secrets.split_once('-')?;
            let digits =
                |text: &str, n| text.len() == n && text.bytes().all(|c| c.is_ascii_hexdigit());
            let good = digits(secret, 32) && digits(pin, 64);
            Some((secret, pin, at.parse().ok()?)).filter(|_| good)
        });
        let (secret, pin, at) = parts.ok_or(
            "this is no token: copy the whole word that `ashlar cluster invite` prints for the server",
        )?;
        Ok(Token {
            secret: secret.to_owned(),
            pin: pin.to_owned(),
            at,
        })
    }
}

/// A server that may join.
pub struct Invitation {
    /// Name of the server.
    pub server: String,
    /// Address at which other servers reach the server; its certificate names the address.
    pub address: IpAddr,
    /// Token of the invitation.
    pub token: Token,
}

#[derive(Serialize, Deserialize)]
struct Asked {
    secret: String,
    public: String,
}

#[derive(Serialize, Deserialize)]
struct Admitted {
    about: About,
    certificate: String,
    authority: String,
    description: String,
}

#[derive(Serialize, Deserialize)]
struct Refused {
    error: String,
}

/// The invitations of one call, and which of them were used.
struct Host {
    home: Home,
    authority: Authority,
    open: Lock<Vec<(Invitation, bool)>>,
    changed: Notify,
    say: Say,
}

/// Function that tells the operator of each join and of each refusal.
pub(super) type Say = Box<dyn Fn(String) + Send + Sync>;

/// Makes tokens for servers, hands them to `begin`, and serves until all have joined or the time is over.
///
/// # Errors
///
/// The folder has no authority's key, the address cannot be used, or the time is over; a sentence.
pub fn invite(
    home: Home,
    at: SocketAddr,
    servers: Vec<(String, IpAddr)>,
    limit: Duration,
    begin: impl FnOnce(&[Invitation]) -> Result<(), String>,
    say: Say,
) -> Result<(), String> {
    for (server, address) in &servers {
        let own = (*server == home.about.server).then_some(&home.about.address);
        let known = own.or_else(|| home.about.etcd.get(server));
        if let Some(known) = known.filter(|known| *known != address) {
            return Err(format!(
                "`ashlar cluster init` gave server {server} the address {known}: invite {server}={known}"
            ));
        }
    }
    let authority = Authority::open(&home)?;
    let pin = fingerprint(&authority::certificate(authority.certificate())?);
    let tls = TlsAcceptor::from(Arc::new(authority::server(&home)?));
    super::operator::block_on(async {
        let listener = TcpListener::bind(at).await;
        let listener = listener.map_err(|e| format!("cannot listen at {at}: {e}"))?;
        let at = listener.local_addr().map_err(|e| e.to_string())?;
        let servers = servers.into_iter().map(|(server, address)| {
            Ok(Invitation {
                server,
                address,
                token: Token {
                    secret: identifier()?,
                    pin: pin.clone(),
                    at,
                },
            })
        });
        let invitations = servers.collect::<Result<Vec<_>, String>>()?;
        begin(&invitations)?;
        let host = Arc::new(Host {
            home,
            authority,
            open: Lock::new(invitations.into_iter().map(|one| (one, false)).collect()),
            changed: Notify::new(),
            say,
        });
        let room = Arc::new(Semaphore::new(CLIENTS_MAX));
        let over = tokio::time::sleep(limit);
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = host.changed.notified() => {
                    if host.open.lock().iter().all(|(_, used)| *used) {
                        return Ok(());
                    }
                }
                () = &mut over => {
                    let open = host.open.lock();
                    let missing = open.iter().filter(|(_, used)| !used).map(|(one, _)| &*one.server);
                    let missing: Vec<&str> = missing.collect();
                    return Err(format!("the time is over, and has not joined: {}", missing.join(", ")));
                }
                accepted = listener.accept() => {
                    // An error of accept(2) is about one connection.
                    if let (Ok((stream, peer)), Ok(place)) = (accepted, Arc::clone(&room).try_acquire_owned()) {
                        let (host, tls) = (Arc::clone(&host), tls.clone());
                        tokio::spawn(async move {
                            let _ = timeout(LIMIT, host.serve(stream, peer, tls)).await;
                            drop(place);
                        });
                    }
                }
            }
        }
    })
}

impl Host {
    async fn serve(self: Arc<Self>, stream: TcpStream, peer: SocketAddr, tls: TlsAcceptor) {
        let stream = match tls.accept(stream).await {
            Ok(stream) => stream,
            Err(e) => {
                return (self.say)(format!("refused a connection from {peer}: {}", chain(&e)));
            }
        };
        let host = Arc::clone(&self);
        let service = service_fn(move |request| {
            let host = Arc::clone(&host);
            async move { Ok::<_, Infallible>(host.answer(request, peer).await) }
        });
        let mut server = hyper::server::conn::http1::Builder::new();
        server.timer(TokioTimer::new()).keep_alive(false);
        // A client that breaks off has an error of its own.
        let _ = server.serve_connection(TokioIo::new(stream), service).await;
        self.changed.notify_one();
    }

    async fn answer(&self, request: Request<Incoming>, peer: SocketAddr) -> Response<Full<Bytes>> {
        let body = Limited::new(request.into_body(), ASKED_MAX).collect().await;
        let admitted = match body {
            Ok(body) => self.admit(&body.to_bytes()),
            Err(_) => Err("the request is too long".to_owned()),
        };
        let (status, bytes) = match admitted {
            Ok(admitted) => {
                (self.say)(format!(
                    "server {} joins from {}",
                    admitted.about.server,
                    peer.ip()
                ));
                (200, serde_json::to_vec(&admitted))
            }
            Err(error) => {
                (self.say)(format!("refused a join from {}: {error}", peer.ip()));
                (403, serde_json::to_vec(&Refused { error }))
            }
        };
        let mut response = Response::new(Full::new(Bytes::from(bytes.unwrap_or_default())));
        *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
        response
    }

    /// Uses up a token for the certificate of a public key.
    fn admit(&self, asked: &[u8]) -> Result<Admitted, String> {
        let asked: Asked =
            serde_json::from_slice(asked).map_err(|_| "this is no request to join".to_owned())?;
        let public = BASE64.decode(&asked.public).unwrap_or_default();
        if public.len() != 65 || public[0] != 4 {
            return Err("the public key is no point of P-256".to_owned());
        }
        let description = self.home.read(DESCRIPTION)?.to_string();
        let mut open = self.open.lock();
        let found = open.iter_mut().find(|(one, _)| {
            one.token
                .secret
                .as_bytes()
                .ct_eq(asked.secret.as_bytes())
                .into()
        });
        let (invitation, used) = found.ok_or("this token is not known here: invite the server")?;
        let server = invitation.server.clone();
        if *used {
            return Err(format!(
                "the token of server {server} was used already: invite the server again"
            ));
        }
        let about = About {
            server,
            address: invitation.address,
            identity: identifier()?,
            ..self.home.about.clone()
        };
        let certificate = self.authority.sign(&about.server, about.address, &public)?;
        *used = true;
        Ok(Admitted {
            about,
            certificate,
            authority: self.authority.certificate().to_owned(),
            description,
        })
    }
}

fn fingerprint(certificate: &CertificateDer) -> String {
    hex(&Sha256::digest(certificate))
}

/// Joins the cluster that a token names, and makes this server's folder.
///
/// # Errors
///
/// The inviting server cannot be reached, is another one than the token says, or refuses, or the token is for another
/// machine; a sentence.
pub fn join(token: &Token, folder: &Path) -> Result<Home, String> {
    if Home::is_there(folder) {
        return Err(format!(
            "{} belongs to a server already: run `ashlar cluster leave` first, choose another folder by --home, or \
             renew the server's certificate by --renew",
            folder.display()
        ));
    }
    let (key, admitted) = admission(token)?;
    admitted.about.check_address()?;
    Home::create(
        folder,
        &admitted.about,
        &[
            (AUTHORITY, &admitted.authority),
            (CERTIFICATE, &admitted.certificate),
            (KEY, &key),
            (DESCRIPTION, &admitted.description),
        ],
    )
}

/// Renews a server's certificate and key by a token for the server. All else stays, and processes that use them need no
/// restart.
///
/// # Errors
///
/// As with [`join`]; or the token is of another server, address or cluster. A sentence.
pub fn renew(token: &Token, folder: &Path) -> Result<Home, String> {
    let home = Home::open(folder)?;
    let authority = authority::certificate(&home.read(AUTHORITY)?)?;
    if fingerprint(&authority) != token.pin {
        return Err(format!(
            "the token is of another cluster than {}: make it where `ashlar cluster init` ran, or leave the cluster",
            home.about.cluster
        ));
    }
    let (key, admitted) = admission(token)?;
    let about = admitted.about;
    let [own, of] =
        [&home.about, &about].map(|about| format!("{}={}", about.server, about.address));
    if own != of {
        return Err(format!(
            "the token is for server {of}, and this is {own}: invite {own}"
        ));
    }
    // Whoever reads the files between goes on with the old pair.
    let old = home.read(KEY)?;
    home.write(KEY, &key)?;
    if let Err(why) = home.write(CERTIFICATE, &admitted.certificate) {
        home.write(KEY, &old)?;
        return Err(why);
    }
    Ok(home)
}

/// A new key, and what the inviting server has sent for its public part.
fn admission(token: &Token) -> Result<(Zeroizing<String>, Admitted), String> {
    let (key, public) = authority::new_key()?;
    let asked = Asked {
        secret: token.secret.clone(),
        public: BASE64.encode(public),
    };
    let asked = serde_json::to_vec(&asked).map_err(|e| e.to_string())?;
    let failed = |why: String| format!("cannot join at {}: {why}", token.at);
    let bytes = super::operator::block_on(async {
        let sent = timeout(LIMIT, send(token, asked)).await;
        sent.unwrap_or_else(|_| Err("it does not answer in time".to_owned()))
    });
    let bytes = bytes.map_err(failed)?;
    if let Ok(Refused { error }) = serde_json::from_slice(&bytes) {
        return Err(failed(error));
    }
    let admitted: Admitted = serde_json::from_slice(&bytes)
        .map_err(|e| failed(format!("its answer cannot be read: {e}")))?;
    if fingerprint(&authority::certificate(&admitted.authority)?) != token.pin {
        return Err(failed(
            "it sends an authority that the token does not name".to_owned(),
        ));
    }
    Ok((key, admitted))
}

async fn send(token: &Token, asked: Vec<u8>) -> Result<Bytes, String> {
    let stream = TcpStream::connect(token.at).await.map_err(|e| chain(&e))?;
    let provider = Arc::new(ring::default_provider());
    let verifier = Pinned {
        pin: token.pin.clone(),
        provider: Arc::clone(&provider),
    };
    let config = ClientConfig::builder_with_provider(provider);
    let config = config
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?;
    let config = config
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let tls = TlsConnector::from(Arc::new(config.with_no_client_auth()));
    let name = ServerName::IpAddress(token.at.ip().into());
    let stream = tls.connect(name, stream).await.map_err(|e| {
        let unknown = "it is not the server that the token names, or somebody is between: its authority is another one";
        match e.get_ref().and_then(|e| e.downcast_ref::<Error>()) {
            Some(Error::InvalidCertificate(_)) => unknown.to_owned(),
            _ => chain(&e),
        }
    })?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| chain(&e))?;
    tokio::spawn(connection);
    let request = Request::post("/v1/join")
        .header("host", token.at.to_string())
        .body(Full::new(Bytes::from(asked)))
        .map_err(|e| e.to_string())?;
    let reply = sender.send_request(request).await.map_err(|e| chain(&e))?;
    let body = Limited::new(reply.into_body(), ANSWER_MAX).collect().await;
    body.map(|body| body.to_bytes()).map_err(|e| chain(&*e))
}

/// Verifier that accepts certificates signed by the authority with one fingerprint.
#[derive(Debug)]
struct Pinned {
    pin: String,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let pinned = others.iter().find(|one| fingerprint(one) == self.pin);
        let pinned = pinned.ok_or(Error::InvalidCertificate(CertificateError::UnknownIssuer))?;
        let mut roots = RootCertStore::empty();
        roots.add(pinned.clone().into_owned())?;
        let verifier = WebPkiServerVerifier::builder_with_provider(
            Arc::new(roots),
            Arc::clone(&self.provider),
        );
        let verifier = verifier
            .build()
            .map_err(|e| Error::General(e.to_string()))?;
        verifier.verify_server_cert(own, &[], name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
#[path = "join_tests.rs"]
mod tests;
