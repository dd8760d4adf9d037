//! The handle, from threads that block on its futures and from many that poll by hand.

use super::{Handle, HandleOptions};
use crate::{ErrorKind, FieldSize, KeyRange, Operation, Store, StoreError, TableOptions};
use farslot_testbed::block_on;
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Polls once, for nobody.
pub(super) fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn handle(options: HandleOptions) -> (Store, Handle) {
    let store = Store::embedded_with(64 << 20, crate::OpenOptions::default()).unwrap();
    let table = TableOptions::new(100_000).values(FieldSize::UpTo(64));
    store.create("t", &table).unwrap();
    let handle = Handle::open(&store, "t", options).unwrap();
    (store, handle)
}

/// Has the worker of a handle wait until the sender is dropped.
fn hold(handle: &Handle) -> (mpsc::Sender<()>, impl Future<Output = crate::Result<()>>) {
    let (until, waits) = mpsc::channel::<()>();
    let (begun, has_begun) = mpsc::channel();
    let call = handle.with(move |_| {
        let _ = begun.send(());
        let _ = waits.recv();
    });
    let mut call = Box::pin(call);
    assert!(poll(&mut call).is_pending());
    has_begun.recv().unwrap();
    (until, call)
}

fn assert_shared<T: Send + Sync + Clone>(_: &T) {}
fn assert_sent<T: Send>(future: T) -> T {
    future
}

#[test]
fn operations_are_those_of_a_table() {
    let (_store, handle) = handle(HandleOptions::default());
    assert_shared(&handle);
    block_on(assert_sent(async {
        assert_eq!(handle.get(b"k").await.unwrap(), None);
        assert!(handle.put(b"k", b"1").await.unwrap());
        assert!(!handle.put(b"k", b"2").await.unwrap());
        assert_eq!(handle.find_or_put(b"k", b"3").await.unwrap().unwrap(), b"2");
        assert!(
            handle
                .compare_and_set(b"k", Some(b"2"), b"4")
                .await
                .unwrap()
        );
        assert!(!handle.compare_and_set(b"k", None, b"5").await.unwrap());
        assert_eq!(
            handle.with(|table| table.increment(b"k", 3)).await.unwrap(),
            Ok(7)
        );
        assert!(
            handle
                .run(Operation::RemoveIf(b"k", b"7"))
                .await
                .unwrap()
                .is_changed()
        );
        assert!(!handle.remove(b"k").await.unwrap());
        let refused = handle.put(b"k", &[0; 65]).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::DoesNotFit);
        let values = handle
            .run(Operation::GetAll(b"k"))
            .await
            .unwrap()
            .into_values();
        assert!(values.is_empty());
    }));
}

#[test]
fn transactions_and_scans_run_at_a_worker() {
    let store = Store::embedded_with(64 << 20, crate::OpenOptions::default()).unwrap();
    store
        .create("ledger", &TableOptions::new(1_000).ordered())
        .unwrap();
    store
        .create("last", &TableOptions::new(10).chained())
        .unwrap();
    let options = HandleOptions::default();
    let ledger = Handle::open(&store, "ledger", options).unwrap();
    let last = Handle::open(&store, "last", options).unwrap();
    block_on(assert_sent(async {
        let ahead = ledger.transaction(|t| {
            for key in [b"a", b"b", b"c"] {
                t.put("ledger", key, b"1")?;
            }
            t.insert("last", b"key", b"c")
        });
        assert!(ahead.await.unwrap());
        assert_eq!(last.get(b"key").await.unwrap().unwrap(), b"c");
        let keys = |pairs: Vec<crate::Pair>| -> Vec<Vec<u8>> {
            pairs.into_iter().map(|(key, _)| key).collect()
        };
        let up = ledger.scan(b"b", 10).await.unwrap();
        assert_eq!(keys(up), [b"b", b"c"]);
        let down = KeyRange::from(b"a").to(b"c").reversed();
        assert_eq!(keys(ledger.scan(down, 10).await.unwrap()), [b"b", b"a"]);
        let unordered = last.scan(b"", 10).await.unwrap_err();
        assert!(unordered.to_string().contains("no order"), "{unordered}");
        let given_up = ledger.transaction(|t| {
            t.remove("ledger", b"a")?;
            t.abort();
            Ok(7)
        });
        assert_eq!(given_up.await, Ok(7));
        assert!(ledger.get(b"a").await.unwrap().is_some());
        let panics = ledger.transaction(|_| -> crate::Result<()> { panic!("as it is told") });
        assert_eq!(panics.await, Err(StoreError::WorkerPanicked));
        ledger.close().await;
        let closed = ledger.transaction(|_| Ok(())).await;
        assert_eq!(closed, Err(StoreError::HandleClosed));
    }));
}

