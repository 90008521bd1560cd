use super::*;
use crate::agreement::testing::Folder;
use crate::agreement::{authority, home};
use agree::records::delete;
use agree::store::Change;
use std::io;
use std::sync::atomic::AtomicU32;
use sync::Lock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Answers by a path and a request: the lines of a body, after which the connection ends; `None` = no answer.
type Script = Box<dyn Fn(&str, &Value) -> Option<String> + Send + Sync>;

/// A stand-in for a member of etcd, which asks for certificates as a real one does. Returns its address.
async fn member(folder: &Folder, script: Script) -> String {
    let home = &folder.home;
    let pem = |name| home.read(name).unwrap().as_bytes().to_vec();
    let certificate = |name| CertificateDer::from_pem_slice(&pem(name)).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate(home::AUTHORITY)).unwrap();
    let provider = Arc::new(ring::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(
            vec![certificate(home::CERTIFICATE)],
            PrivateKeyDer::from_pem_slice(&pem(home::KEY)).unwrap(),
        );
    let tls = TlsAcceptor::from(Arc::new(config.unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let script = Arc::new(script);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (tls, script) = (tls.clone(), Arc::clone(&script));
            tokio::spawn(async move {
                // A client that is refused, or breaks off, is no fault of the member.
                let _ = serve(stream, tls, &script).await;
            });
        }
    });
    at
}

async fn serve(stream: TcpStream, tls: TlsAcceptor, script: &Script) -> io::Result<()> {
    let mut stream = tls.accept(stream).await?;
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    let (path, asked) = loop {
        let n = stream.read(&mut buffer).await?;
        bytes.extend_from_slice(&buffer[..n]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
        if let Ok(asked) = serde_json::from_str::<Value>(body) {
            break (head.split(' ').nth(1).unwrap_or_default().to_owned(), asked);
        }
    };
    if let Some(body) = script(&path, &asked) {
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
        stream.write_all(format!("{head}{body}").as_bytes()).await?;
        stream.shutdown().await?;
    }
    Ok(())
}

fn client(folder: &Folder, members: Vec<String>) -> Arc<Etcd> {
    let tls = authority::client(&folder.home).unwrap();
    Arc::new(Etcd::new(members, tls, "t"))
}

fn kv(key: &str, value: &str, revision: u64) -> Value {
    json!({
        "key": BASE64.encode(format!("/ashlar/t/{key}")), "value": BASE64.encode(value),
        "mod_revision": revision.to_string(),
    })
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    crate::agreement::operator::block_on(async { Ok(future.await) }).unwrap()
}

#[test]
fn a_watch_resumes_after_its_last_change_and_ends_where_etcd_has_forgotten() {
    let folder = Folder::new("watch");
    block_on(async {
        let starts = Arc::new(Lock::new(Vec::new()));
        let seen = Arc::clone(&starts);
        let script = move |path: &str, asked: &Value| {
            assert_eq!(path, "/v3/watch");
            let mut starts = seen.lock();
            starts.push(number(&asked["create_request"]["start_revision"]).unwrap());
            let created = json!({"result": {"header": {"revision": "9"}, "created": true}});
            let reply = match starts.len() {
                1 => json!({"result": {"events": [
                    {"kv": kv("wanted", "one", 6)}, {"kv": kv("leader", "a", 6)}, {"kv": kv("wanted", "two", 7)},
                ]}}),
                // Nothing new, and the member ends.
                2 => json!({"result": {"events": []}}),
                3 => json!({"result": {"events": [{"type": "DELETE", "kv": kv("leader", "", 8)}]}}),
                _ => json!({"result": {"canceled": true, "compact_revision": "12"}}),
            };
            Some(format!("{created}\n{reply}\n"))
        };
        let at = member(&folder, Box::new(script)).await;
        let mut line = Line::new(client(&folder, vec![at]));
        line.ask(3, Request::Watch(5));
        let mut heard = Vec::new();
        for _ in 0..3 {
            heard.push(line.heard().await.unwrap());
        }
        let Event::Changed(3, 7, entries) = &heard[0] else {
            panic!("{heard:?}");
        };
        let texts: Vec<_> = entries
            .iter()
            .map(|e| (&*e.key, e.value.as_deref(), e.revision))
            .collect();
        let right = [
            ("wanted", Some("one"), 6),
            ("leader", Some("a"), 6),
            ("wanted", Some("two"), 7),
        ];
        assert_eq!(texts, right);
        let gone = delete("leader").at(8);
        assert_eq!(heard[1], Event::Changed(3, 8, vec![gone]));
        assert_eq!(heard[2], Event::Unwatched(3, Unwatched::Compacted));
        assert_eq!(*starts.lock(), [6, 8, 8, 9]);
    });
}

#[test]
fn a_member_that_cannot_be_reached_is_passed_over_and_a_write_is_sent_once() {
    let folder = Folder::new("write");
    block_on(async {
        let (sent, answers) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(1)));
        let (counted, answered) = (Arc::clone(&sent), Arc::clone(&answers));
        let script = move |path: &str, asked: &Value| {
            assert_eq!(path, "/v3/kv/txn");
            // The guard is a comparison of the epoch's value.
            let guard = &asked["compare"][0];
            assert_eq!(guard["key"], BASE64.encode("/ashlar/t/epoch"));
            assert_eq!(
                (&guard["target"], &guard["value"]),
                (&json!("VALUE"), &json!(BASE64.encode("4")))
            );
            assert_eq!(asked["compare"][1]["mod_revision"], "17");
            assert_eq!(
                asked["success"][0]["request_put"]["value"],
                BASE64.encode("text")
            );
            counted.fetch_add(1, Ordering::Relaxed);
            let good = answered.load(Ordering::Relaxed) > 0;
            good.then(|| json!({"header": {"revision": "18"}, "succeeded": true}).to_string())
        };
        let at = member(&folder, Box::new(script)).await;
        // Nobody listens at a port that was just given back.
        let closed = TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap()
            .local_addr()
            .unwrap()
            .to_string();
        let etcd = client(&folder, vec![closed, at]);
        let write = Request::Write(Write {
            epoch: Some(4),
            unchanged: vec![("wanted".to_owned(), 17)],
            changes: vec![Change {
                key: "wanted".to_owned(),
                value: Some("text".to_owned()),
                lease: None,
            }],
        });
        assert_eq!(etcd.answer(&write).await, Ok(Answer::Written(18)));
        answers.store(0, Ordering::Relaxed);
        assert!(etcd.answer(&write).await.is_err());
        assert_eq!(sent.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn certificates_of_another_cluster_are_refused_by_both_sides() {
    let (folder, other) = (Folder::new("own"), Folder::new("other"));
    block_on(async {
        let script = |_: &str, _: &Value| Some(json!({"header": {"revision": "1"}}).to_string());
        let at = member(&folder, Box::new(script)).await;
        let read = |folder: &Folder| client(folder, vec![at.clone()]);
        assert_eq!(
            read(&folder).answer(&Request::Read).await,
            Ok(Answer::All(1, Vec::new()))
        );
        let why = read(&other).answer(&Request::Read).await.unwrap_err();
        assert!(
            why.contains("its certificate is not of this cluster"),
            "{why}"
        );
        // Even with trust in the member, its own certificate is no better.
        let authority = folder.home.read(home::AUTHORITY).unwrap();
        other.home.write(home::AUTHORITY, &authority).unwrap();
        let why = read(&other).answer(&Request::Read).await.unwrap_err();
        assert!(why.contains("it refuses the certificate"), "{why}");
    });
}
