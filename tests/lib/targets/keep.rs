//! Messages of a program to `ashlar keep`: after any of them, the program can be started again with the held
//! descriptors.

use super::Choices;

/// Descriptors held at most.
const MOST: usize = 253;

/// A byte for the number of descriptors, then a length and a message.
pub fn run(data: &[u8]) {
    let mut choices = Choices(&data[..data.len().min(4 << 10)]);
    let mut messages = Vec::new();
    while !choices.is_empty() && messages.len() < 64 {
        let descriptors = usize::from(choices.byte()) % 8;
        let length = usize::from(choices.byte());
        messages.push((choices.bytes(length), descriptors));
    }
    let (names, ready) = ashlar::held_after(messages.iter().copied());
    let sent: usize = messages.iter().map(|(_, count)| count).sum();
    assert!(names.len() <= sent.min(MOST));
    let listed = names.join(":");
    assert_eq!(listed.split(':').count(), names.len().max(1), "{listed}");
    assert!(!listed.contains(['\0', '\n']), "an environment takes it");
    let says = |(message, _): &(&[u8], usize)| message.windows(7).any(|w| w == b"READY=1");
    assert!(!ready || messages.iter().any(says));
}
