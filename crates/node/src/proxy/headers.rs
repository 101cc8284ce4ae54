//! Headers that belong to one connection and are not passed on.

use http::{HeaderMap, HeaderName, header};

const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    // The listener has answered it already.
    header::EXPECT,
];

/// Removes them, and those that `Connection` names. `TE: trailers` stays: gRPC needs it.
pub(super) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let trailers = headers.get(header::TE).is_some_and(|te| te == "trailers");
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
    if trailers {
        headers.insert(header::TE, http::HeaderValue::from_static("trailers"));
    }
}

/// The protocol that a request or reply switches to.
pub(super) fn upgrade(headers: &HeaderMap) -> Option<http::HeaderValue> {
    let wants = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|token| token.trim().eq_ignore_ascii_case("upgrade"));
    headers.get(header::UPGRADE).filter(|_| wants).cloned()
}

/// Puts back what a switch of protocols needs.
pub(super) fn set_upgrade(headers: &mut HeaderMap, protocol: http::HeaderValue) {
    headers.insert(header::UPGRADE, protocol);
    let upgrade = http::HeaderValue::from_static("upgrade");
    headers.insert(header::CONNECTION, upgrade);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_headers_go_and_the_rest_stays() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, x-named"),
            ("x-named", "1"),
            ("transfer-encoding", "chunked"),
            ("te", "trailers"),
            ("host", "example"),
            ("x-access-token", "t"),
        ] {
            headers.insert(
                HeaderName::from_static(name),
                http::HeaderValue::from_static(value),
            );
        }
        strip_hop_by_hop(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["host", "te", "x-access-token"]);
    }
}
