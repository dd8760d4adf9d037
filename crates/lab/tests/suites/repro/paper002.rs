//! Paper 002, small.

use super::checked;
use farslot_lab::repro::Options;

/// Round trips within 5% of the paper's, latencies within 15%, and chunks that are chosen never more than 3% slower than the best
/// fixed ones. The table is large enough for its clusters at a load of 0.9.
#[test]
fn find_or_put_takes_what_the_paper_says() {
    let options = Options {
        slots: Some(1 << 16),
        tables: Some(2),
        lookups: None,
        seed: 3,
    };
    let report = checked("002-table1", &options);
    for row in &report.rows {
        if let Some(ratio) = row.ratio {
            let within = if row.cell.starts_with("round trips") {
                0.05
            } else {
                0.15
            };
            assert!((ratio - 1.0).abs() < within, "{row:?}");
        } else if row.cell.starts_with("latency with C chosen") {
            assert!(row.ours < 1.03, "{row:?}");
        }
    }
}
