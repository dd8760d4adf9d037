//! The order of the crates: none uses one that stands above it in `docs/architecture.md`, none of
//! the product uses the laboratory, and none of the laboratory uses the program. Dependencies of
//! tests do not count.

use crate::source::Crate;
use crate::{crates, workspace};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A crate, as its manifest says.
struct Manifest {
    /// Its folder, such as `crates/index`.
    folder: String,
    package: String,
    /// The packages that it depends on, without those of its tests alone.
    dependencies: Vec<String>,
    /// Those of them of which it has the feature `unstable`.
    unstable: Vec<String>,
}

fn manifests() -> Vec<Manifest> {
    let manifests = crates().map(|folder| {
        let text = std::fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        let folder = folder.strip_prefix(workspace()).expect("a folder of ours");
        manifest(folder.to_str().expect("a plain name"), &text)
    });
    manifests.collect()
}

fn manifest(folder: &str, text: &str) -> Manifest {
    let manifest: toml::Table = text.parse().expect("a manifest");
    // Those of one platform have tables of their own.
    let of_targets = manifest.get("target").and_then(toml::Value::as_table);
    let of_targets = of_targets.into_iter().flat_map(toml::Table::values);
    let tables = std::iter::once(&manifest).chain(of_targets.filter_map(toml::Value::as_table));
    let kinds = tables.flat_map(|table| {
        ["dependencies", "build-dependencies"].map(|kind| table.get(kind)?.as_table())
    });
    let (mut dependencies, mut unstable) = (Vec::new(), Vec::new());
    for (name, of) in kinds.flatten().flatten() {
        let renamed = of.get("package").and_then(toml::Value::as_str);
        let package = renamed.unwrap_or(name).to_owned();
        let features = of.get("features").and_then(toml::Value::as_array);
        let mut features = features.into_iter().flatten();
        if features.any(|feature| feature.as_str() == Some("unstable")) {
            unstable.push(package.clone());
        }
        dependencies.push(package);
    }
    Manifest {
        folder: folder.to_owned(),
        package: manifest["package"]["name"]
            .as_str()
            .expect("a name")
            .to_owned(),
        dependencies,
        unstable,
    }
}

/// The crates that `docs/architecture.md` lists, the highest first: the laboratory, then the
/// product.
fn listed(document: &str) -> Vec<&str> {
    let words = document.lines().filter_map(|line| line.split(' ').next());
    let is_crate = |word: &&str| word.starts_with("crates/") || word.starts_with("lab/");
    let mut crates: Vec<&str> = words.filter(is_crate).collect();
    crates.sort_by_key(|folder| folder.starts_with("crates/"));
    crates
}

/// The dependencies that the order does not allow. `order` has the highest crate first.
fn wrong(manifests: &[Manifest], order: &[&str]) -> String {
    let ours: BTreeMap<&str, &Manifest> = manifests
        .iter()
        .map(|manifest| (manifest.package.as_str(), manifest))
        .collect();
    let place = |manifest: &Manifest| {
        let place = order.iter().position(|listed| *listed == manifest.folder);
        place.unwrap_or_else(|| panic!("docs/architecture.md does not list {}", manifest.folder))
    };
    let mut found = String::new();
    for user in manifests {
        for name in &user.dependencies {
            let Some(used) = ours.get(name.as_str()) else {
                continue;
            };
            let rule = if user.folder.starts_with("crates/") && used.folder.starts_with("lab/") {
                "the product may not use the laboratory"
            } else if user.folder.starts_with("lab/") && used.folder == "crates/cli" {
                "the laboratory may not use the program"
            } else if place(used) <= place(user) {
                "a crate may not use one above it"
            } else {
                continue;
            };
            writeln!(found, "  {} -> {}: {rule}", user.folder, used.folder).expect("room");
        }
    }
    found
}

#[test]
fn no_crate_uses_one_above_it() {
    let document = workspace().join("docs/architecture.md");
    let document = std::fs::read_to_string(document).expect("the architecture");
    let manifests = manifests();
    let order = listed(&document);
    let mut folders: Vec<&str> = manifests.iter().map(|one| one.folder.as_str()).collect();
    let mut sorted = order.clone();
    folders.sort_unstable();
    sorted.sort_unstable();
    assert_eq!(
        sorted, folders,
        "what docs/architecture.md lists, and the crates"
    );
    let found = wrong(&manifests, &order);
    assert!(found.is_empty(), "\n{found}");
}

/// The crates of the program, which shows that programs need nothing but the public interface.
const PROGRAM: [&str; 4] = [
    "crates/cli",
    "crates/terminal",
    "crates/gateway",
    "crates/operate",
];

