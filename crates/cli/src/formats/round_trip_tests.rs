//! Whatever is written is read back, and whatever is read does not panic.

use super::{Columns, Format, Reader, Writer};
use farslot::Expiry;
use proptest::prelude::*;

const FORMATS: [Format; 3] = [Format::Csv, Format::Tsv, Format::Ndjson];

fn round_trip(format: Format, records: &[(Vec<u8>, Vec<u8>)]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut file = Vec::new();
    let mut writer = Writer::new(format, &mut file, false).unwrap();
    for (key, value) in records {
        writer.write(key, value, None).unwrap();
    }
    writer.finish().unwrap();
    drop(writer);
    let mut reader = Reader::new(format, &file[..], &Columns::default()).unwrap();
    std::iter::from_fn(|| reader.next().unwrap())
        .map(|record| record.unwrap())
        .map(|record| (record.key, record.value))
        .collect()
}

/// Bytes that are likely to trouble a format.
fn field(least: usize) -> impl Strategy<Value = Vec<u8>> {
    let special = prop::sample::select(b"\0\t\n\r\",;'\\{}[]:#\xef\xbb\xbf\xff aZ0".to_vec());
    prop::collection::vec(prop_oneof![3 => special, 1 => any::<u8>()], least..12)
}

proptest! {
    #[test]
    fn what_is_written_is_read(records in prop::collection::vec((field(1), field(0)), 0..20)) {
        for format in FORMATS {
            prop_assert_eq!(&round_trip(format, &records), &records, "{:?}", format);
        }
    }

    #[test]
    fn any_file_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..200), special in field(0)) {
        for format in FORMATS {
            for file in [&bytes, &special] {
                let columns = [None, Some("2".to_string()), Some("key".to_string())];
                for key in columns {
                    let columns = Columns { key, ..Columns::default() };
                    if let Ok(mut reader) = Reader::new(format, &file[..], &columns) {
                        while let Ok(Some(_)) = reader.next() {}
                    }
                }
            }
        }
    }
}

#[test]
fn moments_are_read_as_they_were_written() {
    let records = [
        (&b"a"[..], &b"1"[..], Some(Expiry::at_millis(1))),
        (b"b", b"", None),
        (b"\xff", b"\xfe", Some(Expiry::LATEST)),
    ];
    for format in FORMATS {
        let mut file = Vec::new();
        let mut writer = Writer::new(format, &mut file, true).unwrap();
        for (key, value, expires) in records {
            writer.write(key, value, expires).unwrap();
        }
        writer.finish().unwrap();
        drop(writer);
        let mut reader = Reader::new(format, &file[..], &Columns::default()).unwrap();
        for (key, value, expires) in records {
            let record = reader.next().unwrap().unwrap().unwrap();
            assert_eq!((&*record.key, &*record.value), (key, value), "{format:?}");
            assert_eq!(record.expires, expires, "{format:?}");
        }
        assert!(reader.next().unwrap().is_none());
    }
}

#[test]
fn records_that_look_like_the_header_survive() {
    let records = [
        (b"key".to_vec(), b"value".to_vec()),
        (b"\xef\xbb\xbfkey".to_vec(), b"".to_vec()),
        (b"\"".to_vec(), b"\r".to_vec()),
    ];
    for format in FORMATS {
        assert_eq!(round_trip(format, &records), records, "{format:?}");
    }
}
