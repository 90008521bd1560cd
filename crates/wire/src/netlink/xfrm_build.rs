//! Encoders of XFRM requests and answers.

use super::build::{Full, Writer};
use super::xfrm::{
    ACQUIRE, Current, EXPIRE, GETDEFAULT, Id, NEWAE, POLICY, Policy, Replay, SA, Template,
    XFRMA_LTIME_VAL, XFRMA_REPLAY_ESN_VAL, XFRMA_REPLAY_VAL, XFRMA_TMPL,
};
use super::{AF_INET, AF_INET6, NLM_F_DUMP, NLM_F_REPLACE, NLM_F_REQUEST};
use core::net::IpAddr;

fn family(ip: IpAddr) -> u16 {
    u16::from(if ip.is_ipv4() { AF_INET } else { AF_INET6 })
}

fn address(ip: IpAddr) -> [u8; 16] {
    let mut all = [0; 16];
    match ip {
        IpAddr::V4(ip) => all[..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => all = ip.octets(),
    }
    all
}

impl Writer<'_> {
    /// Requests a dump of all associations (`GETSA`) or policies (`GETPOLICY`).
    pub fn xfrm_dump(&mut self, kind: u16, sequence: u32) -> Result<(), Full> {
        self.message(kind, NLM_F_REQUEST | NLM_F_DUMP, sequence, |_| Ok(()))
    }

    /// Requests the default action for packets that no policy matches.
    pub fn xfrm_default(&mut self, sequence: u32) -> Result<(), Full> {
        self.message(GETDEFAULT, NLM_F_REQUEST, sequence, |w| w.put(&[0; 4]))
    }

    /// Sets an association's counts and sequence numbers in the kernel. All received sequence numbers are reported as
    /// seen.
    pub fn xfrm_counts(
        &mut self,
        id: &Id,
        src: IpAddr,
        current: &Current,
        replay: &Replay,
    ) -> Result<(), Full> {
        self.message(NEWAE, NLM_F_REQUEST | NLM_F_REPLACE, 0, |w| {
            w.put(&address(id.dst))?;
            w.put(&id.spi.to_be_bytes())?;
            w.put(&family(id.dst).to_ne_bytes())?;
            w.put(&[id.protocol, 0])?;
            w.put(&address(src))?;
            w.fill(8)?;
            let counts = [current.bytes, current.packets, current.added, current.used];
            w.attribute(XFRMA_LTIME_VAL, counts.map(u64::to_ne_bytes).as_flattened())?;
            let Some(words) = replay.words else {
                let numbers = [replay.sent as u32, replay.seen as u32, u32::MAX];
                return w.attribute(
                    XFRMA_REPLAY_VAL,
                    numbers.map(u32::to_ne_bytes).as_flattened(),
                );
            };
            w.nested(XFRMA_REPLAY_ESN_VAL, |w| {
                let numbers = [
                    words,
                    replay.sent as u32,
                    replay.seen as u32,
                    (replay.sent >> 32) as u32,
                    (replay.seen >> 32) as u32,
                    replay.window,
                ];
                w.put(numbers.map(u32::to_ne_bytes).as_flattened())?;
                (0..words).try_for_each(|_| w.put(&[0xff; 4]))
            })
        })
    }

    /// Reports that an association has reached a limit. The kernel informs the key daemon, and removes the association
    /// if the limit is hard.
    pub fn xfrm_expire(&mut self, id: &Id, hard: bool) -> Result<(), Full> {
        self.message(EXPIRE, NLM_F_REQUEST, 0, |w| {
            w.fill(56)?;
            w.put(&address(id.dst))?;
            w.put(&id.spi.to_be_bytes())?;
            w.put(&[id.protocol, 0, 0, 0])?;
            w.fill(212 - 80)?;
            w.put(&family(id.dst).to_ne_bytes())?;
            w.fill(SA - 214)?;
            w.put(&[u8::from(hard), 0, 0, 0, 0, 0, 0, 0])
        })
    }

    /// Reports that an association is needed: the policy, its templates, and the template that the association must
    /// match.
    pub fn xfrm_acquire(
        &mut self,
        policy: &[u8; POLICY],
        templates: &[u8],
        wanted: &Template,
    ) -> Result<(), Full> {
        self.message(ACQUIRE, NLM_F_REQUEST, 0, |w| {
            w.put(&address(wanted.dst))?;
            w.put(&[0, 0, 0, 0, wanted.protocol, 0, 0, 0])?;
            w.put(&address(wanted.src))?;
            // The selector is that of the policy, which comes next.
            w.put(&policy[..56])?;
            w.put(policy)?;
            w.put(&[0xff; 12])?;
            w.fill(4)?;
            w.attribute(XFRMA_TMPL, templates)
        })
    }
}

/// The policy's fields in the form that [`Writer::xfrm_acquire`] repeats.
impl Policy<'_> {
    /// Copies of the policy and its templates.
    pub fn keep(&self) -> ([u8; POLICY], &[u8]) {
        (*self.raw, self.templates.bytes())
    }
}
