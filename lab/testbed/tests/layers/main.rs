//! The layers, kept: no crate uses one above it, no files of a crate import each other in a circle,
//! and no room of the fabric imports one above it. And what a reader relies on: few types have the
//! name of another, comments fit the window, and links lead somewhere.
//!
//! An import counts for the file that defines the name, wherever it is re-exported: a `mod.rs` or
//! `lib.rs` that only declares and re-exports has no arrows. Code in tests does not count.

mod arrows;
mod book;
mod crate_order;
mod source;

use arrows::{Arrows, circles};
use source::Crate;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let laboratory = here.parent().and_then(Path::parent);
    laboratory.expect("lab/testbed in a workspace").to_owned()
}

/// The folders of the crates of the product, and of the laboratory.
const CRATES: [&str; 2] = ["crates", "lab"];

/// The folders of all crates.
fn crates() -> impl Iterator<Item = PathBuf> {
    CRATES.into_iter().flat_map(|folder| {
        let crates = std::fs::read_dir(workspace().join(folder)).expect("a folder of crates");
        crates.map(|entry| entry.expect("a crate").path())
    })
}

/// The root files of all crates: a library's, a program's.
fn roots() -> Vec<PathBuf> {
    let sources = crates().map(|folder| folder.join("src"));
    let roots = sources.flat_map(|source| [source.join("lib.rs"), source.join("main.rs")]);
    let mut roots: Vec<PathBuf> = roots.filter(|root| root.exists()).collect();
    roots.sort();
    roots
}

/// The files of a circle, and what ties each to the next.
fn describe(read: &Crate, arrows: &Arrows, circle: &BTreeSet<usize>) -> String {
    let mut text = format!("a circle of {} files:\n", circle.len());
    for from in circle {
        let inside = arrows[from].iter().filter(|(to, _)| circle.contains(to));
        for (to, names) in inside {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let (from, to) = (&read.files[*from], &read.files[*to]);
            writeln!(text, "  {from} -> {to}: {}", names.join(", ")).expect("room in a string");
        }
    }
    text
}

#[test]
fn no_files_of_a_crate_import_each_other_in_a_circle() {
    let mut found = String::new();
    let roots = roots();
    assert!(roots.len() > 8, "crates are missing: {roots:?}");
    for root in roots {
        let read = Crate::read(&workspace(), &root);
        let arrows = read.arrows();
        for circle in circles(&arrows) {
            found += &describe(&read, &arrows, &circle);
        }
    }
    assert!(found.is_empty(), "{found}");
}

/// The rooms of the fabric, the lowest first; those of one line do not import each other. Files
/// that are in no folder are the core.
const ROOMS: [&[&str]; 5] = [
    &["", "error"],
    &["memory"],
    &["net", "keep"],
    &["shm", "tcp", "verbs", "sim"],
    // Stands above all fabrics.
    &["any"],
];

#[test]
fn no_room_of_the_fabric_imports_one_above_it() {
    let source = workspace().join("crates/fabric/src");
    let read = Crate::read(&workspace(), &source.join("lib.rs"));
    let room = |file: usize| {
        let within = read.files[file].strip_prefix("crates/fabric/src/");
        let within = within.expect("a file of the fabric");
        match within.split_once('/') {
            Some((folder, _)) => folder,
            None if within == "any.rs" => "any",
            None => "",
        }
    };
    let floor = |room: &str| ROOMS.iter().position(|rooms| rooms.contains(&room));
    let mut found = String::new();
    for (from, to) in read.arrows() {
        for (to, names) in to {
            let (above, below) = (room(from), room(to));
            let floors = (floor(above), floor(below));
            assert!(floors.0.is_some() && floors.1.is_some(), "{above}, {below}");
            if above != below && floors.0 <= floors.1 && floors != (Some(0), Some(0)) {
                let (from, to) = (&read.files[from], &read.files[to]);
                writeln!(found, "{from} -> {to}: {names:?}").expect("room in a string");
            }
        }
    }
    assert!(found.is_empty(), "{found}");
}

/// Names that more than one type may have: such as `Args`, `Key` or `Entry`, each of which is used
/// in its own file alone.
const MOST_NAMESAKES: usize = 79;

#[test]
fn few_types_have_the_name_of_another() {
    let mut defined: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for root in roots() {
        let read = Crate::read(&workspace(), &root);
        for module in &read.modules {
            let is_type = |name: &&String| {
                name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase)
            };
            for name in module.items.iter().filter(is_type) {
                let files = defined.entry(name.clone()).or_default();
                files.insert(read.files[module.file].clone());
            }
        }
    }
    let names = defined.len();
    assert!(names > 1_000, "types are missing: {names}");
    defined.retain(|_, files| files.len() > 1);
    let namesakes = defined.len();
    assert!(
        namesakes <= MOST_NAMESAKES,
        "{namesakes} of {names} names, and at most {MOST_NAMESAKES} may: {defined:#?}"
    );
}

/// Columns of a comment.
const WIDEST_COMMENT: usize = 100;

