//! What removals leave behind, cleared in bounded bites, and the bounds on what a model keeps of its log and of actions
//! that have ended (design 5).
//! Tombstones stay.

use crate::outside::Outside;
use crate::session::Controller;
use crate::store::Store;
use api::error::ApiError;
use serde_json::Value;
use state::model::draft::{Draft, Key, PAGE_MAX, Reader, read_all};
use state::model::keys::{ActionDoc, GLOBAL, Model, last_id};
use state::model::{application, cleanup};
use state::names::Uuid;

/// Log lines a model keeps: some 200 bytes each, 4 MiB, a few days of a quiet model.
pub const LOG_LINES_MAX: usize = 20_000;
/// Actions that have ended and that a model keeps: some 1 KiB each where they log little, 1 MiB.
pub const ACTIONS_MAX: usize = 1_000;
/// Between two sweeps; leftovers disturb nobody.
pub const SWEEP_EVERY_MS: u64 = 10_000;

/// One sweep over all models: of each leftover one bite, of each log one. True = there is more to do now.
pub async fn sweep<S: Store, O: Outside>(controller: &Controller<S, O>) -> Result<bool, ApiError> {
    let models = controller.read(|reader| read_all::<Uuid>(reader, &GLOBAL.all("model-name"))).await;
    let mut more = false;
    for (_, id) in models {
        let model = Model(id);
        let (left, destroyed, old) = controller
            .read(move |reader| {
                let ids = |prefix: &str| -> Vec<Uuid> {
                    reader
                        .scan(prefix, "", PAGE_MAX)
                        .iter()
                        .filter_map(|stored| last_id(&stored.key))
                        .collect()
                };
                let mut old = oldest(reader, model);
                old.extend(ended(reader, model, PAGE_MAX - old.len()));
                (ids(&model.cleanups()), ids(&model.all("reap")), old)
            })
            .await;
        for id in left {
            more |= controller.run(move |draft| Ok(cleanup::bite(draft, model, id))).await?.answer;
        }
        for id in destroyed {
            controller
                .run(move |draft| {
                    application::reap_more(draft, model, id);
                    Ok(())
                })
                .await?;
            more = true;
        }
        if !old.is_empty() {
            more |= old.len() == PAGE_MAX;
            let transition = move |draft: &mut Draft<'_>| {
                old.iter().for_each(|key| draft.remove(&Key::<Value>::new(key.clone())));
                Ok(())
            };
            controller.run(transition).await?;
        }
    }
    Ok(more)
}

/// A bite of the oldest log lines beyond the bound.
fn oldest(reader: &dyn Reader, model: Model) -> Vec<String> {
    let lines = reader.scan(&model.logs(), "", usize::MAX);
    let mut places: Vec<(u64, String)> =
        lines.into_iter().map(|stored| (stored.revision, stored.key)).collect();
    let beyond = places.len().saturating_sub(LOG_LINES_MAX).min(PAGE_MAX);
    if beyond > 0 {
        places.sort();
    }
    places.into_iter().take(beyond).map(|(_, key)| key).collect()
}

/// At most `bite` of the oldest actions beyond the bound. What has not ended is kept, however old.
fn ended(reader: &dyn Reader, model: Model, bite: usize) -> Vec<String> {
    let all = read_all::<ActionDoc>(reader, &model.all("action")).into_iter();
    let ended = all.filter(|(_, doc)| !matches!(doc.status.as_str(), "pending" | "running"));
    let mut keys: Vec<String> = ended.map(|(key, _)| key).collect();
    keys.truncate(keys.len().saturating_sub(ACTIONS_MAX).min(bite));
    keys
}
