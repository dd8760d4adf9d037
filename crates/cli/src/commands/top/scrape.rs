//! What a node's metrics say of its rates.

use crate::page;
use std::io;

/// Totals since the node started, over all of its addresses.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Scrape {
    pub(super) connections: f64,
    pub(super) verbs: f64,
    pub(super) bytes: f64,
}

/// Asks a node for its metrics.
pub(super) fn scrape(address: &str) -> io::Result<Scrape> {
    Ok(totals(&page::ask(address, "/metrics")?))
}

fn totals(text: &str) -> Scrape {
    let sum = |name: &str| {
        let values = text.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            let is_of_it = rest.starts_with(['{', ' ']);
            let value = rest.rsplit_once(' ')?.1.parse::<f64>().ok();
            value.filter(|_| is_of_it)
        });
        values.sum()
    };
    Scrape {
        connections: sum("farslot_connections"),
        verbs: sum("farslot_verbs_total"),
        bytes: sum("farslot_bytes_total"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_those_of_the_names_alone() {
        let text = "# HELP farslot_connections x\n\
            farslot_connections{address=\"a b\"} 2\n\
            farslot_connections{address=\"c\"} 3\n\
            farslot_connections_total{address=\"a\"} 100\n\
            farslot_verbs_total 7\n\
            farslot_bytes_total{x=\"}\"} nonsense\n";
        let expected = Scrape {
            connections: 5.0,
            verbs: 7.0,
            bytes: 0.0,
        };
        assert_eq!(totals(text), expected);
    }
}
