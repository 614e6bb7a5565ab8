use super::*;
use crate::run::run_local;
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;

const CORES: u16 = 3;

/// Runs `core` on an executor and a thread for each seat.
fn with_cores<F>(message_count_max: usize, core: impl Fn(CoreMesh<u64>) -> F + Sync)
where
    F: Future<Output = ()>,
{
    thread::scope(|scope| {
        for seat in seats(CORES, message_count_max) {
            let core = &core;
            scope.spawn(move || {
                run_local(async move { core(seat.join().await).await }).unwrap();
            });
        }
    });
}

fn others(mesh: &CoreMesh<u64>) -> Vec<MeshIndex> {
    (0..mesh.count()).map(MeshIndex).filter(|&index| index != mesh.index()).collect()
}

#[test]
fn every_pair_keeps_its_order_through_full_queues() {
    const COUNT: u64 = 20_000;
    with_cores(64, |mesh| async move {
        let sending = mesh.clone();
        let task = glommio::spawn_local(async move {
            for number in 0..COUNT {
                for to in others(&sending) {
                    while sending.try_send(to, number).is_err() {
                        glommio::executor().yield_now().await;
                    }
                }
            }
        });
        let mut next: BTreeMap<MeshIndex, u64> = BTreeMap::new();
        for _ in 0..COUNT * u64::from(CORES - 1) {
            let (from, number) = mesh.receive().await.unwrap();
            let expected = next.entry(from).or_default();
            assert_eq!(number, *expected, "from {from:?}");
            *expected += 1;
        }
        assert_eq!(next.into_values().collect::<Vec<_>>(), [COUNT, COUNT]);
        task.await;
    });
}

#[test]
fn a_full_queue_gives_the_message_back_and_only_that_queue() {
    let filled = Barrier::new(usize::from(CORES));
    with_cores(8, |mesh| {
        let filled = &filled;
        async move {
            if mesh.index() == MeshIndex(0) {
                for number in 0..8 {
                    assert_eq!(mesh.try_send(MeshIndex(1), number), Ok(()));
                }
                assert_eq!(mesh.try_send(MeshIndex(1), 99), Err(99));
                assert_eq!(mesh.try_send(MeshIndex(2), 7), Ok(()), "another queue was full");
            }
            filled.wait();
            match mesh.index() {
                MeshIndex(1) => {
                    for number in 0..8 {
                        assert_eq!(mesh.receive().await, Some((MeshIndex(0), number)));
                    }
                }
                MeshIndex(2) => assert_eq!(mesh.receive().await, Some((MeshIndex(0), 7))),
                _ => {}
            }
            filled.wait();
        }
    });
}

#[test]
fn a_busy_core_does_not_keep_another_out() {
    let filled = Barrier::new(usize::from(CORES));
    with_cores(64, |mesh| {
        let filled = &filled;
        async move {
            match mesh.index() {
                MeshIndex(0) => (0..64).for_each(|n| mesh.try_send(MeshIndex(1), n).unwrap()),
                MeshIndex(2) => mesh.try_send(MeshIndex(1), 1000).unwrap(),
                _ => {}
            }
            filled.wait();
            if mesh.index() == MeshIndex(1) {
                let first = [mesh.receive().await.unwrap(), mesh.receive().await.unwrap()];
                let from: Vec<u16> = first.iter().map(|(from, _)| from.0).collect();
                assert!(from.contains(&0) && from.contains(&2), "{from:?}");
            }
            filled.wait();
        }
    });
}

#[test]
fn what_was_sent_arrives_after_the_sender_is_gone_and_then_the_mesh_is_closed() {
    with_cores(64, |mesh| async move {
        if mesh.index() == MeshIndex(1) {
            let mut numbers = Vec::new();
            while let Some((_, number)) = mesh.receive().await {
                numbers.push(number);
            }
            numbers.sort_unstable();
            assert_eq!(numbers, [0, 0, 1, 1, 2, 2]);
            assert_eq!(mesh.receive().await, None);
            assert_eq!(mesh.try_send(MeshIndex(0), 5), Err(5), "nobody is there");
            assert!(mesh.has_left(MeshIndex(0)) && !mesh.has_left(MeshIndex(1)));
        } else {
            for number in 0..3 {
                mesh.try_send(MeshIndex(1), number).unwrap();
            }
        }
    });
}

#[test]
fn a_seat_that_was_given_up_does_not_keep_the_others_waiting() {
    let mut seats = seats::<u64>(CORES, 8).into_iter();
    drop(seats.next());
    thread::scope(|scope| {
        for seat in seats {
            scope.spawn(move || {
                run_local(async move {
                    let mesh = seat.join().await;
                    assert_eq!(mesh.try_send(MeshIndex(0), 1), Err(1));
                    assert!(mesh.has_left(MeshIndex(0)));
                    let other = MeshIndex(3 - mesh.index().0);
                    mesh.try_send(other, 2).unwrap();
                    assert_eq!(mesh.receive().await, Some((other, 2)));
                })
                .unwrap();
            });
        }
    });
}

#[test]
fn a_silent_core_costs_a_busy_pair_nothing_however_long_they_talk() {
    // More waits than a task has room for copies of its waker (32,767), while core 2 never says a word.
    const ROUNDS: u64 = 33_500;
    with_cores(8, |mesh| async move {
        match mesh.index() {
            MeshIndex(0) => {
                for number in 0..ROUNDS {
                    mesh.try_send(MeshIndex(1), number).unwrap();
                    assert_eq!(mesh.receive().await, Some((MeshIndex(1), number)));
                }
            }
            MeshIndex(1) => {
                for number in 0..ROUNDS {
                    assert_eq!(mesh.receive().await, Some((MeshIndex(0), number)));
                    mesh.try_send(MeshIndex(0), number).unwrap();
                }
            }
            _ => assert_eq!(mesh.receive().await, None),
        }
    });
}

#[test]
fn a_call_ends_when_its_core_leaves_without_an_answer() {
    use crate::disk::GlommioDisk;
    use crate::platform::CorePlatform;
    use crate::testing::TempDir;
    use broker::calls::Request;
    use broker::mesh_call::{CallError, Caller};
    use futures_lite::future::or;

    let directory = TempDir::new();
    let path = directory.path();
    let core = async |mesh: CoreMesh<broker::Message>| match mesh.index() {
        MeshIndex(0) => {
            let caller = Caller::new(CorePlatform::new(GlommioDisk::new(path)), mesh.clone());
            // That a core has left is found out by who receives.
            let receiving = async { while mesh.receive().await.is_some() {} };
            let asking = async {
                let gone = CallError { to: MeshIndex(1) };
                let asked = caller.ask(MeshIndex(1), Request::Metrics).await;
                assert_eq!(asked.map(drop), Err(gone), "taken and never answered");
                let asked = caller.ask(MeshIndex(1), Request::Metrics).await;
                assert_eq!(asked.map(drop), Err(gone), "never taken");
            };
            or(asking, or(caller.watch(), receiving)).await;
        }
        MeshIndex(1) => assert!(mesh.receive().await.is_some()),
        // Stays to the end: the mesh as a whole is open.
        _ => assert!(mesh.receive().await.is_none()),
    };
    thread::scope(|scope| {
        for seat in seats(CORES, 8) {
            let core = &core;
            scope.spawn(move || {
                run_local(async move { core(seat.join().await).await }).unwrap();
            });
        }
    });
}
