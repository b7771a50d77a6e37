//! Compression of responses with gzip.
//!
//! A response is compressed as a whole, while its request keeps its slot. The memory of the encoder and of its result
//! counts as [`buffered_bytes`](super::Limits::buffered_bytes). An encoder that compresses while the client reads, as that
//! of tower-http's `CompressionLayer` does, would keep its memory until then, and no limit would count it. That layer also
//! changes the status of a mutation that ran to 406 if the client accepts no encoding that it has.

use std::io::Write;

use axum::http::HeaderMap;
use axum::http::header::ACCEPT_ENCODING;
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::task::yield_now;

/// Maximum size in bytes of a response that is never compressed.
const SMALL_BYTES: usize = 1 << 10;
/// Estimated memory of an encoder in bytes, without its result.
pub(super) const ENCODER_BYTES: usize = 352 << 10;
/// Number of bytes that are compressed before other tasks of the thread may run.
const SLICE_BYTES: usize = 64 << 10;

/// Returns whether a response of this size is compressed for clients that accept gzip.
pub(super) fn applies_to(bytes: usize) -> bool {
    bytes > SMALL_BYTES
}

/// Returns a text as gzip (RFC 1952), at the fastest level. `None` if that is larger than the text.
pub(super) async fn gzip(text: &[u8]) -> Option<Vec<u8>> {
    let mut compressed = vec![0_u8; text.len()];
    let mut encoder = GzEncoder::new(compressed.as_mut_slice(), Compression::fast());
    for (index, slice) in text.chunks(SLICE_BYTES).enumerate() {
        if index > 0 {
            yield_now().await;
        }
        encoder.write_all(slice).ok()?;
    }
    let unused = encoder.finish().ok()?.len();
    compressed.truncate(text.len() - unused);
    compressed.shrink_to_fit();
    Some(compressed)
}

/// Returns whether `Accept-Encoding` lists gzip with a weight above zero (RFC 9110, section 12.5.3).
#[must_use]
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    let lists = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_some_and(|weight| weight > 0.0)
    })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use sha2::{Digest, Sha256};

    use super::*;

    #[tokio::test]
    async fn result_has_no_spare_memory_and_is_never_larger_than_the_text() {
        let text = "a".repeat(200_000);
        let compressed = gzip(text.as_bytes()).await.unwrap();
        assert!(compressed.capacity() < text.len() / 10, "{} bytes", compressed.capacity());
        let incompressible: Vec<u8> =
            (0_u32..100).flat_map(|block| Sha256::digest(block.to_le_bytes()).to_vec()).collect();
        assert_eq!(gzip(&incompressible).await, None);
    }

    #[test]
    fn gzip_is_accepted_only_if_it_is_listed_with_a_weight() {
        let accepts = |lists: &[&'static str]| {
            let lists = lists.iter().map(|list| (ACCEPT_ENCODING, HeaderValue::from_static(list)));
            accepts_gzip(&lists.collect())
        };
        for lists in [&["gzip, deflate, br"][..], &["br;q=1.0, GZIP;q=0.5"], &["br", "gzip"]] {
            assert!(accepts(lists), "{lists:?}");
        }
        for lists in [&[][..], &["br"], &["gzip;q=0"], &["gzip; q=0.000, br"], &["gzip;q=x"], &["x-gzip"]] {
            assert!(!accepts(lists), "{lists:?}");
        }
    }
}
