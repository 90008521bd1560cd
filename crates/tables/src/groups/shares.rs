//! Choice of a group's member by weighted buckets.
//!
//! A flow's hash names one of the group's buckets, and the bucket names its member. The number of a member's buckets
//! is proportional to its weight, exact to one bucket. When a member goes down, only its buckets are given to the
//! others. When it returns, it takes only its share back. So no other flow moves. This is resilient hashing, as in
//! switches. (Rendezvous hashing needs no memory of the buckets, but its shares deviate by a tenth with 4 members and
//! 256 buckets.) The bucket comes from the upper bits of the hash, because the lower ones have already chosen the
//! receive queue.

use super::{Choice, Member};

/// A group of several live members.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shares {
    members: Box<[Member]>,
    /// Indices of members, by bucket; their number is a power of two.
    buckets: Box<[u8]>,
}

impl Shares {
    /// A separate function: groups without a choice are the frequent case and must stay small.
    #[inline(never)]
    pub(super) fn member_with(&self, flow_hash: impl FnOnce() -> u32) -> Option<&Member> {
        let bucket = (u64::from(flow_hash()) * self.buckets.len() as u64) >> 32;
        let member = self.buckets[bucket as usize];
        self.members.get(usize::from(member))
    }
}

/// Number of buckets for each member: in proportion to weight, at least one, and exactly `buckets` together.
fn quotas(members: &[Member], buckets: usize) -> Vec<usize> {
    let total: usize = members.iter().map(|m| usize::from(m.weight)).sum();
    let share = |m: &Member| usize::from(m.weight) * buckets;
    let mut quotas: Vec<usize> = members.iter().map(|m| (share(m) / total).max(1)).collect();
    // The member most disadvantaged by rounding gets a bucket; the most favoured one loses one.
    loop {
        let sum: usize = quotas.iter().sum();
        let owed = |i: &usize| share(&members[*i]) as isize - (quotas[*i] * total) as isize;
        let all = 0..members.len();
        let (i, more) = match sum.cmp(&buckets) {
            std::cmp::Ordering::Equal => return quotas,
            std::cmp::Ordering::Less => (all.max_by_key(owed), true),
            std::cmp::Ordering::Greater => (all.filter(|i| quotas[*i] > 1).min_by_key(owed), false),
        };
        match (i, more) {
            (Some(i), true) => quotas[i] += 1,
            (Some(i), false) => quotas[i] -= 1,
            (None, _) => return quotas,
        }
    }
}

/// Assigns the buckets to `members`. A member keeps its buckets as far as its quota allows.
pub(super) fn assign_buckets(members: Vec<Member>, buckets: usize, before: &Choice) -> Shares {
    // Former bucket of the same flows, if the number of buckets has changed.
    let owner_before = |bucket: usize| match before {
        Choice::Nothing => None,
        Choice::One(member) => Some(member),
        Choice::Several(group) => {
            let bucket = bucket * group.buckets.len() / buckets;
            group.members.get(usize::from(*group.buckets.get(bucket)?))
        }
    };
    let mut left = quotas(&members, buckets);
    let mut owners: Vec<Option<usize>> = vec![None; buckets];
    for (bucket, owner) in owners.iter_mut().enumerate() {
        let kept = owner_before(bucket).and_then(|m| members.iter().position(|n| m.is_same_way(n)));
        if let Some(i) = kept.filter(|i| left[*i] > 0) {
            left[i] -= 1;
            *owner = Some(i);
        }
    }
    // The remaining buckets go in turn to members with quota left, so that neighbouring buckets have different
    // members.
    let mut next = 0;
    for owner in owners.iter_mut().filter(|o| o.is_none()) {
        for _ in 0..members.len() {
            next = (next + 1) % members.len();
            if left[next] > 0 {
                left[next] -= 1;
                *owner = Some(next);
                break;
            }
        }
    }
    let buckets = owners.into_iter().map(|o| o.unwrap_or(0) as u8).collect();
    Shares {
        members: members.into(),
        buckets,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smallest_weight_still_gets_a_bucket() {
        let members: Vec<_> = (0..=255)
            .map(|n| Member {
                gateway: None,
                port: n,
                labels: wire::mpls::Labels::NONE,
                weight: if n == 0 { 65535 } else { 1 },
            })
            .collect();
        assert_eq!(quotas(&members, 4096).iter().sum::<usize>(), 4096);
        assert!(quotas(&members, 4096).iter().all(|q| *q > 0));
        assert_eq!(quotas(&members[..64], 64), [1; 64]);
    }
}
