//! The manual pages of element classes.

use engine::element::Class;
use engine::port::{OpenPort, PortDirectory, PortInfo, PortRequest};

/// A directory in which every device exists, with eight queues.
struct AnyPort;

impl PortDirectory for AnyPort {
    fn probe(&self, _: &str) -> Result<PortInfo, String> {
        Ok(PortInfo::of_process("none", 8))
    }

    fn open(&self, _: &str, _: &PortRequest) -> Result<OpenPort, String> {
        Err("it is only planned for".to_owned())
    }

    fn get(&self, _: &str) -> Option<OpenPort> {
        None
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn close(&self, _: &str) {}
}

/// The code blocks of a page that begin with "```click".
fn examples(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    while lines.by_ref().any(|line| line.trim() == "```click") {
        let block = lines.by_ref().take_while(|line| line.trim() != "```");
        found.push(block.collect::<Vec<_>>().join("\n"));
    }
    found
}

/// Mistakes in the manual pages of `lists`; empty if there are none. Each page must have a summary, and examples that
/// use the class and that `ashlar check` accepts. Examples may use the classes of `others`, too.
pub fn manual_errors(lists: &[&'static [Class]], others: &[&'static [Class]]) -> String {
    let all = [others, lists].concat();
    let mut wrong = Vec::new();
    for class in lists.iter().copied().flatten() {
        let examples = examples(&class.manual());
        if class.summary().is_empty() || examples.is_empty() {
            wrong.push(format!("{} has no summary or no example", class.name));
        }
        for text in examples {
            if !text.contains(class.name) {
                wrong.push(format!("{}: its example does not use it", class.name));
            }
            if let Err(errors) = crate::plan(&all, &text, 2, &AnyPort, None) {
                wrong.push(format!("{}:\n{errors}", class.name));
            }
        }
    }
    wrong.join("\n")
}
