//! What strangers can reach, and read on its way.

use std::net::{IpAddr, SocketAddr};

use crate::metrics::ListenerKind;

/// An address that is listened on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exposed {
    pub(super) listener: ListenerKind,
    pub(super) address: SocketAddr,
    pub(super) is_tls: bool,
}

impl Exposed {
    /// What is exposed, and what to do about it; `None` if it is not reachable from everywhere, or
    /// if TLS or a trusted proxy protects it.
    pub(super) fn warning(&self, has_proxy: bool) -> Option<String> {
        let address = self.address;
        if !is_public(address.ip()) || self.is_tls {
            return None;
        }
        Some(match self.listener {
            ListenerKind::Public if !has_proxy => format!(
                "clients of {address} send their keys unencrypted, and everybody on the way can \
                 read them: give --tls-cert and --tls-key, or name the proxy that speaks TLS with \
                 --trusted-proxy, or choose a private address with --listen"
            ),
            ListenerKind::Admin if !has_proxy => format!(
                "administrators send passwords and tokens to {address} unencrypted, and everybody \
                 can reach it: give --tls-cert and --tls-key, or name the proxy that speaks TLS \
                 with --trusted-proxy, or choose a private address with --admin-listen"
            ),
            // Nothing but the network keeps anybody out, and a proxy of clients is not before it.
            ListenerKind::Metrics => format!(
                "everybody can read the metrics at {address}: choose a private address with \
                 --metrics-listen"
            ),
            ListenerKind::Public | ListenerKind::Admin => return None,
        })
    }
}

/// Whether an address may be reached from everywhere. One that is not specified stands for all
/// addresses of this machine.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            // RFC 6598: between a provider and its customers, and in overlay networks.
            let is_shared = first == 100 && (64..128).contains(&second);
            let is_private = address.is_private() || address.is_link_local() || is_shared;
            !address.is_loopback() && !is_private
        }
        IpAddr::V6(address) => {
            let is_private = address.is_unique_local() || address.is_unicast_link_local();
            !address.is_loopback() && !is_private
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_everybody_may_reach() {
        for (address, expected) in [
            ("127.0.0.1", false),
            ("127.9.9.9", false),
            ("10.1.2.3", false),
            ("172.16.0.1", false),
            ("172.32.0.1", true),
            ("192.168.7.7", false),
            ("169.254.1.1", false),
            ("100.64.0.1", false),
            ("100.127.255.255", false),
            ("100.128.0.1", true),
            ("203.0.113.1", true),
            ("0.0.0.0", true),
            ("::", true),
            ("::1", false),
            ("::ffff:10.0.0.1", false),
            ("::ffff:203.0.113.1", true),
            ("fe80::1", false),
            ("fd00::1", false),
            ("2001:db8::1", true),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn what_is_exposed_is_said() {
        use ListenerKind::{Admin, Metrics, Public};
        for (listener, is_tls, has_proxy, words) in [
            (Public, false, false, Some("send their keys unencrypted")),
            (Public, true, false, None),
            (Public, false, true, None),
            (Admin, false, false, Some("passwords and tokens")),
            (Admin, true, false, None),
            (Admin, false, true, None),
            (Metrics, false, false, Some("--metrics-listen")),
            (Metrics, false, true, Some("--metrics-listen")),
        ] {
            let warning = |address: &str| {
                let exposed = Exposed {
                    listener,
                    address: address.parse().unwrap(),
                    is_tls,
                };
                exposed.warning(has_proxy)
            };
            let case = format!("{listener:?} {is_tls} {has_proxy}");
            assert_eq!(warning("127.0.0.1:1"), None, "{case}");
            let found = warning("0.0.0.0:1");
            assert_eq!(found.is_some(), words.is_some(), "{case}");
            assert!(
                found
                    .unwrap_or_default()
                    .contains(words.unwrap_or_default())
            );
        }
    }
}
