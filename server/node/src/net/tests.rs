use super::*;
use crate::run::run_local;
use futures_lite::future::poll_once;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::pin;
use std::sync::mpsc::channel;
use std::thread;

const LOOPBACK: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Runs `server` on the first connection of a fresh listener while `client` runs on a thread.
fn serve<F, R>(
    server: impl FnOnce(TcpReader, TcpWriter) -> F,
    client: impl FnOnce(TcpStream) -> R + Send + 'static,
) -> R
where
    F: Future<Output = ()>,
    R: Send + 'static,
{
    run_local(async {
        let listener = TcpListener::bind(LOOPBACK).unwrap();
        let address = listener.local_address();
        let client = thread::spawn(move || client(TcpStream::connect(address).unwrap()));
        let (reader, writer) = listener.accept().await.unwrap();
        server(reader, writer).await;
        client
    })
    .unwrap()
    .join()
    .unwrap()
}

/// Parts of many sizes: more than one sendmsg takes, empty ones, and some larger than its byte bound.
fn parts_of_many_sizes() -> Vec<Vec<u8>> {
    let sizes = [0, 1, 3, 61, 4096, 100_000, 0, 3 << 20, 17];
    let many = std::iter::repeat_n(5, 3000);
    let mut seed = 1_u32;
    sizes
        .into_iter()
        .cycle()
        .take(90)
        .chain(many)
        .map(|size| {
            (0..size)
                .map(|_| {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    seed.to_be_bytes()[0]
                })
                .collect()
        })
        .collect()
}

#[test]
fn a_large_send_to_a_slow_reader_arrives_whole_and_lets_others_run() {
    let parts = parts_of_many_sizes();
    let expected = parts.concat();
    let (busy_elsewhere, may_read) = channel();
    let received = serve(
        |_reader, mut writer| async move {
            let ticking = glommio::spawn_local(async move {
                for _ in 0..10 {
                    glommio::timer::sleep(Duration::from_millis(1)).await;
                }
                busy_elsewhere.send(()).unwrap();
            });
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            writer.send(&parts).await.unwrap();
            writer.shutdown().await;
            ticking.await;
        },
        move |mut stream| {
            // Far more than the buffers between us hold is being sent; nothing is read before the core has done other things.
            may_read.recv_timeout(Duration::from_secs(20)).expect("a send stops its core");
            let mut received = Vec::new();
            let mut chunk = vec![0; 60_000];
            loop {
                match stream.read(&mut chunk).unwrap() {
                    0 => return received,
                    bytes => received.extend_from_slice(&chunk[..bytes]),
                }
            }
        },
    );
    assert_eq!(received.len(), expected.len());
    assert!(received == expected, "bytes changed on the way");
}

#[test]
fn an_empty_send_sends_nothing_and_ends() {
    let received = serve(
        |_reader, mut writer| async move {
            writer.send(&[]).await.unwrap();
            writer.send(&[b"", b""]).await.unwrap();
            writer.send(&[b"", b"x", b""]).await.unwrap();
        },
        |mut stream| {
            let mut received = Vec::new();
            stream.read_to_end(&mut received).unwrap();
            received
        },
    );
    assert_eq!(received, b"x");
}

#[test]
fn a_peer_that_closed_its_sending_side_still_gets_the_answer() {
    let answer = serve(
        |mut reader, mut writer| async move {
            let mut buffer = [0; 64];
            let mut asked = Vec::new();
            loop {
                match reader.read(&mut buffer).await.unwrap() {
                    0 => break,
                    bytes => asked.extend_from_slice(&buffer[..bytes]),
                }
            }
            assert_eq!(asked, b"question");
            assert_eq!(reader.read(&mut buffer).await.unwrap(), 0, "the end stays the end");
            writer.send(&[b"ans", b"wer"]).await.unwrap();
        },
        |mut stream| {
            stream.write_all(b"question").unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        },
    );
    assert_eq!(answer, "answer");
}

#[test]
fn shutdown_ends_our_own_waiting_read_and_the_peer_sees_the_end() {
    serve(
        |mut reader, mut writer| async move {
            let mut buffer = [0; 16];
            let mut reading = pin!(reader.read(&mut buffer));
            assert!(poll_once(reading.as_mut()).await.is_none(), "nothing was sent");
            writer.shutdown().await;
            assert_eq!(reading.await.unwrap(), 0);
            assert!(writer.send(&[b"late"]).await.is_err());
        },
        |mut stream| assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0),
    );
}

#[test]
fn dropping_both_halves_tells_the_peer_before_the_ring_runs_again() {
    let (seen, sees) = channel();
    serve(
        |reader, writer| async move {
            drop(writer);
            drop(reader);
            // Blocks this core: only what the drop did itself can have reached the peer.
            sees.recv_timeout(Duration::from_secs(20)).expect("the peer saw no end");
        },
        move |mut stream| {
            assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0);
            seen.send(()).unwrap();
        },
    );
}

