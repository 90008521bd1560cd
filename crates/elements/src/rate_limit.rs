//! Rate limits per router: one bucket for all workers, kept over reloads.

use crate::prelude::*;
use crate::secret;
use engine::publish::{Published, domain};
use tables::bucket::{FairBucket, FairRate};

/// Limit of sent messages: of one element, or of the whole router.
pub struct Limit {
    bucket: Arc<Bucket>,
    /// Setting of the element's own bucket.
    element_setting: Option<Setting>,
}

/// Messages per second (0 = no limit) and at once.
type Setting = (u64, u64);

struct Bucket {
    bucket: FairBucket,
    setting: Published<(Setting, FairRate)>,
    /// True if hosts that get few messages have a burst of their own: a host that causes many errors must not hide
    /// those of others.
    is_fair: bool,
}

impl Bucket {
    fn new(setting: Setting, is_fair: bool, seed: u64) -> Bucket {
        let rate = rate(setting, is_fair);
        Bucket {
            bucket: FairBucket::new(&rate, seed),
            setting: Published::new(domain(), (setting, rate)),
            is_fair,
        }
    }
}

fn rate((per_second, burst): Setting, is_fair: bool) -> FairRate {
    FairRate::new(per_second, burst, if is_fair { burst } else { 0 })
}

/// The limit of all ICMP error messages of a router, both families.
struct ErrorLimit(Arc<Bucket>);

/// Limit of error messages, which RFC 1812, 4.3.2.8 and RFC 4443, 2.4 (f) leave to the implementation.
const ERRORS: Setting = (1000, 50);

impl Default for ErrorLimit {
    fn default() -> ErrorLimit {
        ErrorLimit(Arc::new(Bucket::new(ERRORS, true, secret(cfg!(test)))))
    }
}

impl Limit {
    /// Limit of one element: `RATE` and `BURST`, with these defaults. It is fair among hosts, whose places depend on a
    /// secret seed.
    pub fn own(args: &mut Args, rate: u64, burst: u64, seed: u64) -> Limit {
        let per_second = args.key("RATE", rate, "messages per second; 0 = no limit");
        let burst = args.key("BURST", burst, "messages at once");
        Limit::of((per_second, burst), true, seed)
    }

    /// The limit of the router's error messages; or the element's own, with `RATE` or `BURST`.
    pub(crate) fn of_errors(args: &mut Args) -> Limit {
        let rate: Option<u64> = args.key_maybe("RATE", "a limit of its own: messages per second");
        let burst: Option<u64> = args.key_maybe("BURST", "a limit of its own: messages at once");
        match (rate, burst) {
            (None, None) => Limit {
                bucket: Arc::clone(&args.router_wide::<ErrorLimit>().0),
                element_setting: None,
            },
            _ => Limit::of(
                (rate.unwrap_or(ERRORS.0), burst.unwrap_or(ERRORS.1)),
                false,
                secret(cfg!(test)),
            ),
        }
    }

    fn of(own: Setting, is_fair: bool, seed: u64) -> Limit {
        Limit {
            bucket: Arc::new(Bucket::new(own, is_fair, seed)),
            element_setting: Some(own),
        }
    }

    /// True if this limit applies. In Click's manner (`as_click`), only limits of the file apply.
    pub(crate) fn applies(&self, as_click: bool) -> bool {
        self.element_setting.is_some() || !as_click
    }

    /// True if the rate limit allows one more packet to a host.
    #[inline]
    pub fn take(&self, host: u64, cx: &Cx) -> bool {
        let ((per_second, _), rate) = self.bucket.setting.read(cx.reader());
        *per_second == 0 || self.bucket.bucket.take_at(host, rate, cx.now().0)
    }

    /// Continues an unchanged limit after a hot swap.
    pub fn inherit(&mut self, old: &Limit) {
        if self.element_setting == old.element_setting {
            self.bucket = Arc::clone(&old.bucket);
        }
    }

    /// Text of the `rate` handler: per second, at once, and owner of the limit.
    pub fn show(&self) -> String {
        let ((per_second, burst), _) = *self.bucket.setting.snapshot();
        let whose = if self.element_setting.is_some() {
            "own"
        } else {
            "router"
        };
        format!("{per_second} {burst} {whose}")
    }

    /// Changes the limit, for all elements that share it: `RATE [BURST]`.
    pub fn set(&self, value: &str) -> Result<String, String> {
        let words: Vec<&str> = value.split_whitespace().collect();
        let burst_now = self.bucket.setting.snapshot().0.1;
        let (rate, burst) = match words.as_slice() {
            [rate] => (arguments::units::parse(rate)?, burst_now),
            [rate, burst] => (
                arguments::units::parse(rate)?,
                arguments::units::parse(burst)?,
            ),
            _ => return Err("write messages per second, and at once if you like".to_owned()),
        };
        let setting = (rate, burst);
        let rate = self::rate(setting, self.bucket.is_fair);
        self.bucket.setting.replace((setting, rate));
        Ok(String::new())
    }
}
