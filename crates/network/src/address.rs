//! Which addresses a sandbox has: pure arithmetic on its index.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// The range out of which every sandbox gets two neighbouring addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet {
    base: u32,
    prefix: u8,
}

/// The text is not a usable range.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("subnet {text:?} is not <IPv4 address>/<8..30> with all host bits zero")]
pub struct SubnetError {
    text: String,
}

/// The two ends of one sandbox's link, a /31.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// The node's end, gateway of the sandbox.
    pub host: Ipv4Addr,
    /// The sandbox's end.
    pub sandbox: Ipv4Addr,
}

impl Subnet {
    /// How many sandboxes fit.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        1 << (31 - self.prefix)
    }

    /// The ends of link `index`, or nothing if the range is too small for it.
    #[must_use]
    pub fn addresses(&self, index: u32) -> Option<Addresses> {
        if index >= self.capacity() {
            return None;
        }
        let host = self.base + 2 * index;
        Some(Addresses {
            host: host.into(),
            sandbox: (host + 1).into(),
        })
    }
}

impl FromStr for Subnet {
    type Err = SubnetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || SubnetError {
            text: text.to_owned(),
        };
        let (address, prefix) = text.split_once('/').ok_or_else(bad)?;
        let base: u32 = address.parse::<Ipv4Addr>().map_err(|_| bad())?.into();
        let prefix: u8 = prefix.parse().map_err(|_| bad())?;
        if !(8..=30).contains(&prefix) || base & (u32::MAX >> prefix) != 0 {
            return Err(bad());
        }
        Ok(Self { base, prefix })
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.base), self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_index_gives_two_neighbouring_addresses() {
        let subnet: Subnet = "10.217.0.0/16".parse().unwrap();
        let addresses = subnet.addresses(130).unwrap();
        assert_eq!(addresses.host, Ipv4Addr::new(10, 217, 1, 4));
        assert_eq!(addresses.sandbox, Ipv4Addr::new(10, 217, 1, 5));
        assert_eq!(subnet.capacity(), 32_768);
        assert_eq!(subnet.addresses(32_768), None);
    }

    #[test]
    fn malformed_ranges_are_refused() {
        for bad in [
            "",
            "10.0.0.0",
            "10.0.0.0/31",
            "10.0.0.0/7",
            "10.0.0.1/16",
            "10.0.0/16",
            "::/16",
            "10.0.0.0/-1",
            "10.0.0.0/16 ",
        ] {
            assert!(bad.parse::<Subnet>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn links_never_overlap_and_stay_in_the_range(prefix in 8u8..=30, a: u32, b: u32) {
            let base = 0x0A00_0000u32 & !(u32::MAX >> prefix);
            let subnet: Subnet = format!("{}/{prefix}", Ipv4Addr::from(base)).parse().unwrap();
            let (a, b) = (a % subnet.capacity(), b % subnet.capacity());
            let (x, y) = (subnet.addresses(a).unwrap(), subnet.addresses(b).unwrap());
            prop_assert_eq!(u32::from(x.host) ^ u32::from(x.sandbox), 1);
            prop_assert_eq!(u32::from(x.host) & !(u32::MAX >> prefix), base);
            prop_assert_eq!(a == b, x == y);
        }
    }
}
