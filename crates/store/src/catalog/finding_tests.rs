//! Finding tables by the hashes of their names: what an open reads, and what it finds whatever was
//! made, dropped, renamed and damaged before, and wherever a client died in that.

use super::entry::{BUCKET, EntryWords, State, home_of};
use super::listing::Listing;
use super::region::{entry_at, record_at};
use super::*;
use crate::{ErrorKind, FieldSize, Result, Store, StoreError, TableOptions};
use farslot_fabric::sim::{Chance, FaultPlan, NicProfile, Simulation, World};
use farslot_fabric::{AnyEndpoint, Endpoint, EndpointExt, Executor, RemoteAddr, Rights};
use farslot_index::UPKEEP;
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::Poll;

const MIB: u64 = 1 << 20;

pub(super) fn store_of(bytes: u64) -> Store {
    Store::open(&format!("sim://cx5-edr?seed=1&memory={bytes}B")).unwrap()
}

pub(super) fn options() -> TableOptions {
    TableOptions::new(8)
        .keys(FieldSize::Fixed(8))
        .values(FieldSize::Fixed(8))
}

/// Runs this with an endpoint of the store's node.
pub(super) fn with_endpoint<T>(store: &Store, work: impl AsyncFnOnce(&AnyEndpoint) -> T) -> T {
    let limits = store.0.sessions.options.limits;
    let endpoint = Rc::new(store.0.fabric.endpoint(limits).unwrap());
    let executor: Executor<AnyEndpoint> = Executor::new(Rc::clone(&endpoint));
    executor.block_on(work(&endpoint))
}

pub(super) async fn write(endpoint: &AnyEndpoint, to: RemoteAddr, bytes: &[u8]) {
    let bytes = endpoint.core().buffers.copy_of(bytes).unwrap();
    endpoint.write(to, bytes).await.unwrap();
}

/// Makes the state word of an entry one that no client writes.
fn damage(store: &Store, entry: usize) {
    with_endpoint(store, async |endpoint| {
        write(endpoint, entry_at(NodeId(0), entry), &1u64.to_le_bytes()).await;
    });
}

/// What is listed for the sake of a name, and the READs and round trips that this takes.
pub(super) async fn found(endpoint: &AnyEndpoint, name: &str) -> (Result<Listing>, u64, u64) {
    let catalog = Catalog::new(endpoint, NodeId(0)).unwrap();
    let counted = || endpoint.core().counters.snapshot().operation(UPKEEP);
    let before = counted();
    let listing = endpoint.operation(UPKEEP, catalog.listing_for(name)).await;
    let after = counted();
    let spent = after.verbs - before.verbs;
    (listing, spent, after.round_trips - before.round_trips)
}

/// So many names whose tables belong to the same bucket.
fn of_one_bucket(count: usize, entries: usize) -> Vec<String> {
    let names = (0..).map(|number| format!("t{number}"));
    let home = home_of("t0", entries);
    names
        .filter(|name| home_of(name, entries) == home)
        .take(count)
        .collect()
}

#[test]
fn an_open_takes_three_reads_in_two_round_trips() {
    for bytes in [MIB, 16 * MIB, 256 * MIB] {
        let store = store_of(bytes);
        for number in 0..20 {
            store.create(&format!("t{number}"), &options()).unwrap();
        }
        with_endpoint(&store, async |endpoint| {
            for number in 0..20 {
                let name = format!("t{number}");
                let (listing, verbs, round_trips) = found(endpoint, &name).await;
                let [table] = &listing.unwrap().tables[..] else {
                    panic!("{name}")
                };
                assert_eq!((&table.name, verbs, round_trips), (&name, 3, 2));
            }
        });
    }
}

#[test]
fn a_table_whose_bucket_was_full_takes_the_words_of_all_entries_besides() {
    let store = store_of(MIB);
    let entries = most_tables(MIB);
    let names = of_one_bucket(BUCKET + 1, entries);
    let full: Vec<_> = names[..BUCKET].iter().collect();
    for name in &names {
        store.create(name, &options()).unwrap();
    }
    let last = &names[BUCKET];
    let reads_of = |name: &str| {
        with_endpoint(&store, async |endpoint| {
            let (listing, verbs, round_trips) = found(endpoint, name).await;
            assert_eq!(listing.unwrap().tables[0].name, name);
            (verbs, round_trips)
        })
    };
    // Of other names that have a part of the hash in common there are none.
    assert_eq!(reads_of(full[0]), (3, 2));
    assert_eq!(reads_of(last), (4, 3));
    // Neither an entry that is free again nor one that is damaged cuts the look for it off.
    store.drop_table(full[0]).unwrap();
    damage(&store, store.find_entry(full[1]));
    assert_eq!(reads_of(last), (4, 3));
    assert_eq!(reads_of(full[2]), (3, 2));
    // What is made next takes the place that is free.
    let made = store.create(full[0], &options()).unwrap();
    assert_eq!(made.entry / BUCKET * BUCKET, home_of(last, entries));
}

