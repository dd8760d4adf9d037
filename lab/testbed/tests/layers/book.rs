//! The book in `docs/` and the pages beside it: every link leads somewhere, every page is in the
//! summary, and what stands twice is the same.

use super::workspace;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Component, Path, PathBuf};

/// How links to files of this repository begin where they cannot be relative.
const PUBLISHED: &str = "https://github.com/farslot/farslot/";

/// The pages outside of the book.
const BESIDE: [&str; 4] = [
    "README.md",
    "CHANGELOG.md",
    "packaging/README.md",
    "crates/python/README.md",
];

/// A page without its blocks of code.
struct Page {
    /// From the top of the repository.
    path: PathBuf,
    text: String,
}

impl Page {
    fn read(path: PathBuf) -> Self {
        let all = std::fs::read_to_string(workspace().join(&path)).expect("a page");
        let (mut text, mut is_code) = (String::new(), false);
        for line in all.lines() {
            let is_fence = line.trim_start().starts_with("```");
            is_code ^= is_fence;
            if !is_code && !is_fence {
                text += line;
                text.push('\n');
            }
        }
        assert!(!is_code, "{}: a block has no end", path.display());
        Self { path, text }
    }

    /// The anchors of the headings, as forges and mdBook make them.
    fn anchors(&self) -> BTreeSet<String> {
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let headings = self.text.lines().filter(|line| line.starts_with('#'));
        headings
            .map(|heading| {
                let anchor = anchor(heading.trim_start_matches('#').trim());
                let before = seen.entry(anchor.clone()).or_default();
                *before += 1;
                match *before {
                    1 => anchor,
                    count => format!("{anchor}-{}", count - 1),
                }
            })
            .collect()
    }

    /// Where the links lead: those of the text, and the definitions `[name]: link`.
    fn links(&self) -> Vec<String> {
        // Code between backticks has none.
        let text: String = self.text.split('`').step_by(2).collect();
        let inline = text.split("](").skip(1);
        let inline = inline.filter_map(|rest| Some(rest.split_once(')')?.0));
        let defined = text.lines().filter(|line| line.starts_with('['));
        let defined = defined.filter_map(|line| Some(line.split_once("]: ")?.1));
        inline
            .chain(defined)
            .map(|link| link.trim().to_owned())
            .collect()
    }

    /// The file that a link leads to, from the top of the repository, and the anchor in it; nothing
    /// of a link to elsewhere.
    fn target(&self, link: &str) -> Option<(PathBuf, String)> {
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        let path = if let Some(published) = file.strip_prefix(PUBLISHED) {
            let mut parts = published.splitn(3, '/');
            let kind = parts.next();
            assert!(matches!(kind, Some("blob" | "tree")), "{link}");
            assert_eq!(parts.next(), Some("main"), "{link}");
            PathBuf::from(parts.next().expect("a path"))
        } else if file.contains("://") {
            return None;
        } else if file.is_empty() {
            self.path.clone()
        } else {
            plain(&self.path.parent().expect("a folder").join(file))
        };
        Some((path, anchor.to_owned()))
    }
}

/// A heading's anchor.
fn anchor(heading: &str) -> String {
    let meant = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    let anchor: String = meant.map(|c| if c == ' ' { '-' } else { c }).collect();
    anchor.to_lowercase()
}

/// The path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(plain.pop()),
            component => plain.push(component),
        }
    }
    plain
}

/// The pages of the book, from the top of the repository.
fn chapters() -> Vec<PathBuf> {
    let (mut folders, mut chapters) = (vec![PathBuf::from("docs")], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(workspace().join(&folder)).expect("a folder") {
            let name = entry.expect("an entry").file_name();
            let path = folder.join(name);
            if workspace().join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "md") {
                chapters.push(path);
            }
        }
    }
    chapters.sort();
    assert!(chapters.len() > 30, "pages are missing: {chapters:?}");
    chapters
}

#[test]
fn every_link_leads_to_a_page_and_a_heading() {
    let (mut wrong, mut followed) = (String::new(), 0);
    let beside = BESIDE.map(PathBuf::from);
    for path in chapters().into_iter().chain(beside) {
        let page = Page::read(path);
        for link in page.links() {
            let Some((file, anchor)) = page.target(&link) else {
                continue;
            };
            let is_there = workspace().join(&file).exists();
            let has_anchor = anchor.is_empty()
                || is_there && Page::read(file.clone()).anchors().contains(&anchor);
            // What is built of the book has its own pages alone.
            let is_relative = !link.starts_with(PUBLISHED);
            let inside = !page.path.starts_with("docs") || file.starts_with("docs") == is_relative;
            if !is_there || !has_anchor || !inside {
                writeln!(wrong, "{}: {link}", page.path.display()).expect("room in a string");
            }
            followed += 1;
        }
    }
    assert!(followed > 150, "links are missing: {followed}");
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_page_is_in_the_summary_once() {
    let summary = Page::read("docs/SUMMARY.md".into());
    let mut listed: Vec<PathBuf> = summary
        .links()
        .iter()
        .map(|link| Path::new("docs").join(link))
        .collect();
    listed.push(summary.path);
    listed.sort();
    assert_eq!(listed, chapters());
}

/// The first cells of the rows of the table under the heading, in code.
fn first_cells(page: &str, heading: &str) -> Vec<String> {
    let page = Page::read(page.into());
    let (_, below) = page.text.split_once(heading).expect("the heading");
    let rows = below.lines().skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let named = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    named.map(ToOwned::to_owned).collect()
}

/// The README has the short table of schemes, and the book the whole one.
#[test]
fn both_tables_of_schemes_have_all_schemes() {
    let in_book = first_cells("docs/choose/schemes.md", "# Schemes\n");
    let in_readme = first_cells("README.md", "\n## Schemes\n");
    assert!(in_readme.len() > 7, "{in_readme:?}");
    let mut in_book_apart = in_book.clone();
    in_book_apart.retain(|scheme| scheme != "sealed --perfect");
    assert_eq!(in_readme, in_book_apart);
}

/// A program that is printed is the example of that name, which is compiled and run.
#[test]
fn the_first_program_is_the_example() {
    let read = |path: &str| std::fs::read_to_string(workspace().join(path)).expect("a text");
    let example = read("crates/store/examples/quick_start.rs");
    let (_, program) = example.split_once("\n\n").expect("a comment before it");
    let page = read("docs/start/first-table.md");
    assert!(page.contains(&format!("```rust\n{program}```\n")));
}

#[test]
fn anchors_are_those_of_forges() {
    let page = Page {
        path: PathBuf::new(),
        text: "# What `load` reads\n# Ends, and C++\n# Twice\n# Twice\n".to_owned(),
    };
    let expected = ["ends-and-c", "twice", "twice-1", "what-load-reads"];
    assert_eq!(page.anchors(), expected.map(str::to_owned).into());
    let page = Page {
        path: "docs/guide/c.md".into(),
        text: "[a](../start/b.md#c)\n`[no](link)` [d](#e) [f][g]\n[g]: https://x.org\n".to_owned(),
    };
    let links = page.links();
    assert_eq!(links, ["../start/b.md#c", "#e", "https://x.org"]);
    let targets: Vec<_> = links.iter().map(|link| page.target(link)).collect();
    let at = |path: &str, anchor: &str| Some((PathBuf::from(path), anchor.to_owned()));
    let expected = [at("docs/start/b.md", "c"), at("docs/guide/c.md", "e"), None];
    assert_eq!(targets, expected);
}
