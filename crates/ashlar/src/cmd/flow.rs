//! `ashlar flow`

use super::set::{value, with_end};
use super::show::read;
use super::{Done, print, print_json};
use crate::cli::{Flow, FlowTables, FlowWords};
use control::client::{Client, encode};
use control::view::Element;
use serde_json::json;
use std::fmt::Write;

/// Lists that are shown of a table: handler, and prefix of its lines.
const LISTS: [(&str, &str); 3] = [
    ("flows", ""),
    ("reserved", "reserved of output "),
    ("refused", "refused for "),
];

pub(crate) fn flow(flow: &Flow) -> Done {
    match flow {
        Flow::Add(words) => call_handler(words, "add"),
        Flow::Admit(words) => {
            let client = words.of.target.client()?;
            let table = single_table(&client, &words.of)?;
            let line = String::from_utf8_lossy(&value(&words.words)?).into_owned();
            answer(
                &words.of,
                &table,
                &read(&client, &format!("{table}.admit"), line.trim())?,
            )
        }
        Flow::Remove(words) => call_handler(words, "remove"),
        Flow::Show(of) => show(of),
    }
}

fn call_handler(words: &FlowWords, handler: &str) -> Done {
    let client = words.of.target.client()?;
    let table = single_table(&client, &words.of)?;
    let path = format!("/v1/handlers/{}", encode(&format!("{table}.{handler}")));
    let text = client.put(&path, value(&words.words)?)?;
    answer(&words.of, &table, &String::from_utf8_lossy(&text))
}

fn answer(args: &FlowTables, table: &str, text: &str) -> Done {
    match args.json {
        true => {
            let lines: Vec<&str> = text.lines().collect();
            print_json(&json!({"table": table, "answers": lines}))
        }
        false => print(&with_end(text)),
    }
}

/// Names of the requested tables: the named one, or all.
fn tables(client: &Client, args: &FlowTables) -> Result<Vec<String>, String> {
    let elements: Vec<Element> = client.get_json("/v1/elements")?;
    // Only a FlowTable has the handler `admit`.
    let admits = |e: &Element| e.handlers.iter().any(|handler| handler.name == "admit");
    let tables = elements.into_iter().filter(admits);
    let all: Vec<String> = tables.map(|e| e.name).collect();
    match &args.table {
        _ if all.is_empty() => {
            Err("this router has no FlowTable: see `ashlar doc FlowTable`".to_owned())
        }
        None => Ok(all),
        Some(name) if all.contains(name) => Ok(vec![name.clone()]),
        Some(name) => Err(format!(
            "there is no FlowTable `{name}`; there is {}",
            all.join(", ")
        )),
    }
}

fn single_table(client: &Client, args: &FlowTables) -> Result<String, String> {
    match &tables(client, args)?[..] {
        [table] => Ok(table.clone()),
        all => Err(format!(
            "this router has the FlowTables {}: say which one by --table",
            all.join(", ")
        )),
    }
}

fn show(args: &FlowTables) -> Done {
    let client = args.target.client()?;
    let mut text = String::new();
    let mut all = serde_json::Map::new();
    for table in tables(&client, args)? {
        let mut lists = serde_json::Map::new();
        let _ = writeln!(text, "{table}:");
        for (list, before) in LISTS {
            let lines = read(&client, &format!("{table}.{list}"), "")?;
            for line in lines.lines() {
                let _ = writeln!(text, "  {before}{line}");
            }
            lists.insert(list.to_owned(), lines.lines().collect());
        }
        all.insert(table, lists.into());
    }
    match args.json {
        true => print_json(&all.into()),
        false => print(&text),
    }
}
