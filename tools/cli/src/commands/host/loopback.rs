//! Round trips and throughput over the loopback, both ends on one core.
//!
//! Owns the two ends. It tells what a socket costs here through the node's own reader and writer: a figure to hold others
//! against, not what clients on other machines will see.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use broker::Platform;
use broker::platform::{ConnectionReader, ConnectionWriter, Listener};
use node::StopSignal;
use serde::Serialize;

use super::{Latency, mb_per_second, together};

/// How long a connection to this machine may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// A small request, and a small answer.
const MESSAGE_BYTES: usize = 64;
const ROUND_TRIPS_MAX: usize = 5_000;
/// What is sent and read at once for the throughput.
const PIECE_BYTES: usize = 1 << 20;
const READ_BYTES: usize = 256 << 10;

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Loopback {
    /// There and back, one message at a time.
    pub(crate) round_trip: Latency,
    /// One way, as fast as it is taken.
    pub(crate) mb_per_second: f64,
}

/// Measures for `time` each.
pub(crate) async fn measure<P: Platform>(
    platform: &P,
    stop: &StopSignal,
    time: Duration,
) -> io::Result<Loopback> {
    let listener = platform.listen(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    let dial = platform.connect(listener.local_address(), CONNECT_WITHIN);
    let (dialled, accepted) = futures_lite::future::zip(dial, listener.accept()).await;
    let ((mut near_reader, mut near_writer), (mut far_reader, mut far_writer)) =
        (dialled?, accepted?);

    let mut times = Vec::with_capacity(ROUND_TRIPS_MAX);
    let until = platform.monotonic() + time;
    let ask = async {
        let mut answer = [0; MESSAGE_BYTES];
        while times.len() < ROUND_TRIPS_MAX && platform.monotonic() < until && !stop.is_requested()
        {
            let begin = platform.monotonic();
            near_writer.send(&[&[1; MESSAGE_BYTES]]).await?;
            read_whole(&mut near_reader, &mut answer).await?;
            times.push(platform.monotonic() - begin);
        }
        // The last word: what follows is no message to be answered.
        near_writer.send(&[&[0; MESSAGE_BYTES]]).await
    };
    let answer = async {
        let mut asked = [0; MESSAGE_BYTES];
        loop {
            read_whole(&mut far_reader, &mut asked).await?;
            if asked == [0; MESSAGE_BYTES] {
                return Ok(());
            }
            far_writer.send(&[&asked]).await?;
        }
    };
    both(Box::pin(ask), Box::pin(answer)).await?;

    let begin = platform.monotonic();
    let until = begin + time;
    let mut taken: u64 = 0;
    let send = async {
        let piece = vec![7; PIECE_BYTES];
        while platform.monotonic() < until && !stop.is_requested() {
            near_writer.send(&[&piece]).await?;
            platform.yield_if_needed().await;
        }
        near_writer.shutdown().await;
        Ok(())
    };
    let take = async {
        let mut room = vec![0; READ_BYTES];
        loop {
            match far_reader.read(&mut room).await? {
                0 => return Ok(()),
                count => taken += count as u64,
            }
            platform.yield_if_needed().await;
        }
    };
    both(Box::pin(send), Box::pin(take)).await?;
    let mb_per_second = mb_per_second(taken, platform.monotonic() - begin);
    let round_trip = Latency::of(times).ok_or(io::ErrorKind::Interrupted)?;
    Ok(Loopback { round_trip, mb_per_second })
}

type End<'a> = Pin<Box<dyn Future<Output = io::Result<()>> + 'a>>;

async fn both(one: End<'_>, other: End<'_>) -> io::Result<()> {
    together(vec![one, other]).await.into_iter().collect()
}

async fn read_whole(reader: &mut impl ConnectionReader, message: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while let Some(room) = message.get_mut(filled..).filter(|room| !room.is_empty()) {
        match reader.read(room).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
    }
    Ok(())
}
