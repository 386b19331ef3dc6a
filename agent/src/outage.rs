//! An outage of the controller, as an agent's log tells it: each cause once, and at the end how long it took.

use api::error::ApiError;

/// Causes told in one outage: a few ways in which a connection fails. Their words may hold numbers and differ.
const CAUSES_MAX: usize = 8;

/// What did not work. Each ends its own outage only: a stream goes on while a full store takes no record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Call {
    #[default]
    Watch,
    Send,
    Fetch,
}

/// The outage under way, if there is one.
#[derive(Debug, Default)]
pub struct Outage {
    call: Call,
    since_ms: u64,
    causes: Vec<String>,
}

impl Outage {
    /// A call failed; the line for the log if it says something new.
    pub fn failed(&mut self, call: Call, error: &ApiError, now_ms: u64) -> Option<String> {
        if self.causes.is_empty() {
            self.call = call;
            self.since_ms = now_ms;
        }
        let cause = error.to_string().lines().map(str::trim).collect::<Vec<_>>().join("; ");
        if self.causes.len() >= CAUSES_MAX || self.causes.contains(&cause) {
            return None;
        }
        self.causes.push(cause.clone());
        Some(format!("{cause}; tried again until it works"))
    }

    /// A call was answered; the line for the log if that ends an outage.
    pub fn ended(&mut self, call: Call, now_ms: u64) -> Option<String> {
        if self.causes.is_empty() || call != self.call {
            return None;
        }
        self.causes.clear();
        let tenths = now_ms.saturating_sub(self.since_ms) / 100;
        Some(format!("the controller answers again, after {}.{} s", tenths / 10, tenths % 10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::error::ErrorCode;

    #[test]
    fn a_cause_is_told_once_an_outage_and_its_end_with_its_length() {
        let mut outage = Outage::default();
        assert_eq!(outage.ended(Call::Watch, 5), None);
        let refused = ApiError::new(ErrorCode::Unreachable, "refused");
        let other = ApiError::new(ErrorCode::Unreachable, "another CA").hint("look");
        assert_eq!(
            outage.failed(Call::Send, &refused, 1000).as_deref(),
            Some("refused; tried again until it works")
        );
        assert_eq!(outage.failed(Call::Watch, &refused, 2000), None);
        let told = outage.failed(Call::Send, &other, 3000);
        assert_eq!(told.as_deref(), Some("another CA; look; tried again until it works"));
        assert_eq!(outage.failed(Call::Send, &refused, 4000), None);
        assert_eq!(outage.ended(Call::Watch, 4100), None, "what is sent still fails");
        let end = outage.ended(Call::Send, 4250);
        assert_eq!(end.as_deref(), Some("the controller answers again, after 3.2 s"));
        assert!(outage.failed(Call::Send, &refused, 5000).is_some());
    }

    #[test]
    fn an_outage_with_ever_new_words_does_not_fill_the_log() {
        let mut outage = Outage::default();
        let told = (0..100u64)
            .filter_map(|n| {
                outage.failed(Call::Watch, &ApiError::new(ErrorCode::Unreachable, n.to_string()), n)
            })
            .count();
        assert_eq!(told, CAUSES_MAX);
    }
}
