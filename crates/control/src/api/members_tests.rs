use super::*;
use crate::agreement::testing::Folder;
use crate::agreement::{tls_client, tls_server};
use crate::client::Client;
use crate::process::Common;
use crate::view::{Info, Member};
use router::Workers;
use std::io::Read;
use std::net::SocketAddr;

/// A process without routers that serves members of a cluster, on a thread of its own.
struct Stand {
    folder: Folder,
    process: Arc<Process>,
    at: SocketAddr,
}

impl Stand {
    fn new(name: &str) -> Stand {
        let folder = Folder::new(name);
        let common = Common {
            name: name.to_owned(),
            registry: classes::registry(),
            ports: Arc::new(ports::Directory::new()),
            workers: Workers::start(1, &ports::waiter::of_worker).expect("there is a thread"),
            seed: 1.into(),
            fpm: None,
            balance: "off",
        };
        let process = Arc::new(Process::new(common, None));
        let tls = TlsAcceptor::from(Arc::new(tls_server(&folder.home).unwrap()));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let at = listener.local_addr().unwrap();
        let api = Api::of_members(Arc::clone(&process));
        std::thread::spawn(move || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_io().enable_time().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                api.serve_members_of(listener, tls).await
            })
        });
        Stand {
            folder,
            process,
            at,
        }
    }

    /// Client with the certificate of a folder.
    fn client(&self, folder: &Folder) -> Client {
        Client::of_server(self.at, Arc::new(tls_client(&folder.home).unwrap()))
    }
}

#[test]
fn members_read_and_do_not_write() {
    let stand = Stand::new("members");
    let client = stand.client(&stand.folder);
    let info: Info = client.get_json("/v1/info").unwrap();
    assert_eq!(info.pid, 0, "there is no router");
    let refused = client.get("/v1/member").unwrap_err();
    assert!(refused.contains("no server of a cluster"), "{refused}");
    for (written, target) in [
        (client.post("/v1/stop", Vec::new()), "stop"),
        (client.post("/v1/reload", b"{}".to_vec()), "reload"),
        (client.put("/v1/handlers/a.b", Vec::new()), "write"),
        (client.get("/v1/handlers/a.b"), "handler"),
        (client.get("/v1/saved"), "saved"),
        (client.get("/v1/routers/x/info"), "another router"),
    ] {
        let refused = written.expect_err(target);
        assert!(refused.contains("change nothing"), "{target}: {refused}");
    }
    let refused = client
        .get("/v1/capture?drops&filter=host%20example")
        .unwrap_err();
    assert!(refused.contains("`example` is no word"), "{refused}");
    stand.process.set_member(Member {
        server: "a".to_owned(),
        ..Member::default()
    });
    let refused = client.get("/v1/member").unwrap_err();
    assert!(refused.contains("no router runs"), "{refused}");
}

#[test]
fn those_without_the_clusters_certificate_get_no_answer() {
    let stand = Stand::new("strangers");
    let other = Folder::new("strangers-other");
    let refused = stand.client(&other).get("/v1/info").unwrap_err();
    assert!(
        refused.contains("its certificate is not of this cluster"),
        "{refused}"
    );
    // Even with trust in the server.
    let authority = stand.folder.home.read("ca.pem").unwrap();
    other.home.write("ca.pem", &authority).unwrap();
    let refused = stand.client(&other).get("/v1/info").unwrap_err();
    assert!(refused.contains("it refuses the certificate"), "{refused}");
}

#[test]
fn clients_that_hang_are_abandoned_and_others_answered() {
    let stand = Stand::new("hanging");
    let client = stand.client(&stand.folder);
    let connect = || std::net::TcpStream::connect(stand.at).unwrap();
    let mut hanging: Vec<_> = (0..CLIENTS_MAX).map(|_| connect()).collect();
    // Its handshake waits for a place, and gets one.
    client.get("/v1/info").unwrap();
    for stream in &mut hanging {
        stream.set_read_timeout(Some(HANDSHAKE * 10)).unwrap();
        // A server that gives up may say so first.
        let ended = stream.read_to_end(&mut Vec::new());
        assert!(ended.is_ok(), "{ended:?}");
    }
}