/// The names that the feature `unstable` opens at the root of the crate `farslot`.
fn unstable_names(root: &str) -> Vec<&str> {
    let lines = || root.lines();
    let gates = lines().zip(lines().skip(1));
    let gated = gates.filter(|(gate, _)| *gate == "#[cfg(feature = \"unstable\")]");
    let public = gated.filter(|(_, item)| item.starts_with("pub "));
    let is_part = |character: char| !character.is_alphanumeric() && character != '_';
    let names = public.flat_map(|(_, item)| match item.split_once('{') {
        Some((_, group)) => group.split(is_part).collect(),
        None => item
            .rsplit(is_part)
            .filter(|part| !part.is_empty())
            .take(1)
            .collect::<Vec<_>>(),
    });
    names.filter(|name| !name.is_empty()).collect()
}

/// Names at the root of the crate `farslot` at most: more of them go into its modules.
const MOST_ROOT_NAMES: usize = 60;

#[test]
fn few_names_are_at_the_root_of_the_library() {
    let path = workspace().join("crates/store/src/lib.rs");
    let root = std::fs::read_to_string(path).expect("the library's root");
    let parsed = syn::parse_file(&root).expect("a file of Rust");
    let is_open = |attributes: &[syn::Attribute]| !attributes.iter().any(is_gate);
    let names = parsed.items.iter().map(|item| match item {
        syn::Item::Use(import) if is_open(&import.attrs) && is_public(&import.vis) => {
            names_in(&import.tree)
        }
        syn::Item::Mod(module) if is_open(&module.attrs) && is_public(&module.vis) => 1,
        _ => 0,
    });
    let names: usize = names.sum();
    assert!((40..=MOST_ROOT_NAMES).contains(&names), "{names}");
}

fn is_gate(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg")
}

fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}

fn names_in(tree: &syn::UseTree) -> usize {
    match tree {
        syn::UseTree::Path(path) => names_in(&path.tree),
        syn::UseTree::Group(group) => group.items.iter().map(names_in).sum(),
        _ => 1,
    }
}

/// Another crate may turn the feature on for all: so the sources are looked at as well.
#[test]
fn the_program_uses_nothing_that_is_unstable() {
    let root = std::fs::read_to_string(workspace().join("crates/store/src/lib.rs"));
    let root = root.expect("the library's root");
    let names = unstable_names(&root);
    assert!(
        names.contains(&"index") && names.contains(&"nic_profile"),
        "{names:?}"
    );
    let manifests = manifests();
    for folder in PROGRAM {
        let manifest = manifests.iter().find(|manifest| manifest.folder == folder);
        let manifest = manifest.expect("a crate of the program");
        assert_eq!(manifest.unstable, [] as [String; 0], "{folder}");
        let source = workspace().join(folder).join("src/lib.rs");
        let read = Crate::read(&workspace(), &source);
        for module in &read.modules {
            let mut used = module.uses.iter().chain(module.imports.values());
            let wrong = used.find(|path| {
                path[0] == "farslot" && path.get(1).is_some_and(|name| names.contains(&&**name))
            });
            assert_eq!(wrong, None, "in {}", read.files[module.file]);
        }
    }
}

#[test]
fn every_kind_of_wrong_dependency_is_found() {
    let one = |folder: &str, dependencies: &str| {
        let name = folder.split('/').next_back().expect("a name");
        manifest(
            folder,
            &format!("[package]\nname = {name:?}\n{dependencies}"),
        )
    };
    let manifests = [
        one(
            "lab/lab",
            "[dependencies]\ncli.workspace = true\nstore.workspace = true",
        ),
        one("lab/testbed", "[dependencies]\nfabric.workspace = true"),
        one("crates/cli", "[dependencies]\nstore = \"1\"\nserde = \"1\""),
        one(
            "crates/store",
            "[target.'cfg(unix)'.dependencies]\ncli = { path = \"../cli\" }",
        ),
        one(
            "crates/fabric",
            "[build-dependencies]\nbed = { package = \"testbed\", path = \"../bed\" }\n\
             [dev-dependencies]\nstore = \"1\"\ntestbed = \"1\"",
        ),
    ];
    let order = [
        "lab/lab",
        "lab/testbed",
        "crates/cli",
        "crates/store",
        "crates/fabric",
    ];
    assert_eq!(
        wrong(&manifests, &order),
        "  lab/lab -> crates/cli: the laboratory may not use the program\n  \
           crates/store -> crates/cli: a crate may not use one above it\n  \
           crates/fabric -> lab/testbed: the product may not use the laboratory\n"
    );
}
