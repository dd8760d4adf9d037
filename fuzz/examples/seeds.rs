//! Writes what fuzzing starts from into `corpus/`, a folder for each target.

#[path = "../../crates/fabric/tests/common/fuzz.rs"]
#[allow(dead_code, reason = "only the seeds are needed here")]
mod fuzz;

use std::path::Path;

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let targets = ["frames", "handshakes", "connections"];
    for (target, seeds) in targets.iter().zip(fuzz::seeds()) {
        let folder = corpus.join(target);
        std::fs::create_dir_all(&folder)?;
        for (number, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), seed)?;
        }
    }
    Ok(())
}
