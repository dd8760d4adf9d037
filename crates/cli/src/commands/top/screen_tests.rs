use super::*;
use farslot::health::NodeReport;
use farslot::{FabricError, MemoryUse, Occupancy};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::time::Instant;

fn node(address: &str, verbs: Option<f64>) -> Node {
    Node {
        report: NodeReport {
            address: address.into(),
            error: None,
            incarnation: 7,
            restarted: false,
            round_trip: Some(Duration::from_nanos(12_345)),
            memory: Some(MemoryUse {
                total: 1 << 30,
                taken: 1 << 29,
                largest_free: 1 << 29,
            }),
            tables: Some(1),
            adopted: 0,
            lost: Vec::new(),
        },
        scrape: verbs.map(|verbs| Scrape {
            connections: 3.0,
            verbs,
            bytes: verbs * 1024.0,
        }),
    }
}

fn table(name: &str, entries: u64) -> TableOverview {
    TableOverview {
        name: name.into(),
        scheme: "linear",
        bytes: 1 << 20,
        counts: Some(Occupancy {
            entries,
            used_slots: entries,
            slots: 10_000,
            heap_used: 0,
            heap_dead: 0,
            heap_bytes: 0,
            evicted: 0,
        }),
    }
}

fn overview(at: Instant, nodes: Vec<Node>, tables: Vec<TableOverview>) -> StoreOverview {
    StoreOverview {
        at,
        address: "tcp://a:1,b:2".into(),
        nodes,
        tables,
        errors: Vec::new(),
    }
}

fn drawn(screen: &Screen, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    let cells = terminal.backend().buffer().content();
    let lines = cells.chunks(usize::from(width));
    let lines = lines.map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>());
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

#[test]
fn rates_are_those_between_two_looks() {
    let mut screen = Screen::new(Duration::from_secs(2));
    assert!(drawn(&screen, 80, 24).contains("asking the nodes"));
    let since = Instant::now();
    let later = since + Duration::from_secs(2);
    let two = |verbs| vec![node("a:1", Some(verbs)), node("b:2", None)];
    screen.take(overview(since, two(1_000.0), vec![table("users", 1_000)]));
    screen.take(overview(later, two(3_000.0), vec![table("users", 5_000)]));
    let text = drawn(&screen, 120, 30);
    for part in [
        "tcp://a:1,b:2",
        "every 2 s",
        "512.0 MiB of 1.0 GiB",
        "12.3 us",
        "1 000",
        "1000.0 KiB",
        "+2 000",
        "0.500",
        "verbs a second: 1 000, at most 1 000",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn what_is_down_or_damaged_is_shown_and_tables_scroll() {
    let mut screen = Screen::new(Duration::from_secs(1));
    let mut down = node("b:2", None);
    down.report.error = Some(FabricError::ConnectionRefused {
        address: "b:2".into(),
    });
    (down.report.memory, down.report.round_trip) = (None, None);
    let tables = (0..40).map(|number| table(&format!("table-{number}"), 1));
    let nodes = vec![node("a:1", None), down];
    let mut shown = overview(Instant::now(), nodes, tables.collect());
    shown
        .errors
        .push("entry 3 of the catalog is damaged".into());
    screen.take(shown);
    let text = drawn(&screen, 80, 24);
    assert!(text.contains("down") && text.contains("entry 3"), "{text}");
    assert!(
        text.contains("table-0 ") && !text.contains("table-39"),
        "{text}"
    );
    for _ in 0..100 {
        screen.scroll(1);
    }
    assert!(drawn(&screen, 80, 24).contains("table-39"));
    screen.scroll(-100);
    assert!(drawn(&screen, 80, 24).contains("table-0 "));
}

/// What is left out of a row moves nothing else of it.
#[test]
fn columns_stay_where_nothing_is_known() {
    let mut screen = Screen::new(Duration::from_secs(1));
    let mut down = node("tcp://b:2", Some(1.0));
    (down.report.memory, down.report.round_trip) = (None, None);
    let mut unbuilt = table("sealed", 0);
    unbuilt.counts = None;
    let nodes = vec![node("tcp://a:1", Some(1.0)), down];
    screen.take(overview(
        Instant::now(),
        nodes,
        vec![table("t", 1), unbuilt],
    ));
    for width in [80, 100, 140] {
        let text = drawn(&screen, width, 24);
        let ends = |row: &str, part: &str| {
            let line = text.lines().find(|line| line.contains(row)).unwrap();
            let before = line.split(part).next().unwrap_or_else(|| panic!("{text}"));
            before.chars().count()
        };
        assert_eq!(
            ends("sealed", "1.0 MiB"),
            ends("\u{2502}t ", "1.0 MiB"),
            "{text}"
        );
        if width > 90 {
            assert_eq!(ends("a:1", " 3 "), ends("b:2", " 3 "), "{text}");
        }
    }
}

/// A terminal may be of any size.
#[test]
fn no_size_is_too_small() {
    for (width, height) in [(1, 1), (5, 3), (20, 200), (300, 2)] {
        let mut screen = Screen::new(Duration::from_secs(1));
        let nodes = vec![node("a:1", Some(1.0))];
        screen.take(overview(Instant::now(), nodes, vec![table("t", 1)]));
        drawn(&screen, width, height);
    }
}
