//! The fields that both ends of an HTTP/2 connection know from the beginning (RFC 7541, appendix A).

/// Fields of HTTP/1.1's connections, which HTTP/2 forbids (RFC 9113, section 8.2.2).
pub(super) const OF_CONNECTIONS: [&[u8]; 5] =
    [b"connection", b"transfer-encoding", b"upgrade", b"keep-alive", b"proxy-connection"];

/// Names and values; the index of the first one is 1.
pub(super) const FIELDS: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// The index of a name in the table.
pub(super) fn index_of_name(name: &str) -> Option<usize> {
    FIELDS.iter().position(|(other, _)| *other == name).map(|place| place + 1)
}

/// The index of a name with its value in the table.
pub(super) fn index_of(name: &str, value: &[u8]) -> Option<usize> {
    FIELDS
        .iter()
        .position(|(other, known)| *other == name && known.as_bytes() == value)
        .map(|place| place + 1)
}
