//! The uses of each file of the repository by other files, from `mod`, `use` and paths. The rules against import cycles
//! and upward imports use it.
//!
//! A name is followed through re-exports to the file that defines it: `use crate::model::Draft` is a use of `draft.rs`,
//! and also of `model.rs`, which re-exports it, unless that file only lists its modules (`mod.rs`, `lib.rs`, `main.rs`) or
//! names (`prelude.rs`). The methods of a type can be in several files: in an `impl`, `self.name(` and `Self::name` are
//! uses of the file that defines this method of the type. Elsewhere, `.name(` is a use of the file that defines a method
//! of this name if that file is in the same crate, no other method of this name exists in the crates outside `tests/`, and
//! the name is not in [`COMMON_METHODS`]. These are not uses of a file: a declaration of a module, the name of a module
//! alone, a re-export of an item of a submodule, and inline modules under `#[cfg(test)]`.

use super::source::{Source, tokens};
use super::syntax::{Impl, closing, expand, impl_block, is_word, methods_of_block, path};
use std::collections::{BTreeMap, BTreeSet};

/// The files that each file uses.
pub type Uses = BTreeMap<String, BTreeSet<String>>;

#[derive(Default)]
struct Module {
    file: String,
    /// The crate root, and the module around this one.
    root: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// Items that are defined here.
    items: BTreeSet<String>,
    imports: Vec<Import>,
    /// Paths in the code, of one segment or more.
    paths: BTreeSet<Vec<String>>,
    /// Methods that are called on any value.
    calls: BTreeSet<String>,
    impls: Vec<Impl>,
    /// The methods of the traits that are defined here.
    trait_methods: Vec<String>,
}

/// Methods of the standard library and of dependencies, which a method of a crate can be named after: a call does not
/// show which of them is meant.
const COMMON_METHODS: &[&str] = &[
    "add", "all", "any", "as_str", "bytes", "chain", "changed", "clear", "clone", "close", "collect",
    "commit", "contains", "context", "count", "delay", "document", "drain", "drop", "end", "entry", "error",
    "expect", "extend", "file", "files", "finish", "flush", "get", "insert", "is_empty", "is_none", "iter",
    "join", "key", "keys", "kind", "len", "lines", "list", "load", "lock", "map", "name", "new", "next",
    "open", "parse", "path", "pop", "position", "push", "put", "read", "remove", "reset", "resolve",
    "retain", "run", "save", "scan", "send", "set", "sleep", "split", "start", "status", "stop", "store",
    "take", "text", "update", "value", "values", "view", "wait", "write",
];

struct Import {
    path: Vec<String>,
    /// The name that it gets here; none for `*`.
    name: Option<String>,
    is_public: bool,
}

#[derive(Clone, Copy)]
enum Target {
    Module(usize),
    /// An item of this module.
    Item(usize),
}

/// The names that a lookup has visited: the lookup ends when re-exports form a cycle.
type Visited<'a> = BTreeSet<(usize, &'a str)>;

/// All modules of all crates.
pub struct Modules {
    sources: BTreeMap<String, String>,
    all: Vec<Module>,
}

/// The files that define a method of a type: by the module of the type, its name, and that of the method.
type Methods = BTreeMap<(usize, String, String), BTreeSet<String>>;

/// The files that each file of these sources uses.
pub fn uses(sources: &[Source]) -> Uses {
    let texts = sources.iter().map(|source| (source.path.clone(), source.text.clone())).collect();
    let mut modules = Modules { sources: texts, all: Vec::new() };
    let roots: Vec<String> = modules.sources.keys().filter(|path| is_root(path)).cloned().collect();
    for path in roots {
        let root = modules.all.len();
        modules.add_file(&path, root, None);
    }
    let (mut uses, methods, only_methods) = (Uses::new(), modules.methods(), modules.only_methods());
    for (id, module) in modules.all.iter().enumerate() {
        let used = uses.entry(module.file.clone()).or_default();
        used.extend(modules.used_by(id));
        used.extend(modules.called_by(id, &methods));
        let only = module.calls.iter().filter_map(|call| only_methods.get(call.as_str()));
        used.extend(only.filter(|(root, _)| *root == module.root).map(|(_, file)| (*file).to_owned()));
        used.remove(&module.file);
    }
    uses
}

/// Files that cargo compiles as crates.
fn is_root(path: &str) -> bool {
    let mut parts = path.rsplit('/');
    let (name, folder) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let above = parts.next().unwrap_or_default();
    let of_target = |folder: &str| matches!(folder, "bin" | "tests" | "benches" | "examples");
    let in_source = path.contains("/src/") && folder != "bin";
    match name {
        "lib.rs" | "build.rs" => true,
        "main.rs" => folder == "src" || of_target(above),
        _ => of_target(folder) && !in_source,
    }
}

