//! `deploy BUNDLE.yaml`: deploys the applications, units and relations of a bundle that the model lacks.
//!
//! Each change is one request, printed before it is sent. A repeated command continues after an error: what exists is left
//! alone, except for the settings, which become those of the bundle. Called by `deploy`.

use crate::bundle::{self, Bundle, BundleApplication, Placement};
use crate::charm_search;
use crate::command_error::CommandError;
use crate::commands::deploy_charm::{self, DeployArgs, IgnoredArgs};
use crate::session::CommandSession;
use api::error::ErrorCode;
use api::{AddUnits, ConfigChange, Configure, Ends, GetStatus, Integrate, SetExposed, Status, UserPort};
use serde_json::Value;
use state::terms::refusal::EntityKind;
use std::collections::BTreeMap;
use std::path::Path;

/// A deployment of a bundle.
struct Deployment<'a, A> {
    bundle: &'a Bundle,
    args: &'a DeployArgs,
    session: &'a CommandSession<A>,
    /// The machines of the model that stand for those of the bundle, by their keys.
    machines: BTreeMap<String, String>,
}

/// Deploys the bundle in `file`.
///
/// # Errors
/// If the bundle is invalid, or the controller refuses a change; what was changed before stays.
pub async fn run<A: UserPort>(
    file: &Path,
    args: &DeployArgs,
    session: &CommandSession<A>,
) -> Result<(), CommandError> {
    let bundle = bundle::read(file, &args.overlay, |charm| charm_search::find_named(charm, &session.dir))?;
    let given = [
        ("the name of an application", args.application.is_some()),
        ("--num-units", args.num_units != 1),
        ("--to", !args.to.is_empty()),
        ("--config", !args.config.is_empty()),
        ("--base", args.base.is_some()),
        ("--resource", !args.resource.is_empty()),
        ("--storage", !args.storage.is_empty()),
        ("--attach-storage", !args.attach_storage.is_empty()),
    ];
    if let Some((what, _)) = given.into_iter().find(|(_, given)| *given) {
        return Err(CommandError::usage(format!("cannot use {what} with a bundle"))
            .hint("write the change into a file and use --overlay FILE"));
    }
    let trusted: Vec<&str> =
        bundle.applications.iter().filter(|(_, one)| one.trust).map(|(name, _)| name.as_str()).collect();
    if !trusted.is_empty() && !args.trust {
        let text = format!("cannot deploy the bundle: it trusts {}", trusted.join(", "));
        return Err(CommandError::new(text).hint("to grant the trust, repeat the command with --trust"));
    }
    session.output.warn(&bundle.warnings());
    let mut deployment = Deployment { bundle: &bundle, args, session, machines: BTreeMap::new() };
    deployment.execute().await
}