impl Store {
    /// The number of the entry of a table.
    fn find_entry(&self, name: &str) -> usize {
        let tables = self.tables().unwrap();
        tables.iter().find(|of| of.name == name).unwrap().entry
    }
}

/// Whatever the words say that name's hashes stand in.
#[test]
fn a_table_is_found_whatever_the_word_of_its_place_is() {
    let store = store_of(MIB);
    let made = store.create("t", &options()).unwrap();
    store.create("u", &options()).unwrap();
    let place_at = entry_at(NodeId(0), made.entry).plus(24);
    for place in [0, u64::MAX, EntryWords::place_of("u", 0)] {
        with_endpoint(&store, async |endpoint| {
            write(endpoint, place_at, &place.to_le_bytes()).await;
        });
        assert!(store.table("t").is_ok() && store.table("u").is_ok());
        let missing = store.table("v").map(drop).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NoSuchTable);
        store.rename("t", "x").unwrap();
        assert!(store.table("x").is_ok() && store.table("t").is_err());
        store.rename("x", "t").unwrap();
    }
}

/// Fills a catalog of 4,096 entries but for so many, with tables that lie where one does that is
/// there; returns their names.
fn fill(store: &Store, bytes: u64, but: usize) -> Vec<String> {
    let one = store.create("one", &options()).unwrap();
    let entries = most_tables(bytes);
    let mut is_free = vec![true; entries];
    is_free[one.entry] = false;
    let names: Vec<_> = (0..entries - 1 - but).map(|at| format!("t{at}")).collect();
    with_endpoint(store, async |endpoint| {
        for (name, published) in names.iter().zip(1..) {
            let home = home_of(name, entries);
            let mut from_home = (home..entries).chain(0..home);
            let entry = from_home.find(|entry| is_free[*entry]).unwrap();
            is_free[entry] = false;
            let record = TableRecord {
                name: name.clone(),
                id: u64::from(published) + 1,
                ..one.clone()
            };
            let json = serde_json::to_vec(&record).unwrap();
            write(endpoint, record_at(NodeId(0), entry, bytes), &json).await;
            let words = EntryWords {
                state: State::table(&json),
                id: record.id,
                place: EntryWords::place_of(name, published),
                ..EntryWords::default()
            };
            let words: Vec<_> = words.bytes().collect();
            write(endpoint, entry_at(NodeId(0), entry), &words).await;
        }
    });
    names
}

#[test]
fn the_largest_catalog_takes_4096_tables_and_finds_them_by_few_reads() {
    let bytes = 256 * MIB;
    let store = store_of(bytes);
    let mut names = fill(&store, bytes, 1);
    store.create("last", &options()).unwrap();
    let limit = MOST_TABLES;
    let full = store.create("one-more", &options()).unwrap_err();
    assert_eq!(full, StoreError::TooManyTables { limit });
    assert_eq!(store.tables().unwrap().len(), limit);
    names.extend(["one".into(), "last".into()]);
    let outside = with_endpoint(&store, async |endpoint| {
        let mut outside = 0;
        for name in &names {
            let (listing, verbs, round_trips) = found(endpoint, name).await;
            assert_eq!(&listing.unwrap().tables[0].name, name);
            // The words of all entries take eight READs, which are posted at once.
            match verbs {
                3 | 4 => assert_eq!(round_trips, u64::from(verbs == 4) + 2),
                _ => {
                    assert!((11..16).contains(&verbs) && round_trips <= 5, "{verbs}");
                    outside += 1;
                }
            }
        }
        outside
    });
    // A full catalog has the most whose buckets are full.
    assert!((1..limit / 10).contains(&outside), "{outside}");
    let table = store.table("last").unwrap();
    assert!(table.put(&[1; 8], &[2; 8]).unwrap());
    // Who is renamed in a full catalog has no entry to go to; who goes makes room.
    let refused = store.rename("last", "later").unwrap_err();
    assert_eq!(refused, StoreError::TooManyTables { limit });
    drop(table);
    store.drop_table("last").unwrap();
    store.create("one-more", &options()).unwrap();
    assert!(store.table("one-more").is_ok() && store.table("t77").is_ok());
}

