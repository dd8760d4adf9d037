//! Spans of operations, as OpenTelemetry gets them. The owner of a simulated node answers calls on
//! the thread of the test.

use farslot::{Access, BatchError, FieldSize, OpenOptions, Store, TableOptions};
use opentelemetry::trace::{SpanKind, Status, TracerProvider};
use opentelemetry::{Key, Value};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use std::sync::LazyLock;
use tracing::Dispatch;
use tracing_subscriber::layer::SubscriberExt;

/// Subscribers that no thread has. While there is one alone, `tracing` asks that of the thread that
/// comes to a span first, whether anybody wants it, and goes by the answer on all threads: those of
/// other tests have none.
static OTHERS: LazyLock<[Dispatch; 2]> =
    LazyLock::new(|| [(); 2].map(|()| Dispatch::new(tracing_subscriber::registry())));

/// What is told while something is done.
fn spans_of(does: impl FnOnce()) -> Vec<SpanData> {
    LazyLock::force(&OTHERS);
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder();
    let provider = provider.with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let subscriber = tracing_subscriber::registry().with(layer);
    tracing::subscriber::with_default(subscriber, does);
    exporter.get_finished_spans().unwrap()
}

fn store(access: Access) -> Store {
    let options = OpenOptions {
        access,
        ..OpenOptions::default()
    };
    let store = Store::open_with("sim://tcp-loopback?seed=1&memory=16MiB", options).unwrap();
    let sizes = TableOptions::new(1_000)
        .keys(FieldSize::UpTo(32))
        .expiring(true);
    store.create("users", &sizes).unwrap();
    store
}

fn attribute(span: &SpanData, key: &'static str) -> Option<Value> {
    let mut attributes = span.attributes.iter();
    let found = attributes.find(|attribute| attribute.key == Key::from_static_str(key));
    found.map(|attribute| attribute.value.clone())
}

fn number(span: &SpanData, key: &'static str) -> Option<i64> {
    match attribute(span, key)? {
        Value::I64(number) => Some(number),
        other => panic!("{key}: {other:?}"),
    }
}

#[test]
fn an_operation_is_a_span_with_its_outcome_and_round_trips() {
    let store = store(Access::Reads);
    let users = store.table("users").unwrap();
    let spans = spans_of(|| {
        assert!(users.put(b"ada", b"1").unwrap());
        assert!(!users.put(b"ada", b"2").unwrap());
        assert!(users.get(b"ada").unwrap().is_some());
        assert!(users.get(b"bob").unwrap().is_none());
        assert!(!users.remove(b"bob").unwrap());
        assert!(users.put(&[b'k'; 33], b"").is_err());
    });
    let told: Vec<_> = spans
        .iter()
        .map(|span| {
            (
                &*span.name,
                attribute(span, "farslot.outcome").map(|outcome| outcome.to_string()),
            )
        })
        .collect();
    let outcome = |name, outcome: &str| (name, Some(outcome.to_owned()));
    assert_eq!(
        told,
        [
            outcome("put users", "new"),
            outcome("put users", "replaced"),
            outcome("get users", "found"),
            outcome("get users", "absent"),
            outcome("remove users", "unchanged"),
            ("put users", None),
        ]
    );
    for span in &spans {
        assert_eq!(span.span_kind, SpanKind::Client);
        assert_eq!(attribute(span, "db.system.name"), Some("farslot".into()));
        assert_eq!(attribute(span, "db.collection.name"), Some("users".into()));
        assert_eq!(attribute(span, "db.operation.batch.size"), None);
    }
    let (failed, done) = spans.split_last().unwrap();
    for span in done {
        assert_eq!(span.status, Status::Unset);
        assert!(number(span, "farslot.round_trips").unwrap() > 0, "{span:?}");
    }
    assert!(matches!(failed.status, Status::Error { .. }));
    assert_eq!(attribute(failed, "error.type"), Some("does_not_fit".into()));
    // Where nobody asks for spans there are none, and nothing is different.
    assert_eq!(users.get(b"ada").unwrap().as_deref(), Some(&b"2"[..]));
}

