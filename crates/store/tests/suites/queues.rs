//! Queues: against a plain one, by several clients, and as tables like any other.

use crate::common::TestStore;
use farslot::snapshots::RestoreOptions;
use farslot::{
    ErrorKind, FieldSize, IndexError, Operation, Queue, Result, Store, StoreError, Survey,
    TableOptions,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::thread;

const LONGEST: u32 = 40;

fn queue(items: u64) -> TableOptions {
    TableOptions::new(items)
        .values(FieldSize::UpTo(LONGEST))
        .queue()
}

/// What is in it, from the front on.
fn items(queue: &Queue) -> Vec<Vec<u8>> {
    let mut items = Vec::new();
    queue.for_each(|item| items.push(item.to_vec())).unwrap();
    items
}

#[derive(Clone, Debug)]
enum Step {
    Push(Vec<u8>),
    PushAll(Vec<Vec<u8>>),
    Pop,
    PopMany(u32),
    Front,
    Look,
}

fn step() -> impl Strategy<Value = Step> {
    let item = || vec(any::<u8>(), 0..=LONGEST as usize);
    prop_oneof![
        4 => item().prop_map(Step::Push),
        1 => vec(item(), 0..5).prop_map(Step::PushAll),
        3 => Just(Step::Pop),
        1 => (0..4_u32).prop_map(Step::PopMany),
        1 => Just(Step::Front),
        1 => Just(Step::Look),
    ]
}

pub fn a_queue_does_what_a_deque_does<S: TestStore>() {
    const ROOM: usize = 7;
    let node = S::start(64 << 20);
    let store = node.open();
    store.create("q", &queue(ROOM as u64)).unwrap();
    let queue = store.queue("q").unwrap();
    let (mut model, mut added) = (VecDeque::new(), 0);
    let full = StoreError::FullQueue {
        name: "q".into(),
        limit: 7,
    };
    let mut push = |model: &mut VecDeque<Vec<u8>>, pushed: Result<u64>, items: Vec<Vec<u8>>| {
        if model.len() + items.len() > ROOM {
            assert_eq!(pushed, Err(full.clone()));
            return;
        }
        assert_eq!(pushed, Ok(added));
        added += items.len() as u64;
        model.extend(items);
    };
    let mut runner = TestRunner::deterministic();
    let steps = vec(step(), S::repeat(600) as usize);
    let steps = steps.new_tree(&mut runner).unwrap().current();
    for step in steps {
        match step {
            Step::Push(item) => push(&mut model, queue.push(&item), vec![item]),
            Step::PushAll(items) => {
                let borrowed: Vec<_> = items.iter().map(|item| &item[..]).collect();
                push(&mut model, queue.push_all(&borrowed), items);
            }
            Step::Pop => assert_eq!(queue.pop().unwrap(), model.pop_front()),
            Step::PopMany(most) => {
                let taken = model.drain(..model.len().min(most as usize));
                assert!(queue.pop_many(most).unwrap().into_iter().eq(taken));
            }
            Step::Front => assert_eq!(queue.front().unwrap().as_ref(), model.front()),
            Step::Look => {
                assert_eq!(queue.len().unwrap(), model.len() as u64);
                assert_eq!(queue.is_empty().unwrap(), model.is_empty());
                assert_eq!(items(&queue), Vec::from(model.clone()));
            }
        }
    }
    queue.close().unwrap();
}

/// Each client pushes its own numbers, and pops whatever comes.
pub fn each_item_is_popped_once_and_those_of_a_client_in_their_order<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    store.create("q", &queue(32)).unwrap();
    let each = u64::from(S::repeat(600));
    let work = |store: &Store, client: u64| {
        let queue = store.queue("q").unwrap();
        let (mut pushed, mut popped) = (0, Vec::new());
        let mut newest = [None; 3];
        while pushed < each || (popped.len() as u64) < each {
            // Now and then several by one call.
            let batch: Vec<_> = (pushed..each.min(pushed + 1 + pushed % 3))
                .map(|number| [client, number].map(u64::to_le_bytes).concat())
                .collect();
            let batch: Vec<_> = batch.iter().map(|item| &item[..]).collect();
            match queue.push_all(&batch) {
                Ok(_) => pushed += batch.len() as u64,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Full, "{error}"),
            }
            queue.front().unwrap();
            let left = each as usize - popped.len();
            for item in queue
                .pop_many(left.min(1 + client as usize) as u32)
                .unwrap()
            {
                let (words, _) = item.as_chunks::<8>();
                let [from, number] = [words[0], words[1]].map(u64::from_le_bytes);
                let newest = &mut newest[from as usize];
                assert!(newest.is_none_or(|newest| newest < number), "out of order");
                *newest = Some(number);
                popped.push((from, number));
            }
        }
        popped
    };
    let (clients, mut all) = match node.stranger() {
        // All of one simulated world, which one thread drives.
        None => (1, work(&store, 0)),
        Some(_) => thread::scope(|scope| {
            let node = &node;
            let threads = [0, 1, 2].map(|client| scope.spawn(move || work(&node.open(), client)));
            let popped = threads.map(|thread| thread.join().unwrap());
            (3, popped.concat())
        }),
    };
    all.sort_unstable();
    let numbers = |client| (0..each).map(move |number| (client, number));
    assert!(all.into_iter().eq((0..clients).flat_map(numbers)));
    assert!(store.queue("q").unwrap().is_empty().unwrap());
}

