//! Addresses that webhooks may have (decision 37).
//!
//! An owner must not be able to make the control plane send requests to its own machine, its network or a cloud's metadata service.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum EgressPolicy {
    /// Public addresses only, with https.
    #[default]
    Public,
    /// Also the server's own machine, there with http too.
    Loopback,
    /// Also private networks, with http too.
    Private,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be public, loopback or private")]
pub struct InvalidEgressPolicy;

impl std::str::FromStr for EgressPolicy {
    type Err = InvalidEgressPolicy;

    fn from_str(text: &str) -> Result<Self, InvalidEgressPolicy> {
        match text {
            "public" => Ok(Self::Public),
            "loopback" => Ok(Self::Loopback),
            "private" => Ok(Self::Private),
            _ => Err(InvalidEgressPolicy),
        }
    }
}

/// Addresses outside the link-local range where clouds serve metadata and credentials: Azure's wire server, Alibaba, EC2 and EKS
/// over IPv6, Google over IPv6.
const METADATA_ADDRESSES: [IpAddr; 5] = [
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

/// Host names where clouds serve metadata and credentials.
const METADATA_NAMES: [&str; 6] = [
    "metadata",
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.internal",
    "metadata.tencentyun.com",
    "instance-data.ec2.internal",
];

/// Top-level domains that do not exist in the public DNS (RFC 6762, RFC 8375, RFC 9476; `internal` is reserved by ICANN), and
/// others that private networks use.
const PRIVATE_SUFFIXES: [&str; 7] = ["internal", "local", "home.arpa", "alt", "onion", "lan", "intranet"];

/// Whether a name is `suffix` or a subdomain of it.
pub(super) fn is_below(name: &str, suffix: &str) -> bool {
    name.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

impl EgressPolicy {
    /// Whether a host name is allowed. The addresses that it resolves to are checked at each delivery. `name` is in lower case.
    pub(super) fn admits_name(self, name: &str) -> bool {
        if METADATA_NAMES.iter().any(|metadata| is_below(name, metadata)) {
            return false;
        }
        if is_below(name, "localhost") {
            return self >= Self::Loopback;
        }
        let private = !name.contains('.') || PRIVATE_SUFFIXES.iter().any(|suffix| is_below(name, suffix));
        !private || self >= Self::Private
    }

    /// Whether an IP address is allowed. Link-local addresses, other addresses where clouds serve credentials, and those that IANA
    /// registers for special purposes are never allowed.
    pub fn admits(self, address: IpAddr) -> bool {
        if METADATA_ADDRESSES.contains(&address) {
            return false;
        }
        match address {
            IpAddr::V4(address) => self.admits_v4(address),
            IpAddr::V6(address) => self.admits_v6(address),
        }
    }

    fn admits_v4(self, address: Ipv4Addr) -> bool {
        let [a, b, c, _] = address.octets();
        if address.is_loopback() {
            return self >= Self::Loopback;
        }
        if address.is_private() || (a == 100 && (64..128).contains(&b)) {
            return self >= Self::Private;
        }
        let never = a == 0
            || a >= 224
            || address.is_link_local()
            || address.is_documentation()
            || (a == 192 && b == 0 && c == 0)
            || (a == 198 && (18..20).contains(&b))
            // Relays of 6to4 (deprecated), AS112 and AMT.
            || matches!((a, b, c), (192, 88, 99) | (192, 31, 196) | (192, 175, 48) | (192, 52, 193));
        !never
    }

    fn admits_v6(self, address: Ipv6Addr) -> bool {
        let segments = address.segments();
        if address.is_loopback() {
            return self >= Self::Loopback;
        }
        // IPv6 addresses that represent an IPv4 address: mapped, translated (NAT64), tunnelled (6to4).
        let within = |high: u16, low: u16| {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            self.admits_v4(Ipv4Addr::new(a, b, c, d))
        };
        match segments {
            [0, 0, 0, 0, 0, 0xffff | 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                within(high, low)
            }
            [0x2002, high, low, ..] => within(high, low),
            [first, ..] if first & 0xfe00 == 0xfc00 => self >= Self::Private,
            [0x2001, second, ..] => second >= 0x200 && second != 0xdb8,
            // AS112, and documentation.
            [0x2620, 0x4f, 0x8000, ..] => false,
            [0x3fff, second, ..] if second & 0xf000 == 0 => false,
            // Global unicast addresses.
            [first, ..] => first & 0xe000 == 0x2000,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn network_addresses_are_allowed_or_blocked() {
        let admits = |egress_policy: EgressPolicy, text: &str| egress_policy.admits(text.parse().unwrap());
        for public in ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34", "64:ff9b::5db8:d822"] {
            assert!(admits(EgressPolicy::Public, public), "{public}");
        }
        for own in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(!admits(EgressPolicy::Public, own) && admits(EgressPolicy::Loopback, own), "{own}");
        }
        for private in [
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "fd00::1",
            "2002:a00:1::",
            "64:ff9b::a00:1",
        ] {
            assert!(
                !admits(EgressPolicy::Loopback, private) && admits(EgressPolicy::Private, private),
                "{private}"
            );
        }
        for never in [
            "169.254.169.254",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "192.0.0.8",
            "198.18.0.1",
            "192.0.2.1",
            "::",
            "fe80::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "::ffff:169.254.169.254",
            "fec0::1",
            "192.88.99.1",
            "192.31.196.1",
            "192.52.193.1",
            "192.175.48.1",
            "192.0.0.192",
            "198.51.100.1",
            "203.0.113.1",
            "168.63.129.16",
            "100.100.100.200",
            "::ffff:192.88.99.1",
            "2002:c058:6301::",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "100::1",
            "2001:20::1",
            "2620:4f:8000::1",
            "3fff::1",
            "3fff:fff::1",
            "5f00::1",
            "fd00:ec2::254",
            "fd20:ce::254",
        ] {
            assert!(!admits(EgressPolicy::Private, never), "{never}");
        }
    }
}