#[test]
fn a_batch_is_one_span_which_counts_its_failures() {
    let store = store(Access::Reads);
    let users = store.table("users").unwrap();
    let [long, longer] = [[b'k'; 33], [b'l'; 33]];
    let records = [
        (&b"ada"[..], &b"1"[..]),
        (&long, b""),
        (b"bob", b"2"),
        (&longer, b""),
    ];
    let keys: Vec<&[u8]> = records.iter().map(|(key, _)| *key).collect();
    let numbers = |batch: farslot::Result<(), BatchError>| -> Vec<usize> {
        batch.unwrap_err().into_iter().map(|(at, _)| at).collect()
    };
    let spans = spans_of(|| {
        let put = users.put_many(&records, |_, is_new| assert!(is_new));
        assert_eq!(numbers(put), [1, 3]);
        // What a program does with an answer is within the batch.
        let got = users.get_many(&keys[..1], |_, _| {
            users.get(b"bob").unwrap();
        });
        got.unwrap();
        let got = users.get_many(&keys, |_, value| assert!(value.is_some()));
        assert_eq!(numbers(got), [1, 3]);
    });
    let [put, of_answer, one, get] = &spans[..] else {
        panic!("{spans:?}");
    };
    assert_eq!(number(put, "db.operation.batch.size"), Some(4));
    assert_eq!(number(put, "farslot.errors"), Some(2));
    assert_eq!(attribute(put, "error.type"), Some("does_not_fit".into()));
    assert_eq!(of_answer.parent_span_id, one.span_context.span_id());
    assert_eq!(
        (&*get.name, number(get, "farslot.errors")),
        ("get users", Some(2))
    );
}

#[test]
fn the_owner_of_the_memory_tells_of_the_turns_of_its_calls() {
    let store = store(Access::Calls);
    let users = store.table("users").unwrap();
    let spans = spans_of(|| {
        users.put(b"ada", b"1").unwrap();
        users.get_many(&[b"ada", b"bob"], |_, _| ()).unwrap();
    });
    let of_owner: Vec<_> = spans
        .iter()
        .filter(|span| span.span_kind == SpanKind::Server)
        .collect();
    let last = of_owner.last().unwrap();
    assert_eq!(
        (&*last.name, number(last, "db.operation.batch.size")),
        ("get users", Some(2))
    );
    assert_eq!(number(last, "farslot.later"), Some(0));
    assert!(
        of_owner.iter().any(|span| &*span.name == "put users"),
        "{of_owner:?}"
    );
    let clients = spans
        .iter()
        .filter(|span| span.span_kind == SpanKind::Client);
    assert_eq!(clients.count(), 2);
}

/// Queues and times to live are asked for by other ways.
#[test]
fn a_queue_and_a_time_to_live_have_spans_too() {
    let store = store(Access::Calls);
    let jobs = TableOptions::new(10).values(FieldSize::UpTo(8)).queue();
    store.create("jobs", &jobs).unwrap();
    let (users, jobs) = (store.table("users").unwrap(), store.queue("jobs").unwrap());
    let spans = spans_of(|| {
        let hour = std::time::Duration::from_secs(3600);
        users.put_for(b"ada", b"1", hour).unwrap();
        jobs.push(b"one").unwrap();
        assert!(jobs.push(b"too long for it").is_err());
        jobs.pop().unwrap();
    });
    let of_client = spans
        .iter()
        .filter(|span| span.span_kind == SpanKind::Client);
    let told: Vec<_> = of_client
        .map(|span| (&*span.name, attribute(span, "error.type").is_some()))
        .collect();
    let expected = [
        ("put users", false),
        ("put jobs", false),
        ("put jobs", true),
        ("remove jobs", false),
    ];
    assert_eq!(told, expected);
}
