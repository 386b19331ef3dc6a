//! Every command line that clients send for a supported command is parsed (spec/clients.md 2.2, P0 and P1).

use clap::{CommandFactory, Parser};
use cli::command_flags::WITHOUT_MODEL;
use cli::commands::Arguments;
use cli::commands::Verb;
use cli::commands::not_offered::{NOT_OFFERED, RETIRED, unknown_verb};

fn parse(line: &str) -> Result<Arguments, clap::Error> {
    Arguments::try_parse_from(["juju"].into_iter().chain(line.split_whitespace()))
}

#[test]
fn every_command_line_of_clients_is_parsed() {
    let lines = [
        "add-model --no-switch m local/local --controller c --config a=b --config c=d --credential x",
        "add-model --no-switch m",
        "show-model --format json m",
        "show-model --format json",
        "deploy --model m ./charm app --attach-storage a,b --base ubuntu@24.04 --bind db=alpha --channel c --config k=v \
         --config l=w --constraints mem=8G --force --num-units 2 --overlay f --resource r=p --revision 1 --storage d=p,1 \
         --to 0,lxd:1 --trust",
        "deploy --model m charm",
        "status --model m --format json",
        "integrate --model m a:e b:f --via 10.0.0.0/8,10.1.0.0/16",
        "integrate --model m a b",
        "run --model m --format json u/0 act --wait 30s --params f.yaml",
        "run --model m --format json u/leader act",
        "config --model m --format json app",
        "config --model m app k=true l=w --reset a,b",
        "config --model m app --reset a",
        "remove-application --model m --no-prompt a b --destroy-storage --force",
        "remove-unit --model m --no-prompt a/0 a/1 --destroy-storage --force",
        "remove-unit --model m --no-prompt a --num-units 2",
        "destroy-model m --no-prompt --destroy-storage --force --no-wait --release-storage --timeout 10s",
        "debug-log --model m --limit 0",
        "version --format json --all",
        "version",
        // Supported commands of priority P1.
        "add-unit --model m app --attach-storage s --num-units 2 --to 3",
        "remove-relation --model m a:e b --force",
        "suspend-relation --model m 3 4 --message why",
        "suspend-relation 3,4",
        "resume-relation --model m 3 4",
        "refresh --model m app --path f --base b --channel c --config k=v --force --force-base --force-units --resource \
         r=f --revision 2 --storage d=x --trust",
        "trust --model m app --scope cluster",
        "trust --model m app --remove",
        "expose --model m app --endpoints a,b --to-cidrs c --to-spaces s",
        "unexpose --model m app --endpoints a",
        "resources --model m app --details --format json",
        "list-resources app",
        "attach-resource --model m app r=f s=g",
        "model-config --model m --format json",
        "model-config --model m k=v",
        "model-config --model m --reset a,b",
        "show-unit --model m u/0 --format json",
        // Command lines of operators and scripts.
        "relate a b",
        "resolve u/0 --no-retry",
        "upgrade-charm app --path f",
        "status --relations --utc --color web*",
        "debug-log --replay --no-tail --include-module unit -i web/0 -x db -l warning --ms --date",
        "-m here:admin/dev status",
        "up --data d",
        "down --data d",
        "why web/0",
        "why web:db db",
        "why web/0 db machine/0 relation/3",
        "switch m",
        "switch",
        "set-model-constraints --model m arch=amd64",
        "model-constraints --model m --format json",
        "operations --apps a --units u/0 --actions x --status completed --limit 3 --format json",
        "show-operation 7 --format json",
        "show-task 7 --wait 5s --format json",
        "cancel-task 7 8 --format json",
        "status --no-settle",
        "scale-application app 3 --no-prompt",
        // Forms of earlier versions of Juju, and the list- forms.
        "add-relation a b",
        "set-config app k=v",
        "get-config app",
        "cancel-action 7",
        "list-actions app",
        "list-controllers",
        "list-machines",
        "list-models",
        "list-operations",
        "list-resources app",
        "list-secrets",
        "list-storage",
        "list-storage-pools",
    ];
    for line in lines {
        match parse(line) {
            Err(error) => panic!("{line}: {error}"),
            Ok(Arguments { verb: Verb::External(words), .. }) => panic!("{line}: {words:?} is unknown"),
            Ok(_) => {}
        }
    }
}

