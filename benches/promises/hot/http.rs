//! A client of one HTTP/1.1 connection. It only finds the end of a response, so that it uses little of the CPU that it
//! shares with the server.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A connection that sends one request at a time.
pub struct Http {
    stream: TcpStream,
    /// Head of each request up to the value of `content-length`.
    head: String,
    request: Vec<u8>,
    response: Vec<u8>,
}

impl Http {
    /// Connects to a server.
    ///
    /// `path` is the path of all requests.
    pub async fn connect(url: &str, path: &str) -> Self {
        let address = url.strip_prefix("http://").unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: ");
        Self { stream, head, request: Vec::new(), response: vec![0; 4 << 10] }
    }

    /// Sends a body and returns the body of the response, which must have the status 200.
    pub async fn post(&mut self, body: &str) -> &str {
        self.request.clear();
        self.request.extend_from_slice(self.head.as_bytes());
        self.request.extend_from_slice(body.len().to_string().as_bytes());
        self.request.extend_from_slice(b"\r\n\r\n");
        self.request.extend_from_slice(body.as_bytes());
        self.stream.write_all(&self.request).await.unwrap();
        let (mut filled, mut range) = (0, None);
        loop {
            let read = self.stream.read(&mut self.response[filled..]).await.unwrap();
            assert!(read > 0, "the connection was closed: {}", String::from_utf8_lossy(&self.response[..filled]));
            filled += read;
            if range.is_none() {
                range = body_range(&self.response[..filled]);
            }
            let end = range.as_ref().map(|range: &std::ops::Range<usize>| range.end);
            if end.is_some_and(|end| filled >= end) {
                break;
            }
            let wanted = end.unwrap_or(0).max(filled + (4 << 10));
            if self.response.len() < wanted {
                self.response.resize(wanted, 0);
            }
        }
        let response = std::str::from_utf8(&self.response[..filled]).unwrap();
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        &response[range.unwrap()]
    }
}

/// Returns the range of the body, if the whole head was received.
fn body_range(response: &[u8]) -> Option<std::ops::Range<usize>> {
    let start = response.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&response[..start]).unwrap();
    let value = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
    };
    let length = head.lines().find_map(value).unwrap_or_else(|| panic!("a response without a length: {head}"));
    Some(start..start + length)
}
