//! What people, the command and the supervisor may ask. Writes are the transitions of `state::model`; what is only
//! read is put together in `status`, `why` and `log`.

use crate::authority;
use crate::log;
use crate::openapi;
use crate::outside::{self, Outside, Uuids};
use crate::session::Session;
use crate::status;
use crate::store::Store;
use crate::tokens;
use crate::why::Explainer;
use api::error::{ApiError, ErrorCode};
use api::machine_agent::Fate;
use api::operator::*;
use api::routes::Route;
use serde_json::Value;
use state::charm::Charm;
use state::model::blockers::EntityId;
use state::model::draft::{Draft, Reader, read, read_all};
use state::model::keys::{ActionDoc, GLOBAL, Kind, Model, Principal};
use state::model::refusal::{Code, Refusal};
use state::model::{
    action, application, destruction, force, instance, machine, model, relation, removal, unit,
};
use state::names::{RelationNumber, UnitName, Uuid};
use state::status::SettingSource;
use state::unit::snapshot::Position;
use std::collections::BTreeMap;

/// Units one request may add: a transaction each.
const UNITS_MAX: u32 = 1000;

/// The model of this name or uuid.
pub(crate) fn find_model(reader: &dyn Reader, text: &str) -> Result<Model, Refusal> {
    let named = read(reader, &GLOBAL.model_name(text)).or_else(|| text.parse().ok());
    named.map(Model).filter(|model| reader.get(model.model().text()).is_some()).ok_or_else(|| {
        Refusal::not_found("model", format!("{text:?}")).hint("pintle models shows all of them")
    })
}

/// The unit that `web/0` or `web/leader` means.
pub(crate) fn find_unit(reader: &dyn Reader, model: Model, text: &str) -> Result<(Uuid, UnitName), Refusal> {
    let mut documents = reader;
    if let Some(name) = text.strip_suffix("/leader") {
        let id = application::find(&mut documents, model, name)?;
        return match read(reader, &model.leader(id)) {
            Some(grant) => Ok((grant.holder, grant.holder_name)),
            None => Err(Refusal::new(Code::NotFound, format!("application {name:?} has no leader now"))),
        };
    }
    let name: UnitName = text.parse().map_err(|e| Refusal::new(Code::Invalid, format!("{e}")))?;
    Ok((unit::find(&mut documents, model, &name)?, name))
}

/// What a person wants to be removed.
fn entity(reader: &dyn Reader, model: Model, removed: &Removable) -> Result<EntityId, Refusal> {
    let mut documents = reader;
    Ok(match removed {
        Removable::Unit(name) => {
            let name: UnitName = name.parse().map_err(|e| Refusal::new(Code::Invalid, format!("{e}")))?;
            EntityId::Unit(unit::find(&mut documents, model, &name)?)
        }
        Removable::Application(name) => {
            EntityId::Application(application::find(&mut documents, model, name)?)
        }
        Removable::Relation(RelationChoice::Number(number)) => {
            let found = status::relation_of_number(reader, model, *number);
            EntityId::Relation(found.ok_or_else(|| Refusal::not_found("relation", number))?)
        }
        Removable::Relation(RelationChoice::Ends(ends)) => {
            let mut draft = Draft::new(reader); // read only: it is never committed
            EntityId::Relation(relation::find(&mut draft, model, &ends.a, &ends.b)?)
        }
        Removable::Machine(name) => EntityId::Machine(machine::find(&mut documents, model, name)?),
    })
}

fn too_many() -> ApiError {
    ApiError::new(ErrorCode::Invalid, format!("at most {UNITS_MAX} units at once"))
}

fn changed(revision: u64) -> Changed {
    Changed { revision, warnings: Vec::new() }
}

/// When force is to begin; none = never.
fn forced(force: Force, now_ms: i64) -> Option<force::Force> {
    match force {
        Force::No => None,
        Force::AfterWait => Some(force::Force { no_wait: false, now_ms }),
        Force::AtOnce => Some(force::Force { no_wait: true, now_ms }),
    }
}

