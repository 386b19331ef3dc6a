//! Tests of reading invalid charms: every problem is reported at once, one line each, with file and key, and nothing is
//! created (spec/clients.md 4.8; issue 2, "Bad input").

use charms::{CharmSource, ReadOptions, read};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use tempfile::TempDir;

const METADATA: &str = "name: web\nsummary: s\ndescription: d\n";

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().expect("tempdir");
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("below")).expect("mkdir");
        fs::write(path, text).expect("write");
    }
    folder
}

fn options(force: bool) -> ReadOptions {
    ReadOptions { cache: "unused".into(), force }
}

fn problems_of(path: &Path) -> Vec<String> {
    let problems = read(path, &options(false)).err().unwrap_or_default();
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert!(lines.iter().all(|line| line.lines().count() == 1), "{lines:#?}");
    lines
}

fn problems(files: &[(&str, &str)]) -> Vec<String> {
    problems_of(folder(files).path())
}

fn good(files: &[(&str, &str)]) -> CharmSource {
    read(folder(files).path(), &options(false)).expect("a good charm")
}

#[test]
fn a_path_without_a_charm_is_reported() {
    let lines = problems(&[("hooks/install", "")]);
    assert!(lines[0].starts_with("metadata.yaml: "), "{lines:?}");
    let lines = problems_of(Path::new("no/such/folder"));
    assert!(matches!(&lines[..], [one] if one.starts_with("no/such/folder: ")), "{lines:?}");
}

#[test]
fn invalid_yaml_is_reported_with_line_and_column() {
    let lines = problems(&[("metadata.yaml", "name: web\nsummary: [a,\n"), ("hooks/install", "")]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("metadata.yaml: line 2, column 10: "), "{lines:?}");
    let twice = problems(&[("metadata.yaml", &format!("{METADATA}name: other\n")), ("hooks/install", "")]);
    let [twice] = &twice[..] else { panic!("{twice:?}") };
    assert!(twice.starts_with("metadata.yaml: line 4, column 1: ") && twice.ends_with(": name"), "{twice}");
}

#[test]
fn all_problems_of_all_files_are_reported_at_once() {
    let metadata = "name: Web\nsummary: s\nsubordinate: true\nrequires: {db: {limit: x}}\nprovides: {db: sql}\n\
                    storage: {data: {type: tape, multiple: {range: x}, minimum-size: x}}\n\
                    resources: {image: {type: file}}\nassumes: [k8s-api]\ncontainers: {app: {}}\n";
    let lines = problems(&[
        ("metadata.yaml", metadata),
        ("config.yaml", "options: {port: {type: int, default: http}, x: {type: list}}\n"),
        ("actions.yaml", "Go: {}\nstop: {params: {x: {type: int}}}\n"),
        ("manifest.yaml", "bases: [\n"),
        ("README.md", ""),
    ]);
    for part in [
        "manifest.yaml: line 1, column ",
        "metadata.yaml: name: ",
        "metadata.yaml: description: ",
        "metadata.yaml: requires.db: ",
        "metadata.yaml: requires.db.limit: ",
        "metadata.yaml: subordinate: ",
        "metadata.yaml: storage.data.type: ",
        "metadata.yaml: storage.data.multiple.range: ",
        "metadata.yaml: storage.data.minimum-size: ",
        "metadata.yaml: resources.image: ",
        "metadata.yaml: containers: ",
        "metadata.yaml: assumes: \"k8s-api\" ",
        "config.yaml: options.port.default: ",
        "config.yaml: options.x.type: ",
        "actions.yaml: Go: ",
        "actions.yaml: stop.x.type: ",
        "dispatch: ",
    ] {
        assert!(lines.iter().any(|line| line.starts_with(part)), "{part}\n{lines:#?}");
    }
    assert_eq!(lines.len(), 18, "{lines:#?}");
}

#[test]
fn problems_of_charmcraft_yaml_are_reported_with_its_own_keys() {
    let lines = problems(&[(
        "charmcraft.yaml",
        "type: charm\nname: web\nsummary: s\nconfig: {options: {port: {type: number}}}\n\
         actions: {go: {params: 1}}\nrequires: {db: {}}\n",
    )]);
    for part in [
        "charmcraft.yaml: description: ",
        "charmcraft.yaml: config.options.port.type: ",
        "charmcraft.yaml: actions.go.params: ",
        "charmcraft.yaml: requires.db: ",
        "dispatch: ",
    ] {
        assert!(lines.iter().any(|line| line.starts_with(part)), "{part}\n{lines:#?}");
    }
    assert_eq!(lines.len(), 5, "{lines:#?}");
}