#[test]
fn flags_reach_their_command() {
    let arguments = parse("deploy --model here:admin/m ./c web --config a=1 -n 3 --to 0,1")
        .expect("a valid command line");
    assert_eq!(arguments.global.model.as_deref(), Some("here:admin/m"));
    let Verb::Deploy(deploy) = arguments.verb else { panic!("deploy") };
    assert_eq!(
        (deploy.charm.as_str(), deploy.application.as_deref(), deploy.num_units),
        ("./c", Some("web"), 3)
    );
    assert_eq!((deploy.config, deploy.to), (vec!["a=1".to_owned()], vec!["0".to_owned(), "1".to_owned()]));
}

#[test]
fn an_invalid_command_line_is_a_usage_error() {
    for line in
        ["integrate a", "deploy", "debug-log --tail --no-tail", "debug-log -l LOUD", "run u/0 a --wait soon"]
    {
        assert_eq!(parse(line).map(drop).map_err(|error| error.exit_code()), Err(2), "{line}");
    }
}

#[test]
fn an_unsupported_command_is_not_defined() {
    for (verb, _) in NOT_OFFERED.iter().chain(RETIRED) {
        let parsed = parse(verb).expect("any verb is taken");
        assert!(matches!(parsed.verb, Verb::External(_)), "{verb} is offered");
    }
}

/// The commands of Juju 2.9 to 3.6, as far as they are not in the list of supported command lines.
#[test]
fn every_command_of_juju_is_known() {
    let retired = "run-action show-action-status show-action-output upgrade-juju upgrade-series";
    let listed = "clouds credentials regions offers users spaces subnets payloads firewall-rules agreements \
                  disabled-commands secret-backends charm-resources ssh-keys budgets wallets plans";
    let others = "users show-user show-space show-offer show-credential show-credentials show-secret-backend unregister \
                  update-cloud remove-cloud set-credential update-credential remove-credential revoke-cloud \
                  update-public-clouds update-k8s remove-k8s set-default-region set-default-credentials \
                  add-secret-backend update-secret-backend remove-secret-backend secret-backends model-secret-backend \
                  remove-space rename-space move-to-space update-storage-pool remove-storage-pool upgrade-controller \
                  upgrade-machine upgrade-gui sync-tools sync-agent-binary payloads metrics agree agreements \
                  documentation help-tool help-hook-commands help-action-commands show-action update-credentials \
                  update-clouds set-default-credential show-status attach get-model-config set-model-config \
                  unset-model-config sync-agent-binaries upgrade-dashboard remove-consumed-application sla \
                  find-endpoints show-endpoints allocate create-budget set-budget show-budget set-plan create-wallet \
                  set-wallet show-wallet add-branch branch branches commit commits show-commit track abort diff";
    let listed = listed.split_whitespace().flat_map(|noun| [noun.to_owned(), format!("list-{noun}")]);
    let plain = retired.split_whitespace().chain(others.split_whitespace()).map(str::to_owned);
    for verb in plain.chain(listed) {
        if let Ok(Arguments { verb: Verb::External(words), .. }) = parse(&verb) {
            let failure = unknown_verb(&words, Arguments::command());
            assert!(failure.code == 1 && failure.hint.is_some(), "{verb}: {failure:?}");
        }
    }
    let unknown = unknown_verb(&["list-frobs".to_owned()], Arguments::command());
    assert_eq!(unknown.code, 2);
}

#[test]
fn the_successor_of_a_retired_command_exists() {
    let known = Arguments::command();
    for (verb, successor) in RETIRED {
        assert!(known.find_subcommand(successor).is_some(), "{verb}: {successor}");
    }
}

#[test]
fn the_commands_whose_hints_need_no_model_exist() {
    let known = Arguments::command();
    let unknown: Vec<_> =
        WITHOUT_MODEL.into_iter().filter(|verb| known.find_subcommand(verb).is_none()).collect();
    assert_eq!(unknown, Vec::<&str>::new());
}
