//! The text of the problems of charms, which `deploy` prints for a charm that cannot be deployed.

use charms::{ReadOptions, read};
use std::fmt::Write;
use test_support::golden::compare;

const METADATA: &str = "name: web\nsummary: s\ndescription: d\n";

/// A name for the golden file, and the files of a charm.
type Example = (&'static str, Vec<(&'static str, String)>);

fn examples() -> Vec<Example> {
    let file = |path, text: &str| (path, text.to_owned());
    let metadata = "name: Web\nsummary: s\nsubordinate: true\nrequires: {db: {limit: x}}\nprovides: {db: sql}\n\
                    storage: {data: {type: tape, multiple: {range: x}, minimum-size: x}, disk: {type: block, location: /x}}\n\
                    resources: {image: {type: file}}\nassumes: [k8s-api]\ncontainers: {app: {}}\n";
    let config = "options: {a: {type: list, default: 1}, b: {type: int, default: many}, c: {type: string, default: 1.10}, \
                  d: 5, e: {type: string, description: [1]}}\n";
    let charmcraft = "type: bundle\nname: web\nsummary: s\nextensions: [django-framework]\n\
                      config: {options: {port: {type: number}}}\nactions: {go: {params: 1}}\nrequires: {db: {}}\n";
    vec![
        ("no metadata", vec![file("hooks/install", "")]),
        ("invalid YAML", vec![file("metadata.yaml", "name: web\nsummary: [a,\n"), file("hooks/install", "")]),
        (
            "duplicate key",
            vec![("metadata.yaml", format!("{METADATA}name: other\n")), file("hooks/install", "")],
        ),
        ("metadata.yaml", vec![file("metadata.yaml", metadata)]),
        ("config.yaml", vec![file("metadata.yaml", METADATA), file("config.yaml", config)]),
        (
            "actions.yaml",
            vec![
                file("metadata.yaml", METADATA),
                file("actions.yaml", "Go: {}\nstop: {params: {x: {type: int}}}\n"),
            ],
        ),
        ("charmcraft.yaml", vec![file("charmcraft.yaml", charmcraft), file("config.yaml", "options: {}\n")]),
    ]
}

#[test]
fn each_problem_of_a_charm_renders_as_in_the_golden_file() {
    let mut text = String::new();
    for (name, files) in examples() {
        let folder = tempfile::TempDir::new().expect("a folder");
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("below the folder")).expect("created");
            std::fs::write(path, text).expect("written");
        }
        let problems = read(folder.path(), &ReadOptions { cache: "unused".into(), force: false });
        let problems = problems.expect_err("the charm is invalid");
        let lines: String = problems.iter().map(|problem| format!("{problem}\n")).collect();
        let lines = lines.replace(&folder.path().display().to_string(), "FOLDER");
        writeln!(text, "# {name}\n{lines}").expect("memory is writable");
    }
    compare("charm_problems.txt", &(text.trim_end().to_owned() + "\n"));
}
