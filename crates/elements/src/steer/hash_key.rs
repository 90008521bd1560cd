//! Keys of the Toeplitz hash: as arguments, and those that elements of one description share.

use arguments::Names;
use arguments::units::FromArg;
use engine::publish::{Published, domain};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use sync::Lock;
use wire::rss::{KEY_LEN, MICROSOFT, SYMMETRIC, Toeplitz};

/// Hash key, parsed from a name or hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HashKey(pub(crate) [u8; KEY_LEN]);

impl fmt::Display for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SYMMETRIC => f.write_str("symmetric"),
            MICROSOFT => f.write_str("microsoft"),
            key => key.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

impl FromArg for HashKey {
    const KIND: &'static str = "symmetric, microsoft, or 40 bytes as 80 hexadecimal digits";

    fn from_arg(raw: &str, _: &Names) -> Result<HashKey, String> {
        match raw {
            "symmetric" => return Ok(HashKey(SYMMETRIC)),
            "microsoft" => return Ok(HashKey(MICROSOFT)),
            _ => {}
        }
        let mut key = [0; KEY_LEN];
        let digits = raw.bytes().filter(|&b| b != b':');
        let digits = digits.map(|b| char::from(b).to_digit(16));
        let digits: Option<Vec<u32>> = digits.collect();
        match digits {
            Some(digits) if digits.len() == 2 * KEY_LEN => {
                for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
                    *byte = (pair[0] << 4 | pair[1]) as u8;
                }
                Ok(HashKey(key))
            }
            _ => {
                let shown: String = raw.chars().take(40).collect();
                Err(format!("must be {}, not `{shown}`", Self::KIND))
            }
        }
    }

    fn stand_in() -> HashKey {
        HashKey(SYMMETRIC)
    }

    fn unparse(&self) -> String {
        self.to_string()
    }
}

/// Hash key that workers read and the control thread replaces.
pub(crate) struct Shared {
    pub(crate) table: Published<Toeplitz>,
    /// Reference count of users that keep flow state by this key's buckets. The key is replaceable while there are
    /// none.
    sorters: Arc<()>,
}

impl Shared {
    fn new(key: &HashKey) -> Shared {
        Shared {
            table: Published::new(domain(), Toeplitz::new(&key.0)),
            sorters: Arc::default(),
        }
    }

    /// Guard that keeps the key unchanged while it is held.
    pub(super) fn hold(&self) -> Arc<()> {
        Arc::clone(&self.sorters)
    }

    /// Replaces the key.
    ///
    /// # Errors
    ///
    /// An element keeps flow state by the buckets of the present key; a message.
    pub(crate) fn replace(&self, key: &HashKey) -> Result<(), String> {
        if *self.table.snapshot().key() == key.0 {
            return Ok(());
        }
        if Arc::strong_count(&self.sorters) > 1 {
            return Err(
                "workers keep flows by the buckets of this key, such as those of an IPRewriter, which \
                would be lost: change KEY in the configuration, and start the router anew"
                    .into(),
            );
        }
        self.table.replace(Toeplitz::new(&key.0));
        Ok(())
    }
}

/// Hash keys of a router, by key and number of buckets. Elements with equal values share a key, because both directions
/// of a flow must reach the same worker when the key changes.
#[derive(Default)]
pub(crate) struct Keys(Lock<HashMap<String, Weak<Shared>>>);

impl Keys {
    /// Shared key for a description. At the first call, its value is `key`.
    pub(crate) fn get(&self, description: &str, key: &HashKey) -> Arc<Shared> {
        let mut all = self.0.lock();
        all.retain(|_, shared| shared.strong_count() > 0);
        if let Some(shared) = all.get(description).and_then(Weak::upgrade) {
            return shared;
        }
        let shared = Arc::new(Shared::new(key));
        all.insert(description.to_owned(), Arc::downgrade(&shared));
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_names_or_eighty_digits() {
        let parse = |text: &str| arguments::units::parse::<HashKey>(text);
        for name in ["symmetric", "microsoft"] {
            assert_eq!(parse(name).map(|key| key.to_string()), Ok(name.to_owned()));
        }
        let digits = "0f".repeat(KEY_LEN);
        assert_eq!(
            parse(&digits).map(|key| key.to_string()),
            Ok(digits.clone())
        );
        let colons = ["0f"; KEY_LEN].join(":");
        assert_eq!(parse(&colons), parse(&digits));
        for wrong in ["", "fast", "0f", &digits[1..], &format!("{digits}00")] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn elements_of_one_description_share_a_key_while_one_exists() {
        let keys = Keys::default();
        let a = keys.get("x", &HashKey(SYMMETRIC));
        let b = keys.get("x", &HashKey(MICROSOFT));
        assert!(Arc::ptr_eq(&a, &b));
        assert!(!Arc::ptr_eq(&a, &keys.get("y", &HashKey(SYMMETRIC))));
        drop((a, b));
        let c = keys.get("x", &HashKey(MICROSOFT));
        assert_eq!(*c.table.snapshot().key(), MICROSOFT);
    }

    #[test]
    fn a_key_stays_while_it_is_in_use() {
        let shared = Shared::new(&HashKey(SYMMETRIC));
        let held = shared.hold();
        assert!(shared.replace(&HashKey(MICROSOFT)).is_err());
        assert_eq!(shared.replace(&HashKey(SYMMETRIC)), Ok(()));
        assert_eq!(*shared.table.snapshot().key(), SYMMETRIC);
        drop(held);
        assert_eq!(shared.replace(&HashKey(MICROSOFT)), Ok(()));
        assert_eq!(*shared.table.snapshot().key(), MICROSOFT);
    }
}
