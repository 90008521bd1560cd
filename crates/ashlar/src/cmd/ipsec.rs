//! `ashlar ipsec show`

use super::show::read;
use super::{Done, print};
use crate::cli::Target;
use control::view::Element;
use std::fmt::Write;

/// Handlers of an IPsecTable that return one line for each association or policy.
const LISTS: [&str; 2] = ["sas", "policies"];
/// Classes that work by a table.
const TABLE_USERS: [&str; 3] = ["IPsecEncap", "IPsecDecap", "IPsecCheck"];

/// Shows associations, policies and drops.
pub(crate) fn show(target: &Target) -> Done {
    let client = target.client()?;
    let elements: Vec<Element> = client.get_json("/v1/elements")?;
    let of = |classes: &'static [&str]| elements.iter().filter(|e| classes.contains(&&*e.class));
    let mut text = String::new();
    for table in of(&["IPsecTable"]) {
        let library = read(&client, &format!("{}.library", table.name), "")?;
        let _ = writeln!(text, "{}: ciphers by {library}", table.name);
        for list in LISTS {
            text += &read(&client, &format!("{}.{list}", table.name), "")?;
        }
    }
    if text.is_empty() {
        return Err("this router has no IPsecTable".to_owned());
    }
    for user in of(&TABLE_USERS) {
        let drops = read(&client, &format!("{}.named_drops", user.name), "")?;
        let drops: Vec<String> = drops.lines().map(|line| line.replace('\t', " ")).collect();
        let drops = match drops.is_empty() {
            true => "nothing dropped".to_owned(),
            false => drops.join(", "),
        };
        let _ = writeln!(text, "{}: {drops}", user.name);
    }
    print(&text)
}