impl<A: UserPort> Deployment<'_, A> {
    /// Prints a change. Returns whether it is made.
    fn announce(&self, change: &str) -> bool {
        self.session.output.print_remark(&format!("- {change}\n"));
        !self.args.dry_run
    }

    async fn status(&self) -> Result<Status, CommandError> {
        Ok(self.session.api.handle(GetStatus).await?)
    }

    async fn execute(&mut self) -> Result<(), CommandError> {
        let heading = if self.args.dry_run { "Changes to deploy bundle:" } else { "Executing changes:" };
        let status = self.status().await?;
        self.map_machines(&status)?;
        self.find_machines(&status);
        self.session.output.print_remark(&format!("{heading}\n"));
        for name in self.bundle.order().map_err(CommandError::new)? {
            self.application(&name, &self.bundle.applications[&name]).await?;
        }
        for [a, b] in self.bundle.pairs() {
            self.relation(a, b).await?;
        }
        if !self.args.dry_run {
            self.session.output.print_remark("Deploy of bundle completed.\n");
        }
        Ok(())
    }

    /// Takes the machines of the model that `--map-machines` names for those of the bundle.
    fn map_machines(&mut self, status: &Status) -> Result<(), CommandError> {
        for given in &self.args.map_machines {
            let Some((key, machine)) = given.split_once('=') else {
                if given != "existing" {
                    let text = format!("invalid value {given:?} for --map-machines");
                    return Err(CommandError::usage(text).hint("existing, or MACHINE=MACHINE: existing,0=3"));
                }
                let same = self.bundle.machines.keys().filter(|key| status.machines.contains_key(*key));
                let same: Vec<_> = same.map(|key| (key.clone(), key.clone())).collect();
                same.into_iter().for_each(|(key, machine)| {
                    self.machines.entry(key).or_insert(machine);
                });
                continue;
            };
            if !self.bundle.machines.contains_key(key) {
                return Err(CommandError::new(format!("the bundle has no machine {key}")));
            }
            if !status.machines.contains_key(machine) {
                return Err(CommandError::not_found(EntityKind::Machine, machine));
            }
            self.machines.insert(key.to_owned(), machine.to_owned());
        }
        Ok(())
    }

    /// The machines of the model that stand for those of the bundle, by the units that an earlier command has placed on them.
    fn find_machines(&mut self, status: &Status) {
        for name in self.bundle.applications.keys() {
            let Some(application) = status.applications.get(name) else { continue };
            for (unit, placement) in application.units.values().zip(self.bundle.placements(name)) {
                if let Placement::Machine(key) = placement {
                    self.machines.entry(key).or_insert_with(|| unit.machine.clone());
                }
            }
        }
    }

    async fn application(&mut self, name: &str, wanted: &BundleApplication) -> Result<(), CommandError> {
        let exists = self.status().await?.applications.contains_key(name);
        if !exists {
            self.deploy(name, wanted).await?;
        } else if !wanted.options.is_empty() && self.announce(&format!("set options of {name}")) {
            let set = settings(wanted);
            let change = ConfigChange { set, ..ConfigChange::default() };
            let changed = self.session.api.handle(Configure { application: name.to_owned(), change }).await?;
            self.session.record_write(changed.revision);
        }
        let status = self.status().await?;
        let present = status.applications.get(name).map_or(0, |application| application.units.len());
        for (index, placement) in self.bundle.placements(name).into_iter().enumerate().skip(present) {
            self.unit(name, index, &placement).await?;
        }
        let is_exposed = status.applications.get(name).is_some_and(|application| application.exposed);
        if wanted.expose && !is_exposed && self.announce(&format!("expose {name}")) {
            let set = SetExposed { application: name.to_owned(), exposed: true };
            self.session.record_write(self.session.api.handle(set).await?.revision);
        }
        Ok(())
    }

    /// Deploys an application without units: each unit has its own placement.
    async fn deploy(&self, name: &str, wanted: &BundleApplication) -> Result<(), CommandError> {
        let is_deployed = self.announce(&format!("deploy application {name} from {}", wanted.charm));
        for (resource, path) in &wanted.resources {
            self.announce(&format!("upload resource {resource} of {name} from {path}"));
        }
        if !is_deployed {
            return Ok(());
        }
        let resources = wanted.resources.iter().map(|(key, path)| format!("{key}={path}"));
        let storage = wanted.storage.iter().map(|(key, directive)| format!("{key}={directive}"));
        let args = DeployArgs {
            charm: wanted.charm.clone(),
            application: Some(name.to_owned()),
            config: Vec::new(),
            num_units: 0,
            to: Vec::new(),
            base: self.bundle.base(wanted.base.as_ref())?,
            resource: resources.collect(),
            force: self.args.force,
            trust: wanted.trust,
            storage: storage.collect(),
            attach_storage: Vec::new(),
            constraints: wanted.constraints.iter().cloned().collect(),
            dry_run: false,
            overlay: Vec::new(),
            map_machines: Vec::new(),
            ignored: IgnoredArgs::default(),
        };
        deploy_charm::run(&args, settings(wanted), self.session).await
    }

    async fn unit(&mut self, name: &str, index: usize, placement: &Placement) -> Result<(), CommandError> {
        let place = match placement {
            Placement::New => "new machine".to_owned(),
            Placement::Machine(key) => format!("machine {key} of the bundle"),
            Placement::Beside(other, Some(number)) => format!("machine of {other}/{number}"),
            Placement::Beside(other, None) => format!("the next machine of {other}, or a new one"),
        };
        if !self.announce(&format!("add unit of {name} to {place}")) {
            return Ok(());
        }
        let to = match placement {
            Placement::New => None,
            Placement::Machine(key) => self.machines.get(key).cloned(),
            Placement::Beside(other, number) => self.machine_of(other, index, *number).await?,
        };
        let is_first = to.is_none();
        let add = AddUnits { application: name.to_owned(), units: 1, to, attach_storage: Vec::new() };
        self.session.record_write(self.session.api.handle(add).await?.revision);
        // the first unit on a machine of the bundle is added together with the machine
        if let (Placement::Machine(key), true) = (placement, is_first) {
            let status = self.status().await?;
            let newest =
                status.applications.get(name).and_then(|application| application.units.values().last());
            if let Some(unit) = newest {
                self.machines.insert(key.clone(), unit.machine.clone());
            }
        }
        Ok(())
    }

    /// The machine of the unit with this number, or of the unit at this index. None, for a new machine, if the application
    /// has fewer units than the one that is placed beside it.
    async fn machine_of(
        &self,
        application: &str,
        index: usize,
        number: Option<u32>,
    ) -> Result<Option<String>, CommandError> {
        let status = self.status().await?;
        let units = status.applications.get(application).map(|application| &application.units);
        let found = units.and_then(|units| match number {
            Some(number) => units.iter().find(|(name, _)| name.number == number),
            None => units.iter().nth(index),
        });
        match (found, number) {
            (None, Some(number)) => {
                let text =
                    format!("cannot place a unit beside {application}/{number}: there is no such unit");
                Err(CommandError::new(text))
            }
            (found, _) => Ok(found.map(|(_, unit)| unit.machine.clone())),
        }
    }

    async fn relation(&self, a: &str, b: &str) -> Result<(), CommandError> {
        if !self.announce(&format!("add relation {a} - {b}")) {
            return Ok(());
        }
        match self.session.api.handle(Integrate(Ends { a: a.to_owned(), b: b.to_owned() })).await {
            Ok(added) => self.session.record_write(added.revision),
            Err(error) if error.code == ErrorCode::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// The settings of an application as the texts that `config` accepts. One that is null has its default.
fn settings(wanted: &BundleApplication) -> BTreeMap<String, String> {
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    wanted.options.iter().filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect()
}
