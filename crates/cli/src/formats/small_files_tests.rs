//! Small files, each with one thing that other programs write or that damage leaves, and what comes
//! of them: records, bad lines and a failure of the file.

use super::{Columns, Format, Reader};
use std::fmt::Write;

/// A line for each record, bad line and failure.
fn outcome(format: Format, file: &[u8], header: Option<bool>) -> String {
    let columns = Columns {
        header,
        ..Columns::default()
    };
    let mut reader = match Reader::new(format, file, &columns) {
        Ok(reader) => reader,
        Err(failure) => return format!("failure: {failure}").replace("reading: ", ""),
    };
    let mut outcome = Vec::new();
    loop {
        match reader.next() {
            Ok(None) => return outcome.join("; "),
            Ok(Some(Ok(record))) => outcome.push(format!(
                "{} {:?}={:?}",
                record.line,
                crate::bytes::shown(&record.key),
                crate::bytes::shown(&record.value)
            )),
            Ok(Some(Err(bad))) => outcome.push(format!("{} bad: {}", bad.line, bad.reason)),
            Err(failure) => {
                outcome.push(format!("failure: {failure}"));
                return outcome.join("; ");
            }
        }
    }
}

/// A name, a file, whether its first line is said to name the columns, and what comes of it: the
/// whole, or what it must have in it where that begins with "...".
type Case = (&'static str, &'static [u8], Option<bool>, &'static str);

const NO: Option<bool> = Some(false);
const YES: Option<bool> = Some(true);

const CSV: [Case; 33] = [
    ("an empty file", b"", None, ""),
    ("empty lines", b"\n\r\n\n", None, ""),
    (
        "two records",
        b"a,1\nb,2\n",
        None,
        r#"1 "a"="1"; 2 "b"="2""#,
    ),
    (
        "no end of the last line",
        b"a,1\nb,2",
        None,
        r#"1 "a"="1"; 2 "b"="2""#,
    ),
    (
        "Windows' lines",
        b"a,1\r\nb,2\r\n",
        None,
        r#"1 "a"="1"; 2 "b"="2""#,
    ),
    (
        "old Macintosh's lines",
        b"a,1\rb,2\rc",
        NO,
        r#"1 "a"="1"; 2 "b"="2"; 3 bad: 1 column where the first line has 2"#,
    ),
    (
        "an empty line between",
        b"a,1\n\nb,2\n",
        None,
        r#"1 "a"="1"; 3 "b"="2""#,
    ),
    ("quotes", b"a,\"1,\"\"2\"\"\"\n", None, r#"1 "a"="1,\"2\"""#),
    (
        "a line within quotes",
        b"a,\"1\n2\"\nb,3\n",
        None,
        r#"1 "a"="1\\n2"; 3 "b"="3""#,
    ),
    (
        "an empty quoted field",
        b"a,\"\"\nb,2\n",
        NO,
        r#"1 "a"=""; 2 "b"="2""#,
    ),
    (
        "a quote in a plain field",
        b"a,5\" pipe\nb,6\" pipe\n",
        None,
        r#"1 "a"="5\" pipe"; 2 "b"="6\" pipe""#,
    ),
    (
        "a space before a quote",
        b"a, \"1\"\n",
        NO,
        r#"1 "a"=" \"1\"""#,
    ),
    (
        "ends within quotes",
        b"a,1\nb,\"2\nc,3\n",
        None,
        r#"1 "a"="1"; failure: line 2: the quote that opens a field here is not closed before the file ends"#,
    ),
    (
        "ends with an opening quote",
        b"a,1\nb,\"",
        None,
        r#"1 "a"="1"; failure: line 2: the quote that opens a field here is not closed before the file ends"#,
    ),
    (
        "ends behind a doubled quote",
        b"a,\"1\"\"",
        NO,
        "failure: line 1: the quote that opens a field here is not closed before the file ends",
    ),
    (
        "text behind a closing quote",
        b"a,1\nb,\"2\"x\nc,3\n",
        None,
        r#"1 "a"="1"; failure: line 2: the quote that opens a field here is closed in line 2, and behind it is 'x' where ',' or the end of the line must be"#,
    ),
    (
        "a space behind a closing quote",
        b"\"a\" ,1\n",
        NO,
        "...behind it is ' ' where",
    ),
    (
        "a stray quote that meets another",
        b"a,1\nb,\"2\nc,3\nd,\"4\"\ne,5\n",
        None,
        r#"1 "a"="1"; failure: line 2: the quote that opens a field here is closed in line 4, and behind it is '4' where ',' or the end of the line must be"#,
    ),
    (
        "a quote escaped by a backslash",
        b"a,\"1\\\"2\"\n",
        NO,
        "...line 1: the quote that opens a field here is closed in line 1, and behind it is '2'",
    ),
    (
        "more and fewer columns",
        b"a,1\nb\nc,3,4\nd,5\n",
        None,
        r#"1 "a"="1"; 2 bad: 1 column where the first line has 2; 3 bad: 3 columns where the first line has 2; 4 "d"="5""#,
    ),
    (
        "one column",
        b"a\nb\n",
        None,
        "1 bad: 1 column; a key and a value are needed; 2 bad: 1 column; a key and a value are needed",
    ),
    (
        "a mark of UTF-8",
        b"\xEF\xBB\xBFa,1\nb,2\n",
        None,
        r#"1 "a"="1"; 2 "b"="2""#,
    ),
    (
        "a mark before our names",
        b"\xEF\xBB\xBFkey,value\na,1\n",
        None,
        r#"2 "a"="1""#,
    ),
    ("a mark alone", b"\xEF\xBB\xBF", None, ""),
    (
        "UTF-16 of Windows",
        b"\xFF\xFEi\0d\0,\0n\0\n\0",
        None,
        "failure: line 1: the file is in UTF-16, by the mark at its start, and is read as UTF-8 or bytes: iconv -f UTF-16 -t UTF-8",
    ),
    (
        "UTF-16 the other way",
        b"\xFE\xFF\0i\0d\0,\0n",
        NO,
        "...in UTF-16",
    ),
    ("UTF-32", b"\xFF\xFE\0\0i\0\0\0", NO, "...in UTF-32"),
    (
        "bytes that are no text",
        b"\x80\xFF,\0\n",
        None,
        r#"1 "\\x80\\xff"="\\x00""#,
    ),
    (
        "names of words above text",
        b"title,text\nalpha,first words\n",
        None,
        "failure: the first line, \"title, text\", may name the columns or be a record: say --header or --no-header",
    ),
    (
        "the same, said to be names",
        b"title,text\nalpha,first words\n",
        YES,
        r#"2 "alpha"="first words""#,
    ),
    (
        "the same, said to be a record",
        b"title,text\nalpha,first words\n",
        NO,
        r#"1 "title"="text"; 2 "alpha"="first words""#,
    ),
    (
        "names alone",
        b"title,text\n",
        None,
        "...say --header or --no-header",
    ),
    ("names with id", b"id,name\n1,one\n", None, r#"2 "1"="one""#),
];

const TSV: [Case; 3] = [
    ("tabs", b"a\t1,2\nb\t3\n", None, r#"1 "a"="1,2"; 2 "b"="3""#),
    (
        "a quote in front",
        b"a\t\"1\nb\t2\n",
        NO,
        "failure: line 1: the quote that opens a field here is not closed before the file ends",
    ),
    (
        "text behind a quote",
        b"a\t\"1\" or 2\n",
        NO,
        "...behind it is ' ' where '\\t' or",
    ),
];

const NDJSON: [Case; 15] = [
    (
        "two records",
        b"{\"key\":\"a\",\"value\":1}\n{\"key\":\"b\",\"value\":\"2\"}",
        None,
        r#"1 "a"="1"; 2 "b"="2""#,
    ),
    (
        "a mark of UTF-8",
        b"\xEF\xBB\xBF{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"b\",\"value\":\"2\"}\n",
        None,
        r#"1 "a"="1"; 2 "b"="2""#,
    ),
    (
        "a mark on a later line",
        b"\n\xEF\xBB\xBF{\"key\":\"a\",\"value\":\"1\"}\n",
        None,
        "...2 bad: expected value",
    ),
    ("UTF-16", b"\xFF\xFE{\0}\0", None, "...in UTF-16"),
    (
        "Windows' lines",
        b"{\"key\":\"a\",\"value\":1}\r\n\r\n{\"key\":\"b\",\"value\":2}\r\n",
        None,
        r#"1 "a"="1"; 3 "b"="2""#,
    ),
    (
        "null as a value",
        b"{\"key\":\"a\",\"value\":null}\n{\"key\":\"b\",\"value\":\"null\"}\n",
        None,
        r#"1 bad: null is no key and no value; 2 "b"="null""#,
    ),
    (
        "null as a key",
        b"{\"key\":null,\"value\":1}\n",
        None,
        "1 bad: null is no key and no value",
    ),
    (
        "an error within a later line",
        b"{\"key\":\"a\",\"value\":1}\n{\"key\":\"b\" \"value\":2}\n",
        None,
        r#"1 "a"="1"; 2 bad: expected `,` or `}` at column 12"#,
    ),
    (
        "a cut line",
        b"{\"key\":\"a\",\"value\":1}\n{\"key\":\"b\",\"va",
        None,
        r#"...1 "a"="1"; 2 bad: EOF"#,
    ),
    (
        "two objects on a line",
        b"{\"key\":\"a\",\"value\":1}{\"key\":\"b\",\"value\":2}\n",
        None,
        "...1 bad: trailing characters",
    ),
    (
        "a field twice",
        b"{\"key\":\"a\",\"key\":\"b\",\"value\":1}\n",
        None,
        "...1 bad: the field \"key\" stands twice",
    ),
    (
        "an array",
        b"[{\"key\":\"a\",\"value\":1}]\n",
        None,
        "...1 bad: invalid type: sequence",
    ),
    (
        "no key",
        b"{\"value\":1}\n",
        None,
        "1 bad: it has no field \"key\"",
    ),
    (
        "half of a pair",
        b"{\"key\":\"\\ud800\",\"value\":1}\n",
        None,
        "...1 bad:",
    ),
    (
        "a null byte",
        b"{\"key\":\"\\u0000\",\"value\":1}\n",
        None,
        r#"1 "\\x00"="1""#,
    ),
];

#[test]
fn small_files_come_out_as_they_must() {
    let formats = [
        (Format::Csv, &CSV[..]),
        (Format::Tsv, &TSV[..]),
        (Format::Ndjson, &NDJSON[..]),
    ];
    let (mut table, mut wrong) = (String::new(), 0);
    for (format, cases) in formats {
        for (name, file, header, expected) in cases {
            let found = outcome(format, file, *header);
            let is_right = match expected.strip_prefix("...") {
                Some(part) => found.contains(part),
                None => found == *expected,
            };
            wrong += usize::from(!is_right);
            let mark = if is_right { ' ' } else { '!' };
            writeln!(table, "{mark} {format:?}: {name}: {found}").unwrap();
        }
    }
    println!("{table}");
    assert_eq!(wrong, 0, "{table}");
}

#[test]
fn what_is_wrong_is_found_wherever_a_read_ends() {
    /// Gives a byte at a time.
    struct Dripping<'a>(&'a [u8]);
    impl std::io::Read for Dripping<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let bytes = buffer.len().min(1);
            std::io::Read::read(&mut self.0, &mut buffer[..bytes])
        }
    }
    for (name, file, header, _) in CSV {
        let columns = Columns {
            header,
            ..Columns::default()
        };
        let dripping = std::io::BufReader::with_capacity(1, Dripping(file));
        let mut lines = Vec::new();
        match Reader::new(Format::Csv, dripping, &columns) {
            Err(failure) => lines.push(format!("failure: {failure}").replace("reading: ", "")),
            Ok(mut reader) => loop {
                match reader.next() {
                    Ok(None) => break,
                    Ok(Some(_)) => lines.push(String::new()),
                    Err(failure) => {
                        lines.push(format!("failure: {failure}"));
                        break;
                    }
                }
            },
        }
        let at_once = outcome(Format::Csv, file, header);
        let failure = |text: &str| text.find("failure: ").map(|at| text[at..].to_owned());
        let dripped = lines.last().and_then(|line| failure(line));
        assert_eq!(dripped, failure(&at_once), "{name}");
    }
}

#[test]
fn a_line_without_end_is_refused() {
    for (format, file) in [
        (Format::Csv, &b"a,1\nb,"[..]),
        (Format::Csv, b"a,1\nb,\""),
        (
            Format::Ndjson,
            b"{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"",
        ),
    ] {
        let endless = std::io::Read::chain(file, std::io::repeat(b'x'));
        let endless = std::io::BufReader::new(endless);
        let columns = Columns {
            header: NO,
            ..Columns::default()
        };
        let mut reader = Reader::new(format, endless, &columns).unwrap();
        assert_eq!(reader.next().unwrap().unwrap().unwrap().key, b"a");
        let failure = reader.next().unwrap_err().to_string();
        assert_eq!(
            failure, "line 2: longer than the limit of 33554432 bytes",
            "{format:?}"
        );
    }
}