#[test]
fn records_live_as_long_as_they_were_put_for() {
    let store = Store::embedded_with(64 << 20, crate::OpenOptions::default()).unwrap();
    store.create("t", &TableOptions::default()).unwrap();
    store.create("stays", &TableOptions::new(100)).unwrap();
    let handle = Handle::open(&store, "t", HandleOptions::default()).unwrap();
    let stays = Handle::open(&store, "stays", HandleOptions::default()).unwrap();
    let long = Duration::from_secs(3_600);
    block_on(assert_sent(async {
        assert!(handle.put_for(b"a", b"1", long).await.unwrap());
        assert!(handle.put_for(b"gone", b"2", Duration::ZERO).await.unwrap());
        assert_eq!(handle.get(b"a").await.unwrap().unwrap(), b"1");
        assert_eq!(handle.get(b"gone").await.unwrap(), None);
        let (value, left) = handle.get_with_time_to_live(b"a").await.unwrap().unwrap();
        assert!(value == b"1" && left.unwrap() > long / 2 && left.unwrap() <= long);
        assert!(handle.set_time_to_live(b"a", None).await.unwrap());
        let found = handle.get_with_time_to_live(b"a").await.unwrap();
        assert_eq!(found, Some((b"1".to_vec(), None)));
        assert!(!handle.set_time_to_live(b"none", None).await.unwrap());
        let refused = stays.put_for(b"a", b"1", long).await.unwrap_err();
        assert!(
            matches!(refused, StoreError::NotExpiring { .. }),
            "{refused}"
        );
    }));
}

/// Those of many tasks leave together with other operations, each with its own time.
#[test]
fn puts_of_records_that_live_for_a_while_leave_together() {
    let (store, _) = handle(HandleOptions::default());
    store.create("many", &TableOptions::default()).unwrap();
    let handle = Handle::open(&store, "many", HandleOptions::default()).unwrap();
    let (until, held) = hold(&handle);
    let keys: Vec<_> = (0..50_u64).map(u64::to_le_bytes).collect();
    let span = |number: u64| Duration::from_secs(1_000 * (1 + number));
    let puts = (0..).zip(&keys).map(|(number, key)| {
        let handle = &handle;
        Box::pin(async move {
            match number % 3 {
                0 => handle.put(key, key).await,
                _ => handle.put_for(key, key, span(number)).await,
            }
        })
    });
    let mut puts: Vec<_> = puts.collect();
    for put in &mut puts {
        assert!(poll(put).is_pending());
    }
    // A future that is dropped before a worker has it is never sent.
    drop(puts.pop());
    drop(until);
    block_on(held).unwrap();
    for put in puts {
        assert!(block_on(put).unwrap());
    }
    let table = store.table("many").unwrap();
    for (number, key) in (0..).zip(&keys[..49]) {
        let (value, left) = table.get_with_time_to_live(key).unwrap().unwrap();
        assert_eq!(value, key);
        match number % 3 {
            0 => assert_eq!(left, None),
            _ => assert!(left.unwrap() <= span(number) && left.unwrap() > span(number) / 2),
        }
    }
    assert_eq!(table.get(&keys[49]).unwrap(), None);
}

/// All are woken, whether they had room at once or not; and they leave together.
#[test]
fn many_tasks_share_a_small_queue() {
    for workers in [1, 3] {
        let (store, handle) = handle(HandleOptions { workers, queue: 7 });
        std::thread::scope(|scope| {
            for thread in 0..4_u32 {
                let handle = handle.clone();
                scope.spawn(move || {
                    let puts = (0..500_u32).map(|number| {
                        let key = (thread << 16 | number).to_le_bytes();
                        handle.run(Operation::Put(&key, &number.to_le_bytes()))
                    });
                    let mut left: Vec<_> = puts.map(Box::pin).collect();
                    block_on(std::future::poll_fn(|context| {
                        left.retain_mut(|put| match put.as_mut().poll(context) {
                            Poll::Ready(done) => {
                                assert!(done.unwrap().is_changed());
                                false
                            }
                            Poll::Pending => true,
                        });
                        if left.is_empty() {
                            Poll::Ready(())
                        } else {
                            Poll::Pending
                        }
                    }));
                });
            }
        });
        let table = store.table("t").unwrap();
        let mut entries = 0;
        table.for_each(|_, _| entries += 1).unwrap();
        assert_eq!(entries, 2_000);
    }
}

