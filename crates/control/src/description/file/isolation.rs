//! Isolation of a router: fields of `[[router]]` that are described in docs/routers.md, "Isolated routers".

use crate::description::reader::{Fields, Reader, Word};
use crate::host::user::User;
use lang::Span;
use std::ops::RangeInclusive;

/// Suffix of a gate's name.
pub const GATE: &str = ".gate";

/// Isolation settings of a router, as in the file that describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Isolation {
    /// User that runs the router's process.
    pub user: String,
    /// Memory limit of the router's process, in bytes.
    pub memory: u64,
    /// Processors that the router's process may use; `None` for all.
    pub cores: Option<String>,
    /// Number of workers.
    pub workers: u8,
}

impl Isolation {
    /// Looks up the user of the router.
    ///
    /// # Errors
    ///
    /// The user does not exist or is root; a message.
    pub(crate) fn user(&self) -> Result<User, String> {
        let user = User::named(&self.user)?;
        match user.id {
            0 => Err("an isolated router cannot be root: name another user".to_owned()),
            _ => Ok(user),
        }
    }
}

/// Range of an isolated router's memory limit in MiB, and the default.
const MEMORY_MIB: RangeInclusive<u32> = 64..=1 << 20;
const MEMORY_USUAL: u32 = 1024;

/// Kind of a router's isolation.
pub(super) enum Kind {
    /// Not isolated: the router runs in the common process.
    Shared,
    /// The router runs in its own process.
    Process(Isolation),
    /// The router runs in a virtual machine, whose device sockets are in this folder.
    Machine(Word),
}

/// Parses the fields of isolation. Errors are recorded.
pub(super) fn read(r: &mut Reader, fields: &mut Fields) -> Kind {
    let kind = fields.word(r, "isolation");
    let user = fields.word(r, "user");
    let memory = fields.value::<u32>(r, "memory");
    let cores = fields.word(r, "cores");
    let workers = fields.value::<u8>(r, "workers");
    let sockets = fields.word(r, "sockets");
    let is = kind.as_ref().map_or("shared", |word| &word.text);
    let of_process = [
        user.as_ref().map(|word| word.span),
        memory.map(|(_, span)| span),
        cores.as_ref().map(|word| word.span),
        workers.map(|(_, span)| span),
    ];
    if is != "process" {
        for span in of_process.into_iter().flatten() {
            let wrong = "this is for a router that is a process of its own".to_owned();
            let help = "add isolation = \"process\", or leave it out";
            r.wrong("router-isolation", span, wrong, help);
        }
    }
    if let Some(sockets) = sockets.as_ref().filter(|_| is != "machine") {
        let wrong = "this is for a virtual machine".to_owned();
        let help = "add isolation = \"machine\", or leave it out";
        r.wrong("router-isolation", sockets.span, wrong, help);
    }
    let Some(kind) = kind.filter(|word| word.text != "shared") else {
        return Kind::Shared;
    };
    match &*kind.text {
        "process" => {
            let own = process(r, kind.span, user, memory, workers);
            own.map_or(Kind::Shared, |own| {
                Kind::Process(Isolation {
                    cores: cores.map(|word| word.text),
                    ..own
                })
            })
        }
        "machine" => {
            for field in ["graph", "netns", "definitions"] {
                if fields.has(field) {
                    fields.skip(field);
                    let wrong = format!("a virtual machine has no `{field}`");
                    let help =
                        "leave it out: it gets the frames of its shares and links as they are";
                    r.wrong("router-isolation", kind.span, wrong, help);
                }
            }
            if let Some(sockets) = sockets.filter(|word| word.text.starts_with('/')) {
                return Kind::Machine(sockets);
            }
            let wrong = "a virtual machine needs a folder for the sockets of its cards".to_owned();
            let help = "write sockets = \"/run/vm1\", and make the folder: for each share and link the card's socket \
                is there";
            r.wrong("router-isolation", kind.span, wrong, help);
            Kind::Machine(Word {
                text: "/".to_owned(),
                ..kind
            })
        }
        other => {
            let wrong = format!("there is no isolation `{other}`");
            let help = "write \"shared\", \"process\" or \"machine\"";
            r.wrong("router-isolation", kind.span, wrong, help);
            Kind::Shared
        }
    }
}

/// Settings of a separate process; `None` if a required field is missing.
fn process(
    r: &mut Reader,
    place: Span,
    user: Option<Word>,
    memory: Option<(u32, Span)>,
    workers: Option<(u8, Span)>,
) -> Option<Isolation> {
    let Some(user) = user else {
        let wrong = "a router that is a process of its own needs a user".to_owned();
        let help = "write user = \"...\", and make the user with `useradd --system`: the router has only this user's \
            rights";
        r.wrong("router-isolation", place, wrong, help);
        return None;
    };
    if user.text == "root" {
        let wrong = "an isolated router cannot be root".to_owned();
        let help = "name another user; `useradd --system` makes one";
        r.wrong("router-isolation", user.span, wrong, help);
    }
    if let Some((_, span)) = memory.filter(|(mib, _)| !MEMORY_MIB.contains(mib)) {
        let wrong = "`memory` is out of range".to_owned();
        let help = format!(
            "write MiB, from {} to {}",
            MEMORY_MIB.start(),
            MEMORY_MIB.end()
        );
        r.wrong("router-isolation", span, wrong, &help);
    }
    if let Some((_, span)) = workers.filter(|(n, _)| !(1..=64).contains(n)) {
        let wrong = "`workers` is out of range".to_owned();
        r.wrong(
            "router-isolation",
            span,
            wrong,
            "write a number from 1 to 64",
        );
    }
    Some(Isolation {
        user: user.text,
        memory: u64::from(memory.map_or(MEMORY_USUAL, |(mib, _)| mib)) << 20,
        cores: None,
        workers: workers.map_or(1, |(n, _)| n.clamp(1, 64)),
    })
}
