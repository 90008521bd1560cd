use super::*;
use crate::agreement::testing::Folder;
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::channel;

#[test]
fn each_token_admits_only_its_server_and_once() {
    let folder = Folder::new("join");
    let home = folder.home.clone();
    let (sender, tokens) = channel();
    let told = Arc::new(Lock::new(Vec::new()));
    let say = Arc::clone(&told);
    let host = std::thread::spawn(move || {
        let local = [127, 0, 0, 1].into();
        let servers = vec![("b".to_owned(), local), ("c".to_owned(), local)];
        let begin = |invitations: &[Invitation]| {
            for one in invitations {
                sender.send(one.token.clone()).unwrap();
            }
            Ok(())
        };
        let at = SocketAddr::new(local, 0);
        invite(
            home,
            at,
            servers,
            LIMIT,
            begin,
            Box::new(move |text| say.lock().push(text)),
        )
    });
    let [b, c] = [tokens.recv().unwrap(), tokens.recv().unwrap()];
    let joined = join(&b.to_string().parse().unwrap(), &folder.beside("b")).unwrap();
    assert_eq!((&*joined.about.server, &*joined.about.cluster), ("b", "t"));
    assert_eq!(*joined.read(DESCRIPTION).unwrap(), "text");
    assert!(joined.about.identity != folder.home.about.identity);
    for (token, why) in [
        (b.clone(), "the token of server b was used already"),
        (
            Token {
                secret: "0".repeat(32),
                ..b.clone()
            },
            "this token is not known here",
        ),
        (
            Token {
                pin: "0".repeat(64),
                ..c.clone()
            },
            "its authority is another one",
        ),
    ] {
        let refused = join(&token, &folder.beside("x")).unwrap_err();
        assert!(refused.contains(why), "{refused}");
        assert!(!folder.beside("x").exists());
    }
    // A folder that has an identity keeps it.
    assert!(
        join(&c, &folder.beside("b"))
            .unwrap_err()
            .contains("belongs to a server already")
    );
    let other = join(&c, &folder.beside("c")).unwrap();
    assert_eq!(host.join().unwrap(), Ok(()));
    // The new server's key is its own, and only the first server has the authority's.
    assert!(*other.read(KEY).unwrap() != *joined.read(KEY).unwrap());
    for entry in std::fs::read_dir(folder.beside("c")).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(
            entry.metadata().unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert!(entry.file_name() != "ca.key");
    }
    let told = told.lock().join("\n");
    assert!(
        told.contains("server b joins") && told.contains("refused a join from 127.0.0.1"),
        "{told}"
    );
    assert!(!told.contains(&b.secret) && !told.contains(&c.secret));
}

#[test]
fn addresses_must_be_the_machines_and_those_of_etcd() {
    let folder = Folder::new("addresses");
    let stranger = About {
        address: [192, 0, 2, 77].into(),
        ..folder.home.about.clone()
    };
    let refused = authority::found(&folder.beside("x"), &stranger, "text").unwrap_err();
    assert!(
        refused.contains("192.0.2.77 is the address of server a, and this machine"),
        "{refused}"
    );
    let (home, at) = (
        folder.home.clone(),
        SocketAddr::new([127, 0, 0, 1].into(), 0),
    );
    let servers = vec![("a".to_owned(), [127, 0, 0, 2].into())];
    let refused = invite(home, at, servers, LIMIT, |_| Ok(()), Box::new(|_| ())).unwrap_err();
    assert!(refused.ends_with("invite a=127.0.0.1"), "{refused}");
}

#[test]
fn certificate_is_renewed_for_the_same_server_of_the_same_cluster_alone() {
    let folder = Folder::new("renew");
    let stranger = Folder::new("renew-stranger");
    let (sender, tokens) = channel();
    let home = folder.home.clone();
    let host = std::thread::spawn(move || {
        let local: IpAddr = [127, 0, 0, 1].into();
        let servers = ["b", "b", "c"].map(|name| (name.to_owned(), local));
        let begin = |invitations: &[Invitation]| {
            let tokens = invitations.iter().map(|one| one.token.clone());
            sender.send(tokens.collect::<Vec<_>>()).unwrap();
            Ok(())
        };
        let (at, say) = (SocketAddr::new(local, 0), Box::new(|_| ()));
        invite(home, at, servers.into(), LIMIT, begin, say)
    });
    let [first, again, c] = tokens.recv().unwrap().try_into().ok().unwrap();
    let b = join(&first, &folder.beside("b")).unwrap();
    let files = || [CERTIFICATE, KEY].map(|name| b.read(name).unwrap().to_string());
    let old = files();
    let refused = renew(&again, &stranger.home.folder).unwrap_err();
    assert!(refused.contains("of another cluster"), "{refused}");
    let refused = renew(&c, &b.folder).unwrap_err();
    assert!(
        refused.contains("for server c=127.0.0.1, and this is b=127.0.0.1"),
        "{refused}"
    );
    assert_eq!(files(), old);
    let renewed = renew(&again, &b.folder).unwrap();
    assert_eq!(host.join().unwrap(), Ok(()));
    assert_eq!(renewed.about, b.about);
    assert!(files()[0] != old[0] && files()[1] != old[1]);
    assert!(authority::client(&renewed).is_ok());
}

#[test]
fn a_token_is_one_word_and_another_word_is_none() {
    let text = format!("{}-{}@[fd00::1]:2381", "a1".repeat(16), "b2".repeat(32));
    assert_eq!(text.parse::<Token>().unwrap().to_string(), text);
    for wrong in [
        &text[1..],
        &text[..60],
        "",
        "@",
        "-@127.0.0.1:1",
        "a-b@127.0.0.1:1",
    ] {
        assert!(wrong.parse::<Token>().is_err(), "{wrong}");
    }
}