#[test]
fn an_operation_that_nobody_waits_for_any_more_is_not_sent() {
    let (_store, handle) = handle(HandleOptions {
        workers: 1,
        queue: 3,
    });
    let (until, call) = hold(&handle);
    let mut dropped = handle.run(Operation::Put(b"dropped", b"1"));
    assert!(poll(&mut dropped).is_pending());
    drop(dropped);
    let never_polled = handle.run(Operation::Put(b"never polled", b"1"));
    drop(never_polled);
    let kept = handle.try_run(Operation::Put(b"kept", b"1")).unwrap();
    drop(until);
    block_on(call).unwrap();
    assert!(block_on(kept).unwrap().is_changed());
    for key in [&b"dropped"[..], b"never polled"] {
        assert_eq!(block_on(handle.get(key)).unwrap(), None);
    }
}

/// Those that are dropped at any moment are done once or not; those that ended were done.
#[test]
fn dropped_operations_are_done_once_at_most() {
    let (_store, handle) = handle(HandleOptions {
        workers: 2,
        queue: 16,
    });
    let mut ended = Vec::new();
    for round in 0..300_u32 {
        let key = round.to_le_bytes();
        let mut running = handle.run(Operation::FindOrPut(&key, b"v"));
        for _ in 0..round % 7 {
            if let Poll::Ready(done) = poll(&mut running) {
                assert_eq!(done.unwrap().into_value(), None, "it was done before");
                ended.push(key);
                break;
            }
            std::thread::yield_now();
        }
    }
    for key in ended {
        assert_eq!(block_on(handle.get(&key)).unwrap().unwrap(), b"v");
    }
}

#[test]
fn a_full_queue_says_so_or_has_futures_wait() {
    let (_store, handle) = handle(HandleOptions {
        workers: 1,
        queue: 2,
    });
    let (until, call) = hold(&handle);
    let first = handle.try_run(Operation::Put(b"1", b"1")).unwrap();
    let second = handle.try_run(Operation::Put(b"2", b"1")).unwrap();
    let refused = handle.try_run(Operation::Put(b"3", b"1")).unwrap_err();
    assert_eq!(
        (refused.kind(), &refused),
        (ErrorKind::Busy, &StoreError::QueueFull)
    );
    // One that waits for room and goes away passes its turn on.
    let mut leaves = handle.run(Operation::Put(b"4", b"1"));
    assert!(poll(&mut leaves).is_pending());
    let stays = std::thread::spawn({
        let handle = handle.clone();
        move || block_on(handle.put(b"5", b"1"))
    });
    drop(until);
    drop(leaves);
    block_on(async {
        call.await.unwrap();
        first.await.unwrap();
        second.await.unwrap();
    });
    assert!(stays.join().unwrap().unwrap());
    assert_eq!(block_on(handle.get(b"4")).unwrap(), None);
}

#[test]
fn closing_does_what_was_sent() {
    let (store, handle) = handle(HandleOptions::default());
    let (until, call) = hold(&handle);
    let sent: Vec<_> = (0..100_u32)
        .map(|number| {
            handle
                .try_run(Operation::Put(&number.to_le_bytes(), b"v"))
                .unwrap()
        })
        .collect();
    let closing = handle.close();
    assert_eq!(
        block_on(handle.get(b"k")).unwrap_err(),
        StoreError::HandleClosed
    );
    assert_eq!(
        handle.try_run(Operation::Get(b"k")).unwrap_err().kind(),
        ErrorKind::Closed
    );
    drop(until);
    block_on(async {
        closing.await;
        call.await.unwrap();
        for put in sent {
            assert!(put.await.unwrap().is_changed());
        }
    });
    assert_eq!(store.table("t").unwrap().occupancy().unwrap().entries, 100);
}

#[test]
fn a_panic_fails_its_caller_alone() {
    let (_store, handle) = handle(HandleOptions::default());
    let panicked = block_on(handle.with(|_| panic!("as the test wants it")));
    let error: StoreError = panicked.map(|(): ()| ()).unwrap_err();
    assert_eq!(error, StoreError::WorkerPanicked);
    assert!(error.may_have_taken_effect());
    assert!(block_on(handle.put(b"k", b"v")).unwrap());
}

