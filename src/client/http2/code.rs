//! Why a stream or a connection of HTTP/2 ends (RFC 9113, section 7).

use std::fmt;

/// A reason, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Http2Code(pub(super) u32);

impl Http2Code {
    pub(super) const PROTOCOL_ERROR: Self = Self(1);
    pub(super) const FLOW_CONTROL_ERROR: Self = Self(3);
    pub(super) const STREAM_CLOSED: Self = Self(5);
    pub(super) const FRAME_SIZE_ERROR: Self = Self(6);
    pub(super) const REFUSED_STREAM: Self = Self(7);
    pub(super) const CANCEL: Self = Self(8);
    pub(super) const COMPRESSION_ERROR: Self = Self(9);
    pub(super) const ENHANCE_YOUR_CALM: Self = Self(11);
}

impl fmt::Display for Http2Code {
    fn fmt(&self, output: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 14] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        match NAMES.get(self.0 as usize) {
            Some(name) => output.write_str(name),
            None => write!(output, "error {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_the_names_of_the_standard() {
        assert_eq!(
            [0, 7, 13, 14].map(|code| Http2Code(code).to_string()),
            ["NO_ERROR", "REFUSED_STREAM", "HTTP_1_1_REQUIRED", "error 14"]
        );
    }
}