#[test]
fn sending_to_a_peer_that_went_away_is_an_error() {
    serve(
        |mut reader, mut writer| async move {
            assert_eq!(reader.read(&mut [0; 16]).await.unwrap(), 0);
            let block = vec![0; 1 << 20];
            let error = loop {
                match writer.send(&[&block]).await {
                    Ok(()) => {}
                    Err(error) => break error,
                }
            };
            let kinds = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset];
            assert!(kinds.contains(&error.kind()), "{error}");
        },
        drop,
    );
}

#[test]
fn addresses_and_options_are_what_the_broker_relies_on() {
    let (client_local, client_peer) = serve(
        |reader, writer| async move {
            assert!(SockRef::from(&writer.connection.socket).tcp_nodelay().unwrap());
            let avoidance = nix::sys::socket::getsockopt(&writer.connection.socket, TcpCongestion);
            assert_eq!(
                avoidance.unwrap(),
                ON_ONE_MACHINE,
                "nothing paces what stays on this machine"
            );
            assert_eq!(reader.local_address().ip(), LOOPBACK.ip());
            let text = format!("{} {}", reader.peer_address(), reader.local_address());
            let mut writer = writer;
            writer.send(&[text.as_bytes()]).await.unwrap();
        },
        |mut stream| {
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            let ours = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
            assert_eq!(text, format!("{} {}", ours.0, ours.1));
            ours
        },
    );
    assert_ne!(client_local, client_peer);
}

#[test]
fn connect_reaches_a_listener_is_refused_without_one_and_times_out() {
    run_local(async {
        let listener = TcpListener::bind(LOOPBACK).unwrap();
        let address = listener.local_address();
        let timeout = Duration::from_secs(20);
        let (_reader, mut writer) = connect(address, timeout).await.unwrap();
        let (mut accepted, _keep) = listener.accept().await.unwrap();
        writer.send(&[b"hi"]).await.unwrap();
        let mut buffer = [0; 16];
        assert_eq!(accepted.read(&mut buffer).await.unwrap(), 2);
        drop(listener);
        let refused = connect(address, timeout).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);

        let full = bound_socket(LOOPBACK, Sharing::Alone).unwrap();
        full.listen(0).unwrap();
        let address = ip_address(&full.local_addr().unwrap()).unwrap();
        let mut held = Vec::new();
        let timed_out = loop {
            match connect(address, Duration::from_millis(200)).await {
                Ok(halves) => held.push(halves),
                Err(error) => break error,
            }
            assert!(held.len() < 100, "a backlog of 0 took 100 connections");
        };
        assert_eq!(timed_out.kind(), io::ErrorKind::TimedOut);
    })
    .unwrap();
}

#[test]
fn a_reserved_address_is_shared_by_our_cores_and_refused_to_others() {
    let reserved = reserve(LOOPBACK).unwrap();
    let address = reserved.address();
    assert_ne!(address.port(), 0);
    // A node that is still starting listens nowhere.
    let in_use = reserve(address).unwrap_err();
    assert_eq!(in_use.kind(), io::ErrorKind::AddrInUse);
    run_local(async {
        let first = TcpListener::bind(address).unwrap();
        let second = TcpListener::bind(address).unwrap();
        assert_eq!(first.local_address(), second.local_address());
        // Someone else with the same port-sharing option: listening would succeed and split the connections.
        let in_use = reserve(address).unwrap_err();
        assert_eq!(in_use.kind(), io::ErrorKind::AddrInUse);
    })
    .unwrap();
    let foreign: SocketAddr = "192.0.2.1:9092".parse().unwrap();
    assert_eq!(reserve(foreign).unwrap_err().kind(), io::ErrorKind::AddrNotAvailable);
}

#[test]
fn pieces_keep_to_the_bounds_of_one_system_call() {
    let big = vec![7; SEND_BYTES_MAX + 10];
    let tiny = [1_u8];
    let mut parts: Vec<&[u8]> = vec![&big, b""];
    parts.extend(std::iter::repeat_n(&tiny[..], SEND_PARTS_MAX + 5));
    let total: usize = parts.iter().map(|part| part.len()).sum();
    let mut sent = Sent::default();
    let mut calls = Vec::new();
    let mut bytes = 0;
    loop {
        let pieces = sent.rest(&parts);
        let call: usize = pieces.iter().map(|piece| piece.len()).sum();
        if call == 0 {
            break;
        }
        calls.push((pieces.len(), call));
        bytes += call;
        sent.advance(&parts, call);
    }
    assert_eq!(bytes, total);
    let expected = [(1, SEND_BYTES_MAX), (1024, 10 + 1023), (6, 6)];
    assert_eq!(calls, expected);
}