impl Modules {
    fn add_file(&mut self, path: &str, root: usize, parent: Option<usize>) -> usize {
        let tokens = tokens(&self.sources[path]);
        let id = self.all.len();
        self.all.push(Module { file: path.to_owned(), root, parent, ..Module::default() });
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let owns_folder = parent.is_none() || name == "mod.rs";
        let folder = if owns_folder { folder.to_owned() } else { path.trim_end_matches(".rs").to_owned() };
        self.add_items(&tokens, id, &folder);
        id
    }

    /// Adds the items of a file, or of an inline module, to the module `id`.
    fn add_items(&mut self, tokens: &[String], id: usize, folder: &str) {
        let (mut at, mut is_test, mut is_public) = (0, false, false);
        while at < tokens.len() {
            let text = |n: usize| tokens.get(n).map_or("", String::as_str);
            match text(at) {
                "#" => {
                    let end = closing(tokens, at + if text(at + 1) == "!" { 2 } else { 1 });
                    let attribute = tokens[at..end].concat();
                    is_test |= attribute.contains("cfg(test)");
                    at = end;
                    continue;
                }
                "pub" => {
                    is_public = true;
                    at = if text(at + 1) == "(" { closing(tokens, at + 1) } else { at + 1 };
                    continue;
                }
                "mod" if text(at + 2) == ";" => {
                    self.add_child_file(text(at + 1), id, folder);
                    at += 3;
                }
                "mod" if text(at + 2) == "{" => {
                    let end = closing(tokens, at + 2);
                    if !is_test {
                        self.add_inline(text(at + 1), &tokens[at + 3..end - 1], id, folder);
                    }
                    at = end;
                }
                "use" => {
                    let end = at + tokens[at..].iter().position(|t| t == ";").unwrap_or(tokens.len() - at);
                    for (path, name) in expand(&tokens[at + 1..end]) {
                        self.all[id].imports.push(Import { path, name, is_public });
                    }
                    at = end + 1;
                }
                "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union"
                | "macro_rules" => {
                    if text(at) == "trait" {
                        self.all[id].trait_methods.extend(methods_of_block(&tokens[at..]));
                    }
                    let name =
                        if matches!(text(at + 1), "!" | "mut" | "fn") { text(at + 2) } else { text(at + 1) };
                    self.all[id].items.insert(name.to_owned());
                    at += 1;
                }
                "impl" if at == 0 || matches!(text(at - 1), "{" | "}" | ";" | "]" | "unsafe") => {
                    self.all[id].impls.extend(impl_block(&tokens[at..]));
                    at += 1;
                }
                "." if is_word(text(at + 1)) && matches!(text(at + 2), "(") => {
                    self.all[id].calls.insert(text(at + 1).to_owned());
                    at += 2;
                }
                word if is_word(word) && text(at.wrapping_sub(1)) != "." => {
                    let (path, end) = path(tokens, at);
                    self.all[id].paths.insert(path);
                    at = end;
                }
                _ => at += 1,
            }
            (is_test, is_public) = (false, false);
        }
    }

