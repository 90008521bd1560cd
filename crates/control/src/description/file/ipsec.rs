//! IPsec's associations and policies of a router: `[ipsec]`. Fields are described in docs/ipsec.md.
//!
//! Its lines become the value of the variable `IPSEC` of the router's graph, which gives it to its IPsecTable. Keys
//! stay in their files.

use super::routers::Section;
use crate::description::reader::{Fields, Reader, Word};
use elements_linux::ipsec::StaticDatabase;
use lang::Span;
use lang::args::quote;
use std::collections::BTreeSet;
use std::path::Path;

/// Variable of a graph that stands for the IPsec configuration.
const VARIABLE: &str = "IPSEC";

/// Parses the `[ipsec]` sections, and sets each router's variable. Key files are relative to `folder`.
pub(super) fn read(r: &mut Reader, top: &mut Fields, routers: &mut [Section], folder: &Path) {
    let mut seen = BTreeSet::new();
    let has_routers = top.has("router");
    for fields in top.table_or_tables(r, "ipsec", "[ipsec]") {
        let span = fields.span;
        let (router, value) = section(r, fields, folder);
        if !has_routers {
            let wrong = "[ipsec] is for a router, and this file has none".to_owned();
            let help = "add [[router]] with a name and a graph";
            r.wrong("ipsec-router", span, wrong, help);
            continue;
        }
        let Some(router) = find(r, router, span, routers) else {
            continue;
        };
        if !seen.insert(router.name.clone()) {
            let wrong = format!("router `{}` has two sections of IPsec", router.name);
            r.wrong("ipsec-twice", span, wrong, "write all into one of them");
            continue;
        }
        let source = &mut router.source;
        let given = source.definitions.iter().any(|(name, _)| name == VARIABLE);
        // The graph of a router that was not requested is empty.
        let uses = ["$IPSEC", "${IPSEC}"].map(|name| source.text.contains(name));
        if given {
            let wrong = format!(
                "router `{}` has a definition of `{VARIABLE}` already",
                router.name
            );
            let help = "leave it out of `definitions`: this section defines it";
            r.wrong("ipsec-definition", span, wrong, help);
        } else if uses == [false; 2] && !source.text.is_empty() {
            let wrong = format!(
                "the graph of router `{}` has no IPsecTable that takes this",
                router.name
            );
            let help = "write `ipsec :: IPsecTable($IPSEC);` in it, as conf/ipsec-linux.click does";
            r.wrong("ipsec-graph", span, wrong, help);
        } else {
            source.definitions.push((VARIABLE.to_owned(), value));
        }
    }
}

/// Router of a section, which must name one if there are several.
fn find<'s>(
    r: &mut Reader,
    name: Option<Word>,
    place: Span,
    routers: &'s mut [Section],
) -> Option<&'s mut Section> {
    let names: Vec<String> = routers.iter().map(|router| router.name.clone()).collect();
    let at = match &name {
        Some(name) => names.iter().position(|other| *other == name.text),
        None if names.len() == 1 => Some(0),
        None => {
            if !names.is_empty() {
                let wrong = "[ipsec] does not say for which router it is".to_owned();
                let help = format!("write router = \"{}\"", names[0]);
                r.wrong("ipsec-router", place, wrong, &help);
            }
            return None;
        }
    };
    if let (Some(name), None) = (name, at) {
        let wrong = format!("there is no router `{}`", name.text);
        let near = arguments::near::nearest(&name.text, names.iter().map(|n| &**n));
        let help = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => "name a [[router]] of this file".to_owned(),
        };
        r.wrong("ipsec-router", name.span, wrong, &help);
    }
    routers.get_mut(at?)
}

/// Parses a section. Returns the router's name, and the configuration of its IPsecTable.
fn section(r: &mut Reader, mut fields: Fields, folder: &Path) -> (Option<Word>, String) {
    let span = fields.span;
    let before = r.mistakes.len();
    let router = fields.word(r, "router");
    let kernel = fields.value::<bool>(r, "kernel");
    let mut given = StaticDatabase::default();
    let mut lines = Vec::new();
    for association in fields.tables(r, "sa", "[[ipsec.sa]]") {
        lines.extend(line(r, association, folder, sa, &mut given));
    }
    for said in fields.tables(r, "policy", "[[ipsec.policy]]") {
        lines.extend(line(r, said, folder, policy, &mut given));
    }
    let (has_sa, has_policy) = (fields.has("sa"), fields.has("policy"));
    fields.end(r);
    let is_kernels = kernel.is_some_and(|(is, _)| is);
    if let Some((_, span)) = kernel.filter(|(is, _)| *is && (has_sa || has_policy)) {
        let wrong = "both the kernel and this file define which packets are protected".to_owned();
        let help = "leave `kernel` out, or [[ipsec.sa]] and [[ipsec.policy]]";
        r.wrong("ipsec-kernel", span, wrong, help);
    }
    if !is_kernels && !has_policy {
        let wrong = "[ipsec] has no policies, so no packet would leave".to_owned();
        let help = "write kernel = true to use Linux's policies, or [[ipsec.policy]] for each kind of packets";
        r.wrong("ipsec-policy", span, wrong, help);
    }
    // If there are errors, the missing association may be an erroneous one.
    let numbers = match r.mistakes.len() == before {
        true => given.missing_reqids(),
        false => Vec::new(),
    };
    for number in numbers {
        let wrong = format!(
            "a policy protects by {number}, and there is no outbound association with this `reqid`"
        );
        let help = "packets of the policy would be dropped: add [[ipsec.sa]] with direction = \"out\", or correct the \
            number";
        let mistake = lang::Diagnostic::warning("ipsec-protect", wrong);
        r.mistakes.push(mistake.at(span).help(help));
    }
    let value = match is_kernels {
        true => "KERNEL true".to_owned(),
        false => lines.join(", "),
    };
    (router, value)
}