#[test]
fn three_quarters_of_the_largest_catalog_are_found_in_their_buckets() {
    let bytes = 256 * MIB;
    let store = store_of(bytes);
    let names = fill(&store, bytes, MOST_TABLES / 4);
    let outside = with_endpoint(&store, async |endpoint| {
        let mut outside = 0;
        for name in &names {
            let (_, verbs, _) = found(endpoint, name).await;
            outside += usize::from(verbs > 4);
        }
        outside
    });
    assert!(outside < names.len() / 200, "{outside}");
}

/// What a client does to the catalog.
#[derive(Clone, Copy, Debug)]
enum Change {
    Create(u8),
    Drop(u8),
    Rename(u8, u8),
    Clear(u8),
    Damage(u8),
    Repair,
}

fn changes() -> impl Strategy<Value = Change> {
    let name = || 0..12u8;
    prop_oneof![
        8 => name().prop_map(Change::Create),
        3 => name().prop_map(Change::Drop),
        4 => (name(), name()).prop_map(|(from, to)| Change::Rename(from, to)),
        1 => name().prop_map(Change::Clear),
        2 => name().prop_map(Change::Damage),
        1 => Just(Change::Repair),
    ]
}

/// The names, all of which belong to the same bucket, but for the last.
fn names() -> Vec<String> {
    let mut names = of_one_bucket(11, most_tables(MIB));
    names.push("elsewhere".into());
    names
}

/// What is in a table: the number that was put when it was made.
type Model = BTreeMap<String, u64>;

fn check(store: &Store, names: &[String], model: &Model) {
    let tables = store.tables().unwrap();
    let mut listed: Vec<_> = tables.iter().map(|table| &table.name).collect();
    listed.sort_unstable();
    assert_eq!(listed, model.keys().collect::<Vec<_>>());
    for name in names {
        match (store.table(name), model.get(name)) {
            (Ok(table), Some(number)) => {
                let read = table.get(&[1; 8]).unwrap();
                let expected = (*number != 0).then(|| number.to_le_bytes().to_vec());
                assert_eq!(read, expected, "{name}");
            }
            (Err(error), None) => assert_eq!(error.kind(), ErrorKind::NoSuchTable, "{error}"),
            (opened, expected) => panic!("{name}: {:?}, {expected:?}", opened.map(drop)),
        }
    }
}

/// Makes a table, with a number in it.
fn make(store: &Store, name: &str, number: u64) -> Result<()> {
    store.create(name, &options())?;
    let table = store.table(name)?;
    table.put(&[1; 8], &number.to_le_bytes())?;
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn the_catalog_is_as_a_plain_map_whatever_is_damaged_in_between(
        changes in proptest::collection::vec(changes(), 1..40)
    ) {
        let (store, names) = (store_of(MIB), names());
        let mut model = Model::new();
        for (change, number) in changes.into_iter().zip(1..) {
            match change {
                Change::Create(of) => {
                    let name = &names[usize::from(of)];
                    match make(&store, name, number) {
                        Ok(()) => prop_assert_eq!(model.insert(name.clone(), number), None),
                        // Of a damaged entry nobody knows which memory its table has.
                        Err(StoreError::OutOfMemory { .. }) => {}
                        Err(error) => {
                            prop_assert_eq!(error.kind(), ErrorKind::TableExists);
                            prop_assert!(model.contains_key(name));
                        }
                    }
                }
                Change::Drop(of) => {
                    let name = &names[usize::from(of)];
                    prop_assert_eq!(store.drop_table(name).is_ok(), model.remove(name).is_some());
                }
                Change::Rename(from, to) => {
                    let (from, to) = (&names[usize::from(from)], &names[usize::from(to)]);
                    let may = model.contains_key(from) && !model.contains_key(to);
                    prop_assert_eq!(store.rename(from, to).is_ok(), may);
                    if may && let Some(number) = model.remove(from) {
                        model.insert(to.clone(), number);
                    }
                }
                Change::Clear(of) => {
                    let name = &names[usize::from(of)];
                    prop_assert_eq!(store.clear(name).is_ok(), model.contains_key(name));
                    model.entry(name.clone()).and_modify(|number| *number = 0);
                }
                Change::Damage(of) => {
                    let name = &names[usize::from(of)];
                    if model.remove(name).is_some() {
                        damage(&store, store.find_entry(name));
                    }
                }
                Change::Repair => drop(store.repair().unwrap()),
            }
            check(&store, &names, &model);
        }
    }
}