    fn add_child_file(&mut self, name: &str, parent: usize, folder: &str) {
        let paths = [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")];
        // generated files and those of another folder are not followed
        let Some(path) = paths.into_iter().find(|path| self.sources.contains_key(path)) else { return };
        let child = self.add_file(&path, self.all[parent].root, Some(parent));
        self.all[parent].children.insert(name.to_owned(), child);
    }

    fn add_inline(&mut self, name: &str, tokens: &[String], parent: usize, folder: &str) {
        let child = self.all.len();
        let (file, root) = (self.all[parent].file.clone(), self.all[parent].root);
        self.all.push(Module { file, root, parent: Some(parent), ..Module::default() });
        self.all[parent].children.insert(name.to_owned(), child);
        self.add_items(tokens, child, &format!("{folder}/{name}"));
    }

    /// The files that define the items that a module names.
    fn used_by(&self, id: usize) -> BTreeSet<String> {
        let module = &self.all[id];
        let below = |file: &str| {
            let folder =
                module.file.trim_end_matches(".rs").trim_end_matches("/mod").trim_end_matches("/lib");
            file.starts_with(&format!("{folder}/"))
        };
        let mut used = BTreeSet::new();
        for import in module.imports.iter().filter(|import| import.name.is_some()) {
            if let Some((file, through)) = self.file(id, &import.path)
                && !(import.is_public && below(&file))
            {
                used.insert(file);
                used.extend(through);
            }
        }
        for path in &module.paths {
            // a name that is only re-exported here does not occur in the code
            if let Some((file, through)) = self.file(id, path) {
                used.insert(file);
                used.extend(through);
            }
        }
        used
    }

    /// The crate root and the file of the methods whose name is defined once in the crates outside `tests/`.
    fn only_methods(&self) -> BTreeMap<&str, (usize, &str)> {
        let mut files: BTreeMap<&str, Vec<(usize, &str)>> = BTreeMap::new();
        // tests/ is excluded, because its modules depend on each other by design: the checks, the world and the faults of
        // the simulator are one program
        for module in self.all.iter().filter(|module| !module.file.starts_with("tests/")) {
            let defined = module.impls.iter().flat_map(|block| &block.defined);
            for name in defined.chain(&module.trait_methods) {
                files.entry(name.as_str()).or_default().push((module.root, &module.file));
            }
        }
        files.retain(|name, files| files.len() == 1 && !COMMON_METHODS.contains(name));
        files.into_iter().map(|(name, files)| (name, files[0])).collect()
    }

    /// The type of an `impl` block: its module and its name.
    fn impl_type(&self, id: usize, block: &Impl) -> Option<(usize, String)> {
        match self.resolve(id, &block.path, &mut Visited::new())? {
            Target::Item(module) => Some((module, block.path.last()?.clone())),
            Target::Module(_) => None,
        }
    }

    fn methods(&self) -> Methods {
        let mut methods = Methods::new();
        for (id, module) in self.all.iter().enumerate() {
            for block in &module.impls {
                let Some((owner, name)) = self.impl_type(id, block) else { continue };
                for method in &block.methods {
                    let files = methods.entry((owner, name.clone(), method.clone())).or_default();
                    files.insert(module.file.clone());
                }
            }
        }
        methods
    }

    /// The files that define the methods that the `impl` blocks of a module call.
    fn called_by(&self, id: usize, methods: &Methods) -> BTreeSet<String> {
        let mut called = BTreeSet::new();
        for block in &self.all[id].impls {
            let Some((owner, name)) = self.impl_type(id, block) else { continue };
            let files =
                block.calls.iter().filter_map(|call| methods.get(&(owner, name.clone(), call.clone())));
            called.extend(files.flatten().cloned());
        }
        called
    }

    /// The file that defines the item of a path, and the files that re-export it on the way. `None` if the path names a
    /// module, or an item of another crate.
    fn file(&self, from: usize, path: &[String]) -> Option<(String, Vec<String>)> {
        let mut visited = Visited::new();
        let Target::Item(module) = self.resolve(from, path, &mut visited)? else { return None };
        let is_list = |file: &str| {
            matches!(file.rsplit('/').next(), Some("mod.rs" | "lib.rs" | "main.rs" | "prelude.rs"))
        };
        let is_re_export = |(module, name): &&(usize, &str)| {
            let mut imports = self.all[*module].imports.iter();
            imports.any(|import| import.is_public && import.name.as_deref() == Some(*name))
        };
        let through = visited.iter().filter(is_re_export).map(|(module, _)| self.all[*module].file.clone());
        Some((self.all[module].file.clone(), through.filter(|file| !is_list(file)).collect()))
    }

    fn resolve<'a>(&'a self, from: usize, path: &'a [String], visited: &mut Visited<'a>) -> Option<Target> {
        let (mut module, mut at, mut is_qualified) = (from, 0, false);
        while let Some(name) = path.get(at).filter(|name| matches!(name.as_str(), "crate" | "self" | "super"))
        {
            module = match name.as_str() {
                "crate" => self.all[module].root,
                "super" => self.all[module].parent?,
                _ => module,
            };
            (at, is_qualified) = (at + 1, true);
        }
        for name in &path[at..] {
            match self.lookup(module, name, visited) {
                Some(Target::Module(next)) => (module, is_qualified) = (next, true),
                Some(item) => return Some(item),
                // an item that a macro generates in the module that the path names so far
                None if is_qualified => return Some(Target::Item(module)),
                None => return None,
            }
        }
        Some(Target::Module(module))
    }

