//! Decompression of bodies, outside the measured time: gzip, deflate, br, zstd.
//!
//! Memory is bounded. A body that may become large is first decoded only to count its length, and refused
//! if that is over the limit. So a compression bomb takes `KEPT_AT_ONCE_BYTES` and the decoder's window:
//! 32 KiB for gzip and deflate. For brotli and zstd, the sender chooses the window, up to 16 MiB (brotli's
//! maximum) and 8 MiB (set for HTTP by RFC 9659). Each thread decodes a single body at a time, so more
//! connections do not add to that. Bodies are decoded only if something reads them.

use std::io::{self, Read};

use http::HeaderMap;
use http::header::CONTENT_ENCODING;

use super::error::ClientError;
use super::whole::{Brotli, StrictDecoder, Zstd};

/// The codings that requests accept if a scenario asks for compression.
pub const ACCEPT_ENCODING: &str = "gzip, deflate, br, zstd";
/// A body may be compressed several times, but in practice not more often than this.
const CODINGS_MAX: usize = 4;
/// Bodies up to this length are decoded once; longer ones are decoded twice, first to count their length.
const KEPT_AT_ONCE_BYTES: usize = 256 * 1024;

/// Decompresses a body; `None` if it was not compressed.
///
/// # Errors
/// Unknown codings, and bodies that are damaged or longer than `bytes_max` when decompressed.
pub fn decoded(
    headers: Option<&HeaderMap>,
    body: &[u8],
    bytes_max: u64,
) -> Result<Option<Vec<u8>>, ClientError> {
    let codings = codings(headers);
    if codings.is_empty() || body.is_empty() {
        return Ok(None);
    }
    if codings.len() > CODINGS_MAX {
        return Err(ClientError::Protocol(format!("its body is compressed {} times", codings.len())));
    }
    let mut current: Option<Vec<u8>> = None;
    // The last coding in the header was applied last.
    for coding in codings.iter().rev() {
        let input = current.as_deref().unwrap_or(body);
        current = Some(one(coding, input, bytes_max)?);
    }
    Ok(current)
}

/// The codings that were applied to a body, in their order.
pub(super) fn codings(headers: Option<&HeaderMap>) -> Vec<String> {
    let mut codings = Vec::new();
    for value in headers.into_iter().flat_map(|headers| headers.get_all(CONTENT_ENCODING)) {
        let value = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
        let named = value.split(',').map(str::trim).filter(|coding| !matches!(*coding, "" | "identity"));
        codings.extend(named.map(str::to_owned));
    }
    codings
}

/// A body that its coding does not allow.
pub(super) fn damaged(coding: &str, error: &io::Error) -> ClientError {
    ClientError::Protocol(format!("its body cannot be decoded (content encoding: {coding}): {error}"))
}

fn one(coding: &str, input: &[u8], bytes_max: u64) -> Result<Vec<u8>, ClientError> {
    let damaged = |error: io::Error| damaged(coding, &error);
    match coding {
        // It reads all members, and fails where something else follows.
        "gzip" | "x-gzip" => unfold(|| Ok(flate2::bufread::MultiGzDecoder::new(input)), bytes_max, damaged),
        "deflate" if has_zlib_head(input) => {
            let whole = || Ok(StrictDecoder(flate2::bufread::ZlibDecoder::new(input), |zlib| zlib.get_ref()));
            unfold(whole, bytes_max, damaged)
        }
        // Some servers send raw deflate data without the zlib header.
        "deflate" => {
            let whole = || {
                Ok(StrictDecoder(flate2::bufread::DeflateDecoder::new(input), |deflate| deflate.get_ref()))
            };
            unfold(whole, bytes_max, damaged)
        }
        "br" => unfold(|| Ok(StrictDecoder(Brotli::new(input), |brotli| brotli.rest)), bytes_max, damaged),
        "zstd" => unfold(|| Ok(Zstd::new(input)), bytes_max, damaged),
        other => Err(ClientError::Protocol(format!(
            "its body has the unknown content encoding `{}`; ask for another with the header Accept-Encoding",
            other.chars().take(40).collect::<String>()
        ))),
    }
}

