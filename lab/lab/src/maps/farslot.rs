//! Farslot's tables in the memory of this process.

use super::shared::{Client, KEY_BYTES, Key, Options, Records, SharedMap};
use crate::Result;
use farslot::{FieldSize, OpenOptions, Store, Table, TableOptions};
use farslot_bench::Answers;

/// The table's name.
const TABLE: &str = "maps";
/// Records of a batch.
const BATCH: usize = 1_000;

struct Embedded(Store);

/// A store with an empty table. It is lent twice what the records take, and some more.
pub(super) fn made(options: &Options, table: &TableOptions) -> Result<Box<dyn SharedMap>> {
    let record = (KEY_BYTES + options.value_bytes + 96) as u64;
    let open = OpenOptions {
        memory: Some(2 * record * u64::from(options.records) + (64 << 20)),
        ..OpenOptions::default()
    };
    let store = Store::open_with("embedded", open)?;
    store.create(TABLE, table)?;
    Ok(Box::new(Embedded(store)))
}

/// A linear table that is told what it will hold.
pub(super) fn linear(options: &Options) -> TableOptions {
    TableOptions::new(u64::from(options.records) * 3 / 2)
        .keys(FieldSize::Fixed(KEY_BYTES as u32))
        .values(FieldSize::UpTo(options.value_bytes as u32))
}

impl SharedMap for Embedded {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(self.0.table(TABLE)?))
    }
}

impl Client for Table {
    fn put_each(&mut self, records: &Records, numbers: &[u32], answers: &mut Answers) {
        let mut value = records.new_value();
        for number in numbers {
            records.write_value(*number, &mut value);
            answers.note(self.put(&records.key(*number), &value).map(|_| true));
        }
    }

    fn get_each(&mut self, records: &Records, numbers: &[u32], answers: &mut Answers) {
        for number in numbers {
            let got = self.get(&records.key(*number));
            answers.note(got.map(|value| {
                value.is_some_and(|value: Vec<u8>| records.is_value(*number, &value))
            }));
        }
    }

    fn put_many(&mut self, records: &Records, numbers: &[u32], answers: &mut Answers) -> bool {
        let mut values = vec![records.new_value(); BATCH];
        let mut keys = [Key::default(); BATCH];
        for batch in numbers.chunks(BATCH) {
            for (place, number) in batch.iter().enumerate() {
                keys[place] = records.key(*number);
                records.write_value(*number, &mut values[place]);
            }
            let puts = keys.iter().zip(&values).take(batch.len());
            let puts: Vec<_> = puts.map(|(key, value)| (&key[..], &value[..])).collect();
            if let Err(error) = Self::put_many(self, &puts, |_, _| answers.see(true)) {
                answers.note(Err::<bool, _>(error));
            }
        }
        true
    }

    fn get_many(&mut self, records: &Records, numbers: &[u32], answers: &mut Answers) -> bool {
        for batch in numbers.chunks(BATCH) {
            let keys: Vec<_> = batch.iter().map(|number| records.key(*number)).collect();
            let keys: Vec<_> = keys.iter().map(|key| &key[..]).collect();
            let got = Self::get_many(self, &keys, |place, value| {
                // As the others, a copy.
                let value = value.map(<[u8]>::to_vec);
                answers.see(value.is_some_and(|value| records.is_value(batch[place], &value)));
            });
            if let Err(error) = got {
                answers.note(Err::<bool, _>(error));
            }
        }
        true
    }
}
