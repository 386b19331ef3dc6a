//! `debug-log`: prints log lines of units and machines, and follows the log (spec/clients.md 3.6).
//!
//! On a terminal the log is followed by default. Elsewhere the command prints the whole log and ends, because clients
//! read its output to the end.

use crate::arguments::ignored_flags;
use crate::command_error::CommandError;
use crate::render::log_line::{LogLineStyle, text};
use crate::session::CommandSession;
use crate::times::Zone;
use api::{LogPage, LogQuery, UserPort};
use clap::Args;
use state::unit::writes::Level;
use std::io::IsTerminal;

/// Number of old lines that are shown before following, by default.
const LINES_BEFORE: u32 = 10;

/// Arguments of `debug-log`.
#[derive(Debug, Default, Args)]
pub struct DebugLogArgs {
    /// Start at the first line
    #[arg(long)]
    pub replay: bool,
    /// Follow the log: wait for new lines
    #[arg(long, conflicts_with = "no_tail")]
    pub tail: bool,
    /// Do not follow the log
    #[arg(long, alias = "notail")]
    pub no_tail: bool,
    /// Number of old lines to show before following
    #[arg(short = 'n', long)]
    pub lines: Option<u32>,
    /// Show this number of the newest lines and exit; 0 = no limit
    #[arg(long)]
    pub limit: Option<u32>,
    /// Lowest level to show: TRACE, DEBUG, INFO, WARNING, ERROR or CRITICAL
    #[arg(short, long, value_parser = level)]
    pub level: Option<Level>,
    /// Show only this entity: web/0, unit-web-*, machine-0, or an application; may be repeated
    #[arg(short, long)]
    pub include: Vec<String>,
    /// Do not show this entity; may be repeated
    #[arg(short = 'x', long)]
    pub exclude: Vec<String>,
    /// Show only modules that start with this prefix; may be repeated
    #[arg(long)]
    pub include_module: Vec<String>,
    /// Do not show modules that start with this prefix; may be repeated
    #[arg(long)]
    pub exclude_module: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    pub format: LogFormat,
    /// Show dates
    #[arg(long)]
    pub date: bool,
    /// Show milliseconds
    #[arg(long)]
    pub ms: bool,
    /// Show times in UTC
    #[arg(long)]
    pub utc: bool,
    /// Show levels in colours, also if the output is not a terminal
    #[arg(long)]
    pub color: bool,
    #[arg(long, hide = true)]
    pub include_label: Vec<String>,
    #[arg(long, hide = true)]
    pub exclude_label: Vec<String>,
    #[arg(long, hide = true)]
    pub location: bool,
    #[arg(long, hide = true, conflicts_with = "no_tail")]
    pub retry: bool,
    #[arg(long, hide = true)]
    pub retry_delay: Option<String>,
    #[arg(long, hide = true)]
    pub firehose: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One line of text per log line
    #[default]
    Text,
    /// One JSON object per log line
    Json,
}

fn level(text: &str) -> Result<Level, String> {
    text.to_uppercase().parse().map_err(|_| format!("expected one of {}", Level::STRINGS.join(", ")))
}

/// The number of newest lines to start with (`None`: start at the first line), and whether to follow.
fn start_and_follow(args: &DebugLogArgs, terminal: bool) -> (Option<u32>, bool) {
    let limit = args.limit.filter(|limit| *limit > 0);
    let follow = limit.is_none() && (args.tail || (terminal && !args.no_tail && args.limit.is_none()));
    let newest = match (limit, args.lines) {
        (Some(limit), _) => Some(limit),
        (None, _) if args.replay => None,
        (None, Some(lines)) => Some(lines),
        // Without following and without a number, everything is shown: clients use --limit 0 for the whole log.
        (None, None) => (follow || (terminal && args.limit.is_none())).then_some(LINES_BEFORE),
    };
    (newest, follow)
}

/// Prints the log, page by page.
pub async fn run<A: UserPort>(args: &DebugLogArgs, session: &CommandSession<A>) -> Result<(), CommandError> {
    session.output.warn(&ignored_flags([(
        "--location",
        args.location,
        "log lines have no place in a source file; --include-module selects their module",
    )]));
    if !args.include_label.is_empty() {
        session.output.warn(&["log lines have no labels: --include-label matches no line".to_owned()]);
        return Ok(());
    }
    let style = LogLineStyle {
        zone: Zone::new(args.utc),
        date: args.date,
        millis: args.ms,
        json: args.format == LogFormat::Json,
        colours: args.color || session.output.has_colours(),
    };
    let (newest, follow) = start_and_follow(args, std::io::stdout().is_terminal());
    let mut query = LogQuery {
        newest,
        level: args.level,
        include: args.include.clone(),
        exclude: args.exclude.clone(),
        include_module: args.include_module.clone(),
        exclude_module: args.exclude_module.clone(),
        ..LogQuery::default()
    };
    let mut is_empty = true;
    loop {
        let LogPage { lines, cursor, more } = session.api.handle(query.clone()).await?;
        is_empty &= lines.is_empty();
        let page = lines.iter().map(|line| text(line, &style)).collect::<String>();
        match args.format {
            // its lines are escaped, except for their colours
            LogFormat::Text => session.output.print_safe(&page)?,
            LogFormat::Json => session.output.print(&page)?,
        }
        if !more && !follow {
            if is_empty && !args.include.is_empty() {
                let text = format!("no log line is of {}: is it misspelled?", args.include.join(" or "));
                session.output.warn(&[text]);
            }
            return Ok(());
        }
        query = LogQuery { after: Some(cursor), newest: None, wait: follow && !more, ..query };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_of_the_log_can_be_selected_in_upper_and_lower_case() {
        for expected in Level::ALL {
            assert_eq!(level(expected.as_str()), Ok(*expected));
            assert_eq!(level(&expected.as_str().to_lowercase()), Ok(*expected));
        }
        level("LOUD").expect_err("it is no level");
    }

    #[test]
    fn the_default_extent_depends_on_whether_stdout_is_a_terminal() {
        let defaults = || DebugLogArgs::default();
        assert_eq!(start_and_follow(&defaults(), false), (None, false));
        assert_eq!(start_and_follow(&defaults(), true), (Some(10), true));
        assert_eq!(start_and_follow(&DebugLogArgs { limit: Some(0), ..defaults() }, false), (None, false));
        assert_eq!(start_and_follow(&DebugLogArgs { limit: Some(5), ..defaults() }, true), (Some(5), false));
        assert_eq!(
            start_and_follow(&DebugLogArgs { replay: true, no_tail: true, ..defaults() }, true),
            (None, false)
        );
        assert_eq!(start_and_follow(&DebugLogArgs { replay: true, ..defaults() }, true), (None, true));
        assert_eq!(start_and_follow(&DebugLogArgs { tail: true, ..defaults() }, false), (Some(10), true));
        assert_eq!(
            start_and_follow(&DebugLogArgs { lines: Some(3), tail: true, ..defaults() }, false),
            (Some(3), true)
        );
    }
}
