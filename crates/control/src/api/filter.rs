//! Filters of captures that may come from another machine.
//!
//! libpcap compiles a filter inside the router's process, under a lock, and asks name servers for the names in it. So a
//! filter of a member may have only numbers, addresses and words of the language, and must be short.

use super::Refusal;
use std::net::Ipv6Addr;

/// Maximum length of a filter, in bytes.
const LENGTH_MAX: usize = 500;
/// Words of tcpdump's language that name nothing else.
const WORDS: &str = "and or not host net mask port portrange src dst proto ether ip ip6 arp rarp tcp udp sctp icmp \
    icmp6 igmp ah esp vrrp pim vlan mpls broadcast multicast less greater len tcpflags tcp-fin tcp-syn tcp-rst \
    tcp-push tcp-ack icmptype icmpcode icmp-echo icmp-echoreply icmp-unreach";

/// Refuses a filter that is long, or has a name in it.
pub(super) fn check(filter: &str) -> Result<(), Refusal> {
    if filter.len() > LENGTH_MAX {
        let text = format!("a filter from another server has at most {LENGTH_MAX} characters");
        return Err(Refusal::new(422, text));
    }
    let separates = |c: char| !c.is_alphanumeric() && !".:-_".contains(c);
    let mut before = "";
    for word in filter.split(separates).filter(|word| !word.is_empty()) {
        let is_known = is_plain(word) || (before == "portrange" && is_range(word));
        if !is_known {
            let shown: String = word.chars().take(40).collect();
            let text = format!(
                "`{shown}` is no word, number or address: a filter from another server has no names, such as of hosts \
                 or services"
            );
            return Err(Refusal::new(422, text));
        }
        before = word;
    }
    Ok(())
}

/// True if libpcap looks up no name for a word.
fn is_plain(word: &str) -> bool {
    let is_address = || {
        let parts: Vec<&str> = word.split('.').collect();
        parts.len() <= 4 && parts.into_iter().all(is_number)
    };
    // Offset and length in brackets, or a MAC address.
    let is_pair = || {
        let parts: Vec<&str> = word.split(':').collect();
        let hexadecimal =
            |part: &&str| part.len() == 2 && part.bytes().all(|c| c.is_ascii_hexdigit());
        (parts.len() == 2 && parts.iter().all(|part| is_number(part)))
            || (parts.len() == 6 && parts.iter().all(hexadecimal))
    };
    word == "-"
        || WORDS.split(' ').any(|known| known == word)
        || is_address()
        || word.parse::<Ipv6Addr>().is_ok()
        || is_pair()
}

fn is_range(word: &str) -> bool {
    word.split_once('-')
        .is_some_and(|(first, last)| is_number(first) && is_number(last))
}

/// True for a decimal or hexadecimal number.
fn is_number(word: &str) -> bool {
    match word.strip_prefix("0x") {
        Some(digits) => !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_hexdigit()),
        None => !word.is_empty() && word.bytes().all(|c| c.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_of_numbers_and_addresses_are_taken() {
        for filter in [
            "",
            "udp and dst host 10.0.3.2",
            "net 10.1 or net 10.0.0.0/8 and not (port 53 or portrange 1000-2000)",
            "ip6 and host fd00:1::2 or net 2001:db8::/32",
            "ether src 02:00:00:00:00:0a or ether proto 0x0806",
            "tcp[tcpflags] & (tcp-syn|tcp-ack) != 0 and ip[2:2] - 4 > 0x40",
            "vlan 7 and icmp[0]=8",
        ] {
            check(filter).unwrap_or_else(|e| panic!("{filter}: {}", e.text));
        }
    }

    #[test]
    fn names_and_long_filters_are_refused() {
        for filter in [
            "host router.example.net",
            "host bad1",
            "host 1-2",
            "host 1.2.3.4.5",
            "host face",
            "port domain",
            "gateway x",
            "host 10.0.0.1\u{e9}",
            "ip protochain 6",
        ] {
            assert_eq!(check(filter).map_err(|e| e.status), Err(422), "{filter}");
        }
        assert!(check(&"ip or ".repeat(83)).is_ok());
        assert!(check(&"ip or ".repeat(84)).is_err());
    }
}