#[test]
fn comments_fit_the_window() {
    let is_comment = |text: &str| {
        let is_comment = |line: &str| line.trim_start().starts_with("//");
        text.lines().map(is_comment).collect::<Vec<_>>()
    };
    let (files, wide) = wider(crates().collect(), "rs", WIDEST_COMMENT, is_comment);
    assert!(files > 500, "files are missing: {files}");
    assert!(
        wide.is_empty(),
        "comments over {WIDEST_COMMENT} columns:\n{wide}"
    );
}

/// Columns of pages, tables included. Code cannot be broken.
const WIDEST_PROSE: usize = 140;

#[test]
fn prose_fits_the_page() {
    let is_prose = |text: &str| {
        let mut is_code = false;
        let is_prose = |line: &str| {
            let is_fence = line.trim_start().starts_with("```");
            is_code ^= is_fence;
            !is_code && !is_fence
        };
        text.lines().map(is_prose).collect::<Vec<_>>()
    };
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = ["README.md", "CHANGELOG.md", "packaging", "docs"];
    let pages = pages.iter().map(|page| top.join(page)).collect();
    let (files, wide) = wider(pages, "md", WIDEST_PROSE, is_prose);
    assert!(files > 10, "pages are missing: {files}");
    assert!(
        wide.is_empty(),
        "prose over {WIDEST_PROSE} columns:\n{wide}"
    );
}

/// How many files of a kind there are in these places, and the lines of them that are meant and
/// wider than so many columns.
fn wider(
    mut places: Vec<PathBuf>,
    extension: &str,
    columns: usize,
    meant: impl Fn(&str) -> Vec<bool>,
) -> (usize, String) {
    let (mut files, mut wide) = (0, String::new());
    while let Some(path) = places.pop() {
        if path.is_dir() && !path.ends_with("target") {
            for entry in std::fs::read_dir(&path).expect("a folder") {
                places.push(entry.expect("an entry").path());
            }
        } else if path.extension().is_some_and(|of| of == extension) {
            files += 1;
            let text = std::fs::read_to_string(&path).expect("a text");
            let lines = (1..).zip(text.lines()).zip(meant(&text));
            for ((number, line), is_meant) in lines {
                if is_meant && line.chars().count() > columns {
                    writeln!(wide, "{}:{number}", path.display()).expect("room in a string");
                }
            }
        }
    }
    (files, wide)
}

/// A crate of these files, read; each is a path and its text.
fn read(name: &str, files: &[(&str, &str)]) -> Crate {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    for (path, text) in files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().expect("a file in a folder")).expect("a folder");
        std::fs::write(&path, text).expect("a file");
    }
    Crate::read(&folder, &folder.join("lib.rs"))
}

/// Every way to name something of another file, and what does not count.
#[test]
fn a_name_leads_to_the_file_that_defines_it() {
    let source = read(
        "names",
        &[
            ("lib.rs", "mod low; mod room; mod user; pub use room::Deep;"),
            ("low.rs", "pub struct Low; pub fn call() {}"),
            (
                "room/mod.rs",
                "mod deep; pub(crate) mod flat; pub use deep::*; pub use flat as plain;",
            ),
            ("room/deep.rs", "pub struct Deep;"),
            ("room/flat.rs", "pub const FLAT: u8 = 0;"),
            (
                "user.rs",
                "use crate::{Deep, low::{self, Low as Renamed}}; use std::fmt;
                 fn by_path() { low::call(); println!(\"{}\", crate::room::plain::FLAT); }
                 #[cfg(test)] mod tests { use super::super::room::nothing::At; }",
            ),
        ],
    );
    let arrows = source.arrows();
    let named: Vec<(&str, &str, Vec<&str>)> = arrows
        .iter()
        .flat_map(|(from, to)| to.iter().map(move |(to, names)| (from, to, names)))
        .map(|(from, to, names)| {
            let names = names.iter().map(String::as_str).collect();
            (
                source.files[*from].as_str(),
                source.files[*to].as_str(),
                names,
            )
        })
        .collect();
    let user = "user.rs";
    assert_eq!(
        named,
        [
            (user, "low.rs", vec!["Low", "call", "low"]),
            (user, "room/deep.rs", vec!["Deep"]),
            (user, "room/flat.rs", vec!["FLAT"]),
        ]
    );
    assert!(circles(&arrows).is_empty());
}

#[test]
fn a_circle_is_found_and_what_hangs_on_it_is_not() {
    let source = read(
        "circle",
        &[
            ("lib.rs", "mod a; mod b; mod c; mod above; mod below;"),
            ("a.rs", "use super::b::B; pub struct A;"),
            (
                "b.rs",
                "use crate::c; use crate::below::Below; pub struct B(c::C);",
            ),
            (
                "c.rs",
                "pub struct C; fn c() -> crate::a::A { crate::a::A }",
            ),
            ("above.rs", "use crate::a::A;"),
            ("below.rs", "pub struct Below;"),
        ],
    );
    let arrows = source.arrows();
    let circles = circles(&arrows);
    let [circle] = &circles[..] else {
        panic!("{circles:?}");
    };
    let files: Vec<_> = circle.iter().map(|file| &source.files[*file]).collect();
    assert_eq!(files, ["a.rs", "b.rs", "c.rs"]);
    let told = describe(&source, &arrows, circle);
    assert!(
        told.contains("b.rs -> c.rs: C, c") && !told.contains("below"),
        "{told}"
    );
}
