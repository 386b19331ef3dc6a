//! Structural mutations of a JSON request: every value, field and list of it is changed in turn.

use serde_json::{Map, Value, json};

/// Names and ids of other entities, which the mutations insert as texts.
pub struct Foreign {
    pub unit: String,
    pub uuid: String,
    pub sha256: String,
}

/// A step from a value to one of its parts.
#[derive(Clone, Debug)]
enum PathSegment {
    Field(String),
    Item(usize),
}

/// A text that no request contains. In the JSON, it is replaced by text that no [`Value`] can represent.
const MARK: &str = "@mark@";

/// All mutations of a request, each with a description.
pub fn mutations(request: &Value, foreign: &Foreign) -> Vec<(String, String)> {
    let mut paths = Vec::new();
    collect(request, &mut Vec::new(), &mut paths);
    let mut all = vec![("unchanged".to_owned(), request.to_string())];
    for path in &paths {
        let place: String = path.iter().map(|step| format!("/{step:?}")).collect();
        let mut add = |what: String, body: String| all.push((format!("{place} {what}"), body));
        let value = at(request, path);
        for other in replacements(value, foreign) {
            let what: String = other.to_string().chars().take(60).collect();
            add(format!("= {what}"), replaced(request, path, other).to_string());
        }
        match path.last() {
            Some(PathSegment::Field(name)) => {
                add("removed".to_owned(), edited(request, path, |fields| drop(fields.remove(name))));
                let marked = replaced(request, path, json!(MARK)).to_string();
                let (field, text) = (format!("{}:\"{MARK}\"", json!(name)), value.to_string());
                let twice = format!("{0}:{text},{0}:{text}", json!(name));
                add("twice".to_owned(), marked.replace(&field, &twice));
                for other in
                    [&"x".repeat(LARGE), "", "4294967295", "a\n\u{1b}[2J\0", &foreign.unit, &foreign.uuid]
                {
                    let renamed = |fields: &mut Map<String, Value>| {
                        let value = fields.remove(name).expect("the path leads there");
                        fields.insert(other.to_owned(), value);
                    };
                    let what: String = other.chars().take(60).collect();
                    add(format!("renamed {what:?}"), edited(request, path, renamed));
                }
            }
            Some(PathSegment::Item(_)) | None => {}
        }
    }
    all
}

/// The bytes of a text that is larger than all statuses of a small model.
const LARGE: usize = 300_000;

/// A value that is nested in this many levels.
fn nested(levels: usize, around: &dyn Fn(Value) -> Value) -> Value {
    (0..levels).fold(json!({"text": "x"}), |inner, _| around(inner))
}

fn replacements(value: &Value, foreign: &Foreign) -> Vec<Value> {
    let mut others = match value {
        Value::Number(number) => {
            let next = number.as_i64().map(|number| json!(number + 1));
            let edges =
                [json!(0), json!(-1), json!(u32::MAX), json!(1u64 << 62), json!(i64::MAX), json!(i64::MIN)];
            edges.into_iter().chain(next).chain([json!(u64::MAX)]).collect()
        }
        Value::String(_) => {
            let [long, longer] = [20_000, LARGE].map(|bytes| "x".repeat(bytes));
            let (unit, path) = (format!("{longer}/0"), format!("/{longer}"));
            let texts = ["", "a\nunit-web-1: forged\u{1b}[2J\0", "999999/tcp", &long, &longer, &unit, &path];
            let foreign = [&foreign.unit, &foreign.uuid, &foreign.sha256].map(String::as_str);
            texts.into_iter().chain(foreign).map(Value::from).collect()
        }
        Value::Array(items) => {
            let many = items.iter().cycle().take(if items.is_empty() { 0 } else { 9_000 });
            let many = Value::Array(many.cloned().collect());
            vec![json!([]), Value::Array([items.clone(), items.clone()].concat()), many]
        }
        Value::Object(fields) => {
            // the entries of a map, under names, numbers and ids of storage
            let first = fields.values().next().cloned().unwrap_or_default();
            let many = |key: fn(usize) -> String| {
                Value::Object((0..3_000).map(|n| (key(n), first.clone())).collect())
            };
            vec![
                json!({}),
                many(|n| format!("name{n}")),
                many(|n| n.to_string()),
                many(|n| format!("data/{n}")),
                json!({ "text": "x".repeat(LARGE) }),
                nested(60, &|inner| json!({"of-operation": {"operation": "resync", "reason": inner}})),
            ]
        }
        Value::Null | Value::Bool(_) => vec![json!(false), json!(true)],
    };
    others.push(nested(100, &|inner| json!([inner])));
    others.extend([Value::Null, json!(7), json!("text"), json!([7]), json!({"a": 1})]);
    others
}

fn collect(value: &Value, path: &mut Vec<PathSegment>, paths: &mut Vec<Vec<PathSegment>>) {
    paths.push(path.clone());
    let parts: Vec<(PathSegment, &Value)> = match value {
        Value::Object(fields) => {
            fields.iter().map(|(name, v)| (PathSegment::Field(name.clone()), v)).collect()
        }
        Value::Array(items) => items.iter().enumerate().map(|(i, v)| (PathSegment::Item(i), v)).collect(),
        _ => Vec::new(),
    };
    for (step, part) in parts {
        path.push(step);
        collect(part, path, paths);
        path.pop();
    }
}

fn at<'a>(value: &'a Value, path: &[PathSegment]) -> &'a Value {
    path.iter().fold(value, |value, step| match step {
        PathSegment::Field(name) => &value[name.as_str()],
        PathSegment::Item(index) => &value[*index],
    })
}

fn at_mut<'a>(value: &'a mut Value, path: &[PathSegment]) -> &'a mut Value {
    path.iter().fold(value, |value, step| match step {
        PathSegment::Field(name) => &mut value[name.as_str()],
        PathSegment::Item(index) => &mut value[*index],
    })
}

fn replaced(request: &Value, path: &[PathSegment], by: Value) -> Value {
    let mut changed = request.clone();
    *at_mut(&mut changed, path) = by;
    changed
}

/// Returns the request after the object that contains the last step was edited.
fn edited(request: &Value, path: &[PathSegment], edit: impl FnOnce(&mut Map<String, Value>)) -> String {
    let mut changed = request.clone();
    let parent = at_mut(&mut changed, &path[..path.len() - 1]);
    edit(parent.as_object_mut().expect("a field is part of an object"));
    changed.to_string()
}