/// Begins a change of the catalog, and dies after so many polls; whether it was done before.
fn cut_off(
    store: &Store,
    polls: usize,
    change: impl AsyncFnOnce(&Catalog<'_, crate::lease::Leased>) -> Result<()>,
) -> bool {
    let mut is_done = false;
    store
        .change(async |endpoint| {
            let catalog = Catalog::new(endpoint, NodeId(0))?;
            let mut change = std::pin::pin!(change(&catalog));
            let mut polled = 0;
            std::future::poll_fn(|cx| {
                polled += 1;
                if polled > polls {
                    return Poll::Ready(());
                }
                change.as_mut().poll(cx).map(|done| {
                    done.unwrap();
                    is_done = true;
                })
            })
            .await;
            Ok(())
        })
        .unwrap();
    is_done
}

/// A table is under the one name or the other, wherever its client died: by the listing and by the
/// hash of the name. So it is after the next change.
#[test]
fn a_rename_that_was_cut_off_is_done_or_not_done() {
    let (mut done, mut not_done, mut polls) = (0, 0, 1);
    loop {
        let (store, names) = (store_of(MIB), names());
        make(&store, &names[0], 7).unwrap();
        make(&store, &names[2], 9).unwrap();
        let of_two = store.memory().unwrap().taken;
        let is_done = cut_off(&store, polls, async |catalog| {
            catalog.rename(&names[0], &names[1], None).await.map(drop)
        });
        let is_renamed = store.table(&names[1]).is_ok();
        let now = &names[usize::from(is_renamed)];
        let mut model = Model::from([(now.clone(), 7), (names[2].clone(), 9)]);
        check(&store, &names, &model);
        make(&store, &names[3], 11).unwrap();
        model.insert(names[3].clone(), 11);
        check(&store, &names, &model);
        // What is left of it stops neither the same again nor the way back, and each is found by
        // its hash again.
        let back = &names[usize::from(!is_renamed)];
        store.rename(now, back).unwrap();
        model.remove(now);
        model.insert(back.clone(), 7);
        check(&store, &names, &model);
        for name in model.keys() {
            let (_, verbs, _) = with_endpoint(&store, async |endpoint| found(endpoint, name).await);
            assert_eq!(verbs, 3, "{polls}: {name}");
        }
        let of_three = of_two / 2 * 3;
        assert_eq!(store.memory().unwrap().taken, of_three, "{polls}");
        (done, not_done) = (
            done + usize::from(is_renamed),
            not_done + usize::from(!is_renamed),
        );
        if is_done {
            break;
        }
        polls += 1;
    }
    assert!(done > 5 && not_done > 5, "{done}, {not_done}");
}

/// Who reads the catalog while others change it misses no table that is there under either name.
#[test]
fn who_lists_tables_while_one_is_renamed_sees_it_once() {
    let looks: usize = (0..40).map(list_while_renaming).sum();
    assert!(looks > 1000, "{looks}");
}

/// Renames a table 40 times while another client lists what there is; how often that one does.
fn list_while_renaming(seed: u64) -> usize {
    let world = World::new(seed, NicProfile::connectx5_edr());
    // The words of 4,096 entries take several READs, some of which are late by more than others
    // take to rename a table.
    world.add_node(&[(256 * MIB, Rights::ALL)]);
    world.set_faults(FaultPlan {
        latency: Chance {
            probability: 0.05,
            up_to_ns: 1_000_000,
        },
        ..FaultPlan::chaos(seed, 1.0)
    });
    let mut simulation = Simulation::new(world);
    let is_over = Rc::new(Cell::new(false));
    let ended = Rc::clone(&is_over);
    let renamer = simulation.spawn_client(async move |endpoint| {
        let catalog = Catalog::new(&*endpoint, NodeId(0)).unwrap();
        let scheme = options().scheme().unwrap();
        catalog.create("name-0", scheme, None).await.unwrap();
        for number in 0..40 {
            let [from, to] = [number, number + 1].map(|number| format!("name-{number}"));
            catalog.rename(&from, &to, None).await.unwrap().unwrap();
        }
        ended.set(true);
    });
    let reader = simulation.spawn_client(async move |endpoint| {
        let catalog = Catalog::new(&*endpoint, NodeId(0)).unwrap();
        while catalog.listing().await.unwrap().tables.is_empty() {}
        let mut looks = 0;
        while !is_over.get() {
            let all = catalog.listing().await.unwrap();
            assert_eq!(all.tables.len(), 1, "seed {seed}: {all:?}");
            assert_eq!(all.damaged, [], "seed {seed}");
            looks += 1;
        }
        looks
    });
    simulation.run();
    renamer.try_take().unwrap();
    reader.try_take().unwrap()
}

/// Goes on with a change until it was polled so often; whether it is done.
async fn go_on(change: std::pin::Pin<&mut impl Future<Output = Result<()>>>, polls: usize) -> bool {
    let (mut change, mut polled) = (change, 0);
    std::future::poll_fn(|cx| {
        polled += 1;
        match change.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(done.is_ok()),
            Poll::Pending if polled >= polls => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// What a client lists that reads the header and the words when a change was polled so often, and
/// those of one entry when it is done, for that READ was late. Nothing if it was done at once.
fn list_with_a_late_read(
    (store, entry): (&Store, usize),
    polls: usize,
    change: impl AsyncFnOnce(&Catalog<'_, AnyEndpoint>) -> Result<()>,
) -> Option<Listing> {
    with_endpoint(store, async |endpoint| {
        let catalog = Catalog::new(endpoint, NodeId(0)).unwrap();
        let mut change = std::pin::pin!(change(&catalog));
        if go_on(change.as_mut(), polls).await {
            return None;
        }
        let header = catalog.read_header().await.unwrap();
        let mut words = catalog.read_all_words().await.unwrap();
        assert!(go_on(change.as_mut(), usize::MAX).await);
        let later = catalog.read_all_words().await.unwrap();
        let late = entry * 4..(entry + 1) * 4;
        words[late.clone()].copy_from_slice(&later[late]);
        let snapshot = catalog.steady_snapshot_of(header, words).await;
        Some(snapshot.unwrap().listing())
    })
}

#[test]
fn no_late_read_hides_a_table_that_is_renamed_or_cleared() {
    for clears in [false, true] {
        let mut polls = 1;
        loop {
            let store = store_of(MIB);
            let made = store.create("t", &options()).unwrap();
            let change = async |catalog: &Catalog<'_, AnyEndpoint>| {
                let changed = match clears {
                    false => catalog.rename("t", "u", None).await,
                    true => catalog.begin_clearing("t", None).await,
                };
                changed.map(drop)
            };
            let Some(all) = list_with_a_late_read((&store, made.entry), polls, change) else {
                break;
            };
            let seen = all.tables.len() + all.clearing.len();
            assert_eq!(seen, 1, "{clears}, {polls}: {all:?}");
            polls += 1;
        }
        assert!(polls > 8, "{polls}");
    }
}

/// Who misses a damaged entry since it was cleared meanwhile knows of the repair.
#[test]
fn no_late_read_hides_a_repair() {
    let mut polls = 1;
    loop {
        let store = store_of(MIB);
        let made = store.create("t", &options()).unwrap();
        damage(&store, made.entry);
        let repair = async |catalog: &Catalog<'_, AnyEndpoint>| catalog.repair().await.map(drop);
        let Some(all) = list_with_a_late_read((&store, made.entry), polls, repair) else {
            break;
        };
        assert_eq!((all.damaged.len(), all.repairs), (0, 1), "{polls}");
        polls += 1;
    }
    assert!(polls > 8, "{polls}");
}

#[test]
fn a_table_that_was_made_or_dropped_in_part_is_there_or_not() {
    let mut polls = 1;
    loop {
        let (store, names) = (store_of(MIB), names());
        make(&store, &names[0], 7).unwrap();
        let scheme = options().scheme().unwrap();
        let is_made = cut_off(&store, polls, async |catalog| {
            catalog.create(&names[1], scheme, None).await.map(drop)
        });
        let mut model = Model::from([(names[0].clone(), 7)]);
        if store.table(&names[1]).is_ok() {
            model.insert(names[1].clone(), 0);
        }
        check(&store, &names, &model);
        let is_dropped = cut_off(&store, polls, async |catalog| {
            catalog.retire(&names[0], None).await.map(drop)
        });
        if store.table(&names[0]).is_err() {
            model.remove(&names[0]);
        }
        check(&store, &names, &model);
        if !model.contains_key(&names[0]) {
            make(&store, &names[0], 8).unwrap();
            model.insert(names[0].clone(), 8);
        }
        check(&store, &names, &model);
        if is_made && is_dropped {
            break;
        }
        polls += 1;
    }
    assert!(polls > 8, "{polls}");
}