/// RFC 1950: the method is deflate, and the first two bytes are a multiple of 31.
pub(super) fn has_zlib_head(input: &[u8]) -> bool {
    matches!(input, [first, second, ..]
        if first & 0x0f == 8 && (u16::from(*first) * 256 + u16::from(*second)).is_multiple_of(31))
}

/// The decoder's output. Each call of `decoder` starts from the beginning.
fn unfold<R: Read>(
    decoder: impl Fn() -> io::Result<R>,
    bytes_max: u64,
    damaged: impl Fn(io::Error) -> ClientError,
) -> Result<Vec<u8>, ClientError> {
    let mut first = decoder().map_err(&damaged)?.take(bytes_max.saturating_add(1));
    let mut output = Vec::new();
    let at_once = bounded(&mut first, &mut output).map_err(&damaged)?;
    if at_once {
        let too_large = output.len() as u64 > bytes_max;
        return if too_large { Err(ClientError::BodyTooLarge { limit: bytes_max }) } else { Ok(output) };
    }
    let rest = io::copy(&mut first, &mut io::sink()).map_err(&damaged)?;
    let length = output.len() as u64 + rest;
    drop(first);
    if length > bytes_max {
        return Err(ClientError::BodyTooLarge { limit: bytes_max });
    }
    output.reserve_exact(usize::try_from(rest).unwrap_or(usize::MAX));
    output.clear();
    decoder().and_then(|decoder| decoder.take(length).read_to_end(&mut output)).map_err(&damaged)?;
    Ok(output)
}

