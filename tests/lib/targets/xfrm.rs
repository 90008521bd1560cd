//! Messages of XFRM: any bytes change the table of an IPsecTable or are refused. A table that the kernel fills has no
//! more associations than the messages had.

use control::netlink::xfrm::Mirror;
use esp::Database;
use std::sync::Arc;
use wire::netlink::{Writer, messages};

/// Takes bytes as the result of one receive call, both as a notification and as an answer.
pub fn run(data: &[u8]) {
    let database = Arc::new(Database::default());
    let mut mirror = Mirror::of(Arc::clone(&database));
    // Some addresses are the router's own.
    let mut own = |address: std::net::IpAddr| address.to_string().ends_with('1');
    let mut told = 0;
    for (now, message) in (1..).zip(messages(data)) {
        let Ok(message) = message else {
            break;
        };
        told += 1;
        mirror.process(&message, &mut own, now);
    }
    let (mut made, mut parts) = (Vec::new(), messages(data).flatten());
    assert!(database.snapshot().all().len() <= 2 * told);
    mirror.begin_sas();
    mirror.begin_policies();
    parts.by_ref().for_each(|message| {
        mirror.dumped_sa(&message, &mut made, &mut own, 99);
        mirror.dumped_policy(&message);
    });
    mirror.end_sas(&made, 99);
    mirror.end_policies();
    assert!(database.snapshot().all().len() <= 2 * told);
    for sa in database.snapshot().all() {
        let _ = sa.take(1, 1, 100);
        database.record_miss(sa.spec().reqid);
    }
    let mut room = [0; 64 << 10];
    let mut writer = Writer::new(&mut room);
    mirror.report(&mut writer, u64::MAX);
    assert!(messages(writer.bytes()).all(|message| message.is_ok()));
}