#[test]
fn force_accepts_a_charm_whose_assumptions_are_not_met() {
    let metadata = format!("{METADATA}assumes: [juju >= 9]\n");
    let charm = folder(&[("metadata.yaml", &metadata)]);
    assert_eq!(problems_of(charm.path()).len(), 2);
    assert!(read(charm.path(), &options(true)).is_ok());
}

#[test]
fn links_out_of_a_folder_are_refused_and_broken_links_omitted() {
    let charm = folder(&[("metadata.yaml", METADATA), ("hooks/install", "")]);
    symlink("../nowhere", charm.path().join("CHANGELOG.md")).expect("link");
    symlink("install", charm.path().join("hooks/start")).expect("link");
    let source = read(charm.path(), &options(false)).expect("valid without the link");
    assert!(source.notes.iter().any(|note| note.contains("CHANGELOG.md")), "{:?}", source.notes);
    symlink("/etc", charm.path().join("etc")).expect("link");
    let lines = problems_of(charm.path());
    assert!(matches!(&lines[..], [one] if one.starts_with("etc: ") && one.contains("\"/etc\"")), "{lines:?}");
}

#[test]
fn an_archive_must_contain_what_packing_adds_to_a_folder() {
    let charm = folder(&[("metadata.yaml", METADATA), ("dispatch", "#!/bin/sh\n")]);
    let source = read(charm.path(), &options(false)).expect("the packer sets the execute bit");
    let path = charm.path().join("web.charm");
    fs::write(&path, &source.archive).expect("write");
    let again = read(&path, &options(false)).expect("an archive we packed");
    assert_eq!((again.sha256, again.charm), (source.sha256, source.charm));

    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    zip.start_file("dispatch", zip::write::SimpleFileOptions::default().unix_permissions(0o644))
        .expect("written");
    fs::write(&path, zip.finish().expect("finished").into_inner()).expect("write");
    let lines = problems_of(&path);
    assert!(lines.iter().any(|line| line.starts_with("metadata.yaml: ")), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("dispatch: ")), "{lines:?}");
}

#[test]
fn a_charm_that_was_packed_for_another_architecture_is_refused_unless_forced() {
    let other = if host::hardware::architecture() == "arm64" { "amd64" } else { "arm64" };
    let manifest = format!("bases: [{{name: ubuntu, channel: '22.04', architectures: [{other}]}}]\n");
    let charm = folder(&[("metadata.yaml", METADATA), ("dispatch", ""), ("manifest.yaml", &manifest)]);
    let archive = charm.path().join("web.charm");
    let source = read(charm.path(), &options(true)).expect("forced");
    fs::write(&archive, &source.archive).expect("write");
    for path in [charm.path(), &archive] {
        let lines = problems_of(path);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert!(line.starts_with("manifest.yaml: bases: "), "{line}");
        assert!(line.contains(other) && line.contains(host::hardware::architecture()), "{line}");
        assert!(read(path, &options(true)).is_ok());
    }
    let own = manifest.replace(other, &format!("{other}, {}", host::hardware::architecture()));
    good(&[("metadata.yaml", METADATA), ("dispatch", ""), ("manifest.yaml", &own)]);
}

#[test]
fn the_same_content_packs_to_the_same_archive() {
    let files = [("metadata.yaml", METADATA), ("hooks/install", "#!/bin/sh\n"), ("src/a", "1"), ("b", "2")];
    let reversed: Vec<_> = files.iter().rev().copied().collect();
    assert_eq!(good(&files).sha256, good(&reversed).sha256);
    let clutter = [(".git/HEAD", "x"), ("build/x", "x"), ("old.charm", "x"), ("src/__pycache__/a.pyc", "x")];
    assert_eq!(good(&files).sha256, good(&[&files[..], &clutter].concat()).sha256);
    assert_ne!(good(&files).sha256, good(&[&files[..], &[("c", "")]].concat()).sha256);
}
