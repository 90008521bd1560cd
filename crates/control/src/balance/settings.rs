//! Settings of the balancer.

use std::time::Duration;

/// Automatic actions of the load balancer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Moves nothing, but reports proposed moves.
    Off,
    /// Evens out the load of all workers.
    Even,
    /// Also deactivates workers that the load does not need.
    #[default]
    On,
}

/// Settings of the load balancer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Automatic actions.
    pub mode: Mode,
    /// Relative deviation of a worker's load from the mean at which buckets move.
    pub share: f64,
    /// Interval between measurements.
    pub interval: Duration,
    /// Fixed number of active workers; `None` for as many as the load needs.
    pub workers: Option<usize>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            mode: Mode::On,
            share: 0.1,
            interval: Duration::from_millis(100),
            workers: None,
        }
    }
}

impl Settings {
    /// Changes a setting, with the syntax of `ashlar set balance`: `on`, `even`, `off`, `share 10%`, `interval 50ms`,
    /// `workers 2`, `workers auto`.
    ///
    /// # Errors
    ///
    /// The text is not a valid setting; a message.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["on" | "true"] => self.mode = Mode::On,
            ["even"] => self.mode = Mode::Even,
            ["off" | "false"] => self.mode = Mode::Off,
            ["share", share] => {
                let percent = share.trim_end_matches('%').parse::<f64>().ok();
                let percent = percent.filter(|p| (1.0..=1000.0).contains(p));
                let wrong =
                    || format!("a share is a percentage from 1 on, such as 10%, not `{share}`");
                self.share = percent.ok_or_else(wrong)? / 100.0;
            }
            ["interval", interval] => {
                let wanted: Duration = arguments::units::parse(interval)?;
                let least = Duration::from_millis(10);
                if !(least..=Duration::from_secs(60)).contains(&wanted) {
                    return Err(format!("an interval is from 10ms to 1m, not {interval}"));
                }
                self.interval = wanted;
            }
            ["workers", "auto"] => self.workers = None,
            ["workers", n] => {
                let number = n.parse().ok().filter(|&n: &usize| n > 0);
                let wrong = || format!("a number of workers or `auto` is expected, not `{n}`");
                self.workers = Some(number.ok_or_else(wrong)?);
            }
            _ => {
                return Err(format!(
                    "`{text}` is not known: say on, even, off, now, share 10%, interval 100ms, workers 2 or workers \
                        auto"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_parsed_from_words() {
        let mut settings = Settings::default();
        for text in ["even", "share 5%", "interval 50ms", "workers 2"] {
            assert_eq!(settings.set(text), Ok(()), "{text}");
        }
        assert_eq!((settings.mode, settings.share), (Mode::Even, 0.05));
        assert_eq!(settings.interval, Duration::from_millis(50));
        assert_eq!(settings.workers, Some(2));
        assert_eq!(settings.set("workers auto"), Ok(()));
        assert_eq!(settings.workers, None);
        for text in ["", "share 0", "interval 1us", "workers 0", "faster"] {
            assert!(settings.set(text).is_err(), "{text}");
        }
    }
}