fn info(
    doc: &state::model::keys::ModelDoc,
    model: Model,
    life: state::life::Life,
    controller: Uuid,
) -> ModelInfo {
    ModelInfo { uuid: model.0, name: doc.name.clone(), life, controller, created_ms: doc.created_ms }
}

fn action_info(doc: ActionDoc) -> ActionInfo {
    ActionInfo {
        id: doc.id,
        unit: doc.unit_name,
        action: doc.name,
        status: doc.status,
        message: doc.message,
        results: doc.results,
        log: doc.log,
        enqueued_ms: doc.enqueued_ms,
        started_ms: doc.started_ms,
        completed_ms: doc.completed_ms,
    }
}

impl<S: Store, O: Outside> Session<S, O> {
    /// Reads something of a model, for a user who may.
    async fn view<T, F>(&self, route: Route, model: &str, view: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Reader, Model) -> Result<T, Refusal> + Send + 'static,
    {
        self.user(route)?;
        let model = model.to_owned();
        let read = self.controller.read(move |reader| view(reader, find_model(reader, &model)?)).await;
        match read {
            Ok(seen) => Ok(seen),
            Err(refusal) => Err(self.controller.refused(refusal).await),
        }
    }

    /// Removes something. What goes by force and without waiting is begun at once; a teardown budget, from now on.
    async fn removed<F>(
        &self,
        model: Model,
        transition: F,
        force: Option<force::Force>,
    ) -> Result<Changed, ApiError>
    where
        F: Fn(&mut Draft<'_>) -> Result<(), Refusal> + Send + Sync + 'static,
    {
        let committed = self.controller.run(transition).await?;
        let config = self.controller.read(move |reader| read(reader, &model.model_config())).await;
        let has_budget = config.is_some_and(|config| model::teardown_budget_ms(&config).is_some());
        if has_budget || force.is_some_and(|force| force.no_wait) {
            self.controller.sweep.notify_one();
        }
        Ok(changed(committed.revision))
    }

    /// The model a user names in a call of this route.
    async fn model(&self, route: Route, model: &str) -> Result<Model, ApiError> {
        self.view(route, model, |_, model| Ok(model)).await
    }

    /// The relation of this number.
    async fn relation(&self, model: Model, number: RelationNumber) -> Result<Uuid, ApiError> {
        let found = self.controller.read(move |reader| status::relation_of_number(reader, model, number));
        match found.await {
            Some(id) => Ok(id),
            None => Err(self.controller.refused(Refusal::not_found("relation", number)).await),
        }
    }

    /// Units one after the other, each in its own transaction; the first on machine `to`.
    async fn add(
        &self,
        model: Model,
        application: Uuid,
        count: u32,
        to: Option<String>,
    ) -> Result<Added, ApiError> {
        let (mut added, mut to) = (Added { units: Vec::new(), revision: 0 }, to);
        for _ in 0..count {
            let (now_ms, ids, to) =
                (self.controller.outside.wall_ms(), Uuids::new(&self.controller.outside), to.take());
            let transition = move |draft: &mut Draft<'_>| {
                unit::add(draft, model, application, to.as_deref(), now_ms, &mut ids.supply())
            };
            let committed = self.controller.run(transition).await?;
            added.units.push(committed.answer.1);
            added.revision = committed.revision;
        }
        Ok(added)
    }
}

impl<S: Store, O: Outside> OperatorApi for Session<S, O> {
    async fn about(&self) -> Result<About, ApiError> {
        self.user(Route::About)?;
        Ok(About {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            juju_version: api::JUJU_VERSION.to_owned(),
            controller: self.controller.id,
            history: self.controller.store.history(),
        })
    }

