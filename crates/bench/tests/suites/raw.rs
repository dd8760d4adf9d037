//! Bare READs, small.

use farslot_bench::raw::{Fabric, Options, run};

#[test]
fn every_figure_is_there_beside_its_ceiling() {
    for fabric in [Fabric::Tcp, Fabric::Shm] {
        let options = Options {
            fabric,
            memory: 1 << 20,
            repetitions: 2,
            operations: 1 << 9,
            single_reads: 1 << 6,
            ..Options::default()
        };
        let report = run(&options, &|_| {}).unwrap();
        assert_eq!(report.rows.len(), 6);
        for pair in report.rows.chunks(2) {
            assert!(pair[0].value > 0.0 && pair[1].value > 0.0, "{pair:?}");
            assert_eq!(pair[0].limit, Some(pair[1].value));
        }
        let odd = Options {
            read_bytes: 12,
            ..options
        };
        assert!(run(&odd, &|_| {}).unwrap_err().is_usage());
    }
}
