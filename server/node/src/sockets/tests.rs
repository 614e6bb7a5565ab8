use std::cell::Cell;
use std::future::poll_fn;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use futures_lite::FutureExt;
use futures_lite::future::poll_once;
use nix::sys::socket::{MsgFlags, recv};

use super::*;
use crate::run::run_local;

/// A socket of this executor and its other end.
fn pair() -> (Socket, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Socket::new(ours.into()).unwrap(), theirs)
}

/// Reads once; counts the calls that this takes.
async fn read(socket: &Socket, buffer: &mut [u8], calls: &Cell<u32>) -> io::Result<usize> {
    poll_fn(|context| {
        socket.poll_receive(context, buffer.len(), |descriptor| {
            calls.set(calls.get() + 1);
            Ok(recv(descriptor.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT)?)
        })
    })
    .await
}

#[test]
fn a_socket_that_was_emptied_is_not_tried_before_more_comes() {
    run_local(async {
        let (socket, mut theirs) = pair();
        let (mut buffer, calls) = ([0; 16], Cell::new(0));
        theirs.write_all(b"one").unwrap();
        assert_eq!(read(&socket, &mut buffer, &calls).await.unwrap(), 3);
        assert!(poll_once(read(&socket, &mut buffer, &calls)).await.is_none());
        assert_eq!(calls.get(), 1, "asked of a socket that is known to be empty");
        theirs.write_all(b"0123456789abcdef").unwrap();
        assert_eq!(read(&socket, &mut buffer, &calls).await.unwrap(), 16);
        assert_eq!(calls.get(), 2);
        // A full buffer: there may be more, and nobody says so again.
        assert!(poll_once(read(&socket, &mut buffer, &calls)).await.is_none());
        assert_eq!(calls.get(), 3);
    })
    .unwrap();
}

#[test]
fn an_end_that_came_together_with_the_last_bytes_is_seen() {
    run_local(async {
        for is_early in [true, false] {
            let (socket, mut theirs) = pair();
            let (mut buffer, calls) = ([0; 16], Cell::new(0));
            theirs.write_all(b"last").unwrap();
            if is_early {
                drop(theirs);
                // The set has named it, and names it once.
                glommio::timer::sleep(Duration::from_millis(5)).await;
                assert_eq!(read(&socket, &mut buffer, &calls).await.unwrap(), 4);
            } else {
                assert_eq!(read(&socket, &mut buffer, &calls).await.unwrap(), 4);
                drop(theirs);
            }
            assert_eq!(read(&socket, &mut buffer, &calls).await.unwrap(), 0);
            assert_eq!(read(&socket, &mut buffer, &calls).await.unwrap(), 0, "it stays the end");
        }
    })
    .unwrap();
}

#[test]
fn more_sockets_than_one_question_names_are_all_told() {
    run_local(async {
        // Two descriptors each: below the 1,024 that a process has where nobody raises it.
        let count = EVENTS_MAX + 10;
        let pairs: Vec<_> = (0..count).map(|_| pair()).collect();
        let (sockets, mut theirs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let told = Rc::new(Cell::new(0));
        let waiting: Vec<_> = sockets
            .into_iter()
            .map(|socket| {
                let told = told.clone();
                glommio::spawn_local(async move {
                    let (mut buffer, calls) = ([0; 4], Cell::new(0));
                    assert_eq!(read(&socket, &mut buffer, &calls).await.unwrap(), 1);
                    told.set(told.get() + 1);
                })
            })
            .collect();
        glommio::timer::sleep(Duration::from_millis(5)).await;
        assert_eq!(told.get(), 0);
        theirs.iter_mut().for_each(|one| one.write_all(b"x").unwrap());
        for task in waiting {
            task.await;
        }
        assert_eq!(told.get(), count);
    })
    .unwrap();
}

#[test]
fn a_number_that_is_used_again_has_nothing_of_its_last_socket() {
    run_local(async {
        let (first, theirs) = pair();
        let number = first.number;
        drop(theirs);
        // Ended, by whatever the set says of it from now on.
        drop(first);
        let (second, mut theirs) = pair();
        assert_eq!(second.number, number);
        let (mut buffer, calls) = ([0; 4], Cell::new(0));
        theirs.write_all(b"a").unwrap();
        assert_eq!(read(&second, &mut buffer, &calls).await.unwrap(), 1);
        assert!(poll_once(read(&second, &mut buffer, &calls)).await.is_none());
        assert_eq!(calls.get(), 1);
    })
    .unwrap();
}

#[test]
fn a_socket_that_left_tells_nobody_here_what_comes_for_its_copy() {
    run_local(async {
        let (socket, mut theirs) = pair();
        let (mut buffer, calls) = ([0; 4], Cell::new(0));
        assert!(poll_once(read(&socket, &mut buffer, &calls)).await.is_none());
        let copy = socket.as_fd().try_clone_to_owned().unwrap();
        let state = socket.state.clone();
        socket.leave();
        theirs.write_all(b"for the other").unwrap();
        glommio::timer::sleep(Duration::from_millis(5)).await;
        assert!(!state.receive.is_ready.get());
        drop(socket);
        let mut copy = UnixStream::from(copy);
        copy.set_nonblocking(false).unwrap();
        let mut received = [0; 13];
        copy.read_exact(&mut received).unwrap();
        assert_eq!(&received, b"for the other");
    })
    .unwrap();
}

/// An executor with a socket that waited.
fn live() -> io::Result<usize> {
    run_local(async {
        let (socket, mut theirs) = pair();
        let (mut buffer, calls) = ([0; 4], Cell::new(0));
        assert!(poll_once(read(&socket, &mut buffer, &calls)).await.is_none());
        theirs.write_all(b"a").unwrap();
        let too_late = async {
            glommio::timer::sleep(Duration::from_secs(20)).await;
            Err(io::ErrorKind::TimedOut.into())
        };
        read(&socket, &mut buffer, &calls).or(too_late).await
    })
    .unwrap()
}

#[test]
fn an_executor_has_nothing_of_the_one_before_it_on_its_thread() {
    assert_eq!(live().unwrap(), 1);
    assert_eq!(live().unwrap(), 1);
}
