//! Finds rules that were revoked outside of the session: a rule ends with the principal that granted it, and when the
//! project forgets it.
//!
//! Both happen in another session or another process. So the rules are compared with the store before each proposed
//! call that one of them could allow, and the revoked ones are first revoked in the log.

use loggia_core::{Amendment, Event, Origin, Report, RuleId, RuleLifetime};

use super::{Actor, ActorStep, now};
use crate::hub::project_rules;
use crate::turn::FromAgent;

impl Actor {
    pub(super) fn must_check_rules(&self, message: &FromAgent, step: &ActorStep) -> bool {
        let proposes = matches!(message, FromAgent::Report { report: Report::Propose { .. }, .. });
        let mut rules = self.session.policy().rules.iter();
        proposes
            && !step.rules_checked
            && rules.any(|rule| rule.scope == RuleLifetime::Project || rule.principal.is_some())
    }

    /// Decides the call that was held back, after revoking the rules that no longer apply.
    pub(super) async fn propose_held(&mut self, step: &mut ActorStep) {
        for rule in self.revoked_rules().await {
            tracing::debug!(session = %self.id, %rule, "a rule was revoked outside of the session");
            let event = Event::PolicyAmended { amendment: Amendment::Revoked { rule } };
            step.batch.push(&mut self.session, now(), &Origin::system(), event);
        }
        step.rules_checked = true;
        if let Some(message) = self.held.take() {
            self.take_report(*message, step);
        }
    }

    async fn revoked_rules(&self) -> Vec<RuleId> {
        let rules = &self.session.policy().rules;
        let workspace = self.session.opened().map_or("", |opened| opened.workspace.path());
        let mut revoked = Vec::new();
        if rules.iter().any(|rule| rule.scope == RuleLifetime::Project) {
            match project_rules(self.store.as_ref(), workspace).await {
                Ok(known) => {
                    let project = rules.iter().filter(|rule| rule.scope == RuleLifetime::Project);
                    let gone = project.filter(|rule| !known.iter().any(|one| one.id == rule.id));
                    revoked.extend(gone.map(|rule| rule.id.clone()));
                }
                Err(error) => {
                    tracing::warn!(session = %self.id, %error, "remembered rules cannot be read");
                }
            }
        }
        let Some(principals) = &self.principals else { return revoked };
        for rule in rules {
            if let Some(principal) = &rule.principal
                && !principals.knows(principal).await
            {
                revoked.push(rule.id.clone());
            }
        }
        revoked
    }
}
