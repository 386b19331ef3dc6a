//! Reads and writes the folder of samples of one version, file by file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Samples by file name, with `/` for folders.
pub type Samples = BTreeMap<String, String>;

pub fn read(folder: &Path) -> Samples {
    let mut samples = Samples::new();
    for entry in
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())).flatten()
    {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() {
            let below = read(&path).into_iter();
            samples.extend(below.map(|(file, text)| (format!("{name}/{file}"), text)));
        } else {
            samples.insert(name, fs::read_to_string(&path).expect("a sample is text"));
        }
    }
    samples
}

pub fn write(folder: &Path, samples: &Samples) {
    let _ = fs::remove_dir_all(folder);
    for (name, text) in samples {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("it is below the folder"))
            .expect("there is room for samples");
        fs::write(path, text).expect("there is room for samples");
    }
}