    async fn openapi(&self) -> Result<Value, ApiError> {
        self.user(Route::OpenApi)?;
        Ok(openapi::document())
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, ApiError> {
        self.user(Route::Models)?;
        let controller = self.controller.id;
        let all = self.controller.read(move |reader| {
            let names = read_all::<Uuid>(reader, &GLOBAL.all(Kind::ModelName));
            let model = |(_, id): (String, Uuid)| {
                let model = Model(id);
                let life = read(reader, &model.model_life())?;
                Some(info(&read(reader, &model.model())?, model, life, controller))
            };
            names.into_iter().filter_map(model).collect()
        });
        Ok(all.await)
    }

    async fn create_model(&self, create: CreateModel) -> Result<ModelInfo, ApiError> {
        self.user(Route::CreateModel)?;
        let (id, now_ms) =
            (crate::outside::fresh_uuid(&self.controller.outside), self.controller.outside.wall_ms());
        let controller = self.controller.id;
        let transition = move |draft: &mut Draft<'_>| {
            model::create(draft, id, &create.name, now_ms)?;
            model::configure(draft, Model(id), &create.config, &[])?;
            let doc = draft.get(&Model(id).model()).expect("it was just created");
            Ok(info(&doc, Model(id), state::life::Life::Alive, controller))
        };
        Ok(self.controller.run(transition).await?.answer)
    }

    async fn destroy_model(&self, model: &str, force: Force) -> Result<Changed, ApiError> {
        let model = self.model(Route::DestroyModel, model).await?;
        let now_ms = self.controller.outside.wall_ms();
        let force = forced(force, now_ms);
        let transition = move |draft: &mut Draft<'_>| destruction::destroy(draft, model, force, now_ms);
        let committed = self.controller.run(transition).await?;
        // what it does is done in bites
        self.controller.sweep.notify_one();
        Ok(changed(committed.revision))
    }

    async fn model_config(&self, model: &str) -> Result<BTreeMap<String, ModelSetting>, ApiError> {
        let settings = self.view(Route::ModelConfig, model, |reader, model| {
            let set = read(reader, &model.model_config()).unwrap_or_default();
            let named = |source: SettingSource| move |(name, value)| (name, ModelSetting { value, source });
            let defaults = model::defaults().into_iter().map(named(SettingSource::Default));
            Ok(defaults.chain(set.into_iter().map(named(SettingSource::Model))).collect())
        });
        settings.await
    }

    async fn configure_model(&self, model: &str, change: ConfigChange) -> Result<Changed, ApiError> {
        let model = self.model(Route::ConfigureModel, model).await?;
        let transition =
            move |draft: &mut Draft<'_>| model::configure(draft, model, &change.set, &change.reset);
        let committed = self.controller.run(transition).await?;
        let warning = |name: String| format!("key {name:?} is not known here: kept, without effect");
        Ok(Changed {
            revision: committed.revision,
            warnings: committed.answer.into_iter().map(warning).collect(),
        })
    }

    async fn archive_info(&self, sha256: &str) -> Result<Option<Uploaded>, ApiError> {
        self.user(Route::ArchiveInfo)?;
        let key = GLOBAL.archive(sha256);
        let Some(doc) = self.controller.read(move |reader| read(reader, &key)).await else { return Ok(None) };
        let whole = self.controller.outside.archive(sha256).await.is_some();
        Ok(whole.then(|| Uploaded {
            sha256: sha256.to_owned(),
            bytes: doc.bytes,
            charm: Charm::clone(&doc.charm),
        }))
    }

