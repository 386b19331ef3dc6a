//! `debug-log` (spec/clients.md 3.6).

use crate::command_error::Failure;
use crate::render::log_line::{Style, text};
use crate::session::Session;
use crate::times::Zone;
use api::{LogPage, LogQuery, UserPort};
use clap::Args;
use std::io::IsTerminal;

/// Old lines shown before following.
const LINES_BEFORE: u32 = 10;
const LEVELS: [&str; 5] = ["TRACE", "DEBUG", "INFO", "WARNING", "ERROR"];

#[derive(Debug, Default, Args)]
pub struct DebugLog {
    /// From the first line on
    #[arg(long)]
    pub replay: bool,
    /// Follow
    #[arg(long, conflicts_with = "no_tail")]
    pub tail: bool,
    /// End when everything was shown
    #[arg(long, alias = "notail")]
    pub no_tail: bool,
    /// How many old lines before following
    #[arg(short = 'n', long)]
    pub lines: Option<u32>,
    /// Only the newest so many lines, then end; 0 = no limit
    #[arg(long)]
    pub limit: Option<u32>,
    /// Least level: TRACE, DEBUG, INFO, WARNING or ERROR
    #[arg(short, long, value_parser = level)]
    pub level: Option<String>,
    /// Only this entity: web/0, unit-web-*, machine-0, or an application
    #[arg(short, long)]
    pub include: Vec<String>,
    #[arg(short = 'x', long)]
    pub exclude: Vec<String>,
    /// Only modules that begin with this
    #[arg(long)]
    pub include_module: Vec<String>,
    #[arg(long)]
    pub exclude_module: Vec<String>,
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    #[arg(long)]
    pub date: bool,
    #[arg(long)]
    pub ms: bool,
    #[arg(long)]
    pub utc: bool,
    #[arg(long, hide = true)]
    pub include_label: Vec<String>,
    #[arg(long, hide = true)]
    pub exclude_label: Vec<String>,
    #[arg(long, hide = true)]
    pub location: bool,
    #[arg(long, hide = true)]
    pub color: bool,
    #[arg(long, hide = true, conflicts_with = "no_tail")]
    pub retry: bool,
    #[arg(long, hide = true)]
    pub retry_delay: Option<String>,
    #[arg(long, hide = true)]
    pub firehose: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    #[default]
    Text,
    Json,
}

fn level(text: &str) -> Result<String, String> {
    let level = text.to_uppercase();
    if LEVELS.contains(&level.as_str()) {
        Ok(level)
    } else {
        Err(format!("expected one of {}", LEVELS.join(", ")))
    }
}

/// Where to begin (none = at the first line) and whether to follow.
fn extent(args: &DebugLog, terminal: bool) -> (Option<u32>, bool) {
    let limit = args.limit.filter(|limit| *limit > 0);
    let follow = limit.is_none() && (args.tail || (terminal && !args.no_tail && args.limit.is_none()));
    let newest = match (limit, args.lines) {
        (Some(limit), _) => Some(limit),
        (None, _) if args.replay => None,
        (None, Some(lines)) => Some(lines),
        // Nobody follows and no number was given: everything (clients write --limit 0 and mean all).
        (None, None) => (follow || (terminal && args.limit.is_none())).then_some(LINES_BEFORE),
    };
    (newest, follow)
}

pub async fn run<A: UserPort>(args: &DebugLog, at: &Session<A>) -> Result<(), Failure> {
    if !args.include_label.is_empty() {
        at.output.warn(&["no line has a label here: --include-label matches none".to_owned()]);
        return Ok(());
    }
    let style = Style {
        zone: Zone::new(args.utc),
        date: args.date,
        millis: args.ms,
        json: args.format == Format::Json,
    };
    let (newest, follow) = extent(args, std::io::stdout().is_terminal());
    let mut query = LogQuery {
        newest,
        level: args.level.clone(),
        include: args.include.clone(),
        exclude: args.exclude.clone(),
        include_module: args.include_module.clone(),
        exclude_module: args.exclude_module.clone(),
        ..LogQuery::default()
    };
    loop {
        let LogPage { lines, cursor, more } = at.api.handle(query.clone()).await?;
        at.output.say(&lines.iter().map(|line| text(line, &style)).collect::<String>())?;
        if !more && !follow {
            return Ok(());
        }
        query = LogQuery { after: Some(cursor), newest: None, wait: follow && !more, ..query };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_much_is_shown_depends_on_who_looks() {
        let all = || DebugLog::default();
        assert_eq!(extent(&all(), false), (None, false));
        assert_eq!(extent(&all(), true), (Some(10), true));
        assert_eq!(extent(&DebugLog { limit: Some(0), ..all() }, false), (None, false));
        assert_eq!(extent(&DebugLog { limit: Some(5), ..all() }, true), (Some(5), false));
        assert_eq!(extent(&DebugLog { replay: true, no_tail: true, ..all() }, true), (None, false));
        assert_eq!(extent(&DebugLog { replay: true, ..all() }, true), (None, true));
        assert_eq!(extent(&DebugLog { tail: true, ..all() }, false), (Some(10), true));
        assert_eq!(extent(&DebugLog { lines: Some(3), tail: true, ..all() }, false), (Some(3), true));
    }
}