#[test]
fn a_table_that_was_emptied_is_opened_again() {
    let (store, handle) = handle(HandleOptions::default());
    block_on(async {
        handle.put(b"k", b"v").await.unwrap();
        assert_eq!(handle.get(b"k").await.unwrap().unwrap(), b"v");
        store.clear("t").unwrap();
        let refused = handle.get(b"k").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TableGone);
        assert_eq!(handle.get(b"k").await.unwrap(), None);
        store.drop_table("t").unwrap();
        let refused = handle.get(b"k").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TableGone);
        let refused = handle.get(b"k").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NoSuchTable);
    });
}

#[test]
fn mapped_memory_is_looked_up_without_a_worker() {
    let store = Store::embedded_with(64 << 20, crate::OpenOptions::default()).unwrap();
    let of_words = TableOptions::new(2_000).keys(FieldSize::Fixed(8));
    let of_words = of_words.values(FieldSize::Fixed(8));
    store.create("words", &of_words).unwrap();
    store.create("any", &TableOptions::default()).unwrap();
    for name in ["words", "any"] {
        let handle = Handle::open(&store, name, HandleOptions::default()).unwrap();
        for number in 0..1_000_u64 {
            let number = number.to_le_bytes();
            block_on(handle.put(&number, &number)).unwrap();
        }
        let (until, call) = hold(&handle);
        for number in 0..2_000_u64 {
            let key = number.to_le_bytes();
            let mut get = Box::pin(handle.get(&key));
            // Others have a turn meanwhile, once.
            assert!(poll(&mut get).is_pending(), "{name}: {number}");
            let Poll::Ready(found) = poll(&mut get) else {
                panic!("{name}: {number} needs a worker");
            };
            let expected = (number < 1_000).then(|| key.to_vec());
            assert_eq!(found.unwrap(), expected, "{name}");
        }
        drop(until);
        block_on(call).unwrap();
    }
}

/// What one thread has looked up is another's after it was written by any; and no thread keeps a
/// closed handle's answers.
#[test]
fn every_thread_looks_up_what_was_written_last() {
    let (_store, handle) = handle(HandleOptions::default());
    for round in 0..20_u64 {
        let new = round.to_le_bytes();
        block_on(handle.put(b"k", &new)).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    assert_eq!(block_on(handle.get(b"k")).unwrap().unwrap(), new);
                });
            }
        });
        assert_eq!(block_on(handle.get(b"k")).unwrap().unwrap(), new);
    }
    block_on(handle.close());
    let refused = block_on(handle.get(b"k")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed);
}

#[test]
fn it_is_opened_only_where_it_can_work() {
    let (store, _handle) = handle(HandleOptions::default());
    let refused = |name, options| Handle::open(&store, name, options).unwrap_err().kind();
    let default = HandleOptions::default();
    assert_eq!(refused("none", default), ErrorKind::NoSuchTable);
    let workers = HandleOptions {
        workers: 0,
        ..default
    };
    assert_eq!(refused("t", workers), ErrorKind::BadInput);
    let queue = HandleOptions {
        queue: 0,
        ..default
    };
    assert_eq!(refused("t", queue), ErrorKind::BadInput);
}

#[test]
fn many_tasks_share_a_queue_which_is_opened_again_when_it_was_emptied() {
    let (store, other) = handle(HandleOptions::default());
    store
        .create(
            "q",
            &TableOptions::new(100).values(FieldSize::UpTo(8)).queue(),
        )
        .unwrap();
    let handle = Handle::open(&store, "q", HandleOptions::default()).unwrap();
    let mut pushes: Vec<_> = (0..100_u8)
        .map(|number| {
            let handle = handle.clone();
            Box::pin(async move { handle.push(&[number]).await })
        })
        .collect();
    pushes
        .iter_mut()
        .for_each(|push| assert!(poll(push).is_pending()));
    let mut positions: Vec<_> = pushes
        .into_iter()
        .map(|push| block_on(push).unwrap())
        .collect();
    positions.sort_unstable();
    assert!(positions.into_iter().eq(0..100));
    block_on(async {
        let full = handle.push(b"more").await.unwrap_err();
        assert_eq!(full.kind(), ErrorKind::Full);
        let front = handle.front().await.unwrap();
        assert_eq!(handle.pop().await.unwrap(), front);
        store.clear("q").unwrap();
        let gone = handle.pop().await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::TableGone);
        assert_eq!(handle.pop().await.unwrap(), None);
        let refused = handle.get(b"key").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        let refused = other.push(b"item").await.unwrap_err();
        assert!(matches!(refused, StoreError::NoQueue { .. }), "{refused}");
    });
}