    async fn upload_archive(&self, archive: Vec<u8>) -> Result<Uploaded, ApiError> {
        self.user(Route::UploadArchive)?;
        let kept = self.controller.outside.keep_archive(archive).await?;
        let uploaded = Uploaded { sha256: kept.sha256, bytes: kept.bytes, charm: kept.charm };
        let register = uploaded.clone();
        let transition = move |draft: &mut Draft<'_>| {
            application::register_archive(draft, &register.sha256, register.charm.clone(), register.bytes);
            Ok(())
        };
        self.controller.run(transition).await?;
        Ok(uploaded)
    }

    async fn deploy(&self, model: &str, deploy: Deploy) -> Result<Deployed, ApiError> {
        let model = self.model(Route::Deploy, model).await?;
        if deploy.units > UNITS_MAX {
            return Err(too_many());
        }
        let (now_ms, ids) = (self.controller.outside.wall_ms(), Uuids::new(&self.controller.outside));
        let (to, units) = (deploy.to.clone(), deploy.units);
        // `to` is for the first unit; the others are added on machines of their own.
        let at_once = if to.is_some() { units.min(1) } else { units };
        let transition = move |draft: &mut Draft<'_>| {
            let archive = draft.get(&GLOBAL.archive(&deploy.sha256));
            let archive = archive.ok_or_else(|| Refusal::not_found("charm archive", &deploy.sha256))?;
            let name = deploy.application.clone().unwrap_or_else(|| archive.charm.name.clone());
            let wish = application::Deploy {
                name: name.clone(),
                sha256: deploy.sha256.clone(),
                units: at_once,
                to: to.clone(),
                config: deploy.config.clone(),
                now_ms,
            };
            let subordinate = archive.charm.subordinate;
            Ok((name, subordinate, application::deploy(draft, model, &wish, &mut ids.supply())?))
        };
        let committed = self.controller.run(transition).await?;
        let (name, subordinate, done) = committed.answer;
        let mut deployed = Deployed {
            application: name,
            charm_url: done.url,
            charm_revision: done.revision,
            units: done.units.into_iter().map(|(_, name)| name).collect(),
            revision: committed.revision,
        };
        if !subordinate {
            let more = self.add(model, done.application, done.units_left + (units - at_once), None).await?;
            deployed.revision = deployed.revision.max(more.revision);
            deployed.units.extend(more.units);
        }
        Ok(deployed)
    }

    async fn add_units(&self, model: &str, add: AddUnits) -> Result<Added, ApiError> {
        if add.units > UNITS_MAX {
            return Err(too_many());
        }
        let name = add.application;
        let found = self.view(Route::AddUnits, model, move |reader, model| {
            let mut documents = reader;
            Ok((model, application::find(&mut documents, model, &name)?))
        });
        let (model, application) = found.await?;
        self.add(model, application, add.units, add.to).await
    }

    async fn refresh(&self, model: &str, refresh: Refresh) -> Result<Refreshed, ApiError> {
        let model = self.model(Route::Refresh, model).await?;
        let (now_ms, ids) = (self.controller.outside.wall_ms(), Uuids::new(&self.controller.outside));
        let transition = move |draft: &mut Draft<'_>| {
            let id = application::find(draft, model, &refresh.application)?;
            let wish = application::Refresh {
                sha256: refresh.sha256.clone(),
                forced: refresh.forced,
                config: refresh.config.clone(),
                now_ms,
            };
            application::refresh(draft, model, id, &wish, &mut ids.supply())
        };
        let committed = self.controller.run(transition).await?;
        Ok(Refreshed { charm_url: committed.answer.url, revision: committed.revision, warnings: Vec::new() })
    }

    async fn integrate(&self, model: &str, ends: Ends) -> Result<Integrated, ApiError> {
        let model = self.model(Route::Integrate, model).await?;
        let (id, now_ms) =
            (crate::outside::fresh_uuid(&self.controller.outside), self.controller.outside.wall_ms());
        let transition =
            move |draft: &mut Draft<'_>| relation::add(draft, model, (&ends.a, &ends.b), id, now_ms);
        let committed = self.controller.run(transition).await?;
        let (number, key) = (committed.answer.number, committed.answer.key_text());
        Ok(Integrated { relation: number, key, revision: committed.revision })
    }

    async fn config(&self, model: &str, application: &str) -> Result<ApplicationConfig, ApiError> {
        let name = application.to_owned();
        let config = self.view(Route::Config, model, move |reader, model| {
            let mut documents = reader;
            let id = application::find(&mut documents, model, &name)?;
            let (_, charm) =
                application::charm_of(&mut documents, model, id).expect("an application has a charm");
            let set = read(reader, &model.application_config(id)).unwrap_or_default();
            let setting = |(option, declared): (&String, &state::charm::ConfigOption)| {
                let user = set.get(option);
                let setting = Setting {
                    kind: declared.kind,
                    description: declared.description.clone(),
                    value: user.or(declared.default.as_ref()).cloned(),
                    default: declared.default.clone(),
                    user: user.is_some(),
                };
                (option.clone(), setting)
            };
            let settings = charm.config.iter().map(setting).collect();
            Ok(ApplicationConfig { application: name, charm: charm.name.clone(), settings })
        });
        config.await
    }

    async fn configure(
        &self,
        model: &str,
        application: &str,
        change: ConfigChange,
    ) -> Result<Changed, ApiError> {
        let (model, name) = (self.model(Route::Configure, model).await?, application.to_owned());
        let transition = move |draft: &mut Draft<'_>| {
            let id = application::find(draft, model, &name)?;
            application::configure(draft, model, id, &change.set, &change.reset)
        };
        Ok(changed(self.controller.run(transition).await?.revision))
    }

    async fn status(&self, model: &str) -> Result<Status, ApiError> {
        let (presence, now_ms) = (self.controller.presence_snapshot(), self.controller.outside.wall_ms());
        let history = self.controller.store.history();
        let status = self.view(Route::Status, model, move |reader, model| {
            let position = Position { history, revision: reader.revision() };
            Ok(status::of_model(reader, model, &presence, position, now_ms))
        });
        status.await
    }

    async fn show_unit(&self, model: &str, unit: &str) -> Result<UnitInfo, ApiError> {
        let unit = unit.to_owned();
        let shown = self.view(Route::ShowUnit, model, move |reader, model| {
            let (id, _) = find_unit(reader, model, &unit)?;
            Ok(status::of_unit(reader, model, id))
        });
        shown.await
    }

    async fn debug_log(&self, model: &str, query: LogQuery) -> Result<LogPage, ApiError> {
        let model = self.model(Route::DebugLog, model).await?;
        log::page(&self.controller, model, query).await
    }

    async fn why(&self, model: &str, entity: &str) -> Result<Why, ApiError> {
        let presence = self.controller.presence_snapshot();
        let (entity, now_ms) = (entity.to_owned(), self.controller.outside.wall_ms());
        let (times, timers) = (self.controller.commit_times.clone(), self.controller.force_timers.clone());
        let why = self.view(Route::Why, model, move |reader, model| {
            let (presence, commit_times, force_timers) = (&presence, &*times, &*timers);
            Explainer { reader, model, presence, commit_times, force_timers, now_ms }.explain(&entity)
        });
        why.await
    }

    async fn resolved(&self, model: &str, unit: &str, retry: bool) -> Result<Changed, ApiError> {
        let name = unit.to_owned();
        let found = self.view(Route::Resolved, model, move |reader, model| {
            Ok((model, find_unit(reader, model, &name)?.0))
        });
        let (model, id) = found.await?;
        let transition = move |draft: &mut Draft<'_>| unit::resolved(draft, model, id, retry);
        Ok(changed(self.controller.run(transition).await?.revision))
    }

    async fn run(&self, model: &str, run: Run) -> Result<Enqueued, ApiError> {
        let name = run.unit;
        let found =
            self.view(Route::Run, model, move |reader, model| Ok((model, find_unit(reader, model, &name)?)));
        let (model, (id, unit)) = found.await?;
        let (now_ms, params) = (self.controller.outside.wall_ms(), run.params.into_iter().collect());
        let transition = move |draft: &mut Draft<'_>| {
            action::enqueue(draft, model, id, &run.action, &params, now_ms).map_err(|refusal| {
                match refusal.code {
                    // The unit is there: what was not found is the action, which is bad input to `run`.
                    Code::NotFound => Refusal { code: Code::Invalid, ..refusal },
                    _ => refusal,
                }
            })
        };
        let committed = self.controller.run(transition).await?;
        Ok(Enqueued { id: committed.answer, unit, revision: committed.revision })
    }

    async fn action(&self, model: &str, id: u64) -> Result<ActionInfo, ApiError> {
        let action = self.view(Route::Action, model, move |reader, model| {
            let doc = read(reader, &model.action(id)).ok_or_else(|| Refusal::not_found("action", id))?;
            Ok(action_info(doc))
        });
        action.await
    }

    async fn actions(&self, model: &str) -> Result<Vec<ActionInfo>, ApiError> {
        let all = self.view(Route::Actions, model, |reader, model| {
            let all = read_all::<ActionDoc>(reader, &model.all(Kind::Action)).into_iter();
            Ok(all
                .map(|(_, doc)| ActionInfo { results: BTreeMap::new(), log: Vec::new(), ..action_info(doc) })
                .collect())
        });
        all.await
    }

    async fn remove_unit(&self, model: &str, unit: &str, force: Force) -> Result<Changed, ApiError> {
        let (model, text) = (self.model(Route::RemoveUnit, model).await?, unit.to_owned());
        let force = forced(force, self.controller.outside.wall_ms());
        let transition = move |draft: &mut Draft<'_>| {
            let name: UnitName = text.parse().map_err(|e| Refusal::new(Code::Invalid, format!("{e}")))?;
            let id = unit::find(draft, model, &name)?;
            match force {
                Some(force) => force::unit(draft, model, id, force).map(drop),
                None => unit::destroy(draft, model, id).map(drop),
            }
        };
        self.removed(model, transition, force).await
    }

    async fn remove_application(
        &self,
        model: &str,
        application: &str,
        force: Force,
    ) -> Result<Changed, ApiError> {
        let (model, name) = (self.model(Route::RemoveApplication, model).await?, application.to_owned());
        let force = forced(force, self.controller.outside.wall_ms());
        let transition = move |draft: &mut Draft<'_>| {
            let id = application::find(draft, model, &name)?;
            match force {
                Some(force) => force::application(draft, model, id, force).map(drop),
                None => application::destroy(draft, model, id).map(drop),
            }
        };
        self.removed(model, transition, force).await
    }

    async fn remove_relation(
        &self,
        model: &str,
        relation: RelationChoice,
        force: Force,
    ) -> Result<Changed, ApiError> {
        let model = self.model(Route::RemoveRelation, model).await?;
        let force = forced(force, self.controller.outside.wall_ms());
        let numbered = match &relation {
            RelationChoice::Ends(_) => None,
            RelationChoice::Number(number) => Some(self.relation(model, *number).await?),
        };
        let transition = move |draft: &mut Draft<'_>| {
            let id = match (&relation, numbered) {
                (RelationChoice::Ends(ends), _) => relation::find(draft, model, &ends.a, &ends.b)?,
                (RelationChoice::Number(_), id) => id.expect("it was looked up before"),
            };
            match force {
                Some(force) => force::relation(draft, model, id, force).map(drop),
                None => relation::destroy(draft, model, id).map(drop),
            }
        };
        self.removed(model, transition, force).await
    }

    async fn forecast(
        &self,
        model: &str,
        removed: Vec<Removable>,
        force: Force,
    ) -> Result<Forecast, ApiError> {
        authority::check(&self.principal, Route::Forecast)?;
        if removed.len() > FORETOLD_MAX {
            let message = format!("{} removals: at most {FORETOLD_MAX} are foretold at once", removed.len());
            return Err(ApiError::new(ErrorCode::Invalid, message).hint("ask for fewer of them"));
        }
        let now_ms = self.controller.outside.wall_ms();
        let (force, times) = (forced(force, now_ms), self.controller.commit_times.clone());
        let (presence, timers) = (self.controller.presence_snapshot(), self.controller.force_timers.clone());
        let forecast = self.view(Route::Forecast, model, move |reader, model| {
            let entities = removed.iter().map(|one| entity(reader, model, one));
            let entities = entities.collect::<Result<Vec<_>, _>>()?;
            let (presence, commit_times, force_timers) = (&presence, &*times, &*timers);
            let explainer = Explainer { reader, model, presence, commit_times, force_timers, now_ms };
            let reports = removal::AgentReports {
                silent: &|one| explainer.silent(one).is_some(),
                running: &|id| presence.executing(id).map(|running| running.activity.clone()),
            };
            let forecast = removal::forecast(reader, model, (&entities, force), &reports)?;
            let foretold = |(unit, hook)| Foretold { unit, hook };
            let pending_since = explainer.pending_since();
            let silent = forecast.silent.into_iter().filter_map(|one| explainer.silent(one));
            let blocked = forecast.blocked.into_iter().map(|one| pending_since.dated(one));
            Ok(Forecast {
                at_once: forecast.at_once,
                dying: forecast.dying,
                hooks: forecast.hooks.into_iter().map(foretold).collect(),
                left_out: forecast.left_out.into_iter().map(foretold).collect(),
                gone: forecast.gone,
                blocked: silent.chain(blocked).collect(),
                more: forecast.more,
            })
        });
        forecast.await
    }

    async fn suspend_relation(
        &self,
        model: &str,
        relation: RelationNumber,
        message: &str,
    ) -> Result<Changed, ApiError> {
        let model = self.model(Route::SuspendRelation, model).await?;
        let (id, message) = (self.relation(model, relation).await?, message.to_owned());
        let now_ms = self.controller.outside.wall_ms();
        let transition = move |draft: &mut Draft<'_>| relation::suspend(draft, model, id, &message, now_ms);
        Ok(changed(self.controller.run(transition).await?.revision))
    }

    async fn resume_relation(&self, model: &str, relation: RelationNumber) -> Result<Changed, ApiError> {
        let model = self.model(Route::ResumeRelation, model).await?;
        let id = self.relation(model, relation).await?;
        let transition = move |draft: &mut Draft<'_>| relation::resume(draft, model, id);
        Ok(changed(self.controller.run(transition).await?.revision))
    }

    async fn machines(&self, model: &str) -> Result<Vec<MachineInfo>, ApiError> {
        let machines = self.view(Route::Machines, model, |reader, model| {
            let all = read_all(reader, &model.all(Kind::Machine));
            let machine = |(key, doc): (String, state::model::keys::MachineDoc)| {
                let uuid = state::model::keys::last_id(&key)?;
                let life = read(reader, &model.machine_life(uuid))?;
                let instance = read(reader, &model.machine_instance(uuid));
                Some(MachineInfo {
                    uuid,
                    name: doc.name,
                    address: doc.address,
                    life,
                    manual: doc.manual,
                    kept: doc.kept,
                    left: doc.left,
                    occupied: !reader.scan(&model.units_on(uuid), "", 1).is_empty(),
                    lived: life == state::life::Life::Dying && machine::has_lived(reader, model, uuid),
                    nonce: instance.as_ref().map(|instance| instance.nonce),
                    instance_id: instance.and_then(|instance| instance.id),
                    retry_ms: read(reader, &model.machine_trouble(uuid)).map(|trouble| trouble.retry_ms),
                })
            };
            Ok(all.into_iter().filter_map(machine).collect())
        });
        machines.await
    }

    async fn add_machines(&self, model: &str, add: AddMachines) -> Result<AddedMachines, ApiError> {
        let model = self.model(Route::AddMachines, model).await?;
        if add.count > UNITS_MAX {
            return Err(ApiError::new(ErrorCode::Invalid, format!("at most {UNITS_MAX} machines at once")));
        }
        let mut added = AddedMachines { names: Vec::new(), revision: 0 };
        for _ in 0..add.count {
            let id = outside::fresh_uuid(&self.controller.outside);
            let (now_ms, manual) = (self.controller.outside.wall_ms(), add.manual);
            let transition = move |draft: &mut Draft<'_>| match manual {
                true => machine::add_manual(draft, model, id, now_ms),
                false => machine::add(draft, model, id, now_ms),
            };
            let committed = self.controller.run(transition).await?;
            added.names.push(committed.answer);
            added.revision = committed.revision;
        }
        Ok(added)
    }

    async fn remove_machine(
        &self,
        model: &str,
        name: &str,
        force: Force,
        keep_instance: bool,
    ) -> Result<Changed, ApiError> {
        let (model, name) = (self.model(Route::RemoveMachine, model).await?, name.to_owned());
        let force = forced(force, self.controller.outside.wall_ms());
        let transition = move |draft: &mut Draft<'_>| {
            let id = machine::find(draft, model, &name)?;
            if keep_instance {
                machine::keep_instance(draft, model, id)?;
            }
            match force {
                Some(force) => force::machine(draft, model, id, force),
                None => machine::destroy(draft, model, id),
            }
        };
        self.removed(model, transition, force).await
    }

    async fn retry_provisioning(&self, model: &str, name: &str) -> Result<Changed, ApiError> {
        let (model, name) = (self.model(Route::RetryProvisioning, model).await?, name.to_owned());
        let transition = move |draft: &mut Draft<'_>| {
            let id = machine::find(draft, model, &name)?;
            instance::retry(draft, model, id)
        };
        Ok(changed(self.controller.run(transition).await?.revision))
    }

    async fn invite(&self, model: &str, name: &str) -> Result<Invitation, ApiError> {
        let (model, text) = (self.model(Route::Invite, model).await?, name.to_owned());
        let token = tokens::fresh_token(&self.controller.outside);
        let expires_ms = self.controller.outside.wall_ms() + instance::ENROLMENT_MS;
        let sha256 = host::digest::sha256(token.as_bytes());
        let transition = move |draft: &mut Draft<'_>| {
            let id = machine::find(draft, model, &text)?;
            instance::invite(draft, model, id, &sha256, expires_ms)?;
            Ok(id)
        };
        let machine = self.controller.run(transition).await?.answer;
        Ok(Invitation { machine, name: name.to_owned(), model: model.0, token, expires_ms })
    }

    async fn provisioned(&self, model: &str, id: Uuid, what: Provisioned) -> Result<Uuid, ApiError> {
        let model = self.model(Route::Provisioned, model).await?;
        let now_ms = self.controller.outside.wall_ms();
        if what == Provisioned::Absent {
            let units = self.controller.read(move |reader| machine::unserved(&mut { reader }, model, id));
            for unit in units.await {
                self.controller.run(move |draft| unit::remove(draft, model, unit)).await?;
            }
        }
        let transition = move |draft: &mut Draft<'_>| match &what {
            Provisioned::Intended { provider, nonce } => instance::intend(draft, model, id, provider, *nonce),
            Provisioned::Started { instance_id, address } => {
                instance::started(draft, model, id, instance_id, address).map(|()| id)
            }
            Provisioned::Failed { message } => {
                instance::failed(draft, model, id, message, now_ms).map(|()| id)
            }
            Provisioned::Absent => machine::set_dead(draft, model, id).map(|()| id),
        };
        Ok(self.controller.run(transition).await?.answer)
    }

    async fn machine_fate(&self, model: &str, machine: Uuid) -> Result<Fate, ApiError> {
        let fate = self.view(Route::MachineFate, model, move |reader, model| {
            Ok(match read(reader, &model.machine_life(machine)) {
                Some(life) => Fate::Known(life),
                None if read(reader, &model.tombstone(machine)).is_some() => Fate::Tombstone,
                None => Fate::Unknown,
            })
        });
        fate.await
    }

    async fn machine_token(&self, model: &str, machine: Uuid, token: &str) -> Result<(), ApiError> {
        let (model, token) = (self.model(Route::MachineToken, model).await?, token.to_owned());
        if !tokens::is_token(&token) {
            return Err(ApiError::new(ErrorCode::Invalid, "a token is 64 digits of lower case hex"));
        }
        let transition = move |draft: &mut Draft<'_>| {
            draft.get(&model.machine(machine)).ok_or_else(|| Refusal::not_found("machine", machine))?;
            tokens::set(draft, machine, &Principal::Machine { model, machine }, &token);
            Ok(())
        };
        self.controller.run(transition).await?;
        self.controller.presence.introduced(machine, self.controller.outside.monotonic_ms());
        Ok(())
    }

    async fn machine_removed(&self, model: &str, machine: Uuid) -> Result<(), ApiError> {
        let model = self.model(Route::MachineRemoved, model).await?;
        self.controller.run(move |draft| machine::remove(draft, model, machine)).await?;
        self.controller.machine_left(model, machine).await;
        Ok(())
    }

    async fn changes(&self, model: &str, after: Option<Position>) -> Result<Position, ApiError> {
        self.model(Route::Changes, model).await?;
        let after = after.filter(|after| after.history == self.controller.store.history());
        if let Some(after) = after.filter(|after| after.revision >= self.controller.store.newest()) {
            let until_ms = self.controller.outside.monotonic_ms() + LONG_POLL_MS;
            self.controller.past_or(after.revision, until_ms).await;
        }
        Ok(self.controller.position(self.controller.store.newest()))
    }
}