/// Reads up to [`KEPT_AT_ONCE_BYTES`]; true if that was all.
fn bounded(decoder: &mut impl Read, output: &mut Vec<u8>) -> io::Result<bool> {
    let limit = KEPT_AT_ONCE_BYTES as u64;
    decoder.by_ref().take(limit).read_to_end(output)?;
    Ok((output.len() as u64) < limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use proptest::prelude::*;
    use std::io::Write as _;

    fn encoded_as(value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static(value))])
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn deflate(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
    }

    /// `hello hello hello hello`, by the reference program.
    const BROTLI: [u8; 20] = [
        0x1b, 0x16, 0x00, 0xf8, 0x8d, 0x94, 0x6e, 0xde, 0x44, 0x55, 0x86, 0x96, 0x6c, 0x20, 0x6f, 0x21, 0x4f,
        0x1c, 0xe0, 0x38,
    ];

    /// A frame of zstd that decoders skip (RFC 8878, section 3.1.2).
    const SKIPPED: &[u8] = b"\x5a\x2a\x4d\x18\x03\0\0\0abc";

    /// Where a body stops too early or goes on, a check for the absence of a text must not pass.
    #[test]
    fn a_body_is_decoded_to_its_end_or_refused() {
        let text = b"hello hello hello hello";
        let all = [
            ("gzip", gzip(text)),
            ("deflate", zlib(text)),
            ("deflate", deflate(text)),
            ("br", BROTLI.to_vec()),
            ("zstd", zstd(text)),
        ];
        for (name, body) in &all {
            for cut in 1..body.len() {
                let error = decoded(Some(&encoded_as(name)), &body[..cut], 1000).unwrap_err();
                assert_eq!(error.class().as_str(), "protocol", "{name} {cut}: {error}");
            }
            // A part of another one counts as damaged, too.
            for behind in [b"x".as_slice(), b"error error error error", &body[..body.len() - 1]] {
                let error = decoded(Some(&encoded_as(name)), &[body, behind].concat(), 1000).unwrap_err();
                assert_eq!(error.class().as_str(), "protocol", "{name} {behind:?}: {error}");
            }
        }
        for (name, body) in [
            ("br", [BROTLI, BROTLI].concat()),
            ("deflate", [zlib(text), zlib(text)].concat()),
            ("deflate", [deflate(text), deflate(text)].concat()),
        ] {
            let error = decoded(Some(&encoded_as(name)), &body, 1000).unwrap_err().to_string();
            assert!(error.contains(&format!("{} bytes behind its end", body.len() / 2)), "{error}");
        }
        let cut = [zstd(text), SKIPPED[..10].to_vec()].concat();
        assert!(decoded(Some(&encoded_as("zstd")), &cut, 1000).is_err());
    }

    /// `hello hello hello hello`, by the reference program (`zstd --check`): with its length and its checksum.
    const ZSTD: [u8; 25] = [
        0x28, 0xb5, 0x2f, 0xfd, 0x24, 0x17, 0x65, 0x00, 0x00, 0x30, 0x68, 0x65, 0x6c, 0x6c, 0x6f, 0x20, 0x01,
        0x00, 0x99, 0x4b, 0x11, 0x17, 0x5e, 0xae, 0x0d,
    ];

    #[test]
    fn a_frame_of_zstd_has_what_it_says() {
        let decode = |body: &[u8]| decoded(Some(&encoded_as("zstd")), body, 1000);
        assert_eq!(decode(&ZSTD).unwrap().as_deref(), Some(&b"hello hello hello hello"[..]));
        let changed = |at: usize, by: u8| {
            let mut body = ZSTD.to_vec();
            body[at] ^= by;
            decode(&body).unwrap_err().to_string()
        };
        assert!(changed(ZSTD.len() - 1, 1).contains("the checksum of a frame is another one"));
        assert!(changed(5, 8).contains("a frame says that it has 31 bytes, and has 23"), "{}", changed(5, 8));
    }

    #[test]
    fn every_coding_is_decoded() {
        let text = b"hello hello hello hello";
        for (name, body) in [
            ("gzip", gzip(text)),
            ("X-Gzip", gzip(text)),
            ("gzip", [gzip(&text[..6]), gzip(&text[6..])].concat()),
            ("zstd", [zstd(&text[..6]), zstd(&text[6..])].concat()),
            ("zstd", [zstd(b""), zstd(text), zstd(b"")].concat()),
            ("zstd", [SKIPPED.to_vec(), zstd(text), SKIPPED.to_vec(), SKIPPED.to_vec()].concat()),
            ("deflate", zlib(text)),
            ("deflate", deflate(text)),
            ("br", BROTLI.to_vec()),
            ("zstd", zstd(text)),
            ("identity, gzip", gzip(text)),
            ("gzip, zstd", zstd(&gzip(text))),
        ] {
            let decoded = decoded(Some(&encoded_as(name)), &body, 1000).unwrap();
            assert_eq!(decoded.as_deref(), Some(&text[..]), "{name}");
        }
        for (name, body) in [("identity", &text[..]), ("", text), ("gzip", b"")] {
            assert!(decoded(Some(&encoded_as(name)), body, 1000).unwrap().is_none(), "{name}");
        }
        assert!(decoded(None, text, 1000).unwrap().is_none());
    }

    /// Endless zeros, with a count of how many were read.
    struct ZeroReader<'a>(&'a std::cell::Cell<u64>);

    impl Read for ZeroReader<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            buffer.fill(0);
            self.0.set(self.0.get() + buffer.len() as u64);
            Ok(buffer.len())
        }
    }

    #[test]
    fn what_unfolds_beyond_the_limit_is_counted_and_not_kept() {
        let (taken, limit) = (std::cell::Cell::new(0), 64 << 20);
        let refused =
            unfold(|| Ok(ZeroReader(&taken)), limit, |error| ClientError::Protocol(error.to_string()));
        assert_eq!(refused.unwrap_err().class().as_str(), "body_limit");
        // Up to the limit, and a byte more; the second decoding does not start.
        assert_eq!(taken.get(), limit + 1);
        let mut kept = Vec::new();
        assert!(!bounded(&mut ZeroReader(&taken), &mut kept).unwrap());
        assert!(kept.capacity() <= 2 * KEPT_AT_ONCE_BYTES, "{}", kept.capacity());
    }

    #[test]
    fn long_bodies_are_complete_up_to_the_limit() {
        for length in [0, 1, KEPT_AT_ONCE_BYTES - 1, KEPT_AT_ONCE_BYTES, KEPT_AT_ONCE_BYTES + 1, 3_000_000] {
            let text: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            for (name, body) in [("gzip", gzip(&text)), ("deflate", zlib(&text)), ("zstd", zstd(&text))] {
                let decode = |limit: usize| decoded(Some(&encoded_as(name)), &body, limit as u64);
                assert!(decode(length).unwrap().unwrap_or_default() == text, "{name} {length}");
                if length > 0 {
                    assert_eq!(
                        decode(length - 1).unwrap_err().class().as_str(),
                        "body_limit",
                        "{name} {length}"
                    );
                }
            }
        }
    }

    #[test]
    fn too_large_a_window_is_refused() {
        // A frame of zstd without content whose window is 16 MiB: exponent 14 in the upper five bits.
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 14 << 3, 0x01, 0x00, 0x00];
        let error = decoded(Some(&encoded_as("zstd")), &frame, 1 << 30).unwrap_err();
        assert!(error.to_string().contains("window"), "{error}");
        let usual = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 13 << 3, 0x01, 0x00, 0x00];
        assert_eq!(decoded(Some(&encoded_as("zstd")), &usual, 1 << 30).unwrap().unwrap(), b"");
    }

    #[test]
    fn damaged_unknown_and_too_large_bodies_are_refused() {
        let bomb = gzip(&vec![0; 10 << 20]);
        assert!(bomb.len() < 20_000);
        for (name, body, class, part) in [
            ("gzip", bomb.clone(), "body_limit", "larger than 1000 bytes"),
            ("gzip, gzip", gzip(&bomb), "body_limit", "larger than 1000 bytes"),
            ("zstd", zstd(&vec![0; 1 << 20]), "body_limit", "larger than 1000 bytes"),
            ("deflate", zlib(&vec![0; 1 << 20]), "body_limit", "larger than 1000 bytes"),
            ("gzip", b"no gzip at all".to_vec(), "protocol", "content encoding: gzip"),
            ("gzip", gzip(b"cut off")[..12].to_vec(), "protocol", "content encoding: gzip"),
            ("br", b"\xff\xff\xff\xff\xff\xff".to_vec(), "protocol", "content encoding: br"),
            ("zstd", b"no zstd at all".to_vec(), "protocol", "content encoding: zstd"),
            ("compress", b"x".to_vec(), "protocol", "unknown content encoding `compress`"),
            ("gzip,gzip,gzip,gzip,gzip", gzip(b"x"), "protocol", "compressed 5 times"),
        ] {
            let error = decoded(Some(&encoded_as(name)), &body, 1000).unwrap_err();
            assert_eq!(error.class().as_str(), class, "{name}: {error}");
            assert!(error.to_string().contains(part), "{name}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in any::<usize>(), byte in any::<u8>()) {
            for name in ["gzip", "deflate", "br", "zstd"] {
                let _ = decoded(Some(&encoded_as(name)), &bytes, 10_000);
            }
            for (name, mut body) in [("gzip", gzip(&bytes)), ("deflate", zlib(&bytes)), ("zstd", zstd(&bytes))] {
                let whole = decoded(Some(&encoded_as(name)), &body, 10_000).unwrap();
                prop_assert_eq!(whole.as_deref(), Some(bytes.as_slice()));
                let at = at % body.len();
                body[at] = byte;
                let _ = decoded(Some(&encoded_as(name)), &body, 10_000);
            }
        }
    }
}
