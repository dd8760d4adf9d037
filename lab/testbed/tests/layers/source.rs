//! The modules of a crate as its files have them: which names each defines, which it imports, which
//! paths its code uses. Tests are left out.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, Meta, UseTree};

/// The segments of a path, as written.
pub type Segments = Vec<String>;

/// A module, by its number.
pub type ModuleId = usize;

/// A module of a crate: a file of its own, or a block within one.
pub struct Module {
    pub parent: Option<ModuleId>,
    /// The number of its file.
    pub file: usize,
    /// Modules that it declares.
    pub children: HashMap<String, ModuleId>,
    /// What else it defines.
    pub items: Vec<String>,
    /// What it imports, by the names that it then has.
    pub imports: HashMap<String, Segments>,
    /// Modules of which it imports everything.
    pub globs: Vec<Segments>,
    /// Paths that count as uses: imports that are no re-exports, and what code names by a path.
    pub uses: Vec<Segments>,
}

/// The modules of one crate.
pub struct Crate {
    /// Paths, relative to the workspace.
    pub files: Vec<String>,
    pub modules: Vec<Module>,
}

impl Crate {
    /// Reads the crate whose root is this file.
    pub fn read(workspace: &Path, root: &Path) -> Self {
        let mut read = Self {
            files: Vec::new(),
            modules: Vec::new(),
        };
        let folder = root.parent().expect("a root in a folder");
        read.file(workspace, root, folder, None);
        read
    }

    /// Reads a file and those of its modules, which lie in `folder`.
    fn file(
        &mut self,
        workspace: &Path,
        path: &Path,
        folder: &Path,
        parent: Option<ModuleId>,
    ) -> ModuleId {
        let text = std::fs::read_to_string(path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let parsed =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let relative = path.strip_prefix(workspace).unwrap_or(path);
        let file = self.files.len();
        self.files.push(relative.display().to_string());
        let here = Here {
            workspace,
            file,
            folder: folder.to_owned(),
            // Only a root and a mod.rs are there to re-export what lies behind them.
            re_exports: path.ends_with("mod.rs") || path.ends_with("lib.rs"),
        };
        self.module(&here, parent, &parsed.items)
    }

    fn module(&mut self, here: &Here<'_>, parent: Option<ModuleId>, items: &[Item]) -> ModuleId {
        let id = self.modules.len();
        self.modules.push(Module {
            parent,
            file: here.file,
            children: HashMap::new(),
            items: Vec::new(),
            imports: HashMap::new(),
            globs: Vec::new(),
            uses: Vec::new(),
        });
        for item in items.iter().filter(|item| !is_test(attributes(item))) {
            match item {
                Item::Mod(declared) => {
                    let name = declared.ident.to_string();
                    let child = self.declared(here, id, declared, &name);
                    self.modules[id].children.insert(name, child);
                }
                Item::Use(import) => {
                    let is_private = matches!(import.vis, syn::Visibility::Inherited);
                    let is_use = is_private || !here.re_exports;
                    self.import(id, Vec::new(), &import.tree, is_use);
                }
                _ => {
                    self.modules[id].items.extend(name_of(item));
                    let mut paths = Paths(&mut self.modules[id].uses);
                    paths.visit_item(item);
                }
            }
        }
        id
    }

    fn declared(
        &mut self,
        here: &Here<'_>,
        id: ModuleId,
        declared: &ItemMod,
        name: &str,
    ) -> ModuleId {
        let folder = here.folder.join(name);
        if let Some((_, items)) = &declared.content {
            let within = Here {
                folder,
                ..here.clone()
            };
            return self.module(&within, Some(id), items);
        }
        let beside = here.folder.join(format!("{name}.rs"));
        let path = if beside.exists() {
            beside
        } else {
            folder.join("mod.rs")
        };
        self.file(here.workspace, &path, &folder, Some(id))
    }

    fn import(&mut self, id: ModuleId, mut prefix: Segments, tree: &UseTree, is_use: bool) {
        let module = &mut self.modules[id];
        match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.import(id, prefix, &path.tree, is_use);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(id, prefix.clone(), tree, is_use);
                }
            }
            UseTree::Glob(_) => {
                if is_use {
                    module.uses.push(prefix.clone());
                }
                module.globs.push(prefix);
            }
            UseTree::Name(_) | UseTree::Rename(_) => {
                let (ident, rename) = match tree {
                    UseTree::Rename(renamed) => (&renamed.ident, &renamed.rename),
                    UseTree::Name(named) => (&named.ident, &named.ident),
                    _ => unreachable!("matched above"),
                };
                let (name, mut known_as) = (ident.to_string(), rename.to_string());
                if name == "self" {
                    if known_as == "self" {
                        known_as = prefix.last().cloned().unwrap_or_default();
                    }
                } else {
                    prefix.push(name);
                }
                if is_use {
                    module.uses.push(prefix.clone());
                }
                module.imports.insert(known_as, prefix);
            }
        }
    }
}

/// Where a module's text lies.
#[derive(Clone)]
struct Here<'w> {
    workspace: &'w Path,
    file: usize,
    /// Where the files of its modules lie.
    folder: PathBuf,
    re_exports: bool,
}

/// Collects the paths of more than one segment.
struct Paths<'p>(&'p mut Vec<Segments>);

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 && path.leading_colon.is_none() {
            let segments = path.segments.iter();
            self.0
                .push(segments.map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        self.tokens(called.tokens.clone());
        visit::visit_macro(self, called);
    }

    fn visit_item_use(&mut self, import: &'ast syn::ItemUse) {
        // Within a function.
        let mut tree = &import.tree;
        let mut segments = Vec::new();
        while let UseTree::Path(path) = tree {
            segments.push(path.ident.to_string());
            tree = &path.tree;
        }
        self.0.push(segments);
    }

    /// Who may use something says nothing of what it uses.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    /// Doc comments and derives are no code of the file.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

impl Paths<'_> {
    /// What a macro is called with is only tokens: paths are names with `::` between them.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut segments: Segments = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.end(&mut segments);
                    }
                    segments.push(ident.to_string());
                    colons = 0;
                    continue;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            self.end(&mut segments);
            colons = 0;
        }
        self.end(&mut segments);
    }

    fn end(&mut self, segments: &mut Segments) {
        let path = std::mem::take(segments);
        if path.len() > 1 {
            self.0.push(path);
        }
    }
}

/// Whether an item is there in tests only.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition == "test" || condition.starts_with("all (test")
        }
        _ => false,
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Macro(item) => item.ident.as_ref()?.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        Item::Union(item) => item.ident.to_string(),
        _ => return None,
    })
}
