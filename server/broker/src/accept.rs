//! Taking in what connects.
//!
//! Owns the one loop over a listener, for clients and for the admin server: a listener that cannot accept is left alone for a
//! while and tried again, for files run out and come back. Whether a connection is served is its caller's to say.

use std::io;
use std::time::Duration;

use crate::platform::{Listener, Platform};

/// How long to leave a listener alone that could not accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Hands every connection to `taken`, and every failure to `failed`, for ever.
pub(crate) async fn accept_each<P: Platform>(
    platform: &P,
    listener: P::Listener,
    failed: impl Fn(&io::Error),
    taken: impl Fn(P::Reader, P::Writer),
) {
    loop {
        match listener.accept().await {
            Ok((reader, writer)) => {
                taken(reader, writer);
                platform.yield_if_needed().await;
            }
            Err(error) => {
                failed(&error);
                platform.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
