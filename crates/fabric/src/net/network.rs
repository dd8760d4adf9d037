//! Networks whose clients an owner trusts.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// The addresses that begin with the same bits: `10.0.0.0/8`, `fd00::/8`, or one address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Network {
    first: IpAddr,
    bits: u8,
}

/// Why text is no network.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text:?} is no network such as 10.0.0.0/8 or fd00::/8: {reason}")]
pub struct NoNetwork {
    text: String,
    reason: &'static str,
}

impl Network {
    /// Whether an address is one of these; an IPv4 address that is written as IPv6 is one of IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let (of_first, first) = number(self.first);
        let (of_address, address) = number(address.to_canonical());
        of_first == of_address
            && (first ^ address).unbounded_shr(u32::from(of_first - self.bits)) == 0
    }
}

/// How many bits an address has, and these as a number.
fn number(address: IpAddr) -> (u8, u128) {
    match address {
        IpAddr::V4(address) => (32, address.to_bits().into()),
        IpAddr::V6(address) => (128, address.to_bits()),
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

impl FromStr for Network {
    type Err = NoNetwork;

    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        let no = |reason| NoNetwork {
            text: text.into(),
            reason,
        };
        let (first, bits) = match text.split_once('/') {
            Some((first, bits)) => (first, Some(bits)),
            None => (text, None),
        };
        let first: IpAddr = first.parse().map_err(|_| no("it has no address"))?;
        let (all, as_number) = number(first);
        let bits = match bits.map(str::parse) {
            None => all,
            Some(Ok(bits)) if bits <= all => bits,
            Some(_) => return Err(no("what follows the / is no number of bits of the address")),
        };
        if as_number.unbounded_shl(u32::from(128 - all) + u32::from(bits)) != 0 {
            return Err(no("the address has bits behind those of the network"));
        }
        Ok(Self { first, bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_the_addresses_that_begin_with_their_bits() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("192.168.4.0/22", "192.168.7.255", "192.168.8.0"),
            ("10.1.2.3", "10.1.2.3", "10.1.2.2"),
            ("0.0.0.0/0", "255.1.2.3", "::1"),
            ("fd00::/8", "fdff::1", "fe00::"),
            ("::/0", "fe80::1", "1.2.3.4"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "::ffff:11.1.2.3"),
            ("fe80::1/128", "fe80::1", "fe80::2"),
        ] {
            let parsed: Network = network.parse().unwrap();
            assert!(
                parsed.contains(inside.parse().unwrap()),
                "{network} {inside}"
            );
            assert!(
                !parsed.contains(outside.parse().unwrap()),
                "{network} {outside}"
            );
            assert_eq!(parsed.to_string().parse(), Ok(parsed));
        }
        for wrong in [
            "",
            "10.0.0.0/33",
            "10.0.0.1/8",
            "host/8",
            "10.0.0.0/",
            "10.0.0.0/x",
        ] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
