//! Tells the service manager how far the node is: systemd's notification protocol, for units of `Type=notify`.
//!
//! Owns the one datagram socket. It never waits, and never fails a node: without `NOTIFY_SOCKET` nothing is said, and a
//! manager that does not listen is its own affair.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Every log is recovered and every core accepts.
pub(super) const READY: &str = "READY=1";
/// The stop has begun.
pub(super) const STOPPING: &str = "STOPPING=1";

/// Says so, where anybody asked to be told.
pub(super) fn tell(state: &str) {
    let Ok(name) = std::env::var("NOTIFY_SOCKET") else { return };
    // Best effort: what the manager does not hear, it finds out by its own timeout.
    drop(send(&name, state));
}

fn send(name: &str, state: &str) -> std::io::Result<()> {
    let address = match name.strip_prefix('@') {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    // The control executor serves others: a manager whose queue is full is not waited for.
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_is_told_at_a_path_and_at_an_abstract_name() {
        let path = std::env::temp_dir().join(format!("corelog-notify-{}", std::process::id()));
        drop(std::fs::remove_file(&path));
        let heard = |socket: &UnixDatagram| {
            let mut buffer = [0; 64];
            let count = socket.recv(&mut buffer).unwrap();
            String::from_utf8(buffer[..count].to_vec()).unwrap()
        };
        let socket = UnixDatagram::bind(&path).unwrap();
        send(path.to_str().unwrap(), READY).unwrap();
        assert_eq!(heard(&socket), "READY=1");
        std::fs::remove_file(&path).unwrap();
        let name = format!("corelog-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        send(&format!("@{name}"), STOPPING).unwrap();
        assert_eq!(heard(&socket), "STOPPING=1");
        assert!(send("/no/such/socket", READY).is_err());
    }
}
