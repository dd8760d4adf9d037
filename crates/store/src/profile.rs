//! NIC profiles by name, or from files.

use farslot_fabric::sim::{NicProfile, ProfileError};
use farslot_model::NicModel;
use std::fs::File;
use std::io::{self, Read};

/// Why there is no NIC profile.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NicProfileError {
    /// Neither a profile nor a file has that name.
    #[error(
        "no NIC profile is named {name:?}, and no file; there are {}",
        NicProfile::NAMES.join(", ")
    )]
    Unknown {
        /// The name asked for.
        name: String,
    },
    /// The file cannot be read.
    #[error("NIC profile {path}: {error}")]
    File {
        /// Its path.
        path: String,
        /// What the system says.
        error: String,
    },
    /// What the file says is no profile.
    #[error("NIC profile {path}: {error}")]
    Refused {
        /// Its path.
        path: String,
        /// The field, and what is possible.
        error: ProfileError,
    },
}

/// More than any profile takes: a file that is longer is none.
const LONGEST_FILE: u64 = 1 << 20;

/// The NIC profile of a name, or of the file at that path (TOML, as `farslot calibrate` writes it).
///
/// # Errors
/// [`NicProfileError`].
pub fn nic_profile(name_or_path: &str) -> Result<NicProfile, NicProfileError> {
    if let Ok(known) = NicProfile::by_name(name_or_path) {
        return Ok(known);
    }
    let path = || name_or_path.to_owned();
    let text = read(name_or_path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => NicProfileError::Unknown { name: path() },
        _ => NicProfileError::File {
            path: path(),
            error: error.to_string(),
        },
    })?;
    NicProfile::parse(&text).map_err(|error| NicProfileError::Refused {
        path: path(),
        error,
    })
}

fn read(path: &str) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?
        .take(LONGEST_FILE + 1)
        .read_to_string(&mut text)?;
    if read as u64 > LONGEST_FILE {
        let why = format!("longer than {LONGEST_FILE} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(text)
}

/// What a READ costs behind a simulated NIC, for the model.
#[must_use]
pub fn read_cost(profile: &NicProfile) -> NicModel {
    NicModel {
        read_latency_ns: profile.read_latency_ns,
        latency_ns_per_byte: profile.latency_per_byte_ns,
        read_occupancy_ns: profile.responder_ns.per_message,
        occupancy_ns_per_byte: profile.responder_ns.per_byte,
        peak_reads_per_second: 1e9 / profile.requester_ns.per_message,
        header_bytes: f64::from(profile.header_bytes),
        bandwidth_bytes_per_second: profile.link_bytes_per_ns * 1e9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both come from one measurement, and the model's is rounded.
    #[test]
    fn the_model_and_the_simulator_agree_on_tcp_over_loopback() {
        let (model, simulated) = (
            NicModel::tcp_loopback(),
            read_cost(&NicProfile::tcp_loopback()),
        );
        for cost in [NicModel::latency_ns, NicModel::occupancy_ns] {
            for bytes in [8, 64, 1024] {
                let ratio = cost(&model, bytes) / cost(&simulated, bytes);
                assert!((0.98..1.02).contains(&ratio), "{bytes} B: {ratio}");
            }
        }
    }
    use crate::{Store, StoreError};

    fn file(name: &str, text: &str) -> String {
        let directory = std::env::temp_dir();
        let path = directory.join(format!("farslot-{}-{name}.toml", std::process::id()));
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    #[test]
    fn a_file_stands_wherever_a_name_does() {
        let slow = NicProfile {
            name: "slow".into(),
            read_latency_ns: 9000.0,
            ..NicProfile::connectx5_edr()
        };
        let path = file("slow", &slow.to_toml(|_| None).unwrap());
        let read = nic_profile(&path);
        let address = format!("sim://{path}?seed=3&memory=1MiB");
        let store = Store::open(&address).unwrap();
        let again = store.address().to_string().parse();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read, Ok(slow));
        assert_eq!(again.as_ref(), Ok(store.address()));
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_with_its_path() {
        assert_eq!(nic_profile("cx5-edr"), Ok(NicProfile::connectx5_edr()));
        let unknown = nic_profile("cx9").unwrap_err().to_string();
        assert!(
            unknown.contains("\"cx9\"") && unknown.contains("cx5-edr"),
            "{unknown}"
        );
        let path = file("bad", "name = \"x\"");
        let refused = nic_profile(&path).unwrap_err();
        let store = Store::open(&format!("sim://{path}"));
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(
            &refused,
            NicProfileError::Refused {
                error: ProfileError::Missing {
                    field: "read_latency_ns"
                },
                ..
            }
        ));
        assert!(refused.to_string().contains(&path));
        assert!(matches!(store.err(), Some(StoreError::BadAddress { .. })));
        let directory = std::env::temp_dir().display().to_string();
        assert!(matches!(
            nic_profile(&directory),
            Err(NicProfileError::File { .. })
        ));
    }
}