pub fn a_queue_is_listed_renamed_cleared_and_dropped<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    store.create("q", &queue(10)).unwrap();
    let old = store.queue("q").unwrap();
    old.push_all(&[b"one", b"two"]).unwrap();
    assert_eq!(store.tables().unwrap()[0].scheme.name(), "queue");
    store.rename("q", "r").unwrap();
    let renamed = store.queue("r").unwrap();
    assert_eq!(renamed.pop().unwrap().as_deref(), Some(&b"one"[..]));
    assert_eq!(old.pop().unwrap_err().kind(), ErrorKind::TableGone);
    store.clear("r").unwrap();
    let cleared = store.queue("r").unwrap();
    assert_eq!(cleared.pop(), Ok(None));
    assert_eq!(cleared.push(b"three"), Ok(0));
    store.drop_table("r").unwrap();
    for gone in [cleared.push(b"four").map(drop), cleared.pop().map(drop)] {
        assert_eq!(gone.unwrap_err().kind(), ErrorKind::TableGone);
    }
    let refused = store.queue("r").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoSuchTable);
    assert_eq!(store.memory().unwrap().taken, 0);
}

pub fn what_needs_keys_is_refused_of_a_queue_and_the_other_way_round<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    store.create("q", &queue(10)).unwrap();
    store.create("t", &TableOptions::new(10)).unwrap();
    let refused = store.queue("t").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert_eq!(
        refused.to_string(),
        "table \"t\" is linear, which has keys and no items to push or pop: only tables of the \
         scheme queue have these"
    );
    let table = store.table("q").unwrap();
    let key = b"key";
    let outcomes = [
        table.get(key).map(drop),
        table.get_all(key).map(drop),
        table.put(key, b"").map(drop),
        table.find_or_put(key, b"").map(drop),
        table.update(key, b"").map(drop),
        table.remove(key).map(drop),
        table.compare_and_set(key, None, b"").map(drop),
        table.compare_and_set(key, Some(b""), b"1").map(drop),
        table.increment(key, 1).map(drop),
    ];
    for refused in outcomes {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
    }
    let operations = [Operation::Get(key), Operation::Put(key, b"")];
    let refused = table.run_many(&operations, |_, _| ()).unwrap_err();
    let [(0, _), (1, of_put)] = refused.failures() else {
        panic!("{refused:?}");
    };
    let no_keys = StoreError::Index(IndexError::NoKeys { operation: "a put" });
    assert_eq!(*of_put, no_keys);
    let refused = store.transaction(|t| t.put("q", key, b"")).unwrap_err();
    assert!(
        matches!(
            &refused,
            StoreError::NotTransactional {
                scheme: "queue",
                ..
            }
        ),
        "{refused}"
    );
    // As a table it is looked at.
    store.queue("q").unwrap().push(b"one").unwrap();
    let mut seen = Vec::new();
    table
        .for_each(|position, item| seen.push((position.to_vec(), item.to_vec())))
        .unwrap();
    assert_eq!(seen, [(b"0".to_vec(), b"one".to_vec())]);
    let counts = table.occupancy().unwrap();
    assert_eq!((counts.entries, counts.slots), (1, 10));
    assert!(matches!(table.survey().unwrap(), Survey::Counted(_)));
    let queue = store.queue("q").unwrap();
    for (push, kind) in [
        (
            queue.push(&[0; LONGEST as usize + 1]),
            ErrorKind::DoesNotFit,
        ),
        (queue.push_all(&[&[][..]; 1025]), ErrorKind::BadInput),
        (queue.push_all(&[&[][..]; 10]), ErrorKind::Full),
    ] {
        assert_eq!(push.unwrap_err().kind(), kind);
    }
    assert_eq!(queue.len(), Ok(1));
}