    /// The module or item that a name means in a module.
    fn lookup<'a>(&'a self, module: usize, name: &'a str, visited: &mut Visited<'a>) -> Option<Target> {
        let here = &self.all[module];
        if let Some(child) = here.children.get(name) {
            return Some(Target::Module(*child));
        }
        if here.items.contains(name) {
            return Some(Target::Item(module));
        }
        if !visited.insert((module, name)) {
            return None;
        }
        let mut imports = here.imports.iter();
        if let Some(import) = imports.find(|import| import.name.as_deref() == Some(name)) {
            return self.resolve(module, &import.path, visited);
        }
        let globs = here.imports.iter().filter(|import| import.name.is_none());
        globs
            .filter_map(|import| match self.resolve(module, &import.path, visited)? {
                Target::Module(other) => self.lookup(other, name, visited),
                // the variants of an enum
                Target::Item(_) => None,
            })
            .next()
    }
}

#[test]
fn names_are_followed_through_re_exports_to_their_file() {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let uses = uses(&[
        source("x/src/lib.rs", "mod model; mod unit; pub use model::Draft;"),
        source("x/src/model/mod.rs", "mod draft; mod keys; pub use draft::Draft; pub use keys::*;"),
        source("x/src/model/draft.rs", "use super::Key; pub struct Draft { key: Key }"),
        source("x/src/model/keys.rs", "pub enum Key { A } #[cfg(test)] mod tests { use crate::unit::run; }"),
        source(
            "x/src/unit.rs",
            "use crate::{model::{self, Draft}}; fn run(_: Draft) -> model::Key { super::model::Key::A }",
        ),
    ]);
    let of = |file: &str| uses[file].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(of("x/src/lib.rs"), Vec::<&str>::new());
    assert_eq!(of("x/src/model/mod.rs"), Vec::<&str>::new());
    assert_eq!(of("x/src/model/draft.rs"), ["x/src/model/keys.rs"]);
    assert_eq!(of("x/src/model/keys.rs"), Vec::<&str>::new());
    assert_eq!(of("x/src/unit.rs"), ["x/src/model/draft.rs", "x/src/model/keys.rs"]);
}

#[test]
fn a_method_of_a_type_is_followed_to_the_file_that_defines_it() {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let uses = uses(&[
        source("x/src/lib.rs", "mod door; mod other;"),
        source(
            "x/src/door.rs",
            "mod lock; pub struct Door<T>(T); impl<T: Fn() -> u8> Door<T> where T: Copy { fn open(&self) { self.unlock() } }",
        ),
        source(
            "x/src/door/lock.rs",
            "use super::Door; impl<T> Door<T> { pub fn unlock(&self) { Self::turn() } fn turn() {} }",
        ),
        source(
            "x/src/other.rs",
            "use crate::door::Door; struct Window; impl Window { fn unlock(&self) {} } impl Into<Window> for Door<u8> { fn into(self) { self.turn() } }",
        ),
    ]);
    let of = |file: &str| uses[file].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(of("x/src/door.rs"), ["x/src/door/lock.rs"]);
    assert_eq!(of("x/src/door/lock.rs"), ["x/src/door.rs"]);
    assert_eq!(of("x/src/other.rs"), ["x/src/door.rs", "x/src/door/lock.rs"]);
}

#[test]
fn a_file_that_re_exports_a_name_is_used_unless_it_is_a_list() {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let uses = uses(&[
        source("x/src/lib.rs", "mod hook; mod door; pub use hook::Lock;"),
        source(
            "x/src/hook.rs",
            "mod lock; pub use lock::Lock; use crate::door::knock; fn hook() { knock() }",
        ),
        source("x/src/hook/lock.rs", "pub struct Lock;"),
        source("x/src/door.rs", "use crate::hook::Lock; pub fn knock() -> crate::Lock { Lock }"),
    ]);
    let of = |file: &str| uses[file].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(of("x/src/hook.rs"), ["x/src/door.rs"]);
    assert_eq!(of("x/src/door.rs"), ["x/src/hook.rs", "x/src/hook/lock.rs"]);
}

#[test]
fn the_only_method_of_a_name_is_followed_to_its_file() {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let uses = uses(&[
        source("x/src/lib.rs", "mod door; mod key; mod port;"),
        source("x/src/door.rs", "fn open(key: T) { key.turn_around(); key.get(); key.lift(); key.hang() }"),
        source(
            "x/src/key.rs",
            "struct Key; impl Key { fn turn_around(&self) {} fn get(&self) {} fn lift(&self) {} }",
        ),
        source(
            "x/src/port.rs",
            "struct Port; impl Port { fn lift(&self) {} } trait Hang { fn hang(&self); } impl Hang for Port { fn hang(&self) {} }",
        ),
    ]);
    assert_eq!(uses["x/src/door.rs"].iter().collect::<Vec<_>>(), ["x/src/key.rs"]);
}
