//! The examples of the manual pages are configurations that `ashlar check` accepts.

use engine::port::{OpenPort, PortDirectory, PortInfo, PortRequest};

/// Every device is there, with eight queues.
struct AnyPort;

impl PortDirectory for AnyPort {
    fn probe(&self, _: &str) -> Result<PortInfo, String> {
        Ok(PortInfo {
            driver: "none".to_owned(),
            max_rx_queues: 8,
            max_tx_queues: 8,
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            node: None,
            remarks: Vec::new(),
        })
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

/// The blocks of a page between a line "```click" and the next "```".
fn examples(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    while lines.by_ref().any(|line| line.trim() == "```click") {
        let block = lines.by_ref().take_while(|line| line.trim() != "```");
        found.push(block.collect::<Vec<_>>().join("\n"));
    }
    found
}

#[test]
fn every_class_has_an_example_and_all_can_be_planned() {
    let mut wrong = Vec::new();
    for class in elements::CLASSES.iter().copied().flatten() {
        let examples = examples(&class.manual());
        if examples.is_empty() {
            wrong.push(format!("{} has no example", class.name));
        }
        for text in examples {
            if let Err(errors) = testkit::plan(elements::CLASSES, &text, 2, &AnyPort, None) {
                wrong.push(format!("{}:\n{errors}", class.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
