//! Maps of other crates.

use super::shared::{Client, Options, Records, SharedMap};
use crate::Result;
use farslot_bench::Answers;
use foldhash::fast::RandomState;

type Bytes = Vec<u8>;

/// A map whose calls share it.
trait Library: Sync {
    fn insert(&self, key: Bytes, value: Bytes);

    fn copy_of(&self, key: &[u8]) -> Option<Bytes>;
}

struct Shared<L>(L);

struct Borrowed<'m, L>(&'m L);

impl<L: Library> SharedMap for Shared<L> {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(Borrowed(&self.0)))
    }
}

impl<L: Library> Client for Borrowed<'_, L> {
    fn put_each(&mut self, records: &Records, numbers: &[u32], answers: &mut Answers) {
        for number in numbers {
            let mut value = records.new_value();
            records.write_value(*number, &mut value);
            self.0.insert(records.key(*number).to_vec(), value);
            answers.see(true);
        }
    }

    fn get_each(&mut self, records: &Records, numbers: &[u32], answers: &mut Answers) {
        for number in numbers {
            let value = self.0.copy_of(&records.key(*number));
            let is_right = value.is_some_and(|value| records.is_value(*number, &value));
            answers.see(is_right);
        }
    }
}

type DashMap = dashmap::DashMap<Bytes, Bytes, RandomState>;
type PapayaMap = papaya::HashMap<Bytes, Bytes, RandomState>;
type MokaCache = moka::sync::Cache<Bytes, Bytes, RandomState>;

pub(super) fn dashmap(_: &Options) -> Result<Box<dyn SharedMap>> {
    Ok(Box::new(Shared(DashMap::default())))
}

pub(super) fn papaya(_: &Options) -> Result<Box<dyn SharedMap>> {
    Ok(Box::new(Shared(PapayaMap::default())))
}

/// Without evictions: it has room for all.
pub(super) fn moka(options: &Options) -> Result<Box<dyn SharedMap>> {
    let cache = moka::sync::Cache::builder()
        .max_capacity(2 * u64::from(options.records))
        .build_with_hasher(RandomState::default());
    Ok(Box::new(Shared(cache)))
}

impl Library for DashMap {
    fn insert(&self, key: Bytes, value: Bytes) {
        self.insert(key, value);
    }

    fn copy_of(&self, key: &[u8]) -> Option<Bytes> {
        self.get(key).map(|entry| entry.value().clone())
    }
}

impl Library for PapayaMap {
    fn insert(&self, key: Bytes, value: Bytes) {
        self.pin().insert(key, value);
    }

    fn copy_of(&self, key: &[u8]) -> Option<Bytes> {
        self.pin().get(key).cloned()
    }
}

impl Library for MokaCache {
    fn insert(&self, key: Bytes, value: Bytes) {
        self.insert(key, value);
    }

    fn copy_of(&self, key: &[u8]) -> Option<Bytes> {
        self.get(key)
    }
}
