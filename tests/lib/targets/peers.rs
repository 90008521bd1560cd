//! A message of another balancer: any bytes from the back network are refused, or equal what they would be written
//! as.

use cluster::balance::message::{LEN_MAX, Message};
use cluster::balance::{Agreement, Member, Pool, Settings};

/// The bytes are a message.
pub fn run(data: &[u8]) {
    let Ok(message) = Message::read(data) else {
        return;
    };
    let bytes = message.write();
    assert!(bytes.len() <= LEN_MAX);
    assert_eq!(Message::read(&bytes), Ok(message.clone()));
    let members = ["r1", "r2"].map(|name| Member {
        name: name.to_owned(),
        weight: 1,
    });
    let settings = Settings {
        idle: 1,
        deadline: 1000,
        settle: 0,
    };
    let pool = Pool::new(settings, members.to_vec(), Vec::new(), Vec::new());
    let mut agreement = Agreement::new(message.version, 1, 0);
    agreement.hear(0, message, 1, &pool);
    pool.sweep(2);
    agreement.tick(3, &pool, |_| {});
}
