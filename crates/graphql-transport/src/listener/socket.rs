//! The byte stream of one connection. It records arriving bytes and times out a write without progress.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use super::slots::{Busy, ConnectionSlot};

/// Socket of a connection. It holds the connection's slot, also after an upgrade.
pub(super) struct Socket {
    stream: Either<TcpStream, Box<TlsStream<TcpStream>>>,
    slot: ConnectionSlot,
    write_timeout: Duration,
    stall: Option<Stall>,
}

/// A write that waits for the client to read.
struct Stall {
    of: Step,
    end: Pin<Box<Sleep>>,
    _busy: Busy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Write,
    Flush,
}

impl Socket {
    pub(super) fn new(
        stream: Either<TcpStream, Box<TlsStream<TcpStream>>>,
        slot: ConnectionSlot,
        write_timeout: Duration,
    ) -> Self {
        Self { stream, slot, write_timeout, stall: None }
    }

    /// Turns a write that is pending for too long into an error. A successful flush does not end the stall of a write,
    /// because flushing a TCP stream does nothing.
    fn watch<T>(&mut self, step: Step, polled: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stall.take_if(|stall| step == Step::Write || stall.of == Step::Flush);
            return polled;
        }
        let stall = self.stall.get_or_insert_with(|| Stall {
            of: step,
            end: Box::pin(sleep(self.write_timeout)),
            _busy: self.slot.hold(),
        });
        ready!(stall.end.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        match buffer.filled().len() - before {
            0 => read,
            bytes => Poll::Ready(self.slot.record_received(bytes)),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(Step::Write, polled, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.watch(Step::Write, polled, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch(Step::Flush, polled, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watch(Step::Flush, polled, cx)
    }
}