/// Builder for a line of an IPsecTable.
struct Words<'r, 'a> {
    r: &'r mut Reader,
    fields: Fields<'a>,
    folder: &'r Path,
    words: Vec<String>,
}

/// Line of an IPsecTable; `None` if it has errors.
fn line(
    r: &mut Reader,
    fields: Fields,
    folder: &Path,
    read: fn(&mut Words<'_, '_>),
    given: &mut StaticDatabase,
) -> Option<String> {
    let span = fields.span;
    let before = r.mistakes.len();
    let mut words = Words {
        r,
        fields,
        folder,
        words: Vec::new(),
    };
    read(&mut words);
    let Words {
        r, fields, words, ..
    } = words;
    fields.end(r);
    if r.mistakes.len() > before {
        return None;
    }
    match given.add(&words) {
        Ok(()) => Some(words.iter().map(|w| quote(w)).collect::<Vec<_>>().join(" ")),
        Err(wrong) => {
            let help = "`ashlar doc IPsecTable` has all words, docs/ipsec.md all fields";
            r.wrong("ipsec-line", span, wrong, help);
            None
        }
    }
}

impl Words<'_, '_> {
    fn put(&mut self, word: &str) {
        self.words.push(word.to_owned());
    }

    /// Appends the value of a required text field.
    fn needed(&mut self, key: &'static str, help: &str) {
        if let Some(word) = self.fields.needed(self.r, key, help) {
            self.words.push(word.text);
        }
    }

    /// Appends a keyword and the value of an optional field.
    fn optional(&mut self, key: &'static str, name: &str) {
        if let Some(word) = self.fields.word_or_number(self.r, key) {
            self.put(name);
            self.words.push(word.text);
        }
    }

    /// Value of a boolean field.
    fn is(&mut self, key: &'static str) -> Option<bool> {
        self.fields.value::<bool>(self.r, key).map(|(is, _)| is)
    }

    /// Appends a keyword and both values of a list.
    fn two_values(&mut self, key: &'static str, help: &str) {
        if !self.fields.has(key) {
            return;
        }
        let span = self.fields.span;
        let before = self.r.mistakes.len();
        let both = self.fields.words_or_numbers(self.r, key);
        if both.len() == 2 {
            self.put(key);
            self.words.extend(both.into_iter().map(|word| word.text));
        } else if self.r.mistakes.len() == before {
            let wrong = format!("`{key}` must name two, not {}", both.len());
            let span = both.first().map_or(span, |word| word.span);
            self.r.wrong("file-value", span, wrong, help);
        }
    }

    fn direction(&mut self) {
        self.needed(
            "direction",
            "write direction = \"in\" or \"out\": which way the packets go",
        );
    }
}

fn sa(line: &mut Words<'_, '_>) {
    line.put("sa");
    line.direction();
    line.optional("spi", "spi");
    line.optional("reqid", "reqid");
    line.optional("suite", "suite");
    let help = "write tunnel = [\"192.0.2.1\", \"198.51.100.1\"]: the end that seals, and the one that opens";
    line.two_values("tunnel", help);
    line.two_values(
        "udp",
        "write udp = [4500, 4500]: the sender's port, and the receiver's",
    );
    let help =
        "write key_file = \"site.key\": a file of mode 600 with the keys in hexadecimal digits";
    if let Some(file) = line.fields.needed(line.r, "key_file", help) {
        line.put("KEY_FILE");
        // The path is made absolute, because the router may run in another folder.
        let path = line.folder.join(&file.text);
        let path = std::path::absolute(&path).unwrap_or(path);
        line.words.push(path.display().to_string());
    }
    if line.is("esn") == Some(true) {
        line.put("esn");
    }
    if let Some(is) = line.is("ecn") {
        line.put("ecn");
        line.put(if is { "yes" } else { "no" });
    }
    for key in ["window", "pad", "df", "dscp", "ttl"] {
        line.optional(key, key);
    }
    for key in [
        "soft_packets",
        "soft_bytes",
        "soft_seconds",
        "hard_packets",
        "hard_bytes",
        "hard_seconds",
    ] {
        line.optional(key, key);
    }
}

fn policy(line: &mut Words<'_, '_>) {
    line.put("policy");
    line.direction();
    for key in ["src", "dst"] {
        line.put(key);
        line.needed(
            key,
            "write a prefix, such as \"10.1.0.0/16\", or \"0.0.0.0/0\" for all",
        );
    }
    for (key, name) in [
        ("protocol", "proto"),
        ("sport", "sport"),
        ("dport", "dport"),
    ] {
        line.optional(key, name);
    }
    let protects = line.fields.has("protect");
    line.optional("protect", "protect");
    let span = line.fields.span;
    let action = line.fields.word(line.r, "action");
    let help =
        "write protect = 1, the `reqid` of associations; or action = \"bypass\" or \"discard\"";
    match action {
        None if !protects => {
            let wrong = "[[ipsec.policy]] has no action for its packets".to_owned();
            line.r.wrong("file-missing", span, wrong, help);
        }
        None => {}
        Some(word) if !protects && ["bypass", "discard"].contains(&&*word.text) => {
            line.words.push(word.text);
        }
        Some(word) if protects => {
            let wrong = "`protect` contradicts `action`".to_owned();
            line.r.wrong("file-value", word.span, wrong, help);
        }
        Some(word) => {
            let wrong = format!("there is no action `{}`", word.text);
            line.r.wrong("file-value", word.span, wrong, help);
        }
    }
}