/// Of more items than a call takes, and a block of the file has.
pub fn a_queue_is_snapshotted_restored_and_copied_in_its_order<S: TestStore>() {
    let node = S::start(64 << 20);
    let store = node.open();
    let directory = tempfile::tempdir().unwrap();
    let go_on = |_| ControlFlow::Continue(());
    let count = u64::from(S::repeat(6_000)) + 3_000;
    let options = TableOptions::new(count + 5)
        .values(FieldSize::UpTo(400))
        .queue();
    store.create("q", &options).unwrap();
    let queue = store.queue("q").unwrap();
    let item = |number: u64| number.to_le_bytes().repeat(1 + number as usize % 50);
    for numbers in (0..count).collect::<Vec<_>>().chunks(100) {
        let all: Vec<_> = numbers.iter().map(|number| item(*number)).collect();
        let all: Vec<_> = all.iter().map(|item| &item[..]).collect();
        queue.push_all(&all).unwrap();
    }
    for number in 0..300 {
        assert_eq!(queue.pop(), Ok(Some(item(number))));
    }
    let expected: Vec<_> = (300..count).map(item).collect();
    let taken = store.snapshot("q", directory.path(), &go_on).unwrap();
    assert_eq!(taken.records, count - 300);
    let copied = store.copy_table("q", "copy", &go_on).unwrap();
    assert_eq!(copied, count - 300);
    store.drop_table("q").unwrap();
    store
        .restore_with("q", directory.path(), &RestoreOptions::default(), &go_on)
        .unwrap();
    for name in ["q", "copy"] {
        let queue = store.queue(name).unwrap();
        assert!(items(&queue) == expected, "{name}");
        let (first, last) = (queue.pop().unwrap(), queue.push(b"last"));
        assert_eq!((first, last), (Some(item(300)), Ok(count - 300)));
        assert_eq!(queue.len(), Ok(count - 300));
    }
    // To one with room for no more than there are, and to a table with keys: the positions.
    let small = options.capacity(count - 300);
    store
        .copy_table_as("copy", "small", &small, &go_on)
        .unwrap();
    let full = store.queue("small").unwrap().push(b"one more").unwrap_err();
    assert_eq!(full.kind(), ErrorKind::Full);
    let ordered = TableOptions::new(count)
        .keys(FieldSize::UpTo(20))
        .values(FieldSize::UpTo(400))
        .ordered();
    store
        .copy_table_as("copy", "by-position", &ordered, &go_on)
        .unwrap();
    let table = store.table("by-position").unwrap();
    assert_eq!(table.get(b"1").unwrap(), Some(item(301)));
    let refused = store.copy_table_as("by-position", "again", &small, &go_on);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::BadInput);
}
